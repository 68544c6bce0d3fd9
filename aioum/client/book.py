"""One session in memory, always equal to the journal: every change is durable before anyone acts on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from aioum.client.journal import Journal
from aioum.client.records import CallPhase, CallRecord, Evidence, SessionFacts, SessionPhase, SessionRecord
from aioum.client.sqlite_writer import JournalError
from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.purse import PurseState, abandon_call, stop_paying
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.transcript import Entry
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import JsonObject, SignedReceipt, SignedStatement

_MAX_DETAIL_CHARACTERS: Final = 65_536


class Book:
    """A session's record and its calls. One task at a time may write; the session's lock sees to that."""

    def __init__(self, journal: Journal, record: SessionRecord, now_ms: Callable[[], int]) -> None:
        """Args: record: as the journal returned it; a session with calls is read by `load`."""
        self._journal = journal
        self._now_ms = now_ms
        self.record = record
        self._calls: dict[int, CallRecord] = {}
        self._entries: list[Entry] = []
        self._answered: list[CallRecord] = []
        self._seats = self._untouched_seats()
        self._stale = False

    @classmethod
    async def load(cls, journal: Journal, channel_id: ChannelId, now_ms: Callable[[], int]) -> Book:
        """Read a session.

        Raises:
            JournalError: `session-unknown`.
        """
        record = await journal.load(channel_id)
        if record is None:
            raise _unknown(channel_id)
        book = cls(journal, record, now_ms)
        await book._read_calls()
        return book

    @property
    def facts(self) -> SessionFacts:
        """What was fixed at opening."""
        return self.record.facts

    @property
    def purse(self) -> PurseState:
        """The accounting state."""
        return self.record.purse

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The transcript so far."""
        return tuple(self._entries)

    @property
    def answered(self) -> list[CallRecord]:
        """Answered calls by index."""
        return self._answered

    @property
    def made(self) -> list[CallRecord]:
        """Every call a voucher was signed for, in that order."""
        return list(self._calls.values())

    @property
    def abandoned(self) -> list[CallRecord]:
        """Calls given up, in the order they were signed."""
        return [call for call in self._calls.values() if call.phase is CallPhase.ABANDONED]

    @property
    def outstanding(self) -> CallRecord | None:
        """The call without an answer, or None."""
        call = self.purse.outstanding
        if call is None:
            return None
        return self._calls[call.index if self.purse.signed else call.amount]

    @property
    def seats(self) -> Seats:
        """Every seat's head after all that it signed, answered or not; none in an unsigned session."""
        return self._seats

    @property
    def retained_heads(self) -> dict[str, Bytes32]:
        """Each seat's head after its answered calls: what the operator receipted, it cannot take back."""
        heads = {item.seat: item.head for item in self._seats.heads}
        outstanding = self.outstanding
        if outstanding is not None and outstanding.envelope is not None:
            heads[outstanding.envelope.seat] = outstanding.envelope.prev_head
        return heads

    def require_outstanding(self) -> CallRecord:
        """The call without an answer. Raises InvalidInput `nothing-outstanding`."""
        outstanding = self.outstanding
        if outstanding is None:
            raise InvalidInput("no call of the session is outstanding", code="nothing-outstanding")
        return outstanding

    async def refresh(self) -> None:
        """Read the session again where a write was interrupted, so that nobody knows here what it did."""
        if self._stale:
            record = await self._journal.load(self.record.channel_id)
            if record is None:
                raise _unknown(self.record.channel_id)
            self.record = record
            await self._read_calls()
            self._stale = False

    async def begin(self, purse: PurseState, call: CallRecord) -> None:
        """Make a signed call durable. It may be sent after this, and not before."""
        await self._save(replace(self.record, purse=purse), call)
        self._advance(call)

    async def answer(self, purse: PurseState, call: CallRecord) -> None:
        """Make an accepted answer durable: the state after it, the node's adoption of the session, the call,
        which may be one that another copy of this record signed.
        """
        missed = call.number not in self._calls
        await self._save(replace(self.record, purse=purse, adopted=True), call)
        if missed:
            self._advance(call)
        self._append(call)

    async def abandon(self, stop: AioumError | None = None) -> None:
        """Give up the outstanding call; with `stop`, also stop paying for that reason."""
        outstanding = self.require_outstanding()
        purse = abandon_call(self.purse)
        purse = purse if stop is None else stop_paying(purse, stop)
        await self._save(replace(self.record, purse=purse), replace(outstanding, phase=CallPhase.ABANDONED))

    async def stop(self, error: AioumError) -> None:
        """Stop paying for good; the first reason stays."""
        await self.update(purse=stop_paying(self.purse, error))

    async def keep_statement(self, purse: PurseState, statement: SignedStatement) -> None:
        """Keep a statement that agreed with our record."""
        await self._save(replace(self.record, purse=purse, statement=statement))

    async def diverge(
        self, error: AioumError, receipts: tuple[SignedReceipt, ...] = (), **detail: JsonValue
    ) -> None:
        """Stop paying and keep what proves why. The caller raises `error`."""
        # What is shown beside the signed words may be shortened; the words themselves never are.
        proof: JsonObject = {
            name: value[:_MAX_DETAIL_CHARACTERS] if isinstance(value, str) else value
            for name, value in detail.items()
        }
        evidence = Evidence(error.code, str(error), self._now_ms(), proof, receipts)
        error.details.update(proof, receipts=[receipt.header() for receipt in receipts])
        if any(
            (item.code, item.detail, item.receipts) == (error.code, proof, receipts)
            for item in self.record.evidence
        ):
            return
        await self._save(
            replace(
                self.record,
                purse=stop_paying(self.purse, error),
                evidence=(*self.record.evidence, evidence),
            )
        )

    async def update(self, **changes: Any) -> None:
        """Change members of the record that are not money; nothing is written where nothing changes."""
        changed = replace(self.record, **changes)
        if changed != self.record:
            await self._save(changed)

    async def enter(self, phase: SessionPhase) -> None:
        """Make a phase durable before the step it names."""
        await self.update(phase=phase)

    async def _save(self, record: SessionRecord, *calls: CallRecord) -> None:
        # Canceled in between, the write may or may not be done: `refresh` finds out before the next step.
        self._stale = True
        self.record = await self._journal.save(record, calls)
        self._stale = False
        for call in calls:
            self._calls[call.number] = call

    async def _read_calls(self) -> None:
        self._calls = {call.number: call for call in await self._journal.calls(self.record.channel_id)}
        self._answered, self._entries = [], []
        self._seats = self._untouched_seats()
        last = {call.envelope.seat: call for call in self._calls.values() if call.envelope is not None}
        for call in last.values():
            self._advance(call)
        answered = (call for call in self._calls.values() if call.phase is CallPhase.ANSWERED)
        for call in sorted(answered, key=lambda call: call.call.index):
            self._append(call)

    def _untouched_seats(self) -> Seats:
        roster = self.facts.roster
        return NO_SEATS if roster is None else Seats.at_genesis(self.record.channel_id, roster)

    def _advance(self, call: CallRecord) -> None:
        if call.envelope is not None:
            submission = call.envelope.submission(self.record.channel_id, call.call.request)
            self._seats = self._seats.after(submission)

    def _append(self, call: CallRecord) -> None:
        self._answered.append(call)
        self._entries.append(call.entry())


def _unknown(channel_id: ChannelId) -> JournalError:
    return JournalError(
        f"no session {to_hex(channel_id)} in this data directory",
        code="session-unknown",
        hint="list the sessions, or name the data directory it was opened with",
    )
