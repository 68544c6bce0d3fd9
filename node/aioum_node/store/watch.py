"""Whether something durable can be written: calls that come while it cannot are refused before they run."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import structlog

from aioum.core.errors import AioumError
from aioum_node.loops import LoopObserver

_INTERVAL_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


class CheckedStore(Protocol):
    """A store that knows whether its last step failed; see `storage.NodeStore`."""

    @property
    def failure(self) -> AioumError | None:
        """Why the last step failed."""
        ...

    async def check(self) -> None:
        """Make a small step."""
        ...


class StoreWatch:
    """Where a step of the store failed, makes small ones until one succeeds: nobody else may come any more.

    Args:
        store: what is watched.
        observer: told how the rounds fare.
        interval_seconds: pause between two looks.
    """

    def __init__(
        self, store: CheckedStore, observer: LoopObserver, interval_seconds: float = _INTERVAL_SECONDS
    ) -> None:
        self._store = store
        self._observer = observer
        self._interval_seconds = interval_seconds

    def holds(self) -> bool:
        """Whether the last step succeeded."""
        return self._store.failure is None

    async def run(self) -> None:
        """Look until canceled. A failure is said once for each reason."""
        told: str | None = None
        while True:
            failure = self._store.failure
            if failure is not None:
                try:
                    await self._store.check()
                    failure = self._store.failure
                except AioumError as error:
                    failure = error
            if failure is None:
                self._observer.round_done()
                if told is not None:
                    _log.info("storing-again", after=told)
                told = None
            else:
                self._observer.round_failed(failure.code)
                if failure.code != told:
                    _log.error("storing-failed", code=failure.code, error=str(failure), hint=failure.hint)
                told = failure.code
            await asyncio.sleep(self._interval_seconds)
