"""The log that several processes keep: its newest checkpoint, which whoever publishes next has to have read,
and its entries, so that it goes on when the process that wrote them is lost with its disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from aioum.core.errors import Refused
from aioum.log.publish import CheckpointRegister
from aioum_node.leases import Lease
from aioum_node.store.postgres.driver import Connection, Connections
from aioum_node.store.postgres.leases import require

_READ_AT_ONCE: Final = 1_024


class PostgresLog:
    """`SharedLog` in the shared database.

    Args:
        connections: to the store's schema.
        origin: the log's name.
        held: the lease of whoever may write, while this process has it. Without it nothing is written.
        former: the register of before the store was moved here.
    """

    def __init__(
        self,
        connections: Connections,
        origin: str,
        held: Callable[[], Lease | None],
        former: CheckpointRegister,
    ) -> None:
        self._connections = connections
        self._origin = origin
        self._held = held
        self._former = former

    async def latest(self) -> bytes | None:
        """See `CheckpointRegister.latest`. Raises AioumError `store-failed`."""

        async def read(connection: Connection) -> bytes | None:
            note: bytes | None = await connection.fetchval(
                "SELECT note FROM log_checkpoints WHERE origin = $1", self._origin
            )
            return note

        note = await self._connections.read(read)
        return await self._former.latest() if note is None else note

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        """See `CheckpointRegister.swap`.

        Raises:
            Refused: `lease-lost`, another process publishes now.
            AioumError: `store-failed`.
        """
        is_first = expected == await self._former.latest()
        async with self._writing() as connection:
            changed = await connection.fetchval(
                "UPDATE log_checkpoints SET note = $3 WHERE origin = $1 AND note = $2 RETURNING true",
                self._origin,
                expected,
                new,
            )
            if changed is None and is_first:
                changed = await connection.fetchval(
                    "INSERT INTO log_checkpoints VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true",
                    self._origin,
                    new,
                )
        return changed is not None

    async def count(self) -> int:
        """See `SharedLog.count`. Raises AioumError `store-failed`."""

        async def read(connection: Connection) -> int:
            last = await connection.fetchval(
                "SELECT max(place) FROM log_entries WHERE origin = $1", self._origin
            )
            return 0 if last is None else int(last) + 1

        return await self._connections.read(read)

    async def entries(self, start: int, stop: int) -> list[bytes]:
        """See `SharedLog.entries`; at most 1,024. Raises AioumError `store-failed`."""

        async def read(connection: Connection) -> list[bytes]:
            rows = await connection.fetch(
                "SELECT entry FROM log_entries WHERE origin = $1 AND place >= $2 AND place < $3 "
                "ORDER BY place",
                self._origin,
                start,
                min(stop, start + _READ_AT_ONCE),
            )
            return [row["entry"] for row in rows]

        return await self._connections.read(read)

    async def put(self, start: int, entries: Sequence[bytes]) -> None:
        """See `SharedLog.put`. Raises as `swap`."""
        async with self._writing() as connection:
            await connection.executemany(
                "INSERT INTO log_entries VALUES ($1, $2, $3) "
                "ON CONFLICT (origin, place) DO UPDATE SET entry = excluded.entry",
                [(self._origin, place, entry) for place, entry in enumerate(entries, start)],
            )

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Connection]:
        lease = self._held()
        if lease is None:
            raise Refused("another process writes the log", code="lease-lost")
        async with self._connections.transaction() as connection:
            await require(connection, lease)
            yield connection
