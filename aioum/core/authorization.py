"""A payer's word to its token: EIP-3009's ReceiveWithAuthorization under the token's own EIP-712 domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.amounts import check_amount
from aioum.core.hashing import keccak256
from aioum.core.types import Address, Bytes32

_DOMAIN_TYPE: Final = keccak256(
    b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
_RECEIVE_TYPE: Final = keccak256(
    b"ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,"
    b"uint256 validBefore,bytes32 nonce)"
)


@dataclass(frozen=True, slots=True)
class TokenDomain:
    """The EIP-712 domain of a token; `name` and `version` are its own words."""

    name: str
    version: str
    chain_id: int
    token: Address

    @property
    def separator(self) -> Bytes32:
        """The 32-byte domain separator."""
        return Bytes32(
            keccak256(
                _DOMAIN_TYPE
                + keccak256(self.name.encode())
                + keccak256(self.version.encode())
                + _word(self.chain_id)
                + self.token.rjust(32, b"\0")
            )
        )


@dataclass(frozen=True, slots=True)
class ReceiveWithAuthorization:
    """`payer` lets `receiver`, and nobody else, pull `value` base units under this nonce, once.

    Attributes:
        valid_after, valid_before: unix seconds of the chain's clock, both excluded.
        nonce: 32 bytes; ours bind what the money is for (PROTOCOL 4.2).
    """

    payer: Address
    receiver: Address
    value: int
    valid_after: int
    valid_before: int
    nonce: Bytes32

    def digest(self, domain: TokenDomain) -> bytes:
        """The 32-byte EIP-712 digest. Raises InvalidInput `amount-invalid`."""
        struct = keccak256(
            _RECEIVE_TYPE
            + self.payer.rjust(32, b"\0")
            + self.receiver.rjust(32, b"\0")
            + _word(check_amount(self.value))
            + _word(self.valid_after)
            + _word(self.valid_before)
            + self.nonce
        )
        return keccak256(b"\x19\x01" + domain.separator + struct)


def _word(value: int) -> bytes:
    return value.to_bytes(32, "big")
