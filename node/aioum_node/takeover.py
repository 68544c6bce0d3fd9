"""Calls of processes that died: another one of those that share the store records them as interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from aioum.core.errors import AioumError
from aioum_node.interrupted_calls import recover_interrupted
from aioum_node.loops import LoopObserver, Unobserved
from aioum_node.readiness import STORE, Readiness
from aioum_node.settings import Settings
from aioum_node.store.port import Store

_log = structlog.get_logger(__name__)


class TakeoverLoop:
    """Looks again and again for open calls that no living process runs.

    Every process looks. A call that two find is recorded by one of them, and one that was not dead after all
    finds its call recorded.

    Args:
        store: shared by processes.
        interval_seconds: pause between looks.
        now_ms: unix milliseconds.
        on_look: told after every look that the store answered.
        observer: told how the rounds of `run` fare.

    Attributes:
        taken: how many calls were recorded as interrupted so far.
    """

    def __init__(
        self,
        *,
        store: Store,
        interval_seconds: float,
        now_ms: Callable[[], int],
        on_look: Callable[[], None] = lambda: None,
        observer: LoopObserver | None = None,
    ) -> None:
        self._store = store
        self._interval_seconds = interval_seconds
        self._now_ms = now_ms
        self._on_look = on_look
        self._observer = observer or Unobserved()
        self.taken = 0

    async def run(self) -> None:
        """Take over until canceled. A store that fails is asked again after a pause."""
        failing = False
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.run_once()
                self._observer.round_done()
                failing = False
            except AioumError as error:
                self._observer.round_failed(error.code)
                if not failing:
                    _log.warning("takeover-failed", code=error.code, error=str(error))
                failing = True

    async def run_once(self) -> int:
        """Take over what is open now; returns how many calls that were.

        Raises:
            AioumError: `store-failed`.
        """
        taken = await recover_interrupted(self._store, self._now_ms())
        self._on_look()
        if taken:
            self.taken += taken
            _log.warning("calls-taken-over", calls=taken)
        return taken


async def started_takeover(
    settings: Settings,
    store: Store,
    now_ms: Callable[[], int],
    readiness: Readiness,
    observer: LoopObserver,
) -> TakeoverLoop:
    """The loop, after its first look. A store that it cannot look at for a while is not ready.

    Raises:
        AioumError: `store-failed`.
    """
    silence_seconds = settings.process_silence_seconds
    takeover = TakeoverLoop(
        store=store,
        interval_seconds=silence_seconds / 3,
        now_ms=now_ms,
        on_look=lambda: readiness.met(STORE, for_seconds=silence_seconds),
        observer=observer,
    )
    await takeover.run_once()
    return takeover
