"""Whether the node may take calls: every part that it needs has reported in, lately enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STORE: Final = "store"
"""The condition that the store takes and gives what it is asked to; more than one part reports on it."""


class Readiness:
    """Named conditions; the node is ready when none is unmet.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._until: dict[str, float | None] = {}
        self._looks: dict[str, Callable[[], bool]] = {}

    def require(self, name: str) -> None:
        """Name a condition; it is unmet until `met`."""
        self._until[name] = 0.0

    def met(self, name: str, *, for_seconds: float | None = None) -> None:
        """A condition holds, for a time or (None) until `unmet`."""
        self._until[name] = None if for_seconds is None else self._monotonic() + for_seconds

    def unmet(self, name: str) -> None:
        """A condition no longer holds."""
        self._until[name] = 0.0

    def require_while(self, name: str, holds: Callable[[], bool]) -> None:
        """A condition that is looked at whenever somebody asks, beside what was said of it."""
        self._looks[name] = holds

    def missing(self) -> list[str]:
        """The unmet conditions, sorted."""
        now = self._monotonic()
        over = {name for name, until in self._until.items() if until is not None and until <= now}
        return sorted(over | {name for name, holds in self._looks.items() if not holds()})
