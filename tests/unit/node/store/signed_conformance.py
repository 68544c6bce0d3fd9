"""What every adapter of the store port must do with signed sessions: rosters, heads, envelopes, evidence."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import Refused
from aioum.core.ledger import Admitted, Call, Repeat, finalize
from aioum.core.seats import NO_SEATS
from aioum.core.submission.envelope import Envelope
from aioum_node.store.port import MAX_EQUIVOCATIONS, Store
from tests.pens import ROSTER, Pen
from tests.unit.node.store.conformance import StoreConformance, refused
from tests.unit.node.store.samples import (
    NOW_MS,
    PRICE,
    answer,
    channel,
    facts,
    opened,
    request,
    signed_facts,
)


async def opened_signed(store: Store, number: int = 2) -> Pen:
    await store.open(signed_facts(number), opened(number, signed=True), NOW_MS)
    return Pen(channel(number))


async def asked(store: Store, pen: Pen, cursor: int, text: str = "{}", **changes: Any) -> Call:
    """An admitted and answered call."""
    envelope = pen.sign(text.encode(), cursor, **changes)
    wanted = request((cursor + 1) * PRICE, text=text, envelope=envelope)
    step = await store.admit(pen.channel_id, wanted, NOW_MS)
    assert isinstance(step, Admitted)
    return (await store.record(pen.channel_id, cursor, answer(), NOW_MS)).call


class SignedSessionConformance(StoreConformance):
    """Adds to StoreConformance what only signed sessions have."""

    async def refusal(self, store: Store, pen: Pen, envelope: Envelope | None, text: str = "{}") -> Refused:
        with pytest.raises(Refused) as caught:
            await store.admit(pen.channel_id, request(90 * PRICE, text=text, envelope=envelope), NOW_MS)
        return caught.value

    async def test_a_roster_and_the_heads_of_its_seats_survive_a_restart(
        self, store: Store, tmp_path: Path
    ) -> None:
        client = await opened_signed(store)
        researcher = Pen(channel(2), "researcher")
        untouched = researcher.head
        await asked(store, client, 0)
        await asked(store, client, 1)
        store = await self.reopened(store, tmp_path)
        stored = await store.session(channel(2))
        assert stored is not None
        assert stored.facts.roster == ROSTER
        assert [stored.state.seats.head(seat) for seat in ROSTER.seats] == [client.head, untouched]
        await asked(store, researcher, 2)
        await asked(store, client, 3)
        calls = await store.calls(channel(2), 0, 9)
        await store.close()
        seats = [call.envelope.seat for call in calls if call.envelope is not None]
        assert seats == ["client", "client", "researcher", "client"]

    async def test_an_envelope_is_durable_with_its_call(self, store: Store, tmp_path: Path) -> None:
        pen = await opened_signed(store)
        envelope = pen.sign(b"{}", 0, client_time=2**53 - 1)
        await store.admit(channel(2), request(PRICE, envelope=envelope), NOW_MS)
        store = await self.reopened(store, tmp_path)
        (call,) = await store.calls(channel(2), 0, 9)
        unrecorded = await store.unrecorded()
        await store.close()
        assert call.envelope == envelope
        assert unrecorded == [(channel(2), call)]

    async def test_a_roster_that_was_not_shown_at_first_is_taken_over_once(
        self, store: Store, tmp_path: Path
    ) -> None:
        waiting = replace(opened(2, signed=True), seats=NO_SEATS)
        await store.open(facts(2, signed=True), waiting, NOW_MS)
        pen = Pen(channel(2))
        assert (await self.refusal(store, pen, pen.draft(b"{}", 0))).code == "roster-required"
        shown = await store.open(signed_facts(2), opened(2, signed=True, deposit=1), NOW_MS + 1)
        assert (shown.facts.roster, shown.state) == (ROSTER, opened(2, signed=True))
        await asked(store, pen, 0)
        await store.open(signed_facts(2), opened(2, signed=True), NOW_MS + 2)
        store = await self.reopened(store, tmp_path)
        stored = await store.session(channel(2))
        await store.close()
        assert stored is not None
        assert stored.facts == signed_facts(2)
        assert stored.state.seats.head("client") == pen.head

    async def test_the_same_envelope_finds_its_call_whatever_else_came_since(self, store: Store) -> None:
        pen = await opened_signed(store)
        first, second = await asked(store, pen, 0), await asked(store, pen, 1)
        for call in (first, second):
            again = request(9, envelope=call.envelope)
            assert await store.admit(channel(2), again, NOW_MS) == Repeat(call)
        assert await store.equivocations(channel(2)) == []

    async def test_a_second_valid_signature_of_the_same_bytes_is_a_repeat(self, store: Store) -> None:
        pen = await opened_signed(store)
        call = await asked(store, pen, 0)
        assert call.envelope is not None
        other = replace(call.envelope, signature=b"\x01" * 64)
        assert await store.admit(channel(2), request(9, envelope=other), NOW_MS) == Repeat(call)

    async def test_a_call_out_of_turn_hears_what_is_expected_of_its_seat(self, store: Store) -> None:
        pen = await opened_signed(store)
        genesis = pen.head
        await asked(store, pen, 0)
        stale = await self.refusal(
            store, pen, Pen(channel(2), "researcher").draft(b"{}", 1, prev_head=pen.head)
        )
        early = await self.refusal(store, pen, pen.draft(b"{}", 3))
        stranger = await self.refusal(store, pen, pen.draft(b"{}", 1, seat="auditor"))
        assert (stale.code, stale.details["expectedIndex"]) == ("head-mismatch", 1)
        assert stale.details["expectedHead"] != early.details["expectedHead"]
        assert (early.code, early.details["expectedIndex"]) == ("cursor-out-of-order", 1)
        assert stranger.code == "seat-unknown"
        assert pen.head != genesis
        assert await store.equivocations(channel(2)) == []

    async def test_a_call_without_an_envelope_and_one_with_an_envelope_elsewhere_are_refused(
        self, store: Store
    ) -> None:
        pen = await opened_signed(store)
        assert (await self.refusal(store, pen, None)).code == "signature-required"
        unsigned = Pen(channel(1))
        assert (await self.refusal(store, unsigned, unsigned.draft(b"{}", 0))).code == "session-unsigned"

    @pytest.mark.parametrize("since", ["nothing", "a-restart", "a-removal"])
    async def test_a_second_envelope_under_one_name_is_refused_and_kept(
        self, store: Store, tmp_path: Path, since: str
    ) -> None:
        pen = await opened_signed(store)
        genesis = pen.head
        first = await asked(store, pen, 0, submission_id="first")
        await asked(store, pen, 1)
        if since == "a-restart":
            store = await self.reopened(store, tmp_path)
        if since == "a-removal":
            # Where an adapter indexes late, this is when it has to.
            await store.update(channel(1), finalize, NOW_MS)
            await store.released(channel(1))
            await store.delete(channel(1))
        same_position = pen.draft(b"[]", 0, prev_head=genesis)
        same_head = pen.draft(b"[1]", 2, prev_head=genesis)
        same_id = pen.draft(b"[2]", 2, submission_id="first")
        for envelope, text in ((same_position, "[]"), (same_head, "[1]"), (same_id, "[2]")):
            refusal = await self.refusal(store, pen, envelope, text)
            assert (refusal.code, refusal.details["expectedIndex"]) == ("submission-conflict", 2)
            assert (await self.refusal(store, pen, envelope, text)).code == "submission-conflict"
            claimed = await store.claimed(channel(2), envelope)
            assert claimed is not None
            assert (claimed.index, claimed.envelope) == (0, first.envelope)
        store = await self.reopened(store, tmp_path)
        found = await store.equivocations(channel(2))
        assert [(item.index, item.envelope, item.request) for item in found] == [
            (0, same_position, b"[]"),
            (0, same_head, b"[1]"),
            (0, same_id, b"[2]"),
        ]
        assert {(item.tool_id, item.seen_at_ms) for item in found} == {("echo", NOW_MS)}
        # The session itself goes on as if nothing had been asked.
        await asked(store, pen, 2)
        await store.close()

    async def test_names_are_a_seats_own_and_a_sessions_own(self, store: Store) -> None:
        pen, researcher = await opened_signed(store), Pen(channel(2), "researcher")
        other = await opened_signed(store, 3)
        await asked(store, pen, 0, submission_id="one")
        await asked(store, researcher, 1, submission_id="one")
        await asked(store, other, 0, submission_id="one")
        assert await store.claimed(channel(2), pen.draft(b"", 2, submission_id="two")) is None
        assert await store.claimed(channel(9), pen.draft(b"", 2, submission_id="one")) is None

    async def test_no_more_evidence_than_the_limit_is_kept_of_a_session(self, store: Store) -> None:
        pen = await opened_signed(store)
        genesis = pen.head
        await asked(store, pen, 0)
        for number in range(MAX_EQUIVOCATIONS + 2):
            envelope = pen.draft(b"%d" % number, 0, prev_head=genesis)
            assert (await self.refusal(store, pen, envelope, f"{number}")).code == "submission-conflict"
        found = await store.equivocations(channel(2))
        assert [item.request for item in found] == [b"%d" % number for number in range(MAX_EQUIVOCATIONS)]

    async def test_of_two_envelopes_on_one_head_at_once_one_is_admitted_and_the_other_kept(
        self, store: Store
    ) -> None:
        pen = await opened_signed(store)
        drafts = [pen.draft(b"%d" % number, 0) for number in range(2)]
        steps = await asyncio.gather(
            *(
                store.admit(channel(2), request(PRICE, text=f"{number}", envelope=draft), NOW_MS)
                for number, draft in enumerate(drafts)
            ),
            return_exceptions=True,
        )
        assert isinstance(steps[0], Admitted)
        assert isinstance(steps[1], Refused)
        assert steps[1].code == "submission-conflict"
        assert [item.envelope for item in await store.equivocations(channel(2))] == drafts[1:]

    async def test_a_removed_session_takes_everything_signed_with_it(
        self, store: Store, tmp_path: Path
    ) -> None:
        pen, other = await opened_signed(store), await opened_signed(store, 3)
        genesis = pen.head
        await asked(store, pen, 0, submission_id="one")
        await asked(store, other, 0, submission_id="one")
        await self.refusal(store, pen, pen.draft(b"[]", 0, prev_head=genesis), "[]")
        await store.update(channel(2), finalize, NOW_MS)
        await store.released(channel(2))
        await store.delete(channel(2))
        assert await store.equivocations(channel(2)) == []
        store = await self.reopened(store, tmp_path)
        fresh = await opened_signed(store)
        call = await asked(store, fresh, 0, submission_id="one")
        assert await store.equivocations(channel(2)) == []
        assert await store.calls(channel(2), 0, 9) == [call]
        again = other.draft(b"[]", 1, submission_id="one")
        assert await refused(store.admit(channel(3), request(99, text="[]", envelope=again), NOW_MS)) == (
            "submission-conflict"
        )
        await store.close()
