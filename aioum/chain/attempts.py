"""One call under one nonce, with every transaction that was signed for it.

A stuck transaction is replaced by a dearer one of the same nonce and the same call. At most one of them ever
happens, and each of them may: so all are kept, and only all of them together say that none did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from aioum.chain.fees import Fees
from aioum.chain.journal import SignedTransaction
from aioum.core.hextext import to_hex

_CHANNEL: Final = re.compile(r"0x[0-9a-f]{64}\b")


@dataclass(slots=True)
class Attempt:
    """What was signed for one call; the oldest variant first, at least one.

    Attributes:
        is_cap_told: that no dearer one may be signed was told.
    """

    variants: list[SignedTransaction]
    is_cap_told: bool = False

    @property
    def first(self) -> SignedTransaction:
        """The transaction that was signed first; it names the attempt."""
        return self.variants[0]

    @property
    def newest(self) -> SignedTransaction:
        """The dearest one."""
        return self.variants[-1]

    @property
    def nonce(self) -> int:
        """The nonce of all of them."""
        return self.first.nonce

    def facts(self) -> dict[str, Any]:
        """For errors and log entries."""
        return {
            "transaction_hash": to_hex(self.newest.transaction_hash),
            "purpose": self.first.purpose,
            "channels": _CHANNEL.findall(self.first.purpose),
            "nonce": self.nonce,
            "replacements": len(self.variants) - 1,
        }


def attempts_in(transactions: Iterable[SignedTransaction]) -> list[Attempt]:
    """Put the variants of each call together.

    Args:
        transactions: of one account; those of one nonce in the order in which they were signed.
    """
    found: dict[tuple[int, str, bytes], Attempt] = {}
    for transaction in transactions:
        key = (transaction.nonce, transaction.purpose, _call(transaction))
        attempt = found.get(key)
        if attempt is None:
            found[key] = Attempt([transaction])
        else:
            attempt.variants.append(transaction)
    return list(found.values())


def fields_of(transaction: SignedTransaction) -> dict[str, Any]:
    """The fields that were signed, by their JSON-RPC names; `to`, `data` as bytes, without the signature."""
    from eth_account.typed_transactions.typed_transaction import TypedTransaction
    from hexbytes import HexBytes

    fields = TypedTransaction.from_bytes(HexBytes(transaction.raw)).as_dict()
    signed = ("type", "chainId", "nonce", "value", "gas", "maxFeePerGas", "maxPriorityFeePerGas")
    return {
        **{name: int(fields[name]) for name in signed},
        **{name: bytes(HexBytes(fields[name])) for name in ("to", "data")},
    }


def fees_of(transaction: SignedTransaction) -> Fees:
    """The fees that were signed."""
    fields = fields_of(transaction)
    return Fees(fields["maxFeePerGas"], fields["maxPriorityFeePerGas"])


def _call(transaction: SignedTransaction) -> bytes:
    fields = fields_of(transaction)
    return b"".join((fields["to"], fields["value"].to_bytes(32, "big"), fields["data"]))
