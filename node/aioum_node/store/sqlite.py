"""The store on one SQLite file: WAL, a writer with group commit, readers beside it."""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final

from aioum.core.errors import AioumError, ConfigError
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
from aioum_node.store.answering import Cover
from aioum_node.store.incarnations import INCARNATION_BYTES, Beginning, StoreMark, read_mark, require_whole
from aioum_node.store.live import Snapshot
from aioum_node.store.port import Equivocation, SessionFacts, StoredSession
from aioum_node.store.reader import SqliteReader
from aioum_node.store.schema import migrate
from aioum_node.store.steps import SessionSteps
from aioum_node.store.writer import Writer, store_failed

STORE_FILE: Final = "store.sqlite3"
"""The store's file in a node's folder."""

_LOCK_SUFFIX = ".lock"
_PAGE_BYTES = 4_096
_BUSY_TIMEOUT_SECONDS = 5.0
_CHECKPOINT_PAGES = 4_000


class SqliteStore:
    """The `Store` port on one file that one process owns.

    Opening blocks for a moment (it migrates where it must); everything after runs off the loop. One event
    loop uses it.

    Args:
        path: the file; its folder is made where it is missing.
        limits: bounds of every session.
        max_size_bytes: how large the file may grow, or None. Beyond it writes fail, `store-failed`.
        max_queued_steps: how many writes may wait; more are refused with `store-busy`.
        max_cached_sessions: how many sessions are kept in memory.
        random_bytes: names a new store.
        cover: makes it known outside the store how far clients were told; see `answering.Cover`.

    Raises:
        ConfigError: `store-locked`, `store-foreign`, `store-too-new` or `store-parts-differ`.
        AioumError: `store-failed`.
    """

    def __init__(
        self,
        path: Path,
        limits: Limits,
        *,
        max_size_bytes: int | None = None,
        max_queued_steps: int = 10_000,
        max_cached_sessions: int = 10_000,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        cover: Cover | None = None,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path)
        try:
            connection, self._mark = _open(path, max_size_bytes, random_bytes)
        except BaseException:
            os.close(self._lock)
            raise
        self._connection = connection
        self._reader = SqliteReader(path)
        self._recent: dict[ChannelId, Snapshot] = {}
        steps = SessionSteps(connection, limits, max_cached_sessions)
        self._steps = steps
        self._writer = Writer(connection, steps, self._publish, cover, max_queued_steps)
        self._closed = False

    async def agreed_secret(self, own: bytes) -> bytes:
        """See `NodeStore.agreed_secret`; nobody shares this store."""
        return own

    def shared_log(self, origin: str, held: Callable[[], Lease | None], former: CheckpointRegister) -> None:
        """See `NodeStore.shared_log`; nobody shares this store."""

    @property
    def waiting_steps(self) -> int:
        """Writes that wait or are under way."""
        return self._writer.waiting

    @property
    def failure(self) -> AioumError | None:
        """See `NodeStore.failure`: the disk's, or the watermark's."""
        return self._writer.failure

    async def check(self) -> None:
        """See `NodeStore.check`."""
        await self._writer.submit(self._touch)

    def _touch(self) -> None:
        # Nobody is answered from this transaction, so the watermark stays, unless it failed and is behind.
        self._connection.execute("UPDATE node SET folded = folded")

    @property
    def incarnation(self) -> bytes:
        """16 bytes that name the store's present life."""
        return self._mark.incarnation

    async def mark(self) -> StoreMark:
        """`IncarnationStore.mark`, as it was when the store was opened or began its present life."""
        return self._mark

    async def begin(self, beginning: Beginning) -> int:
        """`IncarnationStore.begin`."""
        suspects, self._mark = await self._writer.submit(self._steps.begin_incarnation, beginning)
        return suspects

    async def suspects(self) -> int:
        """`IncarnationStore.suspects`."""
        return await self._reader.suspects()

    async def reimport(self, channel_id: ChannelId, calls: Sequence[Call], now_ms: int) -> StoredSession:
        """`IncarnationStore.reimport`."""
        return await self._writer.submit(self._steps.reimport, channel_id, calls, now_ms)

    async def open(self, facts: SessionFacts, state: SessionState, now_ms: int) -> StoredSession:
        """`SessionWriter.open`."""
        return await self._writer.submit(self._steps.open, facts, state, now_ms)

    async def admit(self, channel_id: ChannelId, request: CallRequest, now_ms: int) -> Admitted | Repeat:
        """`SessionWriter.admit`."""
        return await self._writer.submit(self._steps.admit, channel_id, request, now_ms)

    async def record(self, channel_id: ChannelId, index: int, answer: Answer, now_ms: int) -> Recorded:
        """`SessionWriter.record`."""
        return await self._writer.submit(self._steps.record, channel_id, index, answer, now_ms)

    async def update(
        self,
        channel_id: ChannelId,
        change: Callable[[SessionState], SessionState],
        now_ms: int,
        *,
        transaction_hash: Bytes32 | None = None,
    ) -> StoredSession:
        """`SessionWriter.update`."""
        return await self._writer.submit(self._steps.update, channel_id, change, now_ms, transaction_hash)

    async def delete(self, channel_id: ChannelId) -> None:
        """`SessionWriter.delete`."""
        await self._writer.submit(self._steps.delete, channel_id)

    async def held(self) -> list[ChannelId]:
        """`HeldSessions.held`."""
        return await self._reader.held()

    async def released(self, channel_id: ChannelId) -> None:
        """`HeldSessions.released`."""
        await self._writer.submit(self._steps.released, channel_id)

    async def session(self, channel_id: ChannelId) -> StoredSession | None:
        """`SessionReader.session`; a session of a recent step comes from memory."""
        self._writer.require_covered()
        recent = self._recent.get(channel_id)
        return await self._reader.session(channel_id) if recent is None else StoredSession(*recent)

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
        self._writer.require_covered()
        return await self._reader.calls(channel_id, first, limit)

    async def unrecorded(self) -> list[tuple[ChannelId, Call]]:
        """`SessionReader.unrecorded`."""
        return await self._reader.unrecorded()

    async def answered(self, channel_id: ChannelId, index: int, timeout_seconds: float) -> Call | None:
        """`CallOwners.answered`: there is no other process."""
        return None

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
        await self._writer.submit(self._steps.put_card, descriptor_hash, card)

    async def card(self, descriptor_hash: Bytes32) -> bytes | None:
        """`CardStore.card`."""
        return await self._reader.card(descriptor_hash)

    async def put_position(self, name: str, block_number: int, block_hash: bytes) -> None:
        """`CardStore.put_position`."""
        await self._writer.submit(self._steps.put_position, name, block_number, block_hash)

    async def position(self, name: str) -> tuple[int, bytes] | None:
        """`CardStore.position`."""
        return await self._reader.position(name)

    async def close(self) -> None:
        """`Store.close`."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        # Readers go first: the last connection that closes folds the log into the file.
        await self._reader.close()
        self._connection.close()
        os.close(self._lock)

    async def __aenter__(self) -> SqliteStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _publish(self, changed: list[Snapshot], gone: list[ChannelId]) -> None:
        for channel_id in gone:
            self._recent.pop(channel_id, None)
        for snapshot in changed:
            self._recent[snapshot[0].channel_id] = snapshot


@contextmanager
def store_lock(path: Path) -> Iterator[None]:
    """Own a store's file without opening it, so that no node does meanwhile.

    Raises:
        ConfigError: `store-locked`.
    """
    descriptor = _lock(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    descriptor = os.open(
        path.with_name(path.name + _LOCK_SUFFIX), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigError(
            f"another process uses the store {path}",
            code="store-locked",
            hint="stop the other node, or give this one another folder",
        ) from error
    return descriptor


def _open(
    path: Path, max_size_bytes: int | None, random_bytes: Callable[[int], bytes]
) -> tuple[sqlite3.Connection, StoreMark]:
    # The file holds what clients asked and were told: nobody else's to read.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        require_whole(path)
    except sqlite3.Error as error:
        raise store_failed(error, "not-done") from error
    connection = sqlite3.connect(
        path,
        timeout=_BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        migrate(connection, random_bytes(INCARNATION_BYTES))
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        if max_size_bytes is not None:
            connection.execute(f"PRAGMA max_page_count = {max(max_size_bytes // _PAGE_BYTES, 1)}")
        mark = read_mark(connection)
    except sqlite3.Error as error:
        connection.close()
        raise store_failed(error, "not-done") from error
    except BaseException:
        connection.close()
        raise
    return connection, mark
