"""Who is told about held money, for metrics."""

from __future__ import annotations

from typing import Protocol


class DisputeObserver(Protocol):
    """Told about held money."""

    def challenge_answered(self) -> None:
        """An answer of this process was mined."""
        ...

    def money_released(self, amount: int) -> None:
        """Held money left for the payee, and this process saw it: base units."""
        ...

    def dispute_alert(self, code: str) -> None:
        """A person should look, or may have to; `code` says why."""
        ...


class NoObserver:
    """Tells nobody."""

    def challenge_answered(self) -> None:
        """See `DisputeObserver`."""

    def money_released(self, amount: int) -> None:
        """See `DisputeObserver`."""

    def dispute_alert(self, code: str) -> None:
        """See `DisputeObserver`."""
