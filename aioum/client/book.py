"""One session in memory, always equal to the journal: every change is durable before anyone acts on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from aioum.client.journal import Journal, in_use
from aioum.client.records import CallPhase, CallRecord, Evidence, SessionFacts, SessionPhase, SessionRecord
from aioum.client.sqlite_writer import JournalError
from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.purse import (
    PurseState,
    abandon_call,
    accept_answer,
    observe_deposit,
    open_call,
    stop_paying,
)
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.transcript import Entry
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import JsonObject, SignedReceipt, SignedStatement

_MAX_DETAIL_CHARACTERS: Final = 65_536


class Book:
    """A session's record and its calls. Its writes come one after the other, whoever asks for them.

    Calls that are under way together answer, stop and accuse side by side: these steps derive from the record
    as it is when it is their turn. The others are for whoever has the session to himself.
    """

    def __init__(self, journal: Journal, record: SessionRecord, now_ms: Callable[[], int]) -> None:
        """Args: record: as the journal returned it; a session with calls is read by `load`."""
        self._journal = journal
        self._now_ms = now_ms
        self.record = record
        self._calls: dict[int, CallRecord] = {}
        self._entries: list[Entry] = []
        self._answered: list[CallRecord] = []
        self._by_index: dict[int, CallRecord] = {}
        self._newest: CallRecord | None = None
        self._writing = asyncio.Lock()
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
        """The transcript up to the first call without an answer."""
        return tuple(self._entries)

    @property
    def answered(self) -> list[CallRecord]:
        """Answered calls up to the first without an answer, by index."""
        return self._answered

    @property
    def newest_receipt(self) -> SignedReceipt | None:
        """That of the answered call with the highest index, also beyond one without an answer."""
        return None if self._newest is None else self._newest.receipt

    def answered_at(self, index: int) -> CallRecord | None:
        """The answered call of an index, or None."""
        return self._by_index.get(index)

    @property
    def made(self) -> list[CallRecord]:
        """Every call a voucher was signed for, in that order."""
        return list(self._calls.values())

    @property
    def abandoned(self) -> list[CallRecord]:
        """Calls given up, in the order they were signed."""
        return [call for call in self._calls.values() if call.phase is CallPhase.ABANDONED]

    @property
    def open(self) -> list[CallRecord]:
        """Calls without an answer, by index."""
        return [self._calls[call.index if self.purse.signed else call.amount] for call in self.purse.open]

    @property
    def outstanding(self) -> CallRecord | None:
        """The first call without an answer, or None."""
        unanswered = self.open
        return unanswered[0] if unanswered else None

    @property
    def seats(self) -> Seats:
        """Every seat's head after all that it signed, answered or not; none in an unsigned session."""
        return self._seats

    @property
    def retained_heads(self) -> dict[str, Bytes32]:
        """Each seat's head before its first call without an answer: what the operator receipted, it cannot
        take back.
        """
        heads = {item.seat: item.head for item in self._seats.heads}
        for call in reversed(self.open):
            if call.envelope is not None:
                heads[call.envelope.seat] = call.envelope.prev_head
        return heads

    def require_outstanding(self) -> CallRecord:
        """The call without an answer. Raises InvalidInput `nothing-outstanding`."""
        outstanding = self.outstanding
        if outstanding is None:
            raise InvalidInput("no call of the session is outstanding", code="nothing-outstanding")
        return outstanding

    async def refresh(self) -> None:
        """Read the session again where a write was interrupted, so that nobody knows here what it did."""
        async with self._writing:
            await self._refresh()

    async def _refresh(self) -> None:
        if self._stale:
            record = await self._journal.load(self.record.channel_id)
            if record is None:
                raise _unknown(self.record.channel_id)
            self.record = record
            await self._read_calls()
            self._stale = False

    async def begin(self, call: CallRecord) -> None:
        """Make a signed call durable. It may be sent after this, and not before. One task at a time begins
        calls.

        Raises:
            JournalError: as `Journal.save`.
        """

        def change(record: SessionRecord) -> SessionRecord:
            if call.call.index != record.purse.made:
                raise in_use(record.channel_id)
            return replace(record, purse=open_call(record.purse, call.call))

        async with self._writing:
            await self._save(change, call)
            self._advance(call)

    async def answer(self, call: CallRecord) -> None:
        """Make an answer durable that `accept_answer` takes: the state after it, the node's adoption of the
        session, the call.
        """
        response, signed = call.response, call.receipt
        if response is None or signed is None:
            raise InvalidInput(f"call {call.call.index} has no answer", code="call-not-answered")
        async with self._writing:
            await self._refresh()
            kept = self._calls.get(call.number)
            if kept is not None and kept.phase is CallPhase.ANSWERED:
                # Another program has the session too, and was first.
                return
            await self._save(
                lambda record: replace(
                    record,
                    purse=accept_answer(record.purse, call.call, response, signed.receipt),
                    adopted=True,
                ),
                call,
            )
            self._append(call)

    async def adopt(self, purse: PurseState, call: CallRecord) -> None:
        """Make an answer durable of a call that may be one that another copy of this record signed."""
        async with self._writing:
            missed = call.number not in self._calls
            await self._save(lambda record: replace(record, purse=purse, adopted=True), call)
            if missed:
                self._advance(call)
            self._append(call)

    async def abandon(self, stop: AioumError | None = None) -> None:
        """Give up the outstanding call; with `stop`, also stop paying for that reason."""
        outstanding = self.require_outstanding()
        purse = abandon_call(self.purse)
        purse = purse if stop is None else stop_paying(purse, stop)
        async with self._writing:
            await self._save(
                lambda record: replace(record, purse=purse),
                replace(outstanding, phase=CallPhase.ABANDONED),
            )

    async def stop(self, error: AioumError) -> None:
        """Stop paying for good; the first reason stays."""
        await self._change(lambda record: replace(record, purse=stop_paying(record.purse, error)))

    async def observe(self, deposit: int, ended: AioumError | None) -> None:
        """Take over the deposit as the chain has it, base units; stop paying where the session `ended`."""

        def change(record: SessionRecord) -> SessionRecord:
            purse = observe_deposit(record.purse, deposit)
            return replace(record, purse=purse if ended is None else stop_paying(purse, ended))

        await self._change(change)

    async def keep_statement(self, purse: PurseState, statement: SignedStatement) -> None:
        """Keep a statement that agreed with our record."""
        async with self._writing:
            await self._save(lambda record: replace(record, purse=purse, statement=statement))

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

        def change(record: SessionRecord) -> SessionRecord:
            if any(
                (item.code, item.detail, item.receipts) == (error.code, proof, receipts)
                for item in record.evidence
            ):
                return record
            purse = stop_paying(record.purse, error)
            return replace(record, purse=purse, evidence=(*record.evidence, evidence))

        await self._change(change)

    async def update(self, **changes: Any) -> None:
        """Change members of the record; nothing is written where nothing changes."""
        await self._change(lambda record: replace(record, **changes))

    async def enter(self, phase: SessionPhase) -> None:
        """Make a phase durable before the step it names."""
        await self.update(phase=phase)

    async def _change(self, change: Callable[[SessionRecord], SessionRecord]) -> None:
        """A step without calls; nothing is written where nothing changes."""
        async with self._writing:
            await self._refresh()
            if change(self.record) != self.record:
                await self._save(change)

    async def _save(self, change: Callable[[SessionRecord], SessionRecord], *calls: CallRecord) -> None:
        await self._refresh()
        record = change(self.record)
        # Canceled in between, the write may or may not be done: the next step finds out first.
        self._stale = True
        self.record = await self._journal.save(record, calls)
        self._stale = False
        for call in calls:
            self._calls[call.number] = call

    async def _read_calls(self) -> None:
        self._calls = {call.number: call for call in await self._journal.calls(self.record.channel_id)}
        self._answered, self._entries, self._by_index, self._newest = [], [], {}, None
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
        self._by_index[call.call.index] = call
        if self._newest is None or call.call.index > self._newest.call.index:
            self._newest = call
        while (following := self._by_index.get(len(self._answered))) is not None:
            self._answered.append(following)
            self._entries.append(following.entry())


def _unknown(channel_id: ChannelId) -> JournalError:
    return JournalError(
        f"no session {to_hex(channel_id)} in this data directory",
        code="session-unknown",
        hint="list the sessions, or name the data directory it was opened with",
    )
