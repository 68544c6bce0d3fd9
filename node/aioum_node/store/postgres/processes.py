"""Who serves a shared store: each process says again and again that it lives.

Times are the database's, so the clocks of hosts do not matter. A process that was silent for too long is dead
for good, whether it is or not: when it speaks again it joins as a new one. What others took over from it
meanwhile stays theirs, because every step is a compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from aioum.core.errors import AioumError, ConfigError
from aioum_node.loops import LoopObserver, Unobserved
from aioum_node.store.postgres.driver import Connection, Connections

_log = structlog.get_logger(__name__)


class Membership:
    """This process among those that share a store.

    Args:
        connections: to the store's schema.
        silence_seconds: how long a process may be silent before it counts as dead.
        observer: told how the signs of life fare.

    Attributes:
        process: this process's id; 0 before it joined.
    """

    def __init__(
        self, connections: Connections, silence_seconds: float, observer: LoopObserver | None = None
    ) -> None:
        self._connections = connections
        self._silence = timedelta(seconds=silence_seconds)
        self._observer = observer or Unobserved()
        self.process = 0

    async def join(self, connection: Connection) -> None:
        """Become a living process."""
        await connection.execute(
            "DELETE FROM processes WHERE alive_until < clock_timestamp() - interval '1 day'"
        )
        self.process = await connection.fetchval(
            "INSERT INTO processes (alive_until) VALUES (clock_timestamp() + $1) RETURNING id", self._silence
        )

    async def renew(self) -> None:
        """Say that this process lives; one that was silent for too long joins anew.

        Raises:
            AioumError: `store-failed`.
        """
        async with self._connections.transaction() as connection:
            known = await connection.fetchval(
                "UPDATE processes SET alive_until = clock_timestamp() + $2 "
                "WHERE id = $1 AND alive_until > clock_timestamp() RETURNING id",
                self.process,
                self._silence,
            )
            if known is None:
                former = self.process
                await self.join(connection)
                _log.error("process-was-silent", former=former, process=self.process)

    async def run(self, renew: Callable[[], Awaitable[None]]) -> None:
        """Call `renew`, which calls that of this, until canceled. A database that is away is asked again."""
        failing = False
        while True:
            await asyncio.sleep(self._silence.total_seconds() / 5)
            try:
                await renew()
                self._observer.round_done()
                failing = False
            except AioumError as error:
                self._observer.round_failed(error.code)
                if not failing:
                    _log.warning("process-renewal-failed", code=error.code, error=str(error))
                failing = True
            except Exception as error:
                self._observer.round_failed(AioumError(str(error)).code)
                # A process that goes silent is taken for dead, and that must not come from a bug here.
                _log.exception("process-renewal-broke")

    async def require_alone(self, connection: Connection) -> None:
        """Whether no other process lives.

        Raises:
            ConfigError: `store-in-use`.
        """
        others = await connection.fetchval(
            "SELECT count(*) FROM processes WHERE id <> $1 AND alive_until > clock_timestamp()", self.process
        )
        if others:
            raise ConfigError(
                f"{others} other processes use the store",
                code="store-in-use",
                hint="stop every node; one that was killed counts for process_silence_seconds",
            )

    async def leave(self, connection: Connection) -> None:
        """Say that this process serves no more."""
        await connection.execute(
            "UPDATE leases SET held_until = '-infinity' WHERE process = $1", self.process
        )
        await connection.execute("DELETE FROM processes WHERE id = $1", self.process)
