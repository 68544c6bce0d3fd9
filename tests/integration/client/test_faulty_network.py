"""Answers that get lost or spoiled on the way: taken for unknown, repeated, never paid twice."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web

from aioum.chain.client import Chain
from aioum.core.errors import OutcomeUnknown, Refused
from aioum.core.wire import Credential
from tests.integration.client import faulty_proxy as faults
from tests.integration.client.conftest import MakeMarketplace, unsigned
from tests.integration.client.faulty_proxy import FaultyProxy, Spoil, faulty_proxy
from tests.integration.client.scripted_operator import ScriptedOperator


@dataclass
class Spoiled:
    operator: ScriptedOperator
    proxy: FaultyProxy
    url: str


@pytest.fixture
async def spoiled(scripted: ScriptedOperator) -> AsyncIterator[Spoiled]:
    async with faulty_proxy(scripted.url) as (proxy, url):
        yield Spoiled(scripted, proxy, url)


LOST: list[Spoil | str] = [
    faults.gateway_error, faults.empty, faults.without_receipt, faults.altered_body, faults.not_text,
    faults.altered_receipt, "drop", "truncate", "unreachable",
]  # fmt: skip


@pytest.mark.parametrize("fault", LOST, ids=lambda fault: getattr(fault, "__name__", fault))
async def test_a_spoiled_answer_is_fetched_again_with_the_same_bytes_and_paid_once(
    fault: Spoil | str, marketplace: MakeMarketplace, spoiled: Spoiled, chain: Chain
) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        await session.call("echo", text="before")
        spoiled.proxy.faults = [fault, fault]
        result = await session.call("echo", text="wanted")
        assert (result.text, result.index) == ("wanted", 1)
        assert len(set(spoiled.proxy.seen[1:])) == 1
        assert len(spoiled.proxy.seen) == 4
        await session.call("echo", text="after")
    assert len(spoiled.operator.runs) == 3
    on_chain = await chain.session(session.channel_id)
    assert on_chain is not None
    assert (on_chain.root, on_chain.settled) == (session.root, 300)


async def test_requests_that_arrive_twice_are_one_call(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    spoiled.proxy.twice = True
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        await session.call("echo", text="1")
        await session.call("echo", text="2")
        assert session.spent == 200
    assert len(spoiled.operator.runs) == 2


async def test_a_replayed_earlier_answer_is_not_taken_for_the_new_one(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    replay = faults.Replay()
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        spoiled.proxy.faults = [replay.keep, replay.replay]
        await session.call("echo", text="1")
        assert (await session.call("echo", text="2")).text == "2"
        assert session.stopped is None


async def test_an_earlier_answer_that_is_replayed_for_ever_is_no_word_against_the_operator(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    replay = faults.Replay()
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        spoiled.proxy.faults = [replay.keep, *[replay.replay] * 6]
        await session.call("echo", text="1")
        with pytest.raises(OutcomeUnknown) as caught:
            await session.call("echo", text="2")
        assert caught.value.code == "answer-replayed"
        assert (session.stopped, session.evidence) == (None, ())
        assert (await session.call("echo", text="3")).index == 2


async def test_a_refusal_that_asks_for_an_hour_does_not_hold_the_call_so_long(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    def much_later(answer: web.Response) -> web.Response:
        refused = faults.forged_refusal("node-busy", 429)(answer)
        refused.headers["Retry-After"] = "3600"
        return refused

    settings = {"retry_timeout_seconds": 0.5}
    async with (
        marketplace(settings=settings) as market,
        market.open(spoiled.url, deposit=10_000) as session,
    ):
        spoiled.proxy.faults = [much_later] * 6
        with pytest.raises(OutcomeUnknown) as caught:
            async with asyncio.timeout(60):
                await session.call("echo", text="1")
        assert caught.value.code == "node-busy"
        spoiled.proxy.faults = []
        assert (await session.call("echo", text="2")).index == 1


async def test_a_challenge_that_the_node_no_longer_knows_is_asked_for_again(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        await session.call("echo", text="1")
        spoiled.proxy.faults = [faults.forged_refusal("challenge-invalid", 402)]
        assert (await session.call("echo", text="2")).index == 1
        assert len(session.calls) == 2


async def test_without_any_answer_the_call_stays_outstanding_and_the_next_call_settles_it_first(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        spoiled.proxy.faults = [faults.gateway_error] * 6
        with pytest.raises(OutcomeUnknown) as caught:
            await session.call("echo", text="lost")
        assert caught.value.code == "receipt-missing"
        assert session.outstanding
        assert session.spent == 0
        result = await session.call("echo", text="next")
        assert [entry.response for entry in session.calls] == ["lost", "next"]
        assert (result.index, session.spent) == (1, 200)
    assert len(spoiled.operator.runs) == 2


async def test_recover_fetches_the_lost_answer(marketplace: MakeMarketplace, spoiled: Spoiled) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        assert await session.recover() is None
        spoiled.proxy.faults = ["drop"] * 6
        with pytest.raises(OutcomeUnknown):
            await session.call("echo", text="lost")
        recovered = await session.recover()
        assert recovered is not None
        assert recovered.text == "lost"
        assert not session.outstanding


async def test_close_settles_the_outstanding_call_first(
    marketplace: MakeMarketplace, spoiled: Spoiled, chain: Chain
) -> None:
    async with marketplace() as market:
        session = await market.open(spoiled.url, deposit=10_000)
        spoiled.proxy.faults = ["drop"] * 6
        with pytest.raises(OutcomeUnknown):
            await session.call("echo", text="lost")
        closed = await session.close()
        assert (closed.call_count, closed.settled, closed.root) == (1, 100, session.root)


@unsigned
@pytest.mark.parametrize("code", ["tool-unknown", "request-conflict", "made-up"])
async def test_a_forged_refusal_of_a_recorded_call_costs_nothing_twice(
    code: str, marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        spoiled.proxy.faults = [faults.forged_refusal(code)]
        with pytest.raises(Refused) as caught:
            await session.call("echo", text="given up")
        assert caught.value.code == code
        assert not session.outstanding
        assert (await session.call("echo", text="next")).index == 1
        assert [entry.response for entry in session.calls] == ["given up", "next"]
        assert session.spent == 200
    assert len(spoiled.operator.runs) == 2


@unsigned
async def test_a_call_given_up_for_a_forged_refusal_is_adopted_at_close(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market:
        session = await market.open(spoiled.url, deposit=10_000)
        await session.call("echo", text="1")
        spoiled.proxy.faults = [faults.forged_refusal("tool-unknown", 404)]
        with pytest.raises(Refused):
            await session.call("echo", text="2")
        closed = await session.close()
        assert (closed.call_count, closed.settled) == (2, 200)
        assert [entry.response for entry in session.calls] == ["1", "2"]


@unsigned
async def test_a_call_given_up_for_a_forged_refusal_is_adopted_by_the_next_statement(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        spoiled.proxy.faults = [faults.forged_refusal("tool-unknown", 404)]
        with pytest.raises(Refused):
            await session.call("echo", text="1")
        signed = await session.statement()
        assert signed is not None
        assert signed.statement.call_count == len(session.calls) == 1


async def test_a_call_that_the_node_truly_refused_does_not_wedge_the_session(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        spoiled.proxy.faults = [faults.forged_refusal("store-full")]
        operator_runs = spoiled.operator.runs
        with pytest.raises(Refused):
            await session.call("fail", text="1")
        assert (await session.call("echo", text="2")).ok
        assert len(operator_runs) == 2


async def test_every_voucher_that_left_was_for_a_different_call_or_the_same_bytes(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        for number in range(5):
            spoiled.proxy.faults = ["drop", faults.altered_body]
            await session.call("cheap", text=str(number))
    by_amount: dict[int, set[bytes]] = {}
    for authorization, body in spoiled.proxy.seen:
        by_amount.setdefault(Credential.from_header(authorization).amount, set()).add(body)
    assert all(len(bodies) == 1 for bodies in by_amount.values())


async def test_an_answer_that_never_is_text_stays_unknown(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market:
        session = await market.open(spoiled.url, deposit=10_000)
        spoiled.proxy.faults = [faults.not_text] * 6
        with pytest.raises(OutcomeUnknown) as caught:
            await session.call("echo", text="1")
        assert caught.value.code == "answer-altered"
        assert session.outstanding


@unsigned
async def test_an_outstanding_call_that_the_node_refuses_and_never_recorded_is_given_up(
    marketplace: MakeMarketplace, spoiled: Spoiled
) -> None:
    async with marketplace() as market, market.open(spoiled.url, deposit=10_000) as session:
        spoiled.proxy.faults = ["refuse store-full"]
        with pytest.raises(Refused):
            await session.call("echo", text="1")
        spoiled.proxy.faults = ["unreachable"] * 6
        with pytest.raises(OutcomeUnknown):
            await session.call("echo", text="2")
        spoiled.proxy.faults = ["refuse payment-insufficient"]
        with pytest.raises(Refused) as caught:
            await session.recover()
        assert caught.value.code == "call-abandoned"
        assert not session.outstanding
        assert (await session.call("echo", text="3")).index == 0
    assert [text for _, text in spoiled.operator.runs] == ["3"]
