"""Reads of the SQLite store: their own connections, off the loop, only committed steps."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from aioum.core.errors import AioumError, ConfigError
from aioum.core.ledger import Call, Phase
from aioum.core.submission.envelope import Envelope
from aioum.core.types import Bytes32, ChannelId
from aioum_node.store import rows, submissions
from aioum_node.store.port import Equivocation, StoredSession
from aioum_node.store.schema import require_current
from aioum_node.store.writer import store_failed

T = TypeVar("T")

_THREADS: Final = 4
# Parameters: how many phases there are, and how many bits of a call's key are its index.
_STRAYS: Final = (
    (
        "sessions without a sound account",
        "SELECT count(*) FROM sessions WHERE ?2 AND id NOT IN "
        "(SELECT id FROM accounts WHERE phase >= 0 AND phase < ?1)",
    ),
    (
        "calls of no session",
        "SELECT count(*) FROM calls WHERE ?1 AND key >> ?2 NOT IN (SELECT id FROM sessions)",
    ),
    (
        "answers of no call",
        "SELECT count(*) FROM answers WHERE ?1 AND ?2 AND seq NOT IN (SELECT seq FROM calls)",
    ),
)


class SqliteReader:
    """`SessionReader`, `SubmissionReader` and the reading halves of `HeldSessions` and `CardStore`.

    It opens the file read-only and takes no lock, so it may look at a store that a running node owns.

    Args:
        path: the store's file, which exists.

    Raises:
        ConfigError: `store-missing`; of each read `store-foreign`, `store-outdated` or `store-too-new`.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise ConfigError(
                f"there is no store at {path}", code="store-missing", hint="name the node's folder"
            )
        self._path = path
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="store-reader")
        self._closed = False

    async def session(self, channel_id: ChannelId) -> StoredSession | None:
        """`SessionReader.session`."""
        found = await self._sessions("SELECT * FROM stored_sessions WHERE channel_id = ?", (channel_id,))
        return found[0] if found else None

    async def sessions(
        self,
        phases: Sequence[Phase],
        *,
        idle_since_ms: int | None = None,
        finalized_before_ms: int | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """`SessionReader.sessions`."""
        numbers = [rows.PHASE_NUMBERS[phase] for phase in phases]
        return await self._sessions(
            "SELECT * FROM stored_sessions WHERE phase IN (SELECT value FROM json_each(:phases)) "
            "AND (:idle IS NULL OR phase <> :open OR close_pending OR active_at_ms <= :idle) "
            "AND (:before IS NULL OR (finalized_at_ms < :before AND id NOT IN (SELECT id FROM holds))) "
            "ORDER BY id LIMIT :limit",
            {
                "phases": json.dumps(numbers),
                "idle": idle_since_ms,
                "open": rows.PHASE_NUMBERS[Phase.OPEN],
                "before": finalized_before_ms,
                # SQLite reads a negative limit as none.
                "limit": -1 if limit is None else limit,
            },
        )

    async def held(self) -> list[ChannelId]:
        """`HeldSessions.held`."""

        def read(connection: sqlite3.Connection) -> list[ChannelId]:
            query = "SELECT channel_id FROM holds JOIN sessions USING (id) ORDER BY id"
            return [ChannelId(row[0]) for row in connection.execute(query)]

        return await self._read(read)

    async def suspects(self) -> int:
        """`IncarnationStore.suspects`."""

        def read(connection: sqlite3.Connection) -> int:
            query = "SELECT count(*) FROM accounts WHERE phase = ?"
            count: int = connection.execute(query, (rows.PHASE_NUMBERS[Phase.SUSPECT],)).fetchone()[0]
            return count

        return await self._read(read)

    async def find(self, session_id: int) -> list[StoredSession]:
        """`SessionReader.find`."""
        return await self._sessions(
            "SELECT * FROM stored_sessions WHERE session_id = ? ORDER BY id", (str(session_id),)
        )

    async def calls(self, channel_id: ChannelId, first: int, limit: int) -> list[Call]:
        """`SessionReader.calls`."""

        def read(connection: sqlite3.Connection) -> list[Call]:
            row_id = _row_id(connection, channel_id)
            if row_id is None:
                return []
            start = row_id << rows.CALL_BITS
            last = start + (1 << rows.CALL_BITS)
            # Indexes have no gaps, so the range says all; without an end each page would read the whole rest.
            span = {"first": start + first, "end": min(start + first + limit, last), "limit": limit}
            return [rows.read_call(row)[1] for row in connection.execute(rows.SELECT_CALLS, span)]

        return await self._read(read)

    async def unrecorded(self) -> list[tuple[ChannelId, Call]]:
        """`SessionReader.unrecorded`."""

        def read(connection: sqlite3.Connection) -> list[tuple[ChannelId, Call]]:
            owners = connection.execute(
                "SELECT * FROM stored_sessions WHERE id IN (SELECT id FROM accounts WHERE in_flight > 0) "
                "ORDER BY id"
            ).fetchall()
            found = []
            for row_id, stored in map(rows.read_session, owners):
                if not stored.state.trusted:
                    continue
                start = row_id << rows.CALL_BITS
                span = {
                    "first": start + stored.state.frontier.size,
                    "end": start + stored.state.admitted,
                    "limit": -1,
                }
                for row in connection.execute(rows.SELECT_CALLS, span):
                    _, call = rows.read_call(row)
                    if not call.recorded:
                        found.append((stored.facts.channel_id, call))
            return found

        return await self._read(read)

    async def claimed(self, channel_id: ChannelId, envelope: Envelope) -> Call | None:
        """`SubmissionReader.claimed`."""

        def read(connection: sqlite3.Connection) -> Call | None:
            row_id = _row_id(connection, channel_id)
            if row_id is None:
                return None
            first = row_id << rows.CALL_BITS
            names = {
                "id_name": submissions.id_name(row_id, envelope.seat, envelope.submission_id),
                "head_name": submissions.head_name(row_id, envelope.seat, envelope.prev_head),
                "first": first,
                "end": first + (1 << rows.CALL_BITS),
                "seat": envelope.seat,
                "submission_id": envelope.submission_id,
                "prev_head": envelope.prev_head,
            }
            found = connection.execute(submissions.SELECT_CLAIMED_KEY, names).fetchone()
            if found is None:
                return None
            span = {"first": found[0], "end": found[0] + 1, "limit": 1}
            return rows.read_call(connection.execute(rows.SELECT_CALLS, span).fetchone())[1]

        return await self._read(read)

    async def equivocations(self, channel_id: ChannelId) -> list[Equivocation]:
        """`SubmissionReader.equivocations`."""

        def read(connection: sqlite3.Connection) -> list[Equivocation]:
            found = connection.execute(submissions.SELECT_EQUIVOCATIONS, (_row_id(connection, channel_id),))
            return [submissions.read_equivocation(row) for row in found]

        return await self._read(read)

    async def card(self, descriptor_hash: Bytes32) -> bytes | None:
        """`CardStore.card`."""

        def read(connection: sqlite3.Connection) -> bytes | None:
            row = connection.execute(
                "SELECT card FROM cards WHERE descriptor_hash = ?", (descriptor_hash,)
            ).fetchone()
            return None if row is None else bytes(row[0])

        return await self._read(read)

    async def position(self, name: str) -> tuple[int, bytes] | None:
        """`CardStore.position`."""

        def read(connection: sqlite3.Connection) -> tuple[int, bytes] | None:
            row = connection.execute(
                "SELECT block_number, block_hash FROM positions WHERE name = ?", (name,)
            ).fetchone()
            return None if row is None else (row[0], bytes(row[1]))

        return await self._read(read)

    async def integrity(self) -> list[str]:
        """What is wrong with the file's structure, and which rows no read of the port reaches."""

        def read(connection: sqlite3.Connection) -> list[str]:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            found = [] if lines == ["ok"] else lines
            for what, query in _STRAYS:
                (count,) = connection.execute(query, (len(rows.PHASE_NUMBERS), rows.CALL_BITS)).fetchone()
                if count:
                    found.append(f"{count} {what}")
            return found

        return await self._read(read)

    async def close(self) -> None:
        """Finish reads that are under way and close the connections."""
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)
        while self._connections:
            self._connections.pop().close()

    async def _sessions(
        self, query: str, values: Sequence[object] | dict[str, object]
    ) -> list[StoredSession]:
        def read(connection: sqlite3.Connection) -> list[StoredSession]:
            return [rows.read_session(row)[1] for row in connection.execute(query, values)]

        return await self._read(read)

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        if self._closed:
            raise AioumError("the store is closed", code="store-closed")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, query)

    def _run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return query(self._connection())
        except sqlite3.Error as error:
            raise store_failed(error, "nothing-read") from error

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(
                f"{self._path.resolve().as_uri()}?mode=ro",
                uri=True,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connections.append(connection)
            require_current(connection)
            self._local.connection = connection
        return connection


def _row_id(connection: sqlite3.Connection, channel_id: ChannelId) -> int | None:
    row = connection.execute("SELECT id FROM sessions WHERE channel_id = ?", (channel_id,)).fetchone()
    return None if row is None else row[0]
