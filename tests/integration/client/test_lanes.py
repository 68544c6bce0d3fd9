"""Several sessions of one service as one: spread, bounded, and no call is ever in two of them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.client import Lanes, Marketplace, SessionPhase
from aioum.core.errors import AioumError, InvalidInput, OutcomeUnknown, PolicyRefused, Refused
from aioum.core.hextext import to_hex
from aioum.core.transcript import frontier_root
from aioum.devnet.running import RunningDevnet
from tests.integration.client import faulty_proxy as faults
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.faulty_proxy import FaultyProxy, faulty_proxy
from tests.integration.client.real_node import RUNS, StartNode, node_starter
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.conftest import FundedAccount


@pytest.fixture
def start_node(devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> StartNode:
    return node_starter(devnet, operator, tmp_path / "node")


@pytest.fixture
async def market(marketplace: MakeMarketplace) -> AsyncIterator[Marketplace]:
    async with marketplace(settings={"retry_attempts": 2}) as market:
        yield market


@pytest.fixture
async def proxy(scripted: ScriptedOperator) -> AsyncIterator[FaultyProxy]:
    async with faulty_proxy(scripted.url) as (proxy, _):
        yield proxy


async def test_fifty_tasks_at_once_over_lanes_of_a_real_node_are_each_answered_and_charged_once(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with start_node() as node, marketplace() as market:
        async with await Lanes.open(market, node.url, lanes=5, deposit_each=2_000) as lanes:
            results = await asyncio.gather(*(lanes.call("wordcount", text="a " * n) for n in range(50)))
            assert [result.json() for result in results] == [{"words": n} for n in range(50)]
            assert sorted(RUNS) == sorted("a " * n for n in range(50))
            assert [len(session.calls) for session in lanes.sessions] == [10] * 5
            assert (lanes.spent, lanes.in_flight, lanes.waiting) == (5_000, 0, 0)
        for session in lanes.sessions:
            on_chain = await chain.session(session.channel_id)
            assert on_chain is not None
            assert (on_chain.root, on_chain.call_count, on_chain.settled) == (session.root, 10, 1_000)


async def test_lanes_have_together_as_many_calls_under_way_as_their_sessions_may(
    start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with (
        start_node() as node,
        marketplace() as market,
        await Lanes.open(market, node.url, lanes=2, deposit_each=2_000) as lanes,
    ):
        for session in lanes.sessions:
            await lanes.call("wordcount", text="first")
            await session.statement()
        results = await asyncio.gather(*(lanes.call("meet", text=str(n), parties=32) for n in range(32)))
        assert [result.text for result in results] == [str(n) for n in range(32)]
        assert [len(session.calls) for session in lanes.sessions] == [17, 17]


async def test_fifty_tasks_at_once_over_one_session_of_a_real_node_are_each_answered_and_charged_once(
    start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with start_node() as node, marketplace() as market:
        async with market.open(node.url, deposit=10_000) as session:
            results = await asyncio.gather(
                *(session.call("broken" if n % 10 == 9 else "wordcount", text=str(n)) for n in range(50))
            )
            assert [result.ok for result in results] == [n % 10 != 9 for n in range(50)]
            assert sorted(RUNS, key=int) == [str(n) for n in range(50)]
            assert sorted(result.index for result in results) == list(range(50))
            assert all(session.calls[result.index].response == result.text for result in results)
            assert session.spent == 4_500
            stored = await node.store.session(session.channel_id)
            assert stored is not None
            assert frontier_root(stored.state.frontier) == session.root
            assert await node.store.equivocations(session.channel_id) == []
        on_chain = await chain.session(session.channel_id)
        assert on_chain is not None
        assert (on_chain.root, on_chain.call_count, on_chain.settled) == (session.root, 50, 4_500)


async def test_a_call_goes_to_the_lane_without_trouble_with_the_fewest_calls(
    market: Marketplace, scripted: ScriptedOperator
) -> None:
    async with await Lanes.open(market, scripted.url, lanes=3, deposit_each=1_000) as lanes:
        for number in range(7):
            await lanes.call("cheap", text=str(number))
        assert [len(session.calls) for session in lanes.sessions] == [3, 2, 2]
        scripted.lies.refuse_unrecorded = [("store-full", {})]
        with pytest.raises(Refused) as caught:
            await lanes.call("cheap", text="refused")
        assert caught.value.code == "store-full"
        troubled = next(session for session in lanes.sessions if session.outstanding)
        before = len(troubled.calls)
        for number in range(4):
            await lanes.call("cheap", text=str(number))
        assert (len(troubled.calls), troubled.outstanding) == (before, True)
        scripted.lies.refuse_unrecorded = [("store-full", {})]
        assert await lanes.recover() == {troubled.channel_id: "store-full"}
        assert await lanes.recover() == {}
        assert (troubled.results[-1].text, troubled.outstanding) == ("refused", False)


async def test_a_lane_without_the_money_passes_the_call_on_until_none_has_it(
    market: Marketplace, scripted: ScriptedOperator
) -> None:
    async with await Lanes.open(market, scripted.url, lanes=2, deposit_each=150, deposit_limit=300) as lanes:
        await lanes.call("echo", text="1")
        await lanes.call("echo", text="2")
        with pytest.raises(PolicyRefused) as caught:
            await lanes.call("echo", text="3")
        assert caught.value.code == "lanes-exhausted"
        assert set(caught.value.details["lanes"].values()) == {"deposit-exhausted"}
        # What is cheaper goes on.
        assert (await lanes.call("cheap", text="4")).charge == 1
        await lanes.sessions[1].top_up(100)
        await lanes.call("echo", text="5")
        assert [len(session.calls) for session in lanes.sessions] == [2, 2]
    assert Counter(text for _, text in scripted.runs) == Counter("1245")


async def test_lanes_that_ended_are_passed_over_and_without_any_other_the_call_is_refused(
    market: Marketplace, scripted: ScriptedOperator
) -> None:
    lanes = await Lanes.open(market, scripted.url, lanes=2, deposit_each=1_000)
    first, second = lanes.sessions
    await first.close()
    for number in range(3):
        await lanes.call("cheap", text=str(number))
    assert len(second.calls) == 3
    scripted.lies.refuse_unrecorded = [("session-sealed", {})]
    with pytest.raises(Refused) as refused:
        await lanes.call("cheap", text="sealed")
    assert refused.value.code == "session-sealed"
    with pytest.raises(PolicyRefused) as caught:
        await lanes.call("cheap", text="nowhere")
    assert caught.value.code == "lanes-stopped"
    assert caught.value.details["lanes"] == {
        to_hex(first.channel_id): "session-closed", to_hex(second.channel_id): "session-sealed",
    }  # fmt: skip
    assert [closed.call_count for closed in await lanes.close()] == [0, 4]
    assert "nowhere" not in [text for _, text in scripted.runs]


async def test_a_call_is_moved_where_an_earlier_signed_call_stands_in_its_way_and_never_itself_runs_twice(
    market: Marketplace, scripted: ScriptedOperator
) -> None:
    async with await Lanes.open(market, scripted.url, lanes=2, deposit_each=1_000) as lanes:
        # A code that our own refusals have as well: in the node's mouth it moves nothing.
        scripted.lies.refuse_unrecorded = [("deposit-exhausted", {}), ("signed-call-refused", {})]
        for text in ("1", "2"):
            with pytest.raises(Refused):
                await lanes.call("cheap", text=text)
        assert [session.outstanding for session in lanes.sessions] == [True, True]
        # The first lane's call is refused again, so this one goes to the second and settles that one's.
        scripted.lies.refuse_unrecorded = [("store-full", {})]
        assert (await lanes.call("cheap", text="3")).index == 1
        assert [session.outstanding for session in lanes.sessions] == [True, False]
        await lanes.recover()
        assert Counter(text for _, text in scripted.runs) == Counter("123")


async def test_while_every_lane_has_a_call_without_an_answer_none_takes_another(
    market: Marketplace, scripted: ScriptedOperator, proxy: FaultyProxy
) -> None:
    async with await Lanes.open(market, proxy.url, lanes=2, deposit_each=1_000) as lanes:
        proxy.faults = ["drop"] * 4
        for text in ("1", "2"):
            with pytest.raises(OutcomeUnknown):
                await lanes.call("cheap", text=text)
        proxy.faults = ["unreachable"] * 4
        with pytest.raises(PolicyRefused) as caught:
            await lanes.call("cheap", text="3")
        assert caught.value.code == "lanes-stopped"
        assert set(caught.value.details["lanes"].values()) == {"node-unreachable"}
        assert (await lanes.call("cheap", text="4")).index == 1
    assert Counter(text for _, text in scripted.runs) == Counter("124")
    assert [len(session.calls) for session in lanes.sessions] in ([1, 2], [2, 1])


async def test_an_unknown_outcome_is_not_tried_in_another_lane(
    market: Marketplace, scripted: ScriptedOperator, proxy: FaultyProxy
) -> None:
    async with await Lanes.open(market, proxy.url, lanes=4, deposit_each=1_000) as lanes:
        proxy.faults = [faults.gateway_error] * 2
        with pytest.raises(OutcomeUnknown):
            await lanes.call("cheap", text="once")
        assert [session.authorized for session in lanes.sessions] == [1, 0, 0, 0]
    assert scripted.runs == [(lanes.sessions[0].channel_id, "once")]


async def test_calls_beyond_the_queue_are_refused_and_the_others_served(
    market: Marketplace, scripted: ScriptedOperator
) -> None:
    async with await Lanes.open(market, scripted.url, lanes=2, deposit_each=1_000, queue_limit=3) as lanes:
        calls = [asyncio.ensure_future(lanes.call("cheap", text=str(n))) for n in range(9)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        refused = [error for error in done if isinstance(error, AioumError)]
        assert [error.code for error in refused] == ["lanes-full"] * 4
        assert len(scripted.runs) == 5


async def test_a_call_that_is_cancelled_leaves_its_place_and_its_lane(
    market: Marketplace, scripted: ScriptedOperator
) -> None:
    async with await Lanes.open(market, scripted.url, lanes=1, deposit_each=1_000) as lanes:
        under_way, waiting, last = (
            asyncio.ensure_future(lanes.call("cheap", text=text)) for text in ("1", "2", "3")
        )
        while not scripted.runs:
            await asyncio.sleep(0)
        assert (lanes.in_flight, lanes.waiting) == (1, 2)
        under_way.cancel()
        waiting.cancel()
        assert (await last).text == "3"
        assert [entry.response for entry in lanes.sessions[0].calls] == ["1", "3"]
        assert (lanes.in_flight, lanes.waiting) == (0, 0)


async def test_closed_lanes_take_no_call_and_refuse_those_that_wait(
    market: Marketplace, scripted: ScriptedOperator
) -> None:
    lanes = await Lanes.open(market, scripted.url, lanes=1, deposit_each=1_000)
    calls = [asyncio.ensure_future(lanes.call("cheap", text=str(n))) for n in range(2)]
    while not scripted.runs:
        await asyncio.sleep(0)
    (closed,) = await lanes.close()
    first, second = await asyncio.gather(*calls, return_exceptions=True)
    assert getattr(first, "text", None) == "0"
    assert getattr(second, "code", None) == "lanes-closed"
    with pytest.raises(PolicyRefused) as caught:
        await lanes.call("cheap", text="later")
    assert caught.value.code == "lanes-closed"
    assert (closed.call_count, await lanes.close()) == (1, (closed,))


async def test_what_did_not_close_is_named_and_the_rest_is_closed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace(settings={"close_timeout_seconds": 0.3}) as market:
        lanes = await Lanes.open(market, scripted.url, lanes=3, deposit_each=1_000)
        for number in range(3):
            await lanes.call("cheap", text=str(number))
        stuck = lanes.sessions[1]
        state = scripted.states.pop(stuck.channel_id)
        with pytest.raises(OutcomeUnknown) as caught:
            await lanes.close()
        assert caught.value.code == "lanes-not-closed"
        assert caught.value.details["lanes"] == {to_hex(stuck.channel_id): "channel-not-found"}
        assert [session.phase for session in lanes.sessions] == [
            SessionPhase.CLOSED, SessionPhase.CLOSING, SessionPhase.CLOSED,
        ]  # fmt: skip
        scripted.states[stuck.channel_id] = state
        assert [closed.settled for closed in await lanes.close()] == [1, 1, 1]


async def test_an_error_in_the_block_leaves_the_sessions_open_for_lanes_of_a_restarted_program(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        with pytest.raises(KeyError):
            async with await Lanes.open(market, scripted.url, lanes=2, deposit_each=1_000) as lanes:
                await lanes.call("cheap", text="1")
                raise KeyError
    async with marketplace() as market:
        found = [await market.resume(info.channel_id) for info in await market.sessions()]
        async with Lanes(found) as lanes:
            await lanes.call("cheap", text="2")
            await lanes.call("cheap", text="3")
        assert [session.phase for session in found] == [SessionPhase.CLOSED] * 2
        assert lanes.spent == 3


async def test_what_cannot_be_opened_is_refused_and_leaves_nothing_open(
    market: Marketplace, scripted: ScriptedOperator, chain: Chain, devnet: RunningDevnet, payer: FundedAccount
) -> None:
    for number, queue_limit in ((0, 1), (65, 1), (1, -1)):
        with pytest.raises(InvalidInput) as caught:
            await Lanes.open(market, scripted.url, lanes=number, deposit_each=10, queue_limit=queue_limit)
        assert caught.value.code == "lanes-invalid"
    with pytest.raises(PolicyRefused) as refused:
        await Lanes.open(market, scripted.url, lanes=3, deposit_each=100, deposit_limit=299)
    assert refused.value.code == "deposit-limit-exceeded"
    assert await market.sessions() == []
    balance = await chain.token_balance(devnet.token, payer.key.address)
    with pytest.raises(AioumError) as failed:
        await Lanes.open(market, scripted.url, lanes=3, deposit_each=balance // 2)
    assert failed.value.details["left"] == []
    phases = Counter(info.phase for info in await market.sessions())
    assert phases[SessionPhase.OPEN] == 0
    assert phases[SessionPhase.VOID] >= 1
    assert await chain.token_balance(devnet.token, payer.key.address) == balance
