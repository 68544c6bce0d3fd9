"""asyncpg behind one door: connections, transactions, and the one translation of what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeAlias, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from aioum.core.errors import AioumError, ConfigError, OutcomeUnknown

T = TypeVar("T")

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]"

DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""What asyncpg raises, and what connecting does."""

_CONNECTING_SECONDS: Final = 10.0
_STATEMENT_SECONDS: Final = 30.0
_SERVER_SETTINGS: Final = {
    "application_name": "aioum-node",
    # Steps are small: compiling a statement never pays.
    "jit": "off",
    "default_transaction_isolation": "read committed",
}
# With one of these off, a power failure takes back what clients were told.
_DURABILITY: Final = ("fsync", "full_page_writes", "synchronous_commit")


def store_failed(error: Exception, outcome: str) -> AioumError:
    """The one translation of errors. `outcome` is `not-done`, `unknown` or `nothing-read`."""
    kind = OutcomeUnknown if outcome == "unknown" else AioumError
    return kind(
        f"the store failed: {str(error) or type(error).__name__}",
        code="store-failed",
        hint="check the database server, its disk and its log",
        details={"outcome": outcome},
    )


class Connections:
    """A pool that connects when it is first used.

    Args:
        url: `postgresql://…`; may hold a password, which no message repeats.
        schema: where the store's tables lie.
        prepare: run on the first connection before anybody gets one.
        max_writers, max_readers: how many connections of each kind may be in use.
        lock_timeout_seconds: how long a statement waits for a row that another transaction has locked. Rows
            are locked for the length of one small transaction, never while a tool runs.
        idle_timeout_seconds: after how long without a statement the server undoes a transaction: that of a
            process that stands still must not keep the others waiting for longer than they do.
        statement_timeout_seconds: how long a statement may take; None for as long as it needs.
    """

    def __init__(
        self,
        url: str,
        schema: str,
        prepare: Callable[[Connection], Awaitable[None]],
        *,
        max_writers: int,
        max_readers: int,
        lock_timeout_seconds: float = 10.0,
        idle_timeout_seconds: float = 5.0,
        statement_timeout_seconds: float | None = _STATEMENT_SECONDS,
    ) -> None:
        self._url = url
        self._schema = schema
        self._prepare = prepare
        self._timeouts = {
            "lock_timeout": _milliseconds(lock_timeout_seconds),
            "idle_in_transaction_session_timeout": _milliseconds(idle_timeout_seconds),
        }
        self._statement_timeout_seconds = statement_timeout_seconds
        self._size = max_writers + max_readers
        self._reading = asyncio.Semaphore(max_readers)
        self._opening = asyncio.Lock()
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._closed = False

    async def connect(self) -> asyncpg.Pool[asyncpg.Record]:
        """Connect and prepare now.

        Raises:
            ConfigError: `database-url-invalid`, `store-not-durable`, and what `prepare` raises.
            AioumError: `store-failed`.
        """
        try:
            return await self._ready()
        except DRIVER_ERRORS as error:
            raise store_failed(error, "not-done") from error

    async def read(self, query: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a query; it sees committed steps only.

        Raises:
            AioumError: `store-failed` or `store-closed`.
        """
        async with self._reading:
            try:
                pool = await self._ready()
                async with pool.acquire() as connection:
                    return await query(connection)
            except DRIVER_ERRORS as error:
                raise store_failed(error, "nothing-read") from error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A transaction that is durable when the block is left; undone where the block raises.

        Raises:
            AioumError: `store-failed`, details `outcome`.
        """
        try:
            pool = await self._ready()
            connection = await pool.acquire()
        except DRIVER_ERRORS as error:
            raise store_failed(error, "not-done") from error
        try:
            try:
                await connection.execute("BEGIN")
                yield connection
            except DRIVER_ERRORS as error:
                await _undo(connection)
                raise store_failed(error, "not-done") from error
            except BaseException:
                await _undo(connection)
                raise
            try:
                status = await connection.execute("COMMIT")
            except Exception as error:
                await _undo(connection)
                raise store_failed(error, "unknown") from error
            if status != "COMMIT":
                # A statement had failed and nobody had said so: the server rolled back.
                raise store_failed(RuntimeError(f"a commit ended as {status}"), "not-done")
        finally:
            with suppress(*DRIVER_ERRORS):
                await pool.release(connection)

    async def close(self) -> None:
        """Wait for what runs, then disconnect."""
        self._closed = True
        async with self._opening:
            pool = self._pool
            self._pool = None
        if pool is not None:
            try:
                async with asyncio.timeout(_STATEMENT_SECONDS):
                    await pool.close()
            except DRIVER_ERRORS:
                pool.terminate()

    async def _ready(self) -> asyncpg.Pool[asyncpg.Record]:
        if self._closed:
            raise AioumError("the store is closed", code="store-closed")
        if self._pool is not None:
            return self._pool
        async with self._opening:
            if self._pool is None:
                self._pool = await self._opened()
        return self._pool

    async def _opened(self) -> asyncpg.Pool[asyncpg.Record]:
        try:
            pool = await asyncpg.create_pool(
                self._url,
                min_size=1,
                max_size=self._size,
                timeout=_CONNECTING_SECONDS,
                command_timeout=self._statement_timeout_seconds,
                server_settings={
                    **_SERVER_SETTINGS,
                    **self._timeouts,
                    "search_path": self._schema,
                },
                # No step changes what a connection is set to, so there is nothing to reset after each.
                reset=_keep,
            )
        except (ValueError, asyncpg.ClientConfigurationError):
            # The message might repeat the URL, and that a password: a log that shows causes would, too.
            raise ConfigError(
                "the database's URL cannot be used",
                code="database-url-invalid",
                hint="postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
            ) from None
        try:
            async with pool.acquire() as connection:
                await _require_durable(connection)
                await self._prepare(connection)
        except BaseException:
            pool.terminate()
            raise
        return pool


class Snapshot:
    """One connection in one read-only transaction: all reads see the database as it is at the first.

    `read` is as that of `Connections`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reading = asyncio.Lock()

    async def read(self, query: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a query. Raises AioumError `store-failed`."""
        async with self._reading:
            try:
                return await query(self._connection)
            except DRIVER_ERRORS as error:
                raise store_failed(error, "nothing-read") from error

    async def close(self) -> None:
        """Nothing: who took the snapshot ends it."""
        return


@asynccontextmanager
async def snapshot(
    url: str, schema: str, prepare: Callable[[Connection], Awaitable[None]]
) -> AsyncIterator[Snapshot]:
    """Look at a store beside those who run it; see `Connections` for the arguments.

    Raises:
        ConfigError: `database-url-invalid`, `store-not-durable`, and what `prepare` raises.
        AioumError: `store-failed`.
    """
    # Whoever takes one reads everything: of a large store that may take minutes.
    connections = Connections(
        url, schema, prepare, max_writers=0, max_readers=1, statement_timeout_seconds=None
    )
    try:
        pool = await connections.connect()
        async with pool.acquire() as connection:
            # Between two reads much may be computed.
            await connection.execute("SET idle_in_transaction_session_timeout = 0")
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield Snapshot(connection)
            finally:
                await connection.execute("ROLLBACK")
    except DRIVER_ERRORS as error:
        raise store_failed(error, "nothing-read") from error
    finally:
        await connections.close()


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1_000:.0f}ms"


async def _keep(connection: Any) -> None:
    return


async def _undo(connection: Connection) -> None:
    try:
        await connection.execute("ROLLBACK")
    except BaseException as error:
        # In an unknown state: nobody else may get it. The pool has taken a broken one back already.
        with suppress(*DRIVER_ERRORS):
            connection.terminate()
        if not isinstance(error, DRIVER_ERRORS):
            raise


async def _require_durable(connection: Connection) -> None:
    for setting in _DURABILITY:
        if await connection.fetchval("SELECT current_setting($1)", setting) == "off":
            raise ConfigError(
                f"the database runs with {setting} off, so a power failure would lose paid calls",
                code="store-not-durable",
                hint=f"set {setting} = on in postgresql.conf",
            )
