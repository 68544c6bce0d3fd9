"""Token buckets: a lasting rate, and a burst above it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import ceil

from aioum.core.errors import Refused


@dataclass(frozen=True, slots=True)
class Rate:
    """A lasting number per second, and how many at once above it."""

    per_second: float
    burst: int


class TokenBuckets:
    """One bucket for each key, at most `max_entries` of them.

    A bucket that has been left alone until it is full again is the same as none. Where there are too many,
    the one that was asked least lately goes: who has that many addresses is slowed down by other limits.
    """

    def __init__(self, rate: Rate, *, max_entries: int, monotonic: Callable[[], float]) -> None:
        """Args: monotonic: seconds."""
        self._rate = rate
        self._max_entries = max_entries
        self._monotonic = monotonic
        # When each bucket will be full again. One number says both how full it is, and since when.
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        """Buckets that are remembered."""
        return len(self._full_at)

    def take(self, key: Hashable) -> None:
        """Take one token.

        Raises:
            Refused: `rate-limited`, nothing was taken; the detail `retryAfterSeconds` says when there is one.
        """
        now = self._monotonic()
        full_at = max(self._full_at.get(key, now), now) + 1 / self._rate.per_second
        wait_seconds = full_at - now - self._rate.burst / self._rate.per_second
        # A rounding error is no reason to refuse what is due.
        if wait_seconds > 1e-9:
            raise Refused(
                f"more than {self._rate.per_second:g} requests per second",
                code="rate-limited",
                details={"retryAfterSeconds": ceil(wait_seconds)},
            )
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        self._forget(now)

    def _forget(self, now: float) -> None:
        # Two a step: the table shrinks again after a crowd, and no step takes long.
        for _ in range(2):
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > now and len(self._full_at) <= self._max_entries:
                return
            if len(self._full_at) == 1:
                return
            del self._full_at[oldest]


class Shares:
    """How much of something each key holds at this moment; keys that hold nothing are not remembered."""

    def __init__(self, most: int) -> None:
        """Args: most: what one key may hold."""
        self._most = most
        self._held: dict[Hashable, int] = {}

    def __len__(self) -> int:
        """Keys that hold something."""
        return len(self._held)

    def take(self, key: Hashable) -> bool:
        """Take one more; False where the key has its share."""
        held = self._held.get(key, 0)
        if held >= self._most:
            return False
        self._held[key] = held + 1
        return True

    def give_back(self, key: Hashable) -> None:
        """Give one back that was taken."""
        if self._held[key] == 1:
            del self._held[key]
        else:
            self._held[key] -= 1
