"""Whether a voucher pays for a call (PROTOCOL 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.core.errors import Refused


@dataclass(frozen=True, slots=True)
class Account:
    """The amounts of a session that a new call is held against, base units; see `ledger.SessionState`."""

    deposit: int
    accepted: int
    spent: int
    reserved: int
    signed: bool


def require_funds(account: Account, *, amount: int, price: int) -> None:
    """Whether a call that costs `price` is paid for, its voucher over `amount` included.

    Raises:
        Refused: `amount-exceeds-deposit`; `amount-not-increasing`, in an unsigned session every call needs a
            higher voucher; `payment-insufficient`. Details say what would have been enough.
    """
    required = account.spent + account.reserved + price
    if not account.signed:
        required = max(required, account.accepted + 1)
    funded = amount <= account.deposit and max(account.accepted, amount) >= required
    if funded and (account.signed or amount > account.accepted):
        return
    details = {
        "acceptedCumulative": str(account.accepted),
        "requiredCumulative": str(required),
        "deposit": str(account.deposit),
    }
    if amount > account.deposit:
        raise Refused(
            f"voucher {amount} is above the deposit {account.deposit}",
            code="amount-exceeds-deposit",
            hint="top up the session",
            details=details,
        )
    if not account.signed and amount <= account.accepted:
        raise Refused(
            f"a new call needs a voucher above {account.accepted}, got {amount}",
            code="amount-not-increasing",
            details=details,
        )
    raise Refused(f"voucher {amount} does not cover {required}", code="payment-insufficient", details=details)
