"""Operators that lie about one of several calls under way, and what becomes of the others."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from aioum.client import CallResult, PaidSession
from aioum.core.errors import Divergence, OutcomeUnknown, PolicyRefused
from aioum.core.payment import CallReceipt
from aioum.core.types import Bytes32
from tests.integration.client import faulty_proxy as faults
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.faulty_proxy import faulty_proxy
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.client.signed_record import code_of, lone_envelopes

OTHER = Bytes32(b"\x07" * 32)
MANY_TRIES = {"retry_attempts": 60}

together = pytest.mark.parametrize(
    "scripted", [{"limits": {"maxInFlight": 8}}], indirect=True, ids=["in-flight"]
)


def about(index: int, lie: Callable[[CallReceipt], CallReceipt]) -> Callable[[CallReceipt], CallReceipt]:
    return lambda receipt: lie(receipt) if receipt.index == index else receipt


async def buy(session: PaidSession, texts: list[str]) -> list[Any]:
    return await asyncio.gather(*(session.call("cheap", text=text) for text in texts), return_exceptions=True)


@together
async def test_a_lie_about_one_call_stops_paying_and_the_answers_of_the_others_are_kept(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace(settings=MANY_TRIES) as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("cheap", text="0")
        scripted.lies.receipt = about(3, lambda receipt: replace(receipt, leaf=OTHER))
        done = await buy(session, [str(n) for n in range(1, 7)])
        assert isinstance(done[2], Divergence)
        assert done[2].code == session.stopped == "receipt-leaf-mismatch"
        others = done[:2] + done[3:]
        assert all(isinstance(item, CallResult | OutcomeUnknown) for item in others)
        answered = [item.text for item in others if isinstance(item, CallResult)]
        (evidence,) = session.evidence
        assert [item.receipt.index for item in evidence.receipts] == [3]
        for step in (session.recover(), session.call("cheap", text="more")):
            with pytest.raises(PolicyRefused) as caught:
                await step
            assert code_of(caught) == "paying-stopped"
        lone_envelopes(scripted, session.channel_id)
    async with marketplace() as market:
        resumed = await market.resume(session.channel_id)
        assert (resumed.stopped, resumed.evidence) == (session.stopped, (evidence,))
        assert resumed.spent == session.spent == 1 + len(answered)
        assert len(resumed.calls) == len(session.calls) <= 3


@together
async def test_once_the_operator_contradicted_itself_no_call_under_way_is_sent_again(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    sent_after: list[bool] = []

    def spoil(answer: web.Response) -> web.Response:
        if answer.body == b"lost":
            sent_after.append(bool(sessions[0].evidence))
            return faults.gateway_error(answer)
        return answer

    sessions: list[PaidSession] = []
    async with (
        faulty_proxy(scripted.url) as (proxy, url),
        marketplace(settings=MANY_TRIES) as market,
    ):
        session = await market.open(url, deposit=10_000)
        sessions.append(session)
        await session.call("cheap", text="first")
        proxy.faults = [spoil] * 500
        scripted.lies.receipt = about(2, lambda receipt: replace(receipt, charge=7))
        lost, lie = await buy(session, ["lost", "lie"])
        assert (lost.code, lie.code) == ("operator-contradicted", "receipt-charge-mismatch")
        assert isinstance(lost, OutcomeUnknown)
        # One request may have been on its way.
        assert sent_after.count(True) <= 1
        assert len(sent_after) < 60


@together
async def test_a_receipt_that_strays_to_another_call_is_held_against_that_calls_own(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    lies: list[CallReceipt] = []

    def stray(receipt: CallReceipt) -> CallReceipt:
        if receipt.index == 1 and not lies:
            lies.append(replace(receipt, index=2))
            return lies[0]
        return receipt

    async with marketplace(settings=MANY_TRIES) as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("cheap", text="0")
        scripted.lies.receipt = stray
        done = await buy(session, ["1", "2"])
        # Whichever of the two answers comes second.
        assert any(isinstance(item, Divergence) for item in done)
        assert session.stopped == "operator-double-signed"
        (evidence,) = session.evidence
        assert {item.receipt.index for item in evidence.receipts} == {2}
        assert len({item.receipt.leaf for item in evidence.receipts}) == 2


@together
async def test_a_refused_call_holds_up_those_behind_it_until_it_is_taken(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        await session.call("cheap", text="0")
        scripted.lies.refuse_unrecorded = [("store-full", {})]
        done = await buy(session, ["1", "2", "3"])
        codes = [getattr(item, "code", None) for item in done]
        assert "store-full" in codes
        scripted.lies.refuse_unrecorded = []
        assert (await session.call("cheap", text="4")).index == 4
        assert [entry.response for entry in session.calls] == ["0", "1", "2", "3", "4"]
        assert lone_envelopes(scripted, session.channel_id) == 5
    assert [text for _, text in scripted.runs] == ["0", "1", "2", "3", "4"]


@together
async def test_what_was_never_answered_is_found_in_the_operators_record_at_the_end(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with faulty_proxy(scripted.url) as (proxy, url), marketplace() as market:
        session = await market.open(url, deposit=10_000)
        await session.call("cheap", text="0")
        proxy.faults = ["drop"] * 1_000
        lost = await buy(session, ["1", "2", "3"])
        assert all(isinstance(item, OutcomeUnknown) for item in lost)
        await scripted.settle(session.channel_id)
        closed = await session.verify()
        assert (closed.call_count, closed.settled, closed.root) == (4, 4, session.root)
        assert [entry.response for entry in session.calls] == ["0", "1", "2", "3"]
