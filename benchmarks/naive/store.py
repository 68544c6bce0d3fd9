"""A store as one writes it first: plain sqlite3, one commit per call.

Each step runs whole in one thread, off the event loop, and reads what it decides on from the file. The
decisions are those of `aioum.core.ledger`, as in the real store. An admission stays in memory until the
answer is there, and one commit keeps both: a crash in between forgets what was being run, which the real
store does not allow itself. Facts of a session, which never change, are kept in memory too. Both only favor
this build.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from aioum.core import ledger
from aioum.core.errors import Refused
from aioum.core.ledger import (
    Admitted,
    Answer,
    Call,
    CallRequest,
    Limits,
    Phase,
    Recorded,
    Repeat,
    SessionState,
)
from aioum.core.merkle import Frontier
from aioum.core.types import Bytes32, ChannelId
from aioum_node.store.port import SessionFacts, StoredSession
from aioum_node.store.sqlite import SqliteStore

_SCHEMA: Final = """
CREATE TABLE sessions (
    channel_id BLOB PRIMARY KEY, deposit TEXT, phase TEXT, seal_reason TEXT, close_pending INTEGER,
    accepted TEXT, accepted_signature BLOB, admitted INTEGER, spent TEXT, reserved TEXT, failures INTEGER,
    frontier BLOB, opened_at_ms INTEGER, active_at_ms INTEGER
);
CREATE TABLE calls (
    channel_id BLOB, number INTEGER, tool_id TEXT, request BLOB, price TEXT, amount TEXT, signature BLOB,
    response BLOB, status INTEGER, content_type TEXT, failed INTEGER, leaf BLOB, charge TEXT,
    PRIMARY KEY (channel_id, number)
);
CREATE INDEX calls_by_amount ON calls (channel_id, amount);
"""
_PUT_SESSION: Final = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT_CALL: Final = "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT_CALL: Final = (
    "SELECT number, tool_id, request, price, amount, signature, response, status, content_type, failed, "
    "leaf, charge FROM calls WHERE channel_id = ? AND "
)

T = TypeVar("T")


def connect(path: Path, *, wal: bool) -> sqlite3.Connection:
    """A connection whose commits are durable; for one thread at a time."""
    connection = sqlite3.connect(path, check_same_thread=False)
    if wal:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


class NaiveStore(SqliteStore):
    """Opens, admits and records in a file of its own; what no paid call needs is the real store's."""

    def __init__(self, path: Path, limits: Limits, *, wal: bool = False) -> None:
        """Args: wal: keep a write-ahead log, which sqlite3 does only where it is told to."""
        super().__init__(path, limits)
        self._naive_limits = limits
        self._facts: dict[ChannelId, SessionFacts] = {}
        self._running: dict[ChannelId, tuple[SessionState, Call]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="naive-store")
        self._file = connect(path.with_name(path.name + ".naive"), wal=wal)
        self._file.executescript(_SCHEMA)

    async def open(self, facts: SessionFacts, state: SessionState, now_ms: int) -> StoredSession:
        """`SessionWriter.open`."""

        def step() -> StoredSession:
            stored = self._find(facts.channel_id)
            if stored is None:
                self._facts[facts.channel_id] = facts
                stored = StoredSession(facts, state, now_ms, now_ms)
                with self._file:
                    self._put(stored)
            return stored

        return await self._in_thread(step)

    async def admit(self, channel_id: ChannelId, request: CallRequest, now_ms: int) -> Admitted | Repeat:
        """`SessionWriter.admit`."""

        def step() -> Admitted | Repeat:
            state, running = self._running.get(channel_id) or (self._get(channel_id).state, None)
            existing = running
            if running is None or running.amount != request.amount:
                existing = self._call("amount = ?", channel_id, str(request.amount))
            decision = ledger.admit(state, request, existing, self._naive_limits)
            if isinstance(decision, Admitted):
                self._running[channel_id] = (decision.state, decision.call)
            return decision

        return await self._in_thread(step)

    async def record(self, channel_id: ChannelId, index: int, answer: Answer, now_ms: int) -> Recorded:
        """`SessionWriter.record`."""

        def step() -> Recorded:
            stored = self._get(channel_id)
            state, call = self._running[channel_id]
            decision = ledger.record(state, call, answer, self._naive_limits)
            columns = (*_call_columns(call), *_answer_columns(answer))
            row = (channel_id, *columns, decision.call.leaf, str(decision.call.charge))
            with self._file:
                self._file.execute(_INSERT_CALL, row)
                self._put(replace(stored, state=decision.state, active_at_ms=now_ms))
            del self._running[channel_id]
            return decision

        return await self._in_thread(step)

    async def session(self, channel_id: ChannelId) -> StoredSession | None:
        """`SessionReader.session`."""
        return await self._in_thread(lambda: self._find(channel_id))

    async def close(self) -> None:
        """`Store.close`."""
        await super().close()
        await self._in_thread(self._file.close)
        self._thread.shutdown()

    async def _in_thread(self, step: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, step)

    def _get(self, channel_id: ChannelId) -> StoredSession:
        stored = self._find(channel_id)
        if stored is None:
            raise Refused("no such session", code="channel-not-found")
        return stored

    def _find(self, channel_id: ChannelId) -> StoredSession | None:
        query = "SELECT * FROM sessions WHERE channel_id = ?"
        row = self._file.execute(query, (channel_id,)).fetchone()
        if row is None:
            return None
        state = SessionState(
            channel_id=channel_id,
            deposit=int(row[1]),
            phase=Phase(row[2]),
            seal_reason=row[3],
            close_pending=bool(row[4]),
            accepted=int(row[5]),
            accepted_signature=row[6],
            admitted=row[7],
            spent=int(row[8]),
            reserved=int(row[9]),
            failures=row[10],
            frontier=Frontier.from_bytes(row[11]),
        )
        return StoredSession(self._facts[channel_id], state, row[12], row[13])

    def _put(self, stored: StoredSession) -> None:
        state = stored.state
        self._file.execute(
            _PUT_SESSION,
            (
                state.channel_id,
                str(state.deposit),
                state.phase.value,
                state.seal_reason,
                state.close_pending,
                str(state.accepted),
                state.accepted_signature,
                state.admitted,
                str(state.spent),
                str(state.reserved),
                state.failures,
                state.frontier.to_bytes(),
                stored.opened_at_ms,
                stored.active_at_ms,
            ),
        )

    def _call(self, condition: str, channel_id: ChannelId, value: int | str) -> Call | None:
        row = self._file.execute(_SELECT_CALL + condition, (channel_id, value)).fetchone()
        return None if row is None else _call_of(row)


def _call_columns(call: Call) -> tuple[Any, ...]:
    return (call.index, call.tool_id, call.request, str(call.price), str(call.amount), call.signature)


def _answer_columns(answer: Answer) -> tuple[Any, ...]:
    return (answer.response, answer.status, answer.content_type, answer.failed)


def _call_of(row: Sequence[Any]) -> Call:
    call = Call(row[0], row[1], row[2], int(row[3]), int(row[4]), row[5])
    if row[6] is None:
        return call
    answer = Answer(row[6], row[7], row[8], bool(row[9]))
    return replace(call, answer=answer, leaf=Bytes32(row[10]), charge=int(row[11]))
