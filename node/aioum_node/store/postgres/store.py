"""The store on PostgreSQL."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Final

from aioum.core.errors import AioumError
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
from aioum.core.submission.envelope import Envelope
from aioum.core.types import Bytes32, ChannelId
from aioum.log.publish import CheckpointRegister
from aioum_node.leases import Lease
from aioum_node.loops import LoopObserver
from aioum_node.store.incarnations import INCARNATION_BYTES, Beginning, StoreMark
from aioum_node.store.port import Equivocation, SessionFacts, StoredSession
from aioum_node.store.postgres.checkpoints import PostgresLog
from aioum_node.store.postgres.driver import DRIVER_ERRORS, Connection, Connections, store_failed
from aioum_node.store.postgres.group import Group
from aioum_node.store.postgres.journal import PostgresTransactionJournal
from aioum_node.store.postgres.leases import PostgresLeases
from aioum_node.store.postgres.lives import Lives
from aioum_node.store.postgres.processes import Membership
from aioum_node.store.postgres.reader import PostgresReader
from aioum_node.store.postgres.schema import lock_starts, migrate, require_schema_name
from aioum_node.store.postgres.steps import Admit, Delete, Open, Record, Reimport, Result, Step, Update
from aioum_node.store.postgres.writer import GroupWriter

DEFAULT_SCHEMA: Final = "aioum"
_SILENCE_SECONDS: Final = 15.0
_FIRST_LOOK_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 0.5


class PostgresStore:
    """The `Store` port on a PostgreSQL database, which several processes may share.

    It connects, and migrates where it must, when it is first used. One event loop uses it.

    Args:
        url: `postgresql://…` of the database; it may hold a password.
        limits: bounds of every session.
        schema: where the store's tables lie; made where it is missing.
        max_queued_steps: how many writes may wait; more are refused with `store-busy`.
        max_steps_per_group: how many writes share a transaction.
        max_groups: how many transactions this process has under way at once.
        max_readers: how many reads it has under way at once.
        lock_timeout_seconds: how long a transaction waits for sessions that another process has in one.
        silence_seconds: how long a process that shares the store may be silent before it counts as dead:
            its open calls are taken over, and so are its leases.
        random_bytes: names a new store.
        former: the incarnation that this node's watermark has, or None.
        cover: makes it known outside the store how far clients were told; see `Lives`.
        observer: told how the process's signs of life fare.

    Attributes:
        leases: what one of the processes at a time may do.

    Raises:
        ConfigError: `config-invalid`; of the first use `database-url-invalid`, `store-not-durable`,
            `store-foreign`, `store-too-new` or `store-in-use`.
    """

    def __init__(
        self,
        url: str,
        limits: Limits,
        *,
        schema: str = DEFAULT_SCHEMA,
        max_queued_steps: int = 10_000,
        max_steps_per_group: int = 512,
        max_groups: int = 2,
        max_readers: int = 4,
        lock_timeout_seconds: float = 10.0,
        silence_seconds: float = _SILENCE_SECONDS,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        former: bytes | None = None,
        cover: Callable[[int], None] = lambda number: None,
        observer: LoopObserver | None = None,
    ) -> None:
        self._schema = require_schema_name(schema)
        self._limits = limits
        self._random_bytes = random_bytes
        self._connections = Connections(
            # Beside the groups: the sign of life, and whatever else writes now and then.
            url,
            schema,
            self._prepare,
            max_writers=max_groups + 2,
            max_readers=max_readers,
            lock_timeout_seconds=lock_timeout_seconds,
        )
        self._lives = Lives(former, cover, silence_seconds)
        self._membership = Membership(self._connections, silence_seconds, observer)
        self.leases = PostgresLeases(self._connections, self._membership, silence_seconds)
        self._reader = PostgresReader(self._connections)
        self._writer = GroupWriter(
            self._perform,
            max_queued_steps=max_queued_steps,
            max_steps_per_group=max_steps_per_group,
            max_groups=max_groups,
        )
        self._heart: asyncio.Task[None] | None = None
        self._closed = False

    def journal(self, held: Callable[[], Lease | None]) -> PostgresTransactionJournal:
        """The transaction journal beside the sessions; see there for `held`."""
        return PostgresTransactionJournal(self._connections, held)

    def shared_log(
        self, origin: str, held: Callable[[], Lease | None], former: CheckpointRegister
    ) -> PostgresLog:
        """See `NodeStore.shared_log`."""
        return PostgresLog(self._connections, origin, held, former)

    @property
    def waiting_steps(self) -> int:
        """Writes that wait or are under way."""
        return self._writer.waiting

    @property
    def failure(self) -> AioumError | None:
        """See `NodeStore.failure`: the watermark's. Whether the database answers, every look at it says."""
        return self._lives.failure

    async def check(self) -> None:
        """See `NodeStore.check`."""
        await self.renew()

    async def agreed_secret(self, own: bytes) -> bytes:
        """See `NodeStore.agreed_secret`: that of the process which came first."""
        async with self._connections.transaction() as connection:
            agreed: bytes = await connection.fetchval(
                "UPDATE node SET challenge_secret = coalesce(challenge_secret, $1) "
                "RETURNING challenge_secret",
                own,
            )
        return agreed

    @property
    def process(self) -> int:
        """This process's id among those that share the store; 0 before it connected."""
        return self._membership.process

    async def connect(self) -> None:
        """Connect and migrate now.

        Raises:
            ConfigError: see the class.
            AioumError: `store-failed`.
        """
        _ = await self._connections.connect()

    async def renew(self) -> None:
        """Say that this process lives; it does so by itself, too.

        Raises:
            AioumError: `store-failed`; `store-older`, the database was restored under it.
        """
        await self._membership.renew()
        async with self._connections.transaction() as connection:
            number = await self._lives.advance(connection)
        await self._lives.told(number)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """While the block lasts no other process uses the store; one that starts waits for the end.

        Raises:
            ConfigError: `store-in-use`.
            AioumError: `store-failed`.
        """
        async with self._connections.transaction() as connection:
            # Nothing is asked on this connection while the block runs.
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            await lock_starts(connection)
            await self._membership.require_alone(connection)
            yield

    async def open(self, facts: SessionFacts, state: SessionState, now_ms: int) -> StoredSession:
        """`SessionWriter.open`."""
        stored: StoredSession = await self._writer.submit(Open(facts.channel_id, facts, state, now_ms))
        return stored

    async def admit(self, channel_id: ChannelId, request: CallRequest, now_ms: int) -> Admitted | Repeat:
        """`SessionWriter.admit`."""
        decision: Admitted | Repeat = await self._writer.submit(Admit(channel_id, request, now_ms))
        return decision

    async def record(self, channel_id: ChannelId, index: int, answer: Answer, now_ms: int) -> Recorded:
        """`SessionWriter.record`."""
        recorded: Recorded = await self._writer.submit(Record(channel_id, index, answer, now_ms))
        return recorded

    async def update(
        self,
        channel_id: ChannelId,
        change: Callable[[SessionState], SessionState],
        now_ms: int,
        *,
        transaction_hash: Bytes32 | None = None,
    ) -> StoredSession:
        """`SessionWriter.update`."""
        stored: StoredSession = await self._writer.submit(
            Update(channel_id, change, now_ms, transaction_hash)
        )
        return stored

    async def delete(self, channel_id: ChannelId) -> None:
        """`SessionWriter.delete`."""
        await self._writer.submit(Delete(channel_id))

    async def held(self) -> list[ChannelId]:
        """`HeldSessions.held`."""
        return await self._reader.held()

    async def released(self, channel_id: ChannelId) -> None:
        """`HeldSessions.released`."""
        await self._put(
            "DELETE FROM holds WHERE id = (SELECT id FROM sessions WHERE channel_id = $1)", channel_id
        )

    async def session(self, channel_id: ChannelId) -> StoredSession | None:
        """`SessionReader.session`."""
        return await self._reader.session(channel_id)

    async def sessions(
        self,
        phases: Sequence[Phase],
        *,
        idle_since_ms: int | None = None,
        finalized_before_ms: int | None = None,
        limit: int | None = None,
    ) -> list[StoredSession]:
        """`SessionReader.sessions`."""
        return await self._reader.sessions(
            phases, idle_since_ms=idle_since_ms, finalized_before_ms=finalized_before_ms, limit=limit
        )

    async def calls(self, channel_id: ChannelId, first: int, limit: int) -> list[Call]:
        """`SessionReader.calls`."""
        return await self._reader.calls(channel_id, first, limit)

    async def unrecorded(self) -> list[tuple[ChannelId, Call]]:
        """`SessionReader.unrecorded`. Raises `store-older`: what is open there may have been answered."""
        self._lives.require_newest()
        return await self._reader.unrecorded()

    async def answered(self, channel_id: ChannelId, index: int, timeout_seconds: float) -> Call | None:
        """`CallOwners.answered`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        pause_seconds = _FIRST_LOOK_SECONDS
        while True:
            # In this order: an owner that records and leaves in between is seen to have recorded.
            elsewhere = await self._reader.is_run_elsewhere(channel_id, index, self.process)
            for call in await self._reader.calls(channel_id, index, 1):
                if call.recorded:
                    return call
            if not elsewhere or loop.time() >= deadline:
                return None
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)

    async def find(self, session_id: int) -> list[StoredSession]:
        """`SessionReader.find`."""
        return await self._reader.find(session_id)

    async def claimed(self, channel_id: ChannelId, envelope: Envelope) -> Call | None:
        """`SubmissionReader.claimed`."""
        return await self._reader.claimed(channel_id, envelope)

    async def equivocations(self, channel_id: ChannelId) -> list[Equivocation]:
        """`SubmissionReader.equivocations`."""
        return await self._reader.equivocations(channel_id)

    async def put_card(self, descriptor_hash: Bytes32, card: bytes) -> None:
        """`CardStore.put_card`."""
        await self._put("INSERT INTO cards VALUES ($1, $2) ON CONFLICT DO NOTHING", descriptor_hash, card)

    async def card(self, descriptor_hash: Bytes32) -> bytes | None:
        """`CardStore.card`."""
        return await self._reader.card(descriptor_hash)

    async def put_position(self, name: str, block_number: int, block_hash: bytes) -> None:
        """`CardStore.put_position`."""
        await self._put(
            "INSERT INTO positions VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET "
            "block_number = excluded.block_number, block_hash = excluded.block_hash",
            name,
            block_number,
            block_hash,
        )

    async def position(self, name: str) -> tuple[int, bytes] | None:
        """`CardStore.position`."""
        return await self._reader.position(name)

    async def close(self) -> None:
        """`Store.close`."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.wait({self._heart})
            with suppress(AioumError):
                # Where this fails, the others wait until this process was silent for long enough.
                async with self._connections.transaction() as connection:
                    await self._membership.leave(connection)
                    await self._lives.end(connection)
        await self._connections.close()

    async def __aenter__(self) -> PostgresStore:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _prepare(self, connection: Connection) -> None:
        async with connection.transaction():
            await migrate(connection, self._schema, self._random_bytes(INCARNATION_BYTES))
            # Still under the lock: nobody brings a store further that a process is about to join.
            await self._membership.join(connection)
        if self._heart is None:
            self._heart = asyncio.create_task(self._membership.run(self.renew))

    async def _perform(self, steps: Sequence[Step]) -> list[Result | Exception]:
        # A crash before the commit: the database knows nothing of the group, and nobody was told anything.
        async with self._connections.transaction() as connection:
            group = Group(connection, self._limits, self.process)
            try:
                outcomes = await group.perform(steps)
                number = await self._lives.advance(connection) if group.answers_something else 0
            except (*DRIVER_ERRORS, AioumError):
                raise
            except Exception as error:
                # What a step wants to store is no value of its column.
                raise store_failed(error, "not-done") from error
        # A crash from here on: the whole group is durable, and its callers find it when they ask again.
        await self._lives.told(number)
        return outcomes

    async def mark(self) -> StoreMark:
        """`IncarnationStore.mark`."""
        return await self._connections.read(self._lives.mark)

    async def begin(self, beginning: Beginning) -> int:
        """`IncarnationStore.begin`."""
        async with self._connections.transaction() as connection:
            suspects = await self._lives.begin(connection, beginning)
        self._lives.begun(beginning)
        return suspects

    async def suspects(self) -> int:
        """`IncarnationStore.suspects`."""
        return await self._reader.suspects()

    async def reimport(self, channel_id: ChannelId, calls: Sequence[Call], now_ms: int) -> StoredSession:
        """`IncarnationStore.reimport`."""
        stored: StoredSession = await self._writer.submit(Reimport(channel_id, tuple(calls), now_ms))
        return stored

    async def _put(self, statement: str, *values: object) -> None:
        async with self._connections.transaction() as connection:
            await connection.execute(statement, *values)
