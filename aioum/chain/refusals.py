"""What an endpoint's refusal of a transaction means. JSON-RPC has no codes for it, so each client's words are
listed.
"""

from __future__ import annotations

import re
from typing import Final

from aioum.chain.journal import SignedTransaction
from aioum.core.errors import ChainError
from aioum.core.hextext import to_hex

_ALREADY_KNOWN: Final = re.compile(
    r"already ?(?:known|imported|exists)|already_exists|known transaction", re.IGNORECASE
)
_NONCE_USED: Final = re.compile(r"nonce (?:is )?too low|oldnonce", re.IGNORECASE)
_REPLACEMENT: Final = re.compile(r"replac", re.IGNORECASE)
_INTERNAL: Final = re.compile(r"internal|time[ d]*out|upstream|unavailable|overloaded", re.IGNORECASE)
_NO_FUNDS: Final = re.compile(r"insufficient (?:funds|balance)", re.IGNORECASE)

# geth and most others; EIP-1474 "transaction rejected"; Nethermind and OpenEthereum; invalid parameters.
_JUDGMENTS: Final = (-32000, -32003, -32010, -32602)


def is_certain(error: ChainError) -> bool:
    """Whether the endpoint surely did not take the transaction: it judged it, and said no.

    An error within the endpoint, or between it and what is behind it, says nothing of the kind.
    """
    code, message = error.details.get("rpc_code"), _message(error)
    return code in _JUDGMENTS and not _ALREADY_KNOWN.search(message) and not _INTERNAL.search(message)


def is_already_known(message: str) -> bool:
    """Whether an endpoint's words say that it has the very same transaction."""
    return bool(_ALREADY_KNOWN.search(message))


def is_nonce_used(error: ChainError) -> bool:
    """Whether the endpoint refused the transaction because its nonce is spent on-chain."""
    return bool(_NONCE_USED.search(_message(error)))


def is_replacement(error: ChainError) -> bool:
    """Whether the endpoint refused the transaction because it has another one under its nonce, which pays no
    less.
    """
    return bool(_REPLACEMENT.search(_message(error)))


def refused(error: ChainError, transaction: SignedTransaction) -> ChainError:
    """The error for a transaction that the endpoint did not take, and that nobody else has seen."""
    message = _message(error)
    return ChainError(
        f"the endpoint refused {transaction.label}: {message}",
        code="transaction-refused",
        hint="fund the account for gas" if _NO_FUNDS.search(message) else None,
        details={"rpc_message": message, "transaction_hash": to_hex(transaction.transaction_hash)},
    )


def _message(error: ChainError) -> str:
    return str(error.details.get("rpc_message", ""))
