"""A SQLite store as it is moved elsewhere: its rows in batches, and the mark that ends its life here."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioum_node.store import submissions
from aioum_node.store.incarnations import StoreMark, read_mark
from aioum_node.store.rows import CALL_BITS
from aioum_node.store.schema import APPLICATION_ID, MOVED_APPLICATION_ID, require_current
from aioum_node.store.writer import store_failed

Rows = list[tuple[Any, ...]]

_SESSION_FLAGS: Final = (14,)
_ACCOUNT_FLAGS: Final = (3, 4)
_ANSWER_FLAGS: Final = (4,)


@dataclass(frozen=True, slots=True)
class SessionRows:
    """Sessions in the order of their ids, with what is kept of each beside its calls."""

    last_id: int
    sessions: Rows
    accounts: Rows
    rosters: Rows
    holds: Rows
    equivocations: Rows


@dataclass(frozen=True, slots=True)
class CallRows:
    """Calls in the order of their arrival. What belongs to a call begins with the call's key."""

    last_seq: int
    calls: Rows
    answers: Rows
    submissions: Rows
    names: Rows


class StoreSource:
    """Reads of a store that nobody writes to meanwhile.

    Args:
        connection: to the store's file, read-only.
        moved: whether it was marked as moved before.
    """

    def __init__(self, connection: sqlite3.Connection, *, moved: bool) -> None:
        self._connection = connection
        self.moved = moved

    def mark(self) -> StoreMark:
        """Where the store stands."""
        return read_mark(self._connection)

    def sessions_after(self, row_id: int, limit: int) -> SessionRows | None:
        """At most `limit` sessions with higher ids, or None where there is none."""
        sessions = self._rows("SELECT * FROM sessions WHERE id > ? ORDER BY id LIMIT ?", row_id, limit)
        if not sessions:
            return None
        span = (sessions[0][0], sessions[-1][0])
        return SessionRows(
            span[1],
            _flagged(sessions, _SESSION_FLAGS),
            _flagged(self._rows("SELECT * FROM accounts WHERE id BETWEEN ? AND ?", *span), _ACCOUNT_FLAGS),
            self._rows("SELECT * FROM rosters WHERE id BETWEEN ? AND ?", *span),
            self._rows("SELECT * FROM holds WHERE id BETWEEN ? AND ?", *span),
            self._rows("SELECT * FROM equivocations WHERE session BETWEEN ? AND ? ORDER BY id", *span),
        )

    def calls_after(self, seq: int, limit: int) -> CallRows | None:
        """At most `limit` calls that came later, or None where there is none."""
        calls = self._rows("SELECT * FROM calls WHERE seq > ? ORDER BY seq LIMIT ?", seq, limit)
        if not calls:
            return None
        keys = {row[0]: row[1] for row in calls}
        span = (calls[0][0], calls[-1][0])
        answers = self._rows("SELECT * FROM answers WHERE seq BETWEEN ? AND ?", *span)
        signed = self._rows("SELECT * FROM submissions WHERE seq BETWEEN ? AND ?", *span)
        signed = [(keys[row[0]], *row[1:]) for row in signed]
        return CallRows(
            span[1],
            [row[1:] for row in calls],
            _flagged([(keys[row[0]], *row[1:]) for row in answers], _ANSWER_FLAGS),
            signed,
            [pair for row in signed for pair in _names(*row)],
        )

    def cards(self) -> Rows:
        """Every card with its hash."""
        return self._rows("SELECT descriptor_hash, card FROM cards ORDER BY descriptor_hash")

    def positions(self) -> Rows:
        """Every scan position."""
        return self._rows("SELECT name, block_number, block_hash FROM positions ORDER BY name")

    def counts(self) -> dict[str, int]:
        """How many rows tables have that are copied row by row."""
        tables = (
            *("sessions", "accounts", "rosters", "holds"),
            *("calls", "answers", "submissions", "equivocations"),
        )
        # The text is put together from names of our own.
        return {table: self._rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables}  # noqa: S608

    def _rows(self, query: str, *values: object) -> Rows:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise store_failed(error, "nothing-read") from error


@contextmanager
def opened_source(path: Path) -> Iterator[StoreSource]:
    """Open a store to move it; who does holds its lock.

    Raises:
        ConfigError: `store-foreign`, `store-outdated` or `store-too-new`.
        AioumError: `store-failed`.
    """
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        moved = _application_id(connection) == MOVED_APPLICATION_ID
        if not moved:
            require_current(connection)
        yield StoreSource(connection, moved=moved)
    except sqlite3.Error as error:
        raise store_failed(error, "nothing-read") from error
    finally:
        connection.close()


def mark_moved(path: Path) -> None:
    """Let no node open the store again, durably: its sessions are served from elsewhere.

    Raises:
        AioumError: `store-failed`.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        if _application_id(connection) == APPLICATION_ID:
            connection.execute(f"PRAGMA application_id = {MOVED_APPLICATION_ID}")
    except sqlite3.Error as error:
        raise store_failed(error, "unknown") from error
    finally:
        connection.close()


def _application_id(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("PRAGMA application_id").fetchone()
    return int(number)


def _names(
    key: int, seat: str, submission_id: str, client_time: int, prev_head: bytes, signature: bytes
) -> list[tuple[bytes, int]]:
    row_id = key >> CALL_BITS
    return [
        (submissions.id_name(row_id, seat, submission_id), key),
        (submissions.head_name(row_id, seat, prev_head), key),
    ]


def _flagged(rows: Rows, places: tuple[int, ...]) -> Rows:
    """SQLite has no booleans."""
    return [
        tuple(bool(value) if place in places else value for place, value in enumerate(row)) for row in rows
    ]
