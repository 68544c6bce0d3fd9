"""Calls of one session that are under way together, and the steps that need it quiet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Flights:
    """Who may begin a call, and when.

    Whoever has the turn begins calls; nobody else does, and turns come in the order of asking. Calls that are
    under way need no turn to end, so waiting for them with the turn in hand ends as well.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._under_way: set[int] = set()
        self._landed = asyncio.Event()

    @property
    def under_way(self) -> frozenset[int]:
        """Numbers of the calls that are being sent."""
        return frozenset(self._under_way)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """While the block lasts nobody else begins a call."""
        async with self._turn:
            yield

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """While the block lasts no call is under way."""
        async with self._turn:
            await self.fewer_than(1)
            yield

    async def fewer_than(self, calls: int) -> None:
        """With the turn in hand: wait until fewer calls than that are under way."""
        while len(self._under_way) >= calls:
            self._landed.clear()
            await self._landed.wait()

    @contextmanager
    def flight(self, number: int) -> Iterator[None]:
        """While the block lasts a call is under way. Enter it before the turn ends in which it was begun."""
        self._under_way.add(number)
        try:
            yield
        finally:
            self._under_way.discard(number)
            self._landed.set()
