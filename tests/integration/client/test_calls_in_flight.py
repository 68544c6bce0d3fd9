"""Calls of one session under way together: one order, answers in any, none lost, none paid twice."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aioum.chain.client import Chain
from aioum.client import CallResult, PaidSession, SessionPhase
from aioum.core.errors import AioumError, OutcomeUnknown, PolicyRefused
from aioum.core.evidence import package_bytes
from aioum.core.evidence_reading import parse_package
from aioum.core.transcript import frontier_root
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode
from tests.integration.client import faulty_proxy as faults
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.faulty_proxy import faulty_proxy
from tests.integration.client.real_node import DONE, MEETING, RUNS, StartNode, node_starter
from tests.integration.conftest import FundedAccount


@pytest.fixture
def start_node(devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> StartNode:
    return node_starter(devnet, operator, tmp_path / "node")


async def warm(session: PaidSession) -> None:
    """The first call shows the node the opening and goes alone; a statement makes room for sixteen more."""
    await session.call("wordcount", text="first")
    await session.statement()


async def require_equal_records(session: PaidSession, node: RunningNode) -> None:
    stored = await node.store.session(session.channel_id)
    assert stored is not None
    assert frontier_root(stored.state.frontier) == session.root
    assert (stored.state.spent, stored.state.ahead) == (session.spent, ())
    assert await node.store.equivocations(session.channel_id) == []


async def require_settled(session: PaidSession, chain: Chain) -> None:
    on_chain = await chain.session(session.channel_id)
    assert on_chain is not None
    assert (on_chain.root, on_chain.call_count) == (session.root, len(session.calls))
    assert on_chain.settled == session.spent


async def test_as_many_calls_as_the_service_takes_are_inside_its_tool_at_the_same_time(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with start_node() as node, marketplace() as market:
        async with market.open(node.url, deposit=10_000) as session:
            await warm(session)
            assert session.max_in_flight == 16
            results = await asyncio.gather(
                *(session.call("meet", text=str(n), parties=16) for n in range(16))
            )
            assert [(result.text, result.index) for result in results] == [(str(n), n + 1) for n in range(16)]
            await require_equal_records(session, node)
        await require_settled(session, chain)
    # No call needed more than what was reserved before it: the last voucher is what was spent.
    assert session.authorized == session.spent == 100 + 16 * 10


async def test_answers_that_come_in_the_opposite_order_are_recorded_each_at_its_index(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with start_node() as node, marketplace() as market:
        async with market.open(node.url, deposit=10_000) as session:
            await warm(session)
            seen: list[tuple[int, int]] = []

            async def buy(number: int) -> CallResult:
                result = await session.call("last_first", text=f"n{number}", number=number)
                seen.append((result.index, len(session.calls)))
                return result

            results = await asyncio.gather(*(buy(number) for number in (4, 3, 2, 1, 0)))
            assert DONE == ["0", "1", "2", "3", "4"]
            assert [result.index for result in results] == [1, 2, 3, 4, 5]
            # The transcript has no gap at any time: it grew when the first call was answered.
            assert sorted(seen)[-1] == (5, 1)
            assert len(session.calls) == 6
            assert [entry.response for entry in session.calls[1:]] == ["n4", "n3", "n2", "n1", "n0"]
            await require_equal_records(session, node)
        await require_settled(session, chain)


async def test_a_service_that_takes_one_call_at_a_time_gets_one_at_a_time(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    MEETING.released.set()
    async with (
        start_node(max_in_flight=1) as node,
        marketplace() as market,
        market.open(node.url, deposit=10_000) as session,
    ):
        assert session.max_in_flight == 1
        await asyncio.gather(*(session.call("wait", text=str(n)) for n in range(6)))
        assert [str(n) for n in range(6)] == RUNS
        assert session.authorized == session.spent == 60


async def test_a_client_may_have_fewer_under_way_than_the_service_takes(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with (
        start_node() as node,
        marketplace(settings={"max_calls_in_flight": 3}) as market,
        market.open(node.url, deposit=10_000) as session,
    ):
        await warm(session)
        calls = [asyncio.ensure_future(session.call("wait", text=str(n))) for n in range(5)]
        await MEETING.until(3)
        assert session.authorized == 100 + 3 * 10
        MEETING.released.set()
        await asyncio.gather(*calls)
        await require_equal_records(session, node)


async def test_calls_that_fail_in_flight_cost_nothing_and_give_back_what_they_reserved(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with start_node() as node, marketplace() as market:
        async with market.open(node.url, deposit=140) as session:
            await warm(session)
            names = ("1", "fail 2", "3", "fail 4", "5", "6", "7")
            calls = [asyncio.ensure_future(session.call("wait", text=name)) for name in names]
            # There is money for four; the fifth waits for what the others turn out to cost.
            await MEETING.until(4)
            MEETING.released.set()
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert [item.ok for item in done[:6] if isinstance(item, CallResult)] == [
                True, False, True, False, True, True,
            ]  # fmt: skip
            assert isinstance(done[6], PolicyRefused)
            assert done[6].code == "deposit-exhausted"
            assert (session.spent, session.authorized, session.outstanding) == (140, 140, False)
            await require_equal_records(session, node)
        await require_settled(session, chain)


async def test_through_a_network_that_spoils_answers_calls_in_flight_run_and_are_paid_once(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with (
        start_node() as node,
        faulty_proxy(node.url) as (proxy, url),
        marketplace() as market,
    ):
        async with market.open(url, deposit=100_000) as session:
            await warm(session)
            spoiling: list[faults.Spoil | str] = [
                faults.gateway_error, faults.empty, faults.without_receipt, faults.altered_body, "drop",
                faults.altered_receipt, "truncate", "unreachable", faults.not_text,
                faults.forged_refusal("cursor-out-of-order"), faults.forged_refusal("head-mismatch"),
            ]  # fmt: skip
            proxy.faults = [fault for fault in spoiling for _ in range(2)]
            results = await asyncio.gather(
                *(session.call("wordcount", text=str(n)) for n in range(30)), return_exceptions=True
            )
            proxy.faults = []
            # Who got no answer in time gets it now.
            assert all(isinstance(result, CallResult | OutcomeUnknown) for result in results)
            await session.recover()
            assert sorted(RUNS) == sorted(["first", *map(str, range(30))])
            assert [entry.index for entry in session.calls] == list(range(31))
            assert (session.spent, session.stopped, session.evidence) == (3_100, None, ())
            await require_equal_records(session, node)
        await require_settled(session, chain)


async def test_answers_that_are_exchanged_on_the_way_accuse_nobody(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    kept: list[web.Response] = []
    exchanged: list[bytes] = []

    def exchange(answer: web.Response) -> web.Response:
        assert isinstance(answer.body, bytes)
        if answer.body == b"later":
            kept.append(answer)
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        if not kept:
            return faults.gateway_error(answer)
        exchanged.append(answer.body)
        if len(exchanged) < 4:
            return web.Response(status=kept[0].status, body=kept[0].body, headers=kept[0].headers)
        return answer

    MEETING.released.set()
    async with (
        start_node() as node,
        faulty_proxy(node.url) as (proxy, url),
        marketplace(settings={"retry_attempts": 50}) as market,
        market.open(url, deposit=10_000) as session,
    ):
        await warm(session)
        proxy.faults = [exchange] * 100
        results = await asyncio.gather(*(session.call("wait", text=text) for text in ("earlier", "later")))
        proxy.faults = []
        assert [result.text for result in results] == ["earlier", "later"]
        assert exchanged == [b"earlier"] * 4
        assert (session.stopped, session.evidence) == (None, ())
        await require_equal_records(session, node)


async def in_flight(session: PaidSession, count: int) -> list[asyncio.Task[CallResult]]:
    """Calls that are all inside their tool."""
    tasks = [asyncio.ensure_future(session.call("wait", text=str(n))) for n in range(count)]
    await MEETING.until(count)
    return tasks


async def cancel(tasks: list[asyncio.Task[CallResult]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("answered", [False, True], ids=["while-they-run", "after-they-were-recorded"])
async def test_a_client_that_died_with_several_calls_out_settles_each_of_them_after_its_restart(
    answered: bool, start_node: StartNode, marketplace: MakeMarketplace, chain: Chain, tmp_path: Path
) -> None:
    async with start_node() as node:
        async with marketplace() as market:
            session = await market.open(node.url, deposit=10_000, seats=("researcher",))
            await warm(session)
            tasks = await in_flight(session, 6)
            # What lies there now is what a power cut would leave.
            shutil.copytree(tmp_path / "client", tmp_path / "after the cut")
            if answered:
                MEETING.released.set()
                await asyncio.gather(*tasks)
            else:
                await cancel(tasks)
        MEETING.released.set()
        async with marketplace(data_dir=tmp_path / "after the cut") as market:
            (info,) = await market.sessions()
            assert (info.calls, info.outstanding) == (1, True)
            resumed = await market.resume(session.channel_id)
            assert (resumed.outstanding, resumed.unattended, resumed.authorized) == (True, True, 160)
            package: Any = parse_package(
                package_bytes(resumed.evidence_package("non-delivery", "no answers"))
            )
            assert len(package.calls) == 1
            result = await resumed.seat("researcher").call("wordcount", text="next")
            assert result.index == 7
            assert [entry.response for entry in resumed.calls[1:7]] == [str(n) for n in range(6)]
            assert sorted(RUNS) == sorted(["first", "next", *map(str, range(6))])
            await require_equal_records(resumed, node)
            await resumed.close()
        await require_settled(resumed, chain)


async def test_a_client_whose_calls_were_cancelled_goes_on_with_all_of_them(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with (
        start_node() as node,
        marketplace() as market,
        market.open(node.url, deposit=10_000) as session,
    ):
        await warm(session)
        tasks = await in_flight(session, 4)
        await cancel(tasks[1:3])
        assert session.unattended
        MEETING.released.set()
        assert [(await task).index for task in (tasks[0], tasks[3])] == [1, 4]
        # What came after the gap is kept, and shown once the gap is closed.
        assert len(session.calls) == 2
        first = await session.recover()
        assert first is not None
        assert (first.index, len(session.calls), session.unattended) == (2, 5, False)
        assert await session.recover() is None
        await require_equal_records(session, node)
    assert sorted(RUNS) == sorted(["first", *map(str, range(4))])


async def test_a_node_that_ended_with_calls_in_flight_answers_each_after_its_restart(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with marketplace() as market:
        async with start_node(shutdown_seconds=0.2) as node:
            port = int(node.url.rsplit(":", 1)[1])
            session = await market.open(node.url, deposit=10_000)
            await warm(session)
            tasks = await in_flight(session, 5)
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(item, AioumError | CallResult) for item in done)
        async with start_node(listen_port=port) as node:
            RUNS.append("restarted")
            assert (await session.call("wordcount", text="next")).index == 6
            # They were interrupted: recorded as failed, never run again, and free.
            assert [result.failure for result in session.results[1:6]] == ["interrupted"] * 5
            assert RUNS[-2:] == ["restarted", "next"]
            await require_equal_records(session, node)
            await session.close()
        await require_settled(session, chain)


async def test_closing_waits_for_the_calls_under_way_and_takes_no_other(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with start_node() as node, marketplace() as market:
        session = await market.open(node.url, deposit=10_000)
        await warm(session)
        tasks = await in_flight(session, 3)
        closing = asyncio.ensure_future(session.close())
        late = asyncio.ensure_future(session.call("wait", text="late"))
        await asyncio.sleep(0)
        MEETING.released.set()
        closed = await closing
        assert [(await task).text for task in tasks] == ["0", "1", "2"]
        with pytest.raises(PolicyRefused) as caught:
            await late
        assert caught.value.code == "session-not-open"
        assert (session.phase, closed.call_count, closed.settled) == (SessionPhase.CLOSED, 4, 130)
        await require_settled(session, chain)


async def test_seats_have_calls_in_flight_together_and_each_signs_on_its_own_head(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with (
        start_node() as node,
        marketplace() as market,
        market.open(node.url, deposit=10_000, seats=("a", "b")) as session,
    ):
        await warm(session)
        callers = (session, session.seat("a"), session.seat("b"))
        results = await asyncio.gather(
            *(callers[n % 3].call("meet", text=str(n), parties=9) for n in range(9))
        )
        assert [result.seat for result in results[:3]] == ["client", "a", "b"]
        await require_equal_records(session, node)
