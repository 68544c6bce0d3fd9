"""A signed call that the node refuses stays: its envelope is sent again, and nothing replaces it."""

from dataclasses import replace

import pytest

from aioum.client import CLIENT_SEAT, PaidSession
from aioum.core.canonical import JsonValue
from aioum.core.errors import (
    AioumError,
    Divergence,
    OutcomeUnknown,
    Refused,
)
from aioum.core.evidence_submissions import Submissions
from aioum.core.ledger import Call
from aioum.core.submission.framing import encode_base64
from aioum.core.submission.keys import VerifyingKey
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator, recorded_as
from tests.integration.client.signed_record import RESEARCHER, code_of, lone_envelopes


async def test_a_refused_call_stays_and_the_same_envelope_is_sent_until_it_is_answered(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        scripted.lies.refuse_unrecorded = [("store-full", {})] * 3
        with pytest.raises(Refused) as caught:
            await session.call("echo", text="1")
        assert code_of(caught) == "store-full"
        assert session.outstanding
        with pytest.raises(Refused) as caught:
            await session.call("echo", text="2")
        assert code_of(caught) == "signed-call-refused"
        assert caught.value.details == {"refusal": "store-full"}
        with pytest.raises(Refused) as caught:
            await session.recover()
        assert code_of(caught) == "store-full"
        assert (session.stopped, session.evidence) == (None, ())
        assert (await session.call("echo", text="2")).index == 1
        assert [entry.response for entry in session.calls] == ["1", "2"]
        assert lone_envelopes(scripted, session.channel_id) == 2


async def test_with_a_call_that_is_refused_for_ever_the_session_is_closed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000, seats=[RESEARCHER])
        await session.call("echo", text="1")
        scripted.lies.refuse_unrecorded = [("store-full", {})] * 9
        with pytest.raises(Refused):
            await session.seat(RESEARCHER).call("echo", text="2")
        package = session.evidence_package("non-delivery", "no answer")
        submissions = Submissions.from_json(package["submissions"])
        assert [(entry.index, entry.request is None) for entry in submissions.entries] == [
            (0, True), (1, False),
        ]  # fmt: skip
        unanswered = submissions.entries[1]
        assert unanswered.request is not None
        signer = submissions.roster.entry(RESEARCHER)
        assert signer is not None
        submission = unanswered.envelope.submission(session.channel_id, unanswered.request)
        submission.require_signed(unanswered.envelope.signature, VerifyingKey(signer.public_key))
        closed = await session.close()
        assert (closed.call_count, closed.settled) == (1, 100)


@pytest.mark.parametrize("code", ["tool-unknown", "cursor-out-of-order", "submission-conflict", "made-up"])
async def test_a_forged_refusal_of_a_recorded_call_costs_nothing_twice(
    code: str, marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        scripted.lies.refuse = [(409, code)]
        if code in ("cursor-out-of-order", "submission-conflict"):
            # The node's position is held against its own record, and there the answer lies.
            assert (await session.call("echo", text="first")).text == "first"
        else:
            with pytest.raises(Refused) as caught:
                await session.call("echo", text="first")
            assert code_of(caught) == code
        assert (await session.call("echo", text="next")).index == 1
        assert [entry.response for entry in session.calls] == ["first", "next"]
    assert [text for _, text in scripted.runs] == ["first", "next"]
    assert lone_envelopes(scripted, session.channel_id) == 2


async def outstanding_for(
    session: PaidSession, operator: ScriptedOperator, code: str, **facts: JsonValue
) -> str:
    operator.lies.refuse_unrecorded = [(code, facts)] * 6
    with pytest.raises(AioumError) as caught:
        await session.call("echo", text="2")
    operator.lies.refuse_unrecorded = []
    assert session.outstanding
    return caught.value.code


async def test_a_node_that_claims_another_position_without_receipts_is_not_believed(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        await session.call("echo", text="1")
        head, foreign = session.heads[CLIENT_SEAT], encode_base64(bytes(32))
        ahead = await outstanding_for(
            session, scripted, "cursor-out-of-order", expectedIndex=2, expectedHead=head
        )
        assert ahead == "cursor-out-of-order"
        await session.recover()
        head = session.heads[CLIENT_SEAT]
        behind = await outstanding_for(session, scripted, "cursor-out-of-order", expectedIndex=0)
        assert behind == "node-behind"
        await session.recover()
        other = await outstanding_for(
            session, scripted, "head-mismatch", expectedIndex=3, expectedHead=foreign
        )
        assert other == "head-mismatch"
        await session.recover()
        assert (session.stopped, session.evidence, len(session.calls)) == (None, (), 4)
    assert lone_envelopes(scripted, session.channel_id) == 4


async def test_a_node_that_lacks_the_roster_is_shown_it_again(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace(settings={"retry_attempts": 1}) as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        scripted.lies.refuse_unrecorded = [("roster-required", {})]
        await session.call("echo", text="2")
        assert scripted.lies.refuse_unrecorded == []
        assert [call.index for call in session.results] == [0, 1]


async def test_a_node_that_lost_what_it_gave_receipts_for_is_behind_and_gets_no_other_envelope(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        roster = scripted.rosters.pop(session.channel_id)
        del scripted.states[session.channel_id]
        for _ in range(2):
            with pytest.raises(OutcomeUnknown) as caught:
                await session.call("echo", text="2")
            assert code_of(caught) == "node-behind"
        assert scripted.rosters[session.channel_id] == roster
        assert lone_envelopes(scripted, session.channel_id) == 2


async def test_a_position_that_agrees_with_ours_is_asked_for_again(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market, market.open(scripted.url, deposit=10_000) as session:
        head: JsonValue = session.heads[CLIENT_SEAT]
        facts: dict[str, JsonValue] = {"expectedIndex": 0, "expectedHead": head}
        scripted.lies.refuse_unrecorded = [("head-mismatch", facts)]
        assert (await session.call("echo", text="1")).index == 0


async def test_another_call_at_our_position_in_the_operators_record_is_evidence(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=10_000)
        await session.call("echo", text="1")
        invented = scripted.calls[session.channel_id][0].request
        scripted.lies.refuse = [(409, "submission-conflict")]
        scripted.lies.shown = lambda call: recorded_as(call, request=invented)
        with pytest.raises(Divergence) as caught:
            await session.call("echo", text="2")
        assert code_of(caught) == session.stopped == "unknown-call-recorded"
        (evidence,) = session.evidence
        assert [signed.receipt.index for signed in evidence.receipts] == [1]
        assert session.outstanding


def spoil(call: Call, part: str) -> Call:
    assert call.envelope is not None
    assert call.answer is not None
    if part == "request":
        return replace(call, request=call.request.replace(b"2", b"7"))
    if part == "response":
        return replace(call, answer=replace(call.answer, response=b"7"))
    envelope = call.envelope
    return replace(call, envelope=replace(envelope, submission_id="7", signature=envelope.signature[::-1]))


@pytest.mark.parametrize("part", ["request", "response", "submission"])
async def test_a_record_that_is_altered_on_the_way_accuses_nobody(
    part: str, marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace(settings={"retry_attempts": 2}) as market:
        session = await market.open(scripted.url, deposit=10_000)
        scripted.lies.shown = lambda call: spoil(call, part)
        scripted.lies.refuse = [(409, "submission-conflict")] * 2
        if part == "submission":
            # Receipt and request are what counts, and no other envelope of our seat is shown.
            assert (await session.call("echo", text="2")).text == "2"
        else:
            with pytest.raises(OutcomeUnknown) as caught:
                await session.call("echo", text="2")
            assert code_of(caught) == "answer-altered"
        assert (session.stopped, session.evidence) == (None, ())
        scripted.lies = type(scripted.lies)()
        assert (await session.call("echo", text="3")).index == 1
    assert lone_envelopes(scripted, session.channel_id) == 2
