"""The client against the real node, through spoiled networks and changes of the service."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.client import Chain
from aioum.client import SessionPhase
from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.core.submission.framing import encode_base64
from aioum.core.transcript import frontier_root
from aioum.devnet.running import RunningDevnet
from aioum_node.tools import tool
from tests.integration.chain.lagging_replica import lagging_replica
from tests.integration.client import faulty_proxy as faults
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.faulty_proxy import faulty_proxy
from tests.integration.client.real_node import RUNS, StartNode, node_starter
from tests.integration.conftest import FundedAccount


@tool(price=40)
def reverse(text: str) -> str:
    """Turns a text around."""
    return text[::-1]


@pytest.fixture
def start_node(devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> StartNode:
    return node_starter(devnet, operator, tmp_path / "node")


async def test_both_records_and_the_anchored_root_are_equal(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with start_node() as node, marketplace() as market:
        async with market.open(node.registration.service_id, deposit=10_000) as session:
            for number in range(20):
                assert (await session.call("wordcount", text="a " * number)).json() == {"words": number}
            failed = await session.call("broken", text="x")
            assert (failed.ok, failed.failure, failed.charge) == (False, "tool-failed", 0)
            assert session.spent == 2_000
            stored = await node.store.session(session.channel_id)
            assert stored is not None
            assert frontier_root(stored.state.frontier) == session.root
        on_chain = await chain.session(session.channel_id)
        assert on_chain is not None
        assert (on_chain.root, on_chain.call_count, on_chain.settled) == (session.root, 21, 2_000)
        package: Any = session.evidence_package("quality", "")
        assert package["statement"]["callCount"] == 21


async def test_a_node_with_a_replica_three_blocks_behind_takes_every_opening_and_settles(
    start_node: StartNode, marketplace: MakeMarketplace, devnet: RunningDevnet, chain: Chain
) -> None:
    async with (
        lagging_replica(devnet.rpc_url, 3) as replica,
        start_node(rpc_url=f"{replica}, {devnet.rpc_url}") as node,
        marketplace() as market,
    ):
        assert len(node.offering.chain.rpc.endpoints) == 2
        for _ in range(3):
            async with market.open(node.registration.service_id, deposit=10_000) as session:
                assert (await session.call("wordcount", text="a b")).json() == {"words": 2}
            on_chain = await chain.session(session.channel_id)
            assert on_chain is not None
            assert (on_chain.root, on_chain.call_count, on_chain.settled) == (session.root, 1, 100)


async def test_seats_of_one_session_and_the_node_agree_on_every_head(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with start_node() as node, marketplace() as market:
        session = await market.open(node.url, deposit=10_000, seats=("researcher", "writer"))
        callers = (session, session.seat("researcher"), session.seat("writer"))
        await asyncio.gather(*(callers[n % 3].call("wordcount", text=str(n)) for n in range(9)))
        # What the node records as failed in a signed session costs nothing and takes its index.
        failed = await session.seat("writer").call("broken", text="x")
        assert (failed.index, failed.charge) == (9, 0)
        stored = await node.store.session(session.channel_id)
        assert stored is not None
        heads = {item.seat: encode_base64(item.head) for item in stored.state.seats.heads}
        assert heads == session.heads
        assert await node.store.equivocations(session.channel_id) == []
        async with marketplace() as second, second.resume(session.channel_id) as resumed:
            assert (await resumed.seat("researcher").call("wordcount", text="again")).index == 10


async def test_an_unsigned_session_works_as_before(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with (
        start_node() as node,
        marketplace() as market,
        market.open(node.url, deposit=10_000, signed=False) as session,
    ):
        await session.call("broken", text="x")
        await session.call("wordcount", text="1")
        assert (session.spent, session.authorized) == (100, 100)


async def test_a_record_restored_from_a_backup_catches_up_with_the_node(
    start_node: StartNode, marketplace: MakeMarketplace, tmp_path: Path
) -> None:
    async with start_node() as node:
        async with marketplace() as market:
            session = await market.open(node.url, deposit=10_000)
            await session.call("wordcount", text="1")
        shutil.copytree(tmp_path / "client", tmp_path / "backup")
        async with marketplace() as market:
            lost = await market.resume(session.channel_id)
            for number in range(20):
                await lost.call("wordcount", text=str(number))
        async with (
            marketplace(data_dir=tmp_path / "backup") as market,
            market.resume(session.channel_id) as restored,
        ):
            assert (await restored.call("wordcount", text="last")).index == 21
            assert await node.store.equivocations(session.channel_id) == []


async def test_through_a_proxy_that_spoils_answers_every_call_runs_and_is_paid_once(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with (
        start_node() as node,
        faulty_proxy(node.url) as (proxy, url),
        marketplace() as market,
        market.open(url, deposit=10_000) as session,
    ):
        spoiling: list[faults.Spoil | str] = [
            faults.gateway_error, faults.empty, faults.without_receipt, faults.altered_body, "drop",
            faults.altered_receipt, "truncate", "unreachable", faults.not_text,
        ]  # fmt: skip
        for number, fault in enumerate(spoiling):
            proxy.faults = [fault]
            await session.call("wordcount", text=str(number))
        proxy.twice = True
        await session.call("wordcount", text="twice")
        proxy.twice = False
        proxy.faults = [faults.forged_refusal("tool-unknown", 404)]
        with pytest.raises(AioumError) as caught:
            await session.call("wordcount", text="given up")
        assert caught.value.code == "tool-unknown"
        await session.call("wordcount", text="last")
        assert [entry.request for entry in session.calls if "given up" in entry.request]
        assert [*map(str, range(9)), "twice", "given up", "last"] == RUNS
        assert session.spent == 1_200


async def test_a_node_that_restarts_in_between_loses_nothing(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with marketplace() as market:
        async with start_node() as node:
            port = int(node.url.rsplit(":", 1)[1])
            session = await market.open(node.url, deposit=10_000)
            await session.call("wordcount", text="1")
        with pytest.raises(OutcomeUnknown):
            await session.call("wordcount", text="2")
        async with start_node(listen_port=port):
            await session.call("wordcount", text="3")
            closed = await session.close()
        assert RUNS == ["1", "2", "3"]
        assert (closed.settled, closed.call_count) == (300, 3)


async def test_an_open_session_keeps_its_card_when_the_service_changes(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with marketplace() as market:
        async with start_node() as node:
            port = int(node.url.rsplit(":", 1)[1])
            service_id = node.registration.service_id
            session = await market.open(service_id, deposit=10_000)
            await session.call("wordcount", text="1")
        async with start_node((reverse,), listen_port=port) as node:
            assert node.registration.service_id == service_id
            assert [item.id for item in (await market.service(service_id)).card.tools] == ["reverse"]
            # The old card still offers it, the node no longer has it: recorded, and not charged.
            gone = await session.call("wordcount", text="2")
            assert (gone.ok, gone.charge) == (False, 0)
            assert (await session.close()).settled == 100
            async with market.open(service_id, deposit=10_000) as fresh:
                assert (await fresh.call("reverse", text="abc")).text == "cba"


async def test_a_topped_up_deposit_is_usable_at_once_and_a_callless_session_closes(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with start_node() as node, marketplace() as market:
        async with market.open(node.url, deposit=100) as session:
            await session.call("wordcount", text="1")
            await session.top_up(100)
            await session.call("wordcount", text="2")
        async with market.open(node.url, deposit=100) as empty:
            pass
        assert empty.phase is SessionPhase.CLOSED


async def test_many_sessions_side_by_side_settle_each_for_its_own(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with start_node() as node, marketplace() as market:

        async def buy(name: str) -> int:
            async with market.open(node.url, deposit=1_000) as session:
                for _ in range(5):
                    await session.call("wordcount", text=name)
            return session.spent

        assert await asyncio.gather(*(buy(str(number)) for number in range(6))) == [500] * 6
