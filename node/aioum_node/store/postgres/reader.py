"""Reads of the PostgreSQL store: of committed steps, as the node makes them and as its tools do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aioum.core.ledger import Call, Phase
from aioum.core.submission.envelope import Envelope
from aioum.core.types import Bytes32, ChannelId
from aioum_node.store import rows, submissions
from aioum_node.store.port import Equivocation, StoredSession
from aioum_node.store.postgres.driver import Connection, Connections, Snapshot, snapshot
from aioum_node.store.postgres.schema import require_current, require_schema_name

_READERS: Final = 4
_SELECT_OPEN_CALLS: Final = """
    SELECT c.* FROM unnest($1::bigint[], $2::bigint[]) AS span (first, past)
    JOIN LATERAL (
        SELECT * FROM stored_calls WHERE key >= span.first AND key < span.past AND leaf IS NULL
    ) AS c ON true
    JOIN calls AS admitted USING (key) LEFT JOIN processes AS p ON p.id = admitted.process
    WHERE p.alive_until > clock_timestamp() IS NOT TRUE
    ORDER BY c.key
"""
_IS_RUN_ELSEWHERE: Final = """
    SELECT EXISTS (
        SELECT FROM sessions AS s JOIN calls AS c ON c.key = (s.id << $4) + $2
        JOIN processes AS p ON p.id = c.process
        WHERE s.channel_id = $1 AND p.id <> $3 AND p.alive_until > clock_timestamp()
    )
"""
# NOT EXISTS is a join. NOT IN is one comparison with each row, once the rows are too many for the memory of a
# query.
STRAYS: Final = (
    (
        "sessions without an account",
        "SELECT count(*) FROM sessions AS s WHERE NOT EXISTS (SELECT FROM accounts AS a WHERE a.id = s.id)",
    ),
    (
        "calls of no session",
        "SELECT count(*) FROM calls AS c "
        "WHERE NOT EXISTS (SELECT FROM sessions AS s WHERE s.id = c.key >> 24)",
    ),
    (
        "answers of no call",
        "SELECT count(*) FROM answers AS a WHERE NOT EXISTS (SELECT FROM calls AS c WHERE c.key = a.key)",
    ),
)


@asynccontextmanager
async def store_snapshot(url: str, schema: str) -> AsyncIterator[PostgresReader]:
    """The store as it is now, whatever is written while it is looked at.

    Raises:
        ConfigError: `database-url-invalid`, `store-missing`, `store-foreign`, `store-outdated`,
            `store-too-new`.
        AioumError: `store-failed`.
    """

    async def prepare(connection: Connection) -> None:
        await require_current(connection, schema)

    async with snapshot(url, require_schema_name(schema), prepare) as looked_at:
        yield PostgresReader(looked_at)


class PostgresReader:
    """`SessionReader`, `SubmissionReader` and the reading halves of `HeldSessions` and `CardStore`.

    Args:
        connections: to the store's schema.
    """

    def __init__(self, connections: Connections | Snapshot) -> None:
        self._connections = connections

    @classmethod
    def at(cls, url: str, schema: str) -> PostgresReader:
        """Reads beside whoever runs the store. It writes nothing, also no migration.

        Raises:
            ConfigError: `config-invalid`; of each read `database-url-invalid`, `store-missing`,
                `store-foreign`, `store-outdated` or `store-too-new`.
        """
        require_schema_name(schema)

        async def prepare(connection: Connection) -> None:
            await require_current(connection, schema)

        return cls(Connections(url, schema, prepare, max_writers=0, max_readers=_READERS))

    async def session(self, channel_id: ChannelId) -> StoredSession | None:
        """`SessionReader.session`."""
        found = await self._sessions("SELECT * FROM stored_sessions WHERE channel_id = $1", channel_id)
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
        return await self._sessions(
            "SELECT * FROM stored_sessions AS s WHERE phase = ANY($1::smallint[]) "
            "AND ($2::bigint IS NULL OR phase <> $3 OR close_pending OR active_at_ms <= $2) "
            "AND ($4::bigint IS NULL OR (finalized_at_ms < $4 "
            "AND NOT EXISTS (SELECT FROM holds AS h WHERE h.id = s.id))) "
            "ORDER BY id LIMIT $5",
            [rows.PHASE_NUMBERS[phase] for phase in phases],
            idle_since_ms,
            rows.PHASE_NUMBERS[Phase.OPEN],
            finalized_before_ms,
            limit,
        )

    async def suspects(self) -> int:
        """`IncarnationStore.suspects`."""

        async def read(connection: Connection) -> int:
            count: int = await connection.fetchval(
                "SELECT count(*) FROM accounts WHERE phase = $1", rows.PHASE_NUMBERS[Phase.SUSPECT]
            )
            return count

        return await self._connections.read(read)

    async def held(self) -> list[ChannelId]:
        """`HeldSessions.held`."""

        async def read(connection: Connection) -> list[ChannelId]:
            found = await connection.fetch(
                "SELECT channel_id FROM holds JOIN sessions USING (id) ORDER BY id"
            )
            return [ChannelId(row["channel_id"]) for row in found]

        return await self._connections.read(read)

    async def find(self, session_id: int) -> list[StoredSession]:
        """`SessionReader.find`."""
        return await self._sessions(
            "SELECT * FROM stored_sessions WHERE session_id = $1 ORDER BY id", str(session_id)
        )

    async def calls(self, channel_id: ChannelId, first: int, limit: int) -> list[Call]:
        """`SessionReader.calls`."""

        async def read(connection: Connection) -> list[Call]:
            # Indexes have no gaps, so the range says all.
            found = await connection.fetch(
                "SELECT c.* FROM sessions AS s JOIN stored_calls AS c "
                "ON c.key >= (s.id << $4) + $2 AND c.key < least((s.id << $4) + $3, (s.id + 1) << $4) "
                "WHERE s.channel_id = $1 ORDER BY c.key",
                channel_id,
                first,
                first + limit,
                rows.CALL_BITS,
            )
            return [rows.read_call(tuple(row))[1] for row in found]

        return await self._connections.read(read)

    async def unrecorded(self) -> list[tuple[ChannelId, Call]]:
        """`SessionReader.unrecorded`."""

        async def read(connection: Connection) -> list[tuple[ChannelId, Call]]:
            owners = [
                rows.read_session(tuple(row))
                for row in await connection.fetch(
                    "SELECT s.* FROM stored_sessions AS s JOIN accounts AS a USING (id) WHERE a.in_flight > 0"
                )
            ]
            owners = [(row_id, stored) for row_id, stored in owners if stored.state.trusted]
            channels = {row_id: stored.facts.channel_id for row_id, stored in owners}
            found = await connection.fetch(
                _SELECT_OPEN_CALLS,
                [(row_id << rows.CALL_BITS) + stored.state.frontier.size for row_id, stored in owners],
                [(row_id << rows.CALL_BITS) + stored.state.admitted for row_id, stored in owners],
            )
            calls = map(rows.read_call, map(tuple, found))
            return [(channels[key >> rows.CALL_BITS], call) for key, call in calls]

        return await self._connections.read(read)

    async def is_run_elsewhere(self, channel_id: ChannelId, index: int, process: int) -> bool:
        """Whether a call was admitted by a process that lives and is not this one."""

        async def read(connection: Connection) -> bool:
            found: bool = await connection.fetchval(
                _IS_RUN_ELSEWHERE, channel_id, index, process, rows.CALL_BITS
            )
            return found

        return await self._connections.read(read)

    async def claimed(self, channel_id: ChannelId, envelope: Envelope) -> Call | None:
        """`SubmissionReader.claimed`."""

        async def read(connection: Connection) -> Call | None:
            row_id = await connection.fetchval("SELECT id FROM sessions WHERE channel_id = $1", channel_id)
            if row_id is None:
                return None
            names = [
                submissions.id_name(row_id, envelope.seat, envelope.submission_id),
                submissions.head_name(row_id, envelope.seat, envelope.prev_head),
            ]
            row = await connection.fetchrow(
                "SELECT c.* FROM submission_names JOIN stored_calls AS c USING (key) "
                "WHERE name = ANY($1) LIMIT 1",
                names,
            )
            return None if row is None else rows.read_call(tuple(row))[1]

        return await self._connections.read(read)

    async def equivocations(self, channel_id: ChannelId) -> list[Equivocation]:
        """`SubmissionReader.equivocations`."""

        async def read(connection: Connection) -> list[Equivocation]:
            found = await connection.fetch(
                "SELECT call_index, tool_id, request, seen_at_ms, cursor, seat, submission_id, client_time, "
                "prev_head, signature FROM equivocations "
                "WHERE session = (SELECT id FROM sessions WHERE channel_id = $1) ORDER BY id",
                channel_id,
            )
            return [submissions.read_equivocation(tuple(row)) for row in found]

        return await self._connections.read(read)

    async def card(self, descriptor_hash: Bytes32) -> bytes | None:
        """`CardStore.card`."""

        async def read(connection: Connection) -> bytes | None:
            card: bytes | None = await connection.fetchval(
                "SELECT card FROM cards WHERE descriptor_hash = $1", descriptor_hash
            )
            return card

        return await self._connections.read(read)

    async def position(self, name: str) -> tuple[int, bytes] | None:
        """`CardStore.position`."""

        async def read(connection: Connection) -> tuple[int, bytes] | None:
            row = await connection.fetchrow(
                "SELECT block_number, block_hash FROM positions WHERE name = $1", name
            )
            return None if row is None else (row[0], row[1])

        return await self._connections.read(read)

    async def integrity(self) -> list[str]:
        """Which rows no read of the port reaches."""

        async def read(connection: Connection) -> list[str]:
            found = []
            for what, query in STRAYS:
                count = await connection.fetchval(query)
                if count:
                    found.append(f"{count} {what}")
            return found

        return await self._connections.read(read)

    async def close(self) -> None:
        """Finish reads that are under way and disconnect."""
        await self._connections.close()

    async def _sessions(self, query: str, *values: Any) -> list[StoredSession]:
        async def read(connection: Connection) -> list[StoredSession]:
            return [rows.read_session(tuple(row))[1] for row in await connection.fetch(query, *values)]

        return await self._connections.read(read)
