"""Channel ids and the five signed messages (PROTOCOL 3): one EIP-712 table, one keccak over words.

eth-account serves only as a test oracle: the hot path concatenates 32-byte words under a cached separator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar, Final

from aioum.core.amounts import check_amount
from aioum.core.errors import InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.types import Address, Bytes32, ChannelId

DOMAIN_NAME: Final = "EVM Payment Channel"
DOMAIN_VERSION: Final = "1"
MAX_UINT64: Final = 2**64 - 1
_DOMAIN_TYPE = keccak256(
    b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)


@dataclass(frozen=True, slots=True)
class Domain:
    """The EIP-712 domain of one PaymentManager on one chain."""

    chain_id: int
    payment_manager: Address

    @property
    def separator(self) -> bytes:
        """The 32-byte domain separator."""
        return _separator(self.chain_id, self.payment_manager)


@lru_cache(maxsize=1024)
def _separator(chain_id: int, payment_manager: bytes) -> bytes:
    return keccak256(
        _DOMAIN_TYPE
        + keccak256(DOMAIN_NAME.encode())
        + keccak256(DOMAIN_VERSION.encode())
        + chain_id.to_bytes(32, "big")
        + payment_manager.rjust(32, b"\0")
    )


@dataclass(frozen=True, slots=True)
class SignedMessage(ABC):
    """One of the five EIP-712 messages; every one begins with the channel id."""

    channel_id: ChannelId

    TYPE: ClassVar[str]
    TYPE_HASH: ClassVar[bytes]

    @abstractmethod
    def words(self) -> bytes:
        """The 32-byte words after the channel id, concatenated."""

    def digest(self, domain: Domain) -> bytes:
        """The 32-byte EIP-712 digest under `domain`."""
        struct = keccak256(self.TYPE_HASH + self.channel_id + self.words())
        return keccak256(b"\x19\x01" + domain.separator + struct)


def _word(value: int) -> bytes:
    return value.to_bytes(32, "big")


def check_uint64(value: int, what: str) -> int:
    """Return `value` if it is a uint64. Raises InvalidInput `integer-out-of-range`."""
    if type(value) is not int or not 0 <= value <= MAX_UINT64:
        raise InvalidInput(f"{what} out of range 0…2^64-1: {value!r:.80}", code="integer-out-of-range")
    return value


@dataclass(frozen=True, slots=True)
class Voucher(SignedMessage):
    """A client's promise to pay `cumulative_amount` in all."""

    cumulative_amount: int

    TYPE: ClassVar[str] = "Voucher(bytes32 channelId,uint128 cumulativeAmount)"
    TYPE_HASH: ClassVar[bytes] = keccak256(TYPE.encode())

    def words(self) -> bytes:  # noqa: D102 - documented on the base
        return _word(check_amount(self.cumulative_amount))


@dataclass(frozen=True, slots=True)
class ReadAccess(SignedMessage):
    """A client's permission to read its own session until `expires_at` (unix seconds)."""

    expires_at: int

    TYPE: ClassVar[str] = "ReadAccess(bytes32 channelId,uint64 expiresAt)"
    TYPE_HASH: ClassVar[bytes] = keccak256(TYPE.encode())

    def words(self) -> bytes:  # noqa: D102 - documented on the base
        return _word(check_uint64(self.expires_at, "expiresAt"))


@dataclass(frozen=True, slots=True)
class CloseRequest(SignedMessage):
    """A client's request for a cooperative close after `call_count` calls."""

    call_count: int

    TYPE: ClassVar[str] = "CloseRequest(bytes32 channelId,uint64 callCount)"
    TYPE_HASH: ClassVar[bytes] = keccak256(TYPE.encode())

    def words(self) -> bytes:  # noqa: D102 - documented on the base
        return _word(check_uint64(self.call_count, "callCount"))


@dataclass(frozen=True, slots=True)
class CallReceipt(SignedMessage):
    """The receipt signer's word on one recorded call."""

    index: int
    leaf: Bytes32
    charge: int

    TYPE: ClassVar[str] = "CallReceipt(bytes32 channelId,uint64 index,bytes32 leaf,uint128 charge)"
    TYPE_HASH: ClassVar[bytes] = keccak256(TYPE.encode())

    def words(self) -> bytes:  # noqa: D102 - documented on the base
        return _word(check_uint64(self.index, "index")) + self.leaf + _word(check_amount(self.charge))


@dataclass(frozen=True, slots=True)
class Statement(SignedMessage):
    """The receipt signer's word on the contiguous prefix of `call_count` calls."""

    call_count: int
    root: Bytes32
    spent: int

    TYPE: ClassVar[str] = "Statement(bytes32 channelId,uint64 callCount,bytes32 root,uint128 spent)"
    TYPE_HASH: ClassVar[bytes] = keccak256(TYPE.encode())

    def words(self) -> bytes:  # noqa: D102 - documented on the base
        return _word(check_uint64(self.call_count, "callCount")) + self.root + _word(check_amount(self.spent))


@dataclass(frozen=True, slots=True)
class Terms:
    """A service's terms, content-addressed on-chain (PROTOCOL 4.1). Field order is the hash's order."""

    operator: Address
    payee: Address
    token: Address
    receipt_signer: Address
    arbitrator: Address
    descriptor_hash: Bytes32
    commit_required: bool
    dispute_window_seconds: int
    ruling_period_seconds: int
    dispute_bond: int


def terms_hash(chain_id: int, registry: Address, service_id: int, terms: Terms) -> Bytes32:
    """keccak256(abi.encode(chainId, registry, serviceId, Terms fields in order))."""
    words = [_word(chain_id), _pad(registry), _word(service_id)]
    for field in fields(terms):
        value = getattr(terms, field.name)
        words.append(value.rjust(32, b"\0") if isinstance(value, bytes) else _word(int(value)))
    return Bytes32(keccak256(b"".join(words)))


def session_salt(nonce: Bytes32, terms: Bytes32, roster_hash: Bytes32) -> Bytes32:
    """keccak256(abi.encode(nonce, termsHash, rosterHash)): binds terms and roster into the channel id."""
    return Bytes32(keccak256(nonce + terms + roster_hash))


def compute_channel_id(
    payer: Address, payee: Address, token: Address, salt: Bytes32, authorized_signer: Address, domain: Domain
) -> ChannelId:
    """The channel id of PROTOCOL 3, equal to the contract's `computeChannelId`."""
    return ChannelId(
        keccak256(
            _pad(payer)
            + _pad(payee)
            + _pad(token)
            + salt
            + _pad(authorized_signer)
            + _pad(domain.payment_manager)
            + _word(domain.chain_id)
        )
    )


def _pad(address: Address) -> bytes:
    return address.rjust(32, b"\0")
