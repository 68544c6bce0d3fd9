"""The client's durable record (SQLite, WAL, FULL). What it says is what a restarted client goes on from.

Every step is one transaction: the session's new state with the calls it changes. A step names the version it
follows; if another program advanced the session meanwhile, the step is refused and nothing is sent. Of a
signed call the file itself refuses a second envelope on one head, and any change of a kept envelope.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from sqlite_utils import Database, Migrations

from aioum.client.journal_rows import (
    CALL_COLUMNS,
    ENVELOPE_COLUMNS,
    FIXED_COLUMNS,
    MUTABLE_COLUMNS,
    OpenCalls,
    ahead_leaf,
    call_from_row,
    call_values,
    evidence_from_row,
    evidence_values,
    fixed_values,
    mutable_values,
    record_from_row,
)
from aioum.client.records import CallRecord, SessionRecord
from aioum.client.sqlite_writer import JournalError, SqliteWriter
from aioum.core.hextext import to_hex
from aioum.core.merkle import Frontier
from aioum.core.types import ChannelId

JOURNAL_FILE: Final = "sessions.sqlite3"

_migrations = Migrations("aioum.client")


class Journal(Protocol):
    """Where a client keeps its sessions. Each method that writes returns only after the write is durable."""

    async def create(self, record: SessionRecord) -> SessionRecord:
        """Begin a session. Raises JournalError `session-exists`."""
        ...

    async def save(self, record: SessionRecord, calls: Sequence[CallRecord] = ()) -> SessionRecord:
        """Make a step durable: the session's state, its new evidence, and the calls it changes.

        Args:
            record: the new state, with the version it was derived from.
            calls: new or changed calls; a call is identified by its number.

        Returns:
            The record with its next version.

        Raises:
            JournalError: `session-in-use`, another program advanced the session; `journal-failed`, a second
                envelope on one head or another of that session's rules. Nothing was written.
        """
        ...

    async def load(self, channel_id: ChannelId) -> SessionRecord | None:
        """The session, or None."""
        ...

    async def sessions(self) -> list[SessionRecord]:
        """All sessions, oldest first."""
        ...

    async def calls(self, channel_id: ChannelId) -> list[CallRecord]:
        """All signed calls of a session, in the order they were signed."""
        ...


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


@_migrations()
def m001_sessions_and_calls(db: Database) -> None:
    """First schema."""
    db.execute(
        """CREATE TABLE sessions (
            id INTEGER PRIMARY KEY, channel_id BLOB NOT NULL UNIQUE, chain_id INTEGER NOT NULL,
            payment_manager BLOB NOT NULL, node_url TEXT NOT NULL, payer BLOB NOT NULL,
            authorized_signer BLOB NOT NULL, nonce BLOB NOT NULL, roster_hash BLOB NOT NULL,
            terms_hash BLOB NOT NULL, terms TEXT NOT NULL, card BLOB NOT NULL, opened_at_ms INTEGER NOT NULL,
            version INTEGER NOT NULL, phase TEXT NOT NULL, adopted INTEGER NOT NULL, opening_transaction BLOB,
            session_id TEXT NOT NULL, call_limit TEXT, deposit TEXT NOT NULL, spend_limit TEXT,
            highest TEXT NOT NULL, spent TEXT NOT NULL, frontier BLOB NOT NULL,
            since_statement INTEGER NOT NULL, stopped TEXT, statement TEXT
        ) STRICT"""
    )
    db.execute(
        """CREATE TABLE calls (
            id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions(id), amount TEXT NOT NULL,
            call_index INTEGER NOT NULL, tool_id TEXT NOT NULL, request BLOB NOT NULL, price TEXT NOT NULL,
            signature BLOB NOT NULL, phase TEXT NOT NULL, status INTEGER NOT NULL, response BLOB, receipt
            TEXT, UNIQUE (session, amount)
        ) STRICT"""
    )
    # At most one answer per index, and at most one call without an answer.
    db.execute("CREATE UNIQUE INDEX answered_calls ON calls(session, call_index) WHERE phase = 'answered'")
    db.execute("CREATE UNIQUE INDEX outstanding_calls ON calls(session) WHERE phase = 'outstanding'")
    db.execute(
        """CREATE TABLE evidence (
            id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions(id), code TEXT NOT NULL,
            message TEXT NOT NULL, at_ms INTEGER NOT NULL, detail TEXT NOT NULL, receipts TEXT NOT NULL
        ) STRICT"""
    )


@_migrations()
def m002_signed_calls(db: Database) -> None:
    """Rosters and envelopes. In a signed session several calls can go with one voucher amount."""
    db.execute("ALTER TABLE sessions ADD COLUMN roster TEXT")
    db.execute(
        """CREATE TABLE calls_of_2 (
            id INTEGER PRIMARY KEY, session INTEGER NOT NULL REFERENCES sessions(id), number TEXT NOT NULL,
            amount TEXT NOT NULL, call_index INTEGER NOT NULL, tool_id TEXT NOT NULL, request BLOB NOT NULL,
            price TEXT NOT NULL, signature BLOB NOT NULL, phase TEXT NOT NULL, status INTEGER NOT NULL,
            response BLOB, receipt TEXT, seat TEXT, submission_id TEXT, client_time INTEGER, prev_head BLOB,
            submission_signature BLOB, UNIQUE (session, number), UNIQUE (session, seat, prev_head)
        ) STRICT"""
    )
    kept = "amount, call_index, tool_id, request, price, signature, phase, status, response, receipt"
    db.execute(
        f"INSERT INTO calls_of_2 (id, session, number, {kept}) "  # noqa: S608
        f"SELECT id, session, amount, {kept} FROM calls"
    )
    db.execute("DROP TABLE calls")
    db.execute("ALTER TABLE calls_of_2 RENAME TO calls")
    db.execute("CREATE UNIQUE INDEX answered_calls ON calls(session, call_index) WHERE phase = 'answered'")
    db.execute("CREATE UNIQUE INDEX outstanding_calls ON calls(session) WHERE phase = 'outstanding'")
    final = ("call_index", "tool_id", "request", *ENVELOPE_COLUMNS)
    old, new = (_listed([f"{row}.{name}" for name in final]) for row in ("OLD", "NEW"))
    db.execute(
        "CREATE TRIGGER an_envelope_is_never_replaced BEFORE UPDATE ON calls "
        f"WHEN OLD.prev_head IS NOT NULL AND ({old}) IS NOT ({new}) "
        "BEGIN SELECT RAISE(ABORT, 'an envelope is never replaced'); END"
    )


@_migrations()
def m003_calls_in_flight(db: Database) -> None:
    """Several signed calls of a session can be without an answer at the same time."""
    db.execute("DROP INDEX outstanding_calls")
    db.execute(
        "CREATE UNIQUE INDEX outstanding_calls ON calls(session) "
        "WHERE phase = 'outstanding' AND prev_head IS NULL"
    )


@_migrations()
def m004_elapsed_times(db: Database) -> None:
    """How long answers took. Nobody knows it of earlier calls."""
    db.execute("ALTER TABLE calls ADD COLUMN elapsed_ms INTEGER")


@_migrations()
def m005_log_proofs(db: Database) -> None:
    """That sessions are in their operators' transparency logs."""
    db.execute("ALTER TABLE sessions ADD COLUMN log_proof TEXT")


_READ_COLUMNS: Final = ("id", *FIXED_COLUMNS, "version", *MUTABLE_COLUMNS)
_WRITTEN_COLUMNS: Final = (*FIXED_COLUMNS, "version", *MUTABLE_COLUMNS)


# Only names of our own are put into these texts; values are always parameters.
_INSERT_SESSION: Final = (
    f"INSERT INTO sessions ({_listed(_WRITTEN_COLUMNS)}) VALUES ({_listed('?' * len(_WRITTEN_COLUMNS))})"  # noqa: S608
)
_UPDATE_SESSION: Final = (
    f"UPDATE sessions SET version = version + 1, {_listed([f'{name} = ?' for name in MUTABLE_COLUMNS])} "  # noqa: S608
    "WHERE channel_id = ? AND version = ?"
)
_SELECT_SESSIONS: Final = f"SELECT {_listed(_READ_COLUMNS)} FROM sessions ORDER BY id"  # noqa: S608
_SELECT_SESSION: Final = f"SELECT {_listed(_READ_COLUMNS)} FROM sessions WHERE channel_id = ?"  # noqa: S608
_SELECT_CALLS: Final = f"SELECT {_listed(CALL_COLUMNS)} FROM calls WHERE session = ? ORDER BY id"  # noqa: S608
_SELECT_OUTSTANDING: Final = (
    f"SELECT {_listed(CALL_COLUMNS)} FROM calls WHERE session = ? AND phase = 'outstanding' "  # noqa: S608
    "ORDER BY call_index"
)
_SELECT_ANSWERED_FROM: Final = (
    f"SELECT {_listed(CALL_COLUMNS)} FROM calls WHERE session = ? AND phase = 'answered' "  # noqa: S608
    "AND call_index >= ? ORDER BY call_index"
)
_PUT_CALL: Final = (
    f"INSERT INTO calls (session, {_listed(CALL_COLUMNS)}) VALUES (?, {_listed('?' * len(CALL_COLUMNS))}) "  # noqa: S608
    "ON CONFLICT (session, number) DO UPDATE SET "
    + _listed([f"{name} = excluded.{name}" for name in CALL_COLUMNS if name != "number"])
)


class SqliteJournal:
    """The journal on SQLite."""

    def __init__(self, path: Path) -> None:
        """Open or create the file at `path`. Raises JournalError `journal-failed`."""
        self._writer = SqliteWriter(path, _prepare)

    async def create(self, record: SessionRecord) -> SessionRecord:
        """Begin a session; see `Journal.create`."""

        def work(connection: sqlite3.Connection) -> SessionRecord:
            if _row_id(connection, record.channel_id) is not None:
                raise JournalError(
                    f"the session {to_hex(record.channel_id)} exists already", code="session-exists"
                )
            connection.execute(_INSERT_SESSION, (*fixed_values(record), 1, *mutable_values(record)))
            return replace(record, version=1)

        return await self._writer.run(work)

    async def save(self, record: SessionRecord, calls: Sequence[CallRecord] = ()) -> SessionRecord:
        """Make a step durable; see `Journal.save`."""

        def work(connection: sqlite3.Connection) -> SessionRecord:
            values = (*mutable_values(record), record.channel_id, record.version)
            done = connection.execute(_UPDATE_SESSION, values)
            row_id = _row_id(connection, record.channel_id)
            if done.rowcount != 1 or row_id is None:
                raise in_use(record.channel_id)
            _put_calls(connection, row_id, calls)
            _put_evidence(connection, row_id, record)
            return replace(record, version=record.version + 1)

        return await self._writer.run(work)

    async def load(self, channel_id: ChannelId) -> SessionRecord | None:
        """The session, or None."""
        found = await self._writer.run(lambda connection: _load(connection, _SELECT_SESSION, channel_id))
        return found[0] if found else None

    async def sessions(self) -> list[SessionRecord]:
        """All sessions, oldest first."""
        return await self._writer.run(lambda connection: _load(connection, _SELECT_SESSIONS))

    async def calls(self, channel_id: ChannelId) -> list[CallRecord]:
        """All signed calls of a session, in the order they were signed."""

        def work(connection: sqlite3.Connection) -> list[CallRecord]:
            rows = connection.execute(_SELECT_CALLS, (_row_id(connection, channel_id),))
            return [call_from_row(row) for row in rows]

        return await self._writer.run(work)

    async def aclose(self) -> None:
        """Finish and close."""
        await self._writer.aclose()


def in_use(channel_id: ChannelId) -> JournalError:
    """The error of a step that follows another state than the journal has: `session-in-use`."""
    return JournalError(
        f"another program advanced the session {to_hex(channel_id)}",
        code="session-in-use",
        hint="let one program at a time use a session",
    )


def _prepare(connection: sqlite3.Connection) -> None:
    _migrations.apply(Database(connection, execute_plugins=False))


def _row_id(connection: sqlite3.Connection, channel_id: ChannelId) -> int | None:
    row = connection.execute("SELECT id FROM sessions WHERE channel_id = ?", (channel_id,)).fetchone()
    return None if row is None else int(row[0])


def _put_calls(connection: sqlite3.Connection, row_id: int, calls: Iterable[CallRecord]) -> None:
    connection.executemany(_PUT_CALL, [(row_id, *call_values(call)) for call in calls])


def _put_evidence(connection: sqlite3.Connection, row_id: int, record: SessionRecord) -> None:
    if record.evidence:
        (known,) = connection.execute("SELECT COUNT(*) FROM evidence WHERE session = ?", (row_id,)).fetchone()
        connection.executemany(
            "INSERT INTO evidence (session, code, message, at_ms, detail, receipts) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [(row_id, *evidence_values(item)) for item in record.evidence[known:]],
        )


def _load(connection: sqlite3.Connection, query: str, *values: Any) -> list[SessionRecord]:
    rows = connection.execute(query, values).fetchall()
    return [_assemble(connection, dict(zip(_READ_COLUMNS, row, strict=True))) for row in rows]


def _assemble(connection: sqlite3.Connection, row: dict[str, Any]) -> SessionRecord:
    outstanding = connection.execute(_SELECT_OUTSTANDING, (row["id"],)).fetchall()
    # Calls without signatures are answered one after the other.
    first = None if row["roster"] is None else Frontier.from_bytes(row["frontier"]).size
    beyond = connection.execute(_SELECT_ANSWERED_FROM, (row["id"], first)).fetchall()
    evidence = connection.execute(
        "SELECT code, message, at_ms, detail, receipts FROM evidence WHERE session = ? ORDER BY id",
        (row["id"],),
    )
    return record_from_row(
        row,
        OpenCalls(
            tuple(call_from_row(found).call for found in outstanding),
            tuple(ahead_leaf(call_from_row(found)) for found in beyond),
        ),
        tuple(evidence_from_row(item) for item in evidence),
    )
