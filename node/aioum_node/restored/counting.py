"""How many sessions are suspect, for whoever watches the node."""

from __future__ import annotations

import asyncio

from aioum.core.errors import AioumError
from aioum_node.loops import LoopObserver, Unobserved
from aioum_node.store.incarnations import IncarnationStore


class SuspectCount:
    """Counts them again and again: the chain, a client or another process can make a session suspect.

    Args:
        store: where sessions lie.
        interval_seconds: pause between counts.
        observer: told how the rounds of `run` fare.

    Attributes:
        value: as counted last.
    """

    def __init__(
        self, store: IncarnationStore, interval_seconds: float, observer: LoopObserver | None = None
    ) -> None:
        self._store = store
        self._interval_seconds = interval_seconds
        self._observer = observer or Unobserved()
        self.value = 0

    async def run(self) -> None:
        """Count until canceled. A store that fails is asked again after a pause."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                await self.look()
                self._observer.round_done()
            except AioumError as error:
                # No entry in the log: whoever serves or settles says what the store has.
                self._observer.round_failed(error.code)

    async def look(self) -> None:
        """Count now. Raises AioumError `store-failed`."""
        self.value = await self._store.suspects()
