"""Keeping the log: what became final on the chain is appended, published, and anchored from time to time.

Of the processes of an operator one writes: that which may send transactions. The others take over what it
committed to, and show nothing else.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from aioum.chain.client import Chain
from aioum.chain.dispatch import to_its_end
from aioum.core.errors import AioumError, Refused
from aioum.core.types import Address, ChannelId
from aioum.log.checkpoint import Checkpoint, parse_checkpoint
from aioum.log.errors import LogFolderError
from aioum.log.publish import CheckpointRegister, follow, publish
from aioum_node.log.anchoring import Anchoring
from aioum_node.log.identity import LogIdentity
from aioum_node.log.observer import LogObserver, NoObserver
from aioum_node.log.search import FinalSessions
from aioum_node.log.sessions import SessionLog
from aioum_node.log.shared import SharedLog
from aioum_node.loops import LoopObserver, Unobserved
from aioum_node.store.port import StoredSession

OVERDUE: Final = "log-overdue"
"""Alert: half of the promised time is over since everything final was visible in the log."""

_SHARED_AT_ONCE: Final = 1_024

_log = structlog.get_logger(__name__)


class LogLoop:
    """Keeps one operator's log.

    Args:
        path: folder of the log.
        identity: its name and keys.
        register: holds what was published.
        shared: the same, where several processes keep the log, with the entries; else None.
        chain: where sessions become final.
        operator: whose.
        confirmations: blocks that make something final, its own included.
        interval_seconds: pause between rounds.
        max_delay_seconds: what the card promises.
        anchoring: None where nothing is anchored.
        may_write: whether this process is the one that appends and signs.
        monotonic: seconds.
        on_visible: told whenever everything that is final is visible.
        observer: told about outcomes.
        rounds: told how the rounds fare.
    """

    def __init__(
        self,
        *,
        path: Path,
        identity: LogIdentity,
        register: CheckpointRegister,
        shared: SharedLog | None = None,
        chain: Chain,
        operator: Address,
        confirmations: int,
        interval_seconds: float,
        max_delay_seconds: float,
        anchoring: Anchoring | None,
        monotonic: Callable[[], float],
        may_write: Callable[[], bool] = lambda: True,
        on_visible: Callable[[], None] = lambda: None,
        observer: LogObserver | None = None,
        rounds: LoopObserver | None = None,
    ) -> None:
        self._path = path
        self._identity = identity
        self._register = register
        self._shared = shared
        self._chain = chain
        self._operator = operator
        self._interval_seconds = interval_seconds
        self._max_delay_seconds = max_delay_seconds
        self._anchoring = anchoring
        self._may_write = may_write
        self._monotonic = monotonic
        self._on_visible = on_visible
        self._observer = observer or NoObserver()
        self._rounds = rounds or Unobserved()
        self._search = FinalSessions(chain, operator, confirmations, self._unlogged)
        self._log: SessionLog | None = None
        self._visible_at = monotonic()
        self._is_late_told = False
        self._has_searched = False
        self._search_all = False
        # Entries that this process showed, and whether it was the one who published them.
        self._shown: int | None = None
        self._is_publisher = False
        self._told: str | None = None

    # --- for metrics ---

    @property
    def entries(self) -> int:
        """Entries in this process's copy of the log."""
        return 0 if self._log is None else self._log.folder.size

    @property
    def published_entries(self) -> int:
        """Entries under the newest checkpoint that this process showed."""
        return self._shown or 0

    @property
    def anchored_entries(self) -> int:
        """Entries under the last anchor, as far as this process looked."""
        return 0 if self._anchoring is None else self._anchoring.size

    @property
    def lag_seconds(self) -> float:
        """Since everything that is final was visible."""
        return self._monotonic() - self._visible_at

    # --- rounds ---

    async def run(self) -> None:
        """Keep and anchor the log until canceled. What fails is tried again after a pause."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep())
            if self._anchoring is not None:
                group.create_task(self._anchoring.run())

    async def _keep(self) -> None:
        try:
            while True:
                try:
                    await self.run_once()
                    self._rounds.round_done()
                except AioumError as error:
                    self._rounds.round_failed(error.code)
                except Exception as error:
                    # A bug here must end neither serving nor settling.
                    _log.exception("log-broke")
                    self._rounds.round_failed(AioumError(str(error)).code)
                    self._close()
                await asyncio.sleep(self._interval_seconds)
        finally:
            self._close()

    async def run_once(self) -> None:
        """One round, without anchoring.

        Raises:
            AioumError: it was given up; said in the log once for each reason.
        """
        try:
            await self._round()
        except (OSError, sqlite3.Error) as error:
            failure = LogFolderError(
                f"the log's folder cannot be used: {error}",
                code="log-disk-failed",
                hint="see to the disk; it goes on by itself",
            )
            self._failed(failure)
            raise failure from error
        except AioumError as error:
            self._failed(error)
            raise
        finally:
            self._tell_late()
        self._told = None

    async def close(self) -> None:
        """Give the folder up; for whoever runs single rounds."""
        self._close()

    async def may_forget(self, stored: StoredSession) -> bool:
        """Whether the log does not need a final session's rows any more.

        One that should be in the log and is not has the whole chain searched again.
        """
        facts = stored.facts
        if (
            facts.terms is None
            or facts.terms.operator != self._operator
            or (facts.chain_id, facts.payment_manager) != (self._chain.chain_id, self._chain.payment_manager)
        ):
            return True
        try:
            if not await self._unlogged([facts.channel_id]):
                return True
        except sqlite3.Error:
            # Closed meanwhile, or damaged: the next round says so.
            return False
        self._search_all = self._has_searched
        return False

    async def _round(self) -> None:
        if self._log is None:
            await to_its_end(asyncio.to_thread(self._open))
        log = self._log
        if log is None:
            raise AssertionError("the log was opened")
        writes = self._may_write()
        if self._shared is not None:
            await self._take_over(log, self._shared)
        is_complete = await self._take_in(log, writes)
        refusal = None if self._anchoring is None else self._anchoring.refusal
        if refusal == "log-rolled-back":
            # What is public may be behind alone: publishing holds all of the log against the anchor.
            self._is_publisher = False
        elif refusal is not None:
            # Nothing more comes out of a folder that is damaged, or contradicts its anchor.
            return
        is_shown = await (self._publish(log) if writes else self._follow(log))
        if is_complete and is_shown:
            self._visible_at = self._monotonic()
            self._is_late_told = False
            self._on_visible()

    async def _take_over(self, log: SessionLog, shared: SharedLog) -> None:
        """What another process committed to comes first: so the log goes on even if that one is lost."""
        committed = _size_of(await shared.latest())
        while log.folder.size < committed:
            data = await shared.entries(log.folder.size, committed)
            if not data:
                # Of a store that was moved here: the one who writes brings them.
                return
            await to_its_end(asyncio.to_thread(log.append_as_they_are, data))

    async def _take_in(self, log: SessionLog, writes: bool) -> bool:
        """Whether all that is final is in the log."""
        position = None if self._search_all else await asyncio.to_thread(log.index.position)
        self._search_all = False
        async for found in self._search.since(position):
            if found.entries and not writes:
                return False
            count = await to_its_end(asyncio.to_thread(log.append, found.entries))
            if count:
                self._observer.sessions_logged(count)
                _log.info("sessions-logged", sessions=count, size=log.folder.size)
            # Durable here: all that became final up to this block is in the log.
            if position is None or found.block.number != position[0]:
                position = (found.block.number, found.block.hash)
                await to_its_end(asyncio.to_thread(log.index.put_position, *position))
        self._has_searched = True
        return True

    async def _publish(self, log: SessionLog) -> bool:
        """Whether everybody can see all entries."""
        if self._is_publisher and self._shown == log.folder.size:
            return True
        known: list[Checkpoint] = []
        if self._anchoring is not None and (last := await self._anchoring.last()) is not None:
            known.append(last)
        try:
            if self._shared is not None:
                await self._share(log, self._shared)
            note = await to_its_end(
                publish(
                    log.folder,
                    self._register,
                    self._identity.key,
                    former_keys=self._identity.former_keys,
                    known=known,
                )
            )
        except Refused as error:
            if error.code != "lease-lost":
                raise
            # Another process writes from now on; this one follows.
            self._is_publisher = False
            return False
        self._shown, self._is_publisher = parse_checkpoint(note).size, True
        return True

    async def _share(self, log: SessionLog, shared: SharedLog) -> None:
        """Entries that are not committed to yet may be replaced; those that are never change."""
        start = min(_size_of(await shared.latest()), await shared.count())
        while start < log.folder.size:
            stop = min(start + _SHARED_AT_ONCE, log.folder.size)
            await shared.put(start, await asyncio.to_thread(log.entries, start, stop))
            start = stop

    async def _follow(self, log: SessionLog) -> bool:
        """Whether everybody can see all entries."""
        # Before this process signs again, it has to look at what others published meanwhile.
        self._is_publisher = False
        shown = await to_its_end(follow(log.folder, self._register, self._identity.public_keys))
        if shown is None:
            return False
        self._shown = shown.size
        return shown.size == log.folder.size

    async def _unlogged(self, channels: Sequence[ChannelId]) -> set[ChannelId]:
        log = self._log
        if log is None:
            return set(channels)
        return await asyncio.to_thread(log.index.without, channels)

    def _open(self) -> None:
        # Kept at once: nobody waits for what this gives where the node stops meanwhile.
        self._log = SessionLog.open(self._path, self._identity.origin)

    def _close(self) -> None:
        log, self._log = self._log, None
        self._is_publisher = False
        if log is not None:
            log.close()

    # --- what is told ---

    def _failed(self, error: AioumError) -> None:
        if isinstance(error, LogFolderError):
            # What is in the folder is known after it is opened again.
            self._close()
        if self._told != error.code:
            self._told = error.code
            self._observer.log_alert(error.code)
            _log.error("log-failed", code=error.code, error=str(error), hint=error.hint)

    def _tell_late(self) -> None:
        if not self._is_late_told and self.lag_seconds > self._max_delay_seconds / 2:
            self._is_late_told = True
            self._observer.log_alert(OVERDUE)
            _log.error(
                OVERDUE,
                seconds=int(self.lag_seconds),
                promised_seconds=self._max_delay_seconds,
                hint="see log-failed; sessions that end now may miss what the card promises",
            )


def _size_of(note: bytes | None) -> int:
    return 0 if note is None else parse_checkpoint(note).size
