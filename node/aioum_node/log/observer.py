"""Who is told about the log, for metrics."""

from __future__ import annotations

from typing import Protocol


class LogObserver(Protocol):
    """Told about the log."""

    def sessions_logged(self, count: int) -> None:
        """This process appended so many."""
        ...

    def anchored(self, size: int, gas_used: int) -> None:
        """An anchor over so many entries was mined; this process sent it."""
        ...

    def log_alert(self, code: str) -> None:
        """A person should look; `code` says why."""
        ...


class NoObserver:
    """Tells nobody."""

    def sessions_logged(self, count: int) -> None:
        """See `LogObserver`."""

    def anchored(self, size: int, gas_used: int) -> None:
        """See `LogObserver`."""

    def log_alert(self, code: str) -> None:
        """See `LogObserver`."""
