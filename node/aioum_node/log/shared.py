"""What the processes of one operator share of their log: its newest checkpoint, and its entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class SharedLog(Protocol):
    """A `CheckpointRegister` with the entries beside it. Those that its checkpoint counts never change."""

    async def latest(self) -> bytes | None:
        """See `CheckpointRegister`."""
        ...

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        """See `CheckpointRegister`."""
        ...

    async def count(self) -> int:
        """How many entries there are, from the first; what the checkpoint does not count means nothing."""
        ...

    async def entries(self, start: int, stop: int) -> list[bytes]:
        """Entries from `start` on, before `stop`: fewer where they are many, none where there are none."""
        ...

    async def put(self, start: int, entries: Sequence[bytes]) -> None:
        """Put entries from `start` on, durably, in the place of what is there."""
        ...
