"""Keys and payee change for new sessions; those that are open stay with what their terms say."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.client import Chain
from aioum.core.hextext import address_text
from aioum.core.signing import LocalKey
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode, running_node
from aioum_node.keys.identity import Identity, create_operator
from aioum_node.settings import Settings
from aioum_node.settings_signer import RetiredKey
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode, shout
from tests.integration.node.edge_client import Buyer, Opened

Start = Callable[..., AbstractAsyncContextManager[RunningNode]]


@pytest.fixture
def start(devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> Start:
    """Starts nodes of one operator in one folder with keys from key stores."""
    base: dict[str, Any] = {
        "node_dir": tmp_path / "node",
        "listen_port": 0,
        "admin_port": 0,
        "deployment_file": devnet.deployment_file,
        "watch_interval_seconds": 0.1,
        "settle_interval_seconds": 0.1,
    }
    create_operator(Settings(**base), operator.key)

    def started(receipts: str | None = None, **changes: Any) -> Any:
        if receipts is not None:
            changes |= {
                "receipt_key_file": Path(f"{receipts}.key.json"),
                "receipt_password_file": Path(f"{receipts}.password"),
            }
            if not (tmp_path / "node" / f"{receipts}.key.json").exists():
                files = {
                    "operator_key_file": changes["receipt_key_file"],
                    "operator_password_file": changes["receipt_password_file"],
                }
                create_operator(Settings(**base, **files), None)
        return running_node(Settings(**base, **changes), functions=[shout], register=True)

    return started


async def settled(chain: Chain, session: Opened) -> int:
    """Wait until the session is final on the chain; what was captured."""
    deadline = time.monotonic() + 60
    while True:
        found = await chain.session(session.channel_id)
        assert found is not None
        if found.is_finalized:
            return found.settled
        assert time.monotonic() < deadline, "the session was not settled in time"
        await asyncio.sleep(0.1)


async def test_a_retired_receipt_key_in_its_key_store_serves_the_sessions_that_name_it(
    start: Start, buyer: Buyer, chain: Chain
) -> None:
    retired = RetiredKey(key_file=Path("first.key.json"), password_file=Path("first.password"))
    async with start("first") as node:
        old = await buyer.open(node)
        first = await buyer.enter(node, old, PRICE)
        former = buyer.receipt(node, first)
        before = node
    async with start("second", retired_receipt_keys=(retired,)) as node:
        old.challenge = None
        retry = await buyer.pay(node, old, PRICE)
        following = await buyer.pay(node, old, 2 * PRICE)
        statement = (await buyer.read(node, old, "/statement")).json
        fresh = await buyer.open(node)
        new = await buyer.enter(node, fresh, PRICE)
        done = await buyer.close_until_settled(node, old, 2)

    assert buyer.receipt(before, retry).signature == former.signature
    assert buyer.receipt(before, following).receipt.index == 1
    assert buyer.receipt(node, new).receipt.index == 0
    assert done.json["statement"] == statement
    assert await settled(chain, old) == 2 * PRICE


async def test_a_session_of_former_terms_that_is_shown_after_the_change_is_served_under_them(
    start: Start, buyer: Buyer, chain: Chain
) -> None:
    retired = RetiredKey(key_file=Path("first.key.json"), password_file=Path("first.password"))
    async with start("first") as node:
        early, late = await buyer.open(node), await buyer.open(node)
        before = node
    async with start("second", retired_receipt_keys=(retired,)) as node:
        early.challenge = None
        first = await buyer.enter(node, early, PRICE)
        done = await buyer.close_until_settled(node, early, 1)
    async with start("second") as node:
        late.challenge = None
        refused = await buyer.enter(node, late, PRICE)

    assert buyer.receipt(before, first).receipt.index == 0
    assert done.status == 200
    assert await settled(chain, early) == PRICE
    assert (refused.status, refused.code) == (403, "terms-not-ours")


async def test_a_session_whose_receipt_key_is_gone_is_refused_and_settled_when_it_is_idle(
    start: Start, buyer: Buyer, chain: Chain
) -> None:
    async with start("first") as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
    async with start("second", session_idle_seconds=1) as node:
        session.challenge = None
        refused = await buyer.pay(node, session, 2 * PRICE)
        captured = await settled(chain, session)

    assert (refused.status, refused.code) == (403, "terms-not-ours")
    assert captured == PRICE


async def test_a_new_payee_is_paid_by_new_sessions_and_the_former_one_by_those_that_are_open(
    start_node: StartNode, buyer: Buyer, chain: Chain, devnet: RunningDevnet
) -> None:
    former, next_one = (address_text(LocalKey(bytes([number]) * 32).address) for number in (0x71, 0x72))
    async with start_node(payee=former) as node:
        old = await buyer.open(node)
        await buyer.enter(node, old, PRICE)
    async with start_node(payee=next_one) as node:
        old.challenge = None
        await buyer.pay(node, old, 2 * PRICE)
        fresh = await buyer.open(node)
        await buyer.enter(node, fresh, PRICE)
        done = [
            await buyer.close_until_settled(node, old, 2),
            await buyer.close_until_settled(node, fresh, 1),
        ]

    assert [reply.status for reply in done] == [200, 200]
    paid = [await chain.session(session.channel_id) for session in (old, fresh)]
    assert [address_text(found.payee) for found in paid if found is not None] == [former, next_one]
    assert [found.settled for found in paid if found is not None] == [2 * PRICE, PRICE]


async def test_another_operator_in_the_same_folder_is_another_service(
    start: Start, buyer: Buyer, devnet: RunningDevnet, tmp_path: Path
) -> None:
    async with start() as node:
        first = node.registration.service_id
    key = LocalKey(b"\x73" * 32)
    await devnet.fund(key.address)
    settings = Settings(
        node_dir=tmp_path / "node", listen_port=0, admin_port=0, deployment_file=devnet.deployment_file
    )
    async with running_node(settings, functions=[shout], identity=Identity(key, key), register=True) as node:
        assert node.registration.service_id != first
