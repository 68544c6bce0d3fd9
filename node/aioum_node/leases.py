"""Work that one process at a time may do, where several serve the same sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from aioum.core.errors import AioumError
from aioum_node.loops import LoopObserver, Unobserved

_RENEWALS_PER_LEASE: Final = 5

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """That a process may do what `name` says; a later holder has a higher `token`."""

    name: str
    process: int
    token: int


class Leases(Protocol):
    """Leases of one process. One that is not renewed lapses, and then another process can take it."""

    @property
    def held_seconds(self) -> float:
        """How long a lease is held without being renewed."""
        ...

    async def take(self, name: str) -> Lease | None:
        """Take or renew a lease; None where another process holds it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give it back; one that was taken over meanwhile is left alone."""
        ...


class LeaseKeeper:
    """Does some work while this process holds a lease, and none while another one does.

    Args:
        leases: of this process.
        name: what the work is.
        monotonic: seconds of a clock that never goes back.
        observer: told of each time that the lease was asked for; another process may have it.
    """

    def __init__(
        self,
        leases: Leases,
        name: str,
        monotonic: Callable[[], float],
        observer: LoopObserver | None = None,
    ) -> None:
        self._leases = leases
        self._name = name
        self._monotonic = monotonic
        self._observer = observer or Unobserved()
        self._lease: Lease | None = None
        self._until = 0.0

    @property
    def lease(self) -> Lease | None:
        """The lease while it is surely held; whoever writes as its holder shows it to the store."""
        return self._lease if self._monotonic() < self._until else None

    async def run(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run `work` whenever the lease is held, until canceled. Work that ends, or fails, ends this too.

        It is canceled when the lease is lost, and begins again when it is held again.
        """
        try:
            while True:
                if await self._tenure(work):
                    return
                await asyncio.sleep(self._pause_seconds)
        finally:
            await self._release()

    async def run_once(self, work: Callable[[], Coroutine[None, None, None]]) -> bool:
        """Run `work` as soon as the lease is held; False where another process keeps holding it."""
        deadline = self._monotonic() + 2 * self._leases.held_seconds
        try:
            while not await self._tenure(work):
                if self._monotonic() >= deadline:
                    return False
                await asyncio.sleep(self._pause_seconds)
        finally:
            await self._release()
        return True

    async def _release(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            # Where this fails, the next holder waits until the lease lapsed.
            with suppress(AioumError):
                await self._leases.release(lease)

    @property
    def _pause_seconds(self) -> float:
        return self._leases.held_seconds / _RENEWALS_PER_LEASE

    async def _tenure(self, work: Callable[[], Coroutine[None, None, None]]) -> bool:
        """One time of holding the lease; True where the work came to its end."""
        if not await self.renew():
            return False
        lease = self._lease
        _log.info("lease-taken", lease=self._name, token=None if lease is None else lease.token)
        task = asyncio.create_task(work())
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=self._pause_seconds)
                if not task.done() and not await self.renew():
                    _log.warning("lease-lost", lease=self._name)
                    return False
            await task
            return True
        finally:
            task.cancel()
            # Does not raise what the work does, so a cancellation here is this task's own.
            await asyncio.wait({task})

    async def renew(self) -> bool:
        """Take or renew the lease; whether it is held, and without a break where it was held before.

        After a break it counts as lost until it is taken anew: work that was under way does not know what
        others did meanwhile, and must not write with the new token.
        """
        former = self._lease
        started = self._monotonic()
        try:
            lease = await self._leases.take(self._name)
        except AioumError as error:
            # The database is away. What was held is still held, until its time is over.
            _log.warning("lease-renewal-failed", lease=self._name, code=error.code)
            self._observer.round_failed(error.code)
            self._lease = self.lease
            return self._lease is not None
        self._observer.round_done()
        if former not in (None, lease):
            lease = None
        self._lease = lease
        self._until = started + self._leases.held_seconds
        return lease is not None
