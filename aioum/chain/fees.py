"""What a transaction may cost, and what it takes to replace one that is stuck: pure arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_REPLACE_AFTER_SECONDS: Final = 60.0
# Endpoints take a replacement that raises both fees by a tenth at least; some of them want an eighth.
_BUMP_DIVISOR: Final = 8


@dataclass(frozen=True, slots=True)
class Fees:
    """EIP-1559 fees per unit of gas, in wei."""

    max_fee: int
    max_priority_fee: int


@dataclass(frozen=True, slots=True)
class Market:
    """What a block costs now: the newest base fee and what is added for priority, wei per unit of gas."""

    base_fee: int
    priority_fee: int

    @property
    def fees(self) -> Fees:
        """Fees that outlast six full blocks (each raises the base fee by an eighth)."""
        return Fees(2 * self.base_fee + self.priority_fee, self.priority_fee)


@dataclass(frozen=True, slots=True)
class FeePolicy:
    """How a sender pays.

    Attributes:
        replace_after_seconds: a transaction that is not in a block for so long is replaced by a dearer one.
        max_fee_per_gas_wei: never more than this per unit of gas; None: whatever it takes.
    """

    replace_after_seconds: float = DEFAULT_REPLACE_AFTER_SECONDS
    max_fee_per_gas_wei: int | None = None

    def first(self, market: Market) -> Fees | None:
        """The fees of a new transaction; None where no block would take what may be paid."""
        return self._within(market.fees, market)

    def replacement(self, paid: Fees, market: Market) -> Fees | None:
        """The fees of a transaction that takes the place of another one: both an eighth higher at least.

        Args:
            paid: those of the other one.
            market: now.

        Returns:
            None where that is more than may be paid, or where no block would take what may be paid.
        """
        needed, least = market.fees, _raised(paid.max_fee)
        wanted = Fees(
            max(least, needed.max_fee), max(_raised(paid.max_priority_fee), needed.max_priority_fee)
        )
        fees = self._within(wanted, market)
        return None if fees is None or fees.max_fee < least else fees

    def _within(self, fees: Fees, market: Market) -> Fees | None:
        cap = self.max_fee_per_gas_wei
        if cap is None or fees.max_fee <= cap:
            return fees
        return Fees(cap, min(fees.max_priority_fee, cap)) if market.base_fee <= cap else None


def _raised(fee: int) -> int:
    # Rounded up, and never equal: a fee of nothing has to rise, too.
    return fee + max(1, -(-fee // _BUMP_DIVISOR))
