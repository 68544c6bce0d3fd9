"""Who is told how the node's loops fare, for metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias


class LoopObserver(Protocol):
    """Told about the rounds of one loop."""

    def round_done(self) -> None:
        """A round came to its end."""
        ...

    def round_failed(self, code: str) -> None:
        """A round was given up, with a reason code; the next one comes after the loop's pause."""
        ...


class Unobserved:
    """Tells nobody."""

    def round_done(self) -> None:
        """See `LoopObserver`."""

    def round_failed(self, code: str) -> None:
        """See `LoopObserver`."""


ObserverOf: TypeAlias = Callable[[str], LoopObserver]
"""Who is told of the loop with this name."""


def unobserved(loop: str) -> LoopObserver:
    """Nobody is told of any loop."""
    return Unobserved()
