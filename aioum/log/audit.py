"""Holding a log against the chain: which final sessions it has, which it lacks, and what it says beside them.

Nothing here reads a chain or a log; both are handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.types import Address, ChannelId
from aioum.log.entry import CapsuleEntry, SessionEntry, read_entry

MAX_OUTSTANDING: Final = 1_000_000
"""Most sessions that wait for an entry, and most entries that wait for a session; about a gigabyte."""


class Level(StrEnum):
    """How much a remark weighs."""

    ALERT = "alert"
    """Somebody has to look: as far as this can be told, the operator broke a promise."""
    PENDING = "pending"
    """Not yet decided: time will tell."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that was seen.

    Attributes:
        code: stable reason code.
        level: its weight.
        text: for a person.
        facts: for a program; with `text` they name the subject, so that the same thing is the same remark.
    """

    code: str
    level: Level
    text: str
    facts: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FinalSession:
    """A session that is over on-chain, at finality depth.

    Attributes:
        entry: what the log has to say of it.
        block_number: where it became final.
        max_delay_seconds: what the operator promised when this was first seen. It cannot be taken back.
    """

    entry: SessionEntry
    block_number: int
    max_delay_seconds: int


@dataclass(frozen=True, slots=True)
class LoggedSession:
    """An entry of a log, and its place."""

    origin: str
    index: int
    entry: SessionEntry


@dataclass(frozen=True, slots=True)
class WrongEntry:
    """An entry that does not belong where it is.

    Attributes:
        origin: of its log.
        index: its place there.
        data: the entry as it is written.
        remark: what is wrong with it.
    """

    origin: str
    index: int
    data: bytes
    remark: Remark


@dataclass(frozen=True, slots=True)
class Standing:
    """What the chain says of a channel at some block.

    Attributes:
        operator: of the terms that it was opened under; zero for a plain channel.
        entry: what a log would have to say of it.
        is_final: whether it is over.
    """

    operator: Address
    entry: SessionEntry
    is_final: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entries there were.

    Attributes:
        matched: that said what the chain says.
        capsules: of runs, which no chain knows.
        elsewhere: of other chains or contracts.
    """

    matched: int = 0
    capsules: int = 0
    elsewhere: int = 0


class Coverage:
    """Sessions and entries, matched one by one, in whatever order they come.

    Attributes:
        missing: final sessions without an entry so far.
        strangers: entries without a final session so far, by origin and index; `judge_stranger` says what
            they are.
    """

    def __init__(
        self,
        missing: Iterable[FinalSession] = (),
        strangers: Iterable[LoggedSession] = (),
        counts: Counts | None = None,
    ) -> None:
        self.missing = {session.entry.channel_id: session for session in missing}
        self.strangers = {(logged.origin, logged.index): logged for logged in strangers}
        self._ahead: dict[ChannelId, LoggedSession] = {}
        for logged in self.strangers.values():
            self._ahead.setdefault(logged.entry.channel_id, logged)
        self._counts = counts or Counts()

    @property
    def counts(self) -> Counts:
        """How many entries there were so far."""
        return self._counts

    def expect(self, session: FinalSession) -> WrongEntry | None:
        """A session became final. The entry that the log has of it, where the two contradict each other.

        Raises:
            InvalidInput: `audit-too-large`.
        """
        logged = self._ahead.pop(session.entry.channel_id, None)
        if logged is None:
            self.missing[session.entry.channel_id] = session
            _require_bounded(self.missing)
            return None
        del self.strangers[logged.origin, logged.index]
        return self._match(logged, session.entry)

    def see(self, origin: str, index: int, data: bytes, chain: tuple[int, Address]) -> WrongEntry | None:
        """The log has an entry. The same, where it is none, or contradicts a final session.

        Args:
            origin: of the log.
            index: of the entry.
            data: the entry.
            chain: chain id and PaymentManager of the sessions that are held against the log.

        Raises:
            InvalidInput: `audit-too-large`.
        """
        try:
            entry = read_entry(data)
        except AioumError as error:
            facts: dict[str, JsonValue] = {"origin": origin, "index": index}
            remark = Remark(error.code, Level.ALERT, f"entry {index} of {origin}: {error}", facts)
            return WrongEntry(origin, index, data, remark)
        if isinstance(entry, CapsuleEntry):
            self._counts = replace(self._counts, capsules=self._counts.capsules + 1)
            return None
        if (entry.chain_id, entry.payment_manager) != chain:
            self._counts = replace(self._counts, elsewhere=self._counts.elsewhere + 1)
            return None
        logged = LoggedSession(origin, index, entry)
        session = self.missing.pop(entry.channel_id, None)
        if session is not None:
            return self._match(logged, session.entry)
        self.strangers[origin, index] = logged
        # Of two entries the first waits for the session; the second is judged by itself.
        self._ahead.setdefault(entry.channel_id, logged)
        _require_bounded(self.strangers)
        return None

    def accept(self, logged: LoggedSession) -> None:
        """An entry is right, and its session had one in another log: wait no longer."""
        self.drop(logged)
        self._counts = replace(self._counts, matched=self._counts.matched + 1)

    def drop(self, logged: LoggedSession) -> None:
        """Wait no longer for the session of an entry."""
        del self.strangers[logged.origin, logged.index]
        if self._ahead.get(logged.entry.channel_id) == logged:
            del self._ahead[logged.entry.channel_id]

    def _match(self, logged: LoggedSession, expected: SessionEntry) -> WrongEntry | None:
        if logged.entry == expected:
            self._counts = replace(self._counts, matched=self._counts.matched + 1)
            return None
        remark = _contradiction(logged, expected)
        # An entry that was read is spelled in the one way in which it can be.
        return WrongEntry(logged.origin, logged.index, logged.entry.to_bytes(), remark)


def judge_stranger(
    logged: LoggedSession, operator: Address, newest: Standing | None, *, repeated: bool
) -> Remark | None:
    """What an entry is whose session is not among those that wait; None: it is right. Then it is early, or
    another log of the operator had the session before.

    Args:
        logged: the entry.
        operator: whose log it is.
        newest: what the chain says at the newest block; None: it does not know the channel.
        repeated: whether the same log has an entry of the session before this one.
    """
    channel, place = to_hex(logged.entry.channel_id), f"entry {logged.index} of {logged.origin}"
    facts: dict[str, JsonValue] = {
        "origin": logged.origin, "index": logged.index, "channelId": channel,
    }  # fmt: skip
    if newest is None:
        text = f"{place} is of channel {channel}, which was never opened"
        return Remark("log-entry-unknown", Level.ALERT, text, facts)
    if newest.operator != operator:
        text = f"{place} is of session {newest.entry.session_id} of another operator"
        return Remark("log-entry-foreign", Level.ALERT, text, facts)
    if not newest.is_final:
        text = f"{place} calls session {newest.entry.session_id} final, which is open"
        return Remark("log-entry-premature", Level.ALERT, text, facts)
    if repeated:
        text = f"{place} is of session {newest.entry.session_id}, which had its entry before"
        return Remark("log-entry-duplicate", Level.ALERT, text, facts)
    return None if logged.entry == newest.entry else _contradiction(logged, newest.entry)


def judge_missing(
    missing: Iterable[FinalSession],
    final_at: Mapping[int, int],
    now: int,
    max_delay_seconds: int | None = None,
    *,
    read_whole: bool = True,
) -> list[Remark]:
    """Say of each session without an entry whether there is time left for it.

    Args:
        missing: sessions without an entry in a log that was read after `now`.
        final_at: when sessions of these blocks got their finality depth, unix seconds by the chain's clock.
        now: likewise, the newest block's.
        max_delay_seconds: to judge by, in place of what the operator promised for each.
        read_whole: False where not all of its logs could be read this time.
    """
    remarks, where = [], "the log" if read_whole else "what could be read of the log"
    for session in sorted(missing, key=lambda session: (session.block_number, session.entry.session_id)):
        entry, since = session.entry, final_at[session.block_number]
        due = since + (session.max_delay_seconds if max_delay_seconds is None else max_delay_seconds)
        late = now > due
        text = f"session {entry.session_id} is final since {_time(since)} and not in {where}; " + (
            f"it had to be by {_time(due)}" if late else f"there is time until {_time(due)}"
        )
        facts: dict[str, JsonValue] = {
            "sessionId": str(entry.session_id),
            "channelId": to_hex(entry.channel_id),
            "captured": str(entry.captured),
            "resultsRoot": to_hex(entry.results_root),
            "blockNumber": session.block_number,
            "finalAt": since,
            "dueAt": due,
        }
        remarks.append(
            Remark("session-missing", Level.ALERT, text, facts)
            if late
            else Remark("pending", Level.PENDING, text, facts)
        )
    return remarks


def _contradiction(logged: LoggedSession, expected: SessionEntry) -> Remark:
    said = logged.entry
    differing: dict[str, JsonValue] = {
        name: {"log": ours, "chain": theirs}
        for name, ours, theirs in (
            ("sessionId", str(said.session_id), str(expected.session_id)),
            ("callCount", said.call_count, expected.call_count),
            ("captured", str(said.captured), str(expected.captured)),
            ("resultsRoot", to_hex(said.results_root), to_hex(expected.results_root)),
        )
        if ours != theirs
    }
    return Remark(
        "log-entry-contradicts-chain",
        Level.ALERT,
        f"entry {logged.index} of {logged.origin} differs from session {expected.session_id} on-chain in "
        f"{', '.join(differing)}",
        {
            "origin": logged.origin,
            "index": logged.index,
            "channelId": to_hex(expected.channel_id),
            "differing": differing,
        },
    )


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _require_bounded(waiting: Sized) -> None:
    if len(waiting) > MAX_OUTSTANDING:
        raise InvalidInput(
            f"over {MAX_OUTSTANDING} sessions or entries wait for their counterpart",
            code="audit-too-large",
            hint="the log and the chain have little to do with each other: check origin and operator",
        )
