"""Retention: transcripts go when they are settled, released, logged and old enough, and never before
(PROTOCOL 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from aioum.core.errors import AioumError
from aioum.core.ledger import Phase
from aioum.core.types import ChannelId
from aioum_node.loops import LoopObserver, Unobserved
from aioum_node.store.port import Store, StoredSession

_SESSIONS_PER_ROUND: Final = 200

_log = structlog.get_logger(__name__)


MayForget = Callable[[StoredSession], Awaitable[bool]]


async def forget_any(stored: StoredSession) -> bool:
    """Nothing but age and held money keeps a session."""
    return True


async def remove_old(
    store: Store, *, now_ms: int, retention_ms: int, may_forget: MayForget = forget_any
) -> list[ChannelId]:
    """Remove sessions that were finalized more than `retention_ms` ago and of which nothing is held, at most
    200; returns which. Those that `may_forget` keeps stay, and so does what is behind 200 of them.

    Raises:
        AioumError: `store-failed`.
    """
    old = await store.sessions(
        (Phase.FINAL,), finalized_before_ms=now_ms - retention_ms, limit=_SESSIONS_PER_ROUND
    )
    removed = []
    for stored in old:
        if await may_forget(stored):
            await store.delete(stored.facts.channel_id)
            removed.append(stored.facts.channel_id)
    return removed


class RetentionLoop:
    """Removes old transcripts again and again.

    Args:
        store: where.
        retention_ms: how long a finalized session is kept, milliseconds.
        interval_seconds: pause between rounds.
        now_ms: unix milliseconds.
        on_removed: told each channel that was removed.
        observer: told how the rounds of `run` fare.
        may_forget: asked of each; the log keeps what is not in it yet.
    """

    def __init__(
        self,
        *,
        store: Store,
        retention_ms: int,
        interval_seconds: float,
        now_ms: Callable[[], int],
        on_removed: Callable[[ChannelId], None] = lambda channel_id: None,
        observer: LoopObserver | None = None,
        may_forget: MayForget = forget_any,
    ) -> None:
        self._store = store
        self._may_forget = may_forget
        self._retention_ms = retention_ms
        self._interval_seconds = interval_seconds
        self._now_ms = now_ms
        self._on_removed = on_removed
        self._observer = observer or Unobserved()

    async def run(self) -> None:
        """Remove until canceled."""
        while True:
            try:
                await self.run_once()
                self._observer.round_done()
            except AioumError as error:
                self._observer.round_failed(error.code)
                _log.error("retention-failed", code=error.code, error=str(error))
            await asyncio.sleep(self._interval_seconds)

    async def run_once(self) -> int:
        """Remove everything that is old enough now; returns how many sessions went.

        Raises:
            AioumError: `store-failed`.
        """
        total = 0
        kept: set[ChannelId] = set()

        async def may_forget(stored: StoredSession) -> bool:
            is_free = await self._may_forget(stored)
            if not is_free:
                kept.add(stored.facts.channel_id)
            return is_free

        while removed := await remove_old(
            self._store, now_ms=self._now_ms(), retention_ms=self._retention_ms, may_forget=may_forget
        ):
            for channel_id in removed:
                self._on_removed(channel_id)
            total += len(removed)
        if total:
            _log.info("transcripts-removed", sessions=total)
        if kept:
            _log.warning("transcripts-wait-for-log", sessions=len(kept))
        return total
