"""Who signs: a port that a key in memory, a keystore file or a remote signer can stand behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from aioum.chain.keystore import create_keystore, load_keystore
from aioum.core.payment import Domain, SignedMessage
from aioum.core.signing import LocalKey
from aioum.core.types import Address

__all__ = ["LocalSigner", "Signer", "as_signer", "create_keystore", "load_keystore"]


class Signer(Protocol):
    """Signs for one account. Nothing that it signs is durable: the caller stores it before it leaves."""

    @property
    def address(self) -> Address:
        """The account."""
        ...

    async def sign(self, message: SignedMessage, domain: Domain) -> bytes:
        """Return the 65-byte signature `r‖s‖v` over one of the protocol's messages (PROTOCOL 3)."""
        ...

    async def sign_transaction(self, fields: Mapping[str, Any]) -> bytes:
        """Return the raw signed transaction, ready to be broadcast.

        Args:
            fields: an EIP-1559 transaction with every field set: chainId, nonce, to, data, value, gas,
                maxFeePerGas, maxPriorityFeePerGas.
        """
        ...


class LocalSigner:
    """Signs with a key in this process's memory."""

    def __init__(self, key: LocalKey) -> None:
        self._key = key

    @property
    def address(self) -> Address:
        """The key's account."""
        return self._key.address

    def __repr__(self) -> str:
        return f"LocalSigner({self._key!r})"

    async def sign(self, message: SignedMessage, domain: Domain) -> bytes:
        """See `Signer.sign`; takes about 0.1 ms, so it stays on the loop."""
        return self._key.sign_digest(message.digest(domain))

    async def sign_transaction(self, fields: Mapping[str, Any]) -> bytes:
        """See `Signer.sign_transaction`."""
        from eth_account import Account

        return bytes(Account.sign_transaction(dict(fields), self._key.secret_bytes()).raw_transaction)


def as_signer(key: LocalKey | Signer) -> Signer:
    """The signer of a key; a signer is its own."""
    return LocalSigner(key) if isinstance(key, LocalKey) else key
