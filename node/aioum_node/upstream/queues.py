"""A semaphore whose queue can be watched."""

from __future__ import annotations

import asyncio
from typing import Literal


class WatchedSemaphore(asyncio.Semaphore):
    """A semaphore. Attributes: waiting: how many tasks wait for it at this moment."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.waiting = 0

    async def acquire(self) -> Literal[True]:
        """See `asyncio.Semaphore`."""
        self.waiting += 1
        try:
            return await super().acquire()
        finally:
            self.waiting -= 1
