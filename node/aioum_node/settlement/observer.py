"""Who is told about settlements, for metrics."""

from __future__ import annotations

from typing import Protocol


class SettleObserver(Protocol):
    """Told about settlements, for metrics."""

    def settled(self, captured: int, gas_used: int) -> None:
        """A settlement was mined: base units captured, gas used."""
        ...

    def settlement_failed(self, code: str) -> None:
        """An attempt failed, or a person must look; `code` says why. It may be tried again later."""
        ...


class NoObserver:
    """Tells nobody."""

    def settled(self, captured: int, gas_used: int) -> None:
        """See `SettleObserver`."""

    def settlement_failed(self, code: str) -> None:
        """See `SettleObserver`."""
