"""A node over its life: restarts, new cards, lost registrations, settings that cannot work."""

import asyncio
from pathlib import Path

import pytest

from aioum.core.errors import AioumError
from aioum.core.wire import Credential
from aioum_node.registration import REGISTRATION_FILE
from aioum_node.tools import tool
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer


async def test_new_card_leaves_the_prices_of_open_sessions_alone(start_node: StartNode, buyer: Buyer) -> None:
    def louder(text: str) -> str:
        return text.upper() + "!"

    async with start_node() as node:
        old_card = node.offering.offer
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
    async with start_node([tool(price=5 * PRICE, tool_id="shout")(louder)]) as node:
        session.challenge = None
        old = await buyer.pay(node, session, 2 * PRICE)
        dropped = await buyer.pay(node, session, 3 * PRICE, "fail")
        fresh_session = await buyer.open(node)
        fresh = await buyer.enter(node, fresh_session, 5 * PRICE)
        async with buyer.http.get(f"{node.url}/cards/0x{old_card.descriptor_hash.hex()}") as response:
            served = await response.read()

    assert (old.body, buyer.receipt(node, old).receipt.charge) == (b"HEY!", PRICE)
    assert dropped.code == "tool-withdrawn"
    assert buyer.receipt(node, fresh).receipt.charge == 5 * PRICE
    assert served == old_card.canonical


async def test_restart_keeps_sessions_answers_receipts_and_challenges(
    start_node: StartNode, buyer: Buyer
) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        first = await buyer.enter(node, session, PRICE)
    async with start_node() as node:
        retry = await buyer.pay(node, session, PRICE)
        following = await buyer.pay(node, session, 2 * PRICE)

    assert (retry.status, retry.body) == (200, first.body)
    assert retry.headers["Aioum-Receipt"] == first.headers["Aioum-Receipt"]
    assert buyer.receipt(node, following).receipt.index == 1


async def test_stopping_node_finishes_the_calls_that_run(start_node: StartNode, buyer: Buyer) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def slow(text: str) -> str:
        started.set()
        await release.wait()
        return text

    async with start_node([tool(price=PRICE)(slow)]) as node:
        session = await buyer.open(node)
        request = asyncio.create_task(buyer.pay(node, session, PRICE, "slow", action="open"))
        await started.wait()
        asyncio.get_running_loop().call_later(0.2, release.set)

    assert (await request).body == b"hey"


async def test_node_that_is_not_published_does_not_start(start_node: StartNode) -> None:
    with pytest.raises(AioumError) as caught:
        async with start_node(register=False):
            pass

    assert caught.value.code == "not-registered"


async def test_node_whose_card_is_not_the_published_one_does_not_start(start_node: StartNode) -> None:
    async with start_node():
        pass

    with pytest.raises(AioumError) as caught:
        async with start_node(register=False, service_name="another"):
            pass

    assert caught.value.code == "registration-outdated"


async def test_registration_that_was_lost_is_found_on_the_chain(
    start_node: StartNode, tmp_path: Path
) -> None:
    settings = {"public_url": "http://node.example"}
    async with start_node(**settings) as node:
        first = node.registration
    (tmp_path / "node" / REGISTRATION_FILE).unlink()

    async with start_node(**settings) as node:
        assert node.registration.service_id == first.service_id
        assert not node.registration.changed


async def test_damaged_registration_is_refused(start_node: StartNode, tmp_path: Path) -> None:
    async with start_node():
        pass
    (tmp_path / "node" / REGISTRATION_FILE).write_text("{}")

    with pytest.raises(AioumError) as caught:
        async with start_node():
            pass

    assert caught.value.code == "registration-invalid"


@pytest.mark.parametrize(
    ("changes", "code"), [({"token": "NONE"}, "token-unknown"), ({"payee": "nobody"}, "payee-invalid")]
)
async def test_settings_that_name_nothing_on_the_chain_are_refused(
    start_node: StartNode, changes: dict[str, str], code: str
) -> None:
    with pytest.raises(AioumError) as caught:
        async with start_node(**changes):
            pass

    assert caught.value.code == code


async def test_port_that_is_taken_is_said(start_node: StartNode, tmp_path: Path) -> None:
    async with start_node() as node:
        port = int(node.url.rpartition(":")[2])
        with pytest.raises(AioumError) as caught:
            async with start_node(listen_port=port, node_dir=tmp_path / "second"):
                pass

    assert caught.value.code == "address-unusable"


async def test_second_node_in_the_same_folder_does_not_start(start_node: StartNode) -> None:
    async with start_node():
        with pytest.raises(AioumError) as caught:
            async with start_node():
                pass

    assert caught.value.code == "store-locked"


async def test_long_signature_of_a_wallet_fits_into_a_header(start_node: StartNode, buyer: Buyer) -> None:
    async with start_node() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session)
        assert session.challenge is not None
        credential = Credential(session.challenge, "voucher", session.channel_id, PRICE, b"\x01" * 6_000)
        async with buyer.http.post(
            f"{node.url}/tools/shout", data=b'{"text":"a"}', headers={"Authorization": credential.header()}
        ) as response:
            code = (await response.json(content_type="application/problem+json"))["type"]

    assert (response.status, code.rpartition("/")[2]) == (402, "signature-malformed")
