"""Where a node keeps what it must not lose: a SQLite file of its own, or a shared PostgreSQL database.

PostgreSQL needs the extra `postgres`; nothing of it is imported where it is not asked for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from aioum.chain.journal import SqliteTransactionJournal, TransactionJournal
from aioum.core.errors import AioumError, ConfigError
from aioum.core.ledger import Limits
from aioum.core.types import Bytes32, ChannelId
from aioum.log.publish import CheckpointRegister
from aioum_node.fsck import Report, check_whole
from aioum_node.leases import Lease, LeaseKeeper
from aioum_node.log.shared import SharedLog
from aioum_node.loops import ObserverOf, unobserved
from aioum_node.restored.watermark import Watermark
from aioum_node.secret_files import read_secret
from aioum_node.settings import Settings
from aioum_node.store.incarnations import IncarnationStore
from aioum_node.store.port import SessionReader, Store, SubmissionReader
from aioum_node.store.reader import SqliteReader
from aioum_node.store.sqlite import STORE_FILE, SqliteStore, store_lock

if TYPE_CHECKING:
    from aioum_node.store.postgres.reader import PostgresReader
    from aioum_node.store.postgres.store import PostgresStore

JOURNAL_FILE: Final = "transactions.sqlite3"
"""The transaction journal's file in a node's folder, where the node does not share its store."""

T = TypeVar("T")
Work: TypeAlias = Callable[[], Coroutine[None, None, None]]

_SENDING: Final = "sending"
_FOLDER_LOCK: Final = "node"


class NodeStore(Store, IncarnationStore, Protocol):
    """What a running node needs of its store."""

    @property
    def waiting_steps(self) -> int:
        """Writes that wait or are under way."""
        ...

    @property
    def failure(self) -> AioumError | None:
        """Why nothing durable can be written or told, as the last step found; None once one succeeded."""
        ...

    async def check(self) -> None:
        """Make a small durable step, which changes nothing.

        Raises:
            AioumError: `store-failed`; with PostgreSQL also `store-older` and `watermark-failed`.
        """
        ...

    async def agreed_secret(self, own: bytes) -> bytes:
        """The secret that binds challenges: `own`, or the one that processes which share the store agreed on.

        Raises:
            AioumError: `store-failed`.
        """
        ...

    def shared_log(
        self, origin: str, held: Callable[[], Lease | None], former: CheckpointRegister
    ) -> SharedLog | None:
        """What processes that share the store have of their log in common.

        Args:
            origin: the log's name.
            held: the lease of whoever may write it, while this process has it.
            former: the node's own register, which counts until the shared one has something.

        Returns:
            None where nobody shares the store, and the node's own register has to do.
        """
        ...


class EvidenceReader(SessionReader, SubmissionReader, Protocol):
    """What evidence is assembled from."""

    async def held(self) -> list[ChannelId]:
        """`HeldSessions.held`."""
        ...

    async def card(self, descriptor_hash: Bytes32) -> bytes | None:
        """`CardStore.card`."""
        ...


def is_shared(settings: Settings) -> bool:
    """Whether several processes may serve the node's sessions."""
    return settings.store == "postgresql"


@asynccontextmanager
async def opened_store(
    settings: Settings, limits: Limits, watermark: Watermark, observer_of: ObserverOf = unobserved
) -> AsyncIterator[NodeStore]:
    """The store that the settings name.

    Args:
        settings: name it.
        limits: bounds of every session.
        watermark: what the store was answered from is made known there.
        observer_of: names who is told how the loop of the store fares, where it has one.

    Raises:
        ConfigError: `store-locked`, `store-foreign`, `store-too-new`; with PostgreSQL also
            `postgres-missing`, `database-url-invalid`, `store-not-durable`, `store-in-use`, and as
            `read_secret`.
        AioumError: `store-failed`.
    """
    if is_shared(settings):
        settings.node_dir.mkdir(parents=True, exist_ok=True)
        # A watermark is one process's: those that share a store have a folder each.
        with store_lock(settings.node_dir / _FOLDER_LOCK):
            async with postgres_store(settings, limits, watermark, observer_of) as shared:
                yield shared
        return
    async with SqliteStore(
        settings.node_dir / STORE_FILE,
        limits,
        max_cached_sessions=settings.cached_sessions,
        cover=watermark.cover,
    ) as own:
        yield own


def postgres_store(
    settings: Settings,
    limits: Limits,
    watermark: Watermark | None = None,
    observer_of: ObserverOf = unobserved,
) -> PostgresStore:
    """The store in the PostgreSQL database that the settings name, not connected yet.

    Raises:
        ConfigError: `postgres-missing`, and as `read_secret`.
    """
    require_driver()
    from aioum_node.store.postgres.store import PostgresStore

    url = read_database_url(settings)
    if watermark is None:
        return PostgresStore(
            url,
            limits,
            schema=settings.database_schema,
            silence_seconds=settings.process_silence_seconds,
        )
    return PostgresStore(
        url,
        limits,
        schema=settings.database_schema,
        silence_seconds=settings.process_silence_seconds,
        former=_former(watermark),
        cover=watermark.cover,
        observer=observer_of("processes"),
    )


@asynccontextmanager
async def opened_reader(settings: Settings) -> AsyncIterator[EvidenceReader]:
    """Reads of the store that the settings name, beside whoever runs it. Nothing in it is changed.

    Raises:
        ConfigError: `store-missing`; of each read `store-foreign`, `store-outdated` or `store-too-new`; with
            PostgreSQL as `postgres_store`.
    """
    reader: SqliteReader | PostgresReader
    if is_shared(settings):
        require_driver()
        from aioum_node.store.postgres.reader import PostgresReader

        reader = PostgresReader.at(read_database_url(settings), settings.database_schema)
    else:
        reader = SqliteReader(settings.node_dir / STORE_FILE)
    try:
        yield reader
    finally:
        await reader.close()


@dataclass(frozen=True, slots=True)
class Sending:
    """How transactions of the node's account are sent: by one process at a time.

    Attributes:
        journal: what is signed is durable there first.
        keeper: where several processes share the account, the lease of the one that sends; else None.
    """

    journal: TransactionJournal
    keeper: LeaseKeeper | None = None

    def is_held(self) -> bool:
        """Whether this process may send now."""
        return self.keeper is None or self.keeper.lease is not None

    def lease(self) -> Lease | None:
        """The lease to send while it is surely held; None also where no lease is needed."""
        return None if self.keeper is None else self.keeper.lease

    def exclusive(self, work: Work) -> Work:
        """The same work, done only while this process may send."""
        keeper = self.keeper
        return work if keeper is None else lambda: keeper.run(work)

    async def once(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something that sends as soon as this process may, and then let others.

        Raises:
            ConfigError: `lease-held`, another process sends and goes on doing so.
        """
        if self.keeper is None:
            return await work()
        done: list[T] = []

        async def run() -> None:
            done.append(await work())

        if not await self.keeper.run_once(run):
            raise ConfigError(
                "another process sends transactions for this account",
                code="lease-held",
                hint="stop the running nodes first",
            )
        return done[0]


@asynccontextmanager
async def opened_sending(
    settings: Settings, store: NodeStore | None = None, observer_of: ObserverOf = unobserved
) -> AsyncIterator[Sending]:
    """The journal that the settings name, and with PostgreSQL the lease to send.

    Args:
        settings: name it.
        store: already opened; None opens it where it is needed.
        observer_of: names who is told how the loop of the lease fares, where there is one.

    Raises:
        ConfigError, AioumError: as `opened_store`.
        TransactionJournalError: it cannot be opened.
    """
    if not is_shared(settings):
        own = SqliteTransactionJournal(settings.node_dir / JOURNAL_FILE)
        try:
            yield Sending(own)
        finally:
            await own.close()
        return
    require_driver()
    from aioum_node.store.postgres.store import PostgresStore

    async with AsyncExitStack() as stack:
        if not isinstance(store, PostgresStore):
            store = await stack.enter_async_context(postgres_store(settings, Limits()))
        keeper = LeaseKeeper(store.leases, _SENDING, time.monotonic, observer_of("lease"))
        yield Sending(store.journal(lambda: keeper.lease), keeper)


def require_driver() -> None:
    """Whether PostgreSQL can be used at all. Raises ConfigError `postgres-missing`."""
    try:
        import asyncpg  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "a store in PostgreSQL needs asyncpg, which is not installed",
            code="postgres-missing",
            hint='pip install "aioum[postgres]"',
        ) from error


def read_database_url(settings: Settings) -> str:
    """The content of `database_url_file`. Raises ConfigError as `read_secret`."""
    return read_secret(settings.path(settings.database_url_file), "the database's URL")


def _former(watermark: Watermark) -> bytes | None:
    try:
        kept = watermark.read()
    except AioumError as error:
        if error.code != "watermark-damaged":
            raise
        # Whoever begins the store's next life looks again, and says so.
        return None
    return None if kept is None else kept.incarnation


def check_shared(settings: Settings) -> Report:
    """`fsck` of the PostgreSQL store that the settings name; nodes may run meanwhile.

    Raises:
        ConfigError: `store-missing`, `store-foreign`, `store-outdated`, `store-too-new`; as `postgres_store`.
        AioumError: `store-failed`.
    """
    require_driver()
    from aioum_node.store.postgres.reader import store_snapshot

    async def work() -> Report:
        async with store_snapshot(read_database_url(settings), settings.database_schema) as looked_at:
            return await check_whole(looked_at)

    return asyncio.run(work())
