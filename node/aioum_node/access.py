"""Signatures of a session's client: by ECDSA first, and by its contract where that is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aioum.core.errors import Refused, SignatureInvalid
from aioum.core.payment import Domain, ReadAccess, SignedMessage
from aioum.core.signing import recover
from aioum.core.types import Address

MAX_READ_ACCESS_SECONDS = 86_400


class ContractSignatures(Protocol):
    """Asks a contract about a signature (ERC-1271)."""

    async def is_valid_signature(
        self, signer: Address, digest: bytes, signature: bytes, block: int | None = None
    ) -> bool:
        """Whether the contract accepts it; False where there is no code."""
        ...


class ClientSignatures:
    """Checks signatures of clients.

    Args:
        contracts: asked where ECDSA does not give the signer; None where contract signers are not accepted,
            since their vouchers can be revoked after service (PROTOCOL 3).
    """

    def __init__(self, contracts: ContractSignatures | None) -> None:
        self._contracts = contracts

    @property
    def accepts_contracts(self) -> bool:
        """Whether contracts may sign."""
        return self._contracts is not None

    async def require(
        self, message: SignedMessage, domain: Domain, signature: bytes, signers: Sequence[Address]
    ) -> None:
        """Check that one of `signers` signed.

        Raises:
            SignatureInvalid: as `recover`, or `signer-mismatch`.
            ChainError: the contract could not be asked.
        """
        digest = message.digest(domain)
        try:
            if recover(digest, signature) in signers:
                return
            failure = SignatureInvalid(
                "signed by somebody else than the session's client", code="signer-mismatch"
            )
        except SignatureInvalid as error:
            failure = error
        if self._contracts is not None:
            for signer in signers:
                if await self._contracts.is_valid_signature(signer, digest, signature):
                    return
        raise failure


def require_fresh(access: ReadAccess, now_seconds: int) -> None:
    """Check the time limits of a read access.

    Raises:
        Refused: `read-access-expired` or `read-access-too-long`.
    """
    if access.expires_at < now_seconds:
        raise Refused("the read access has expired", code="read-access-expired")
    if access.expires_at > now_seconds + MAX_READ_ACCESS_SECONDS:
        raise Refused(
            f"a read access lasts at most {MAX_READ_ACCESS_SECONDS} seconds", code="read-access-too-long"
        )
