"""Who is told about transactions on their way, for metrics."""

from __future__ import annotations

from typing import Final, Protocol

FEE_CAP_REACHED: Final = "fee-cap-reached"
"""Alert: a transaction waits for cheaper blocks, because a dearer one would cost more than allowed."""


class SendObserver(Protocol):
    """Told about transactions that do not get into a block by themselves."""

    def transaction_replaced(self) -> None:
        """A stuck transaction was replaced by a dearer one."""
        ...

    def transaction_alert(self, code: str) -> None:
        """A person may have to look: `fee-cap-reached`."""
        ...


class NoObserver:
    """Tells nobody."""

    def transaction_replaced(self) -> None:
        """See `SendObserver`."""

    def transaction_alert(self, code: str) -> None:
        """See `SendObserver`."""
