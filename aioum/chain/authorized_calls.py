"""Openings and top-ups that a payer signs and somebody else sends (EIP-3009; PROTOCOL 4.2).

The token moves the money by the payer's signature over a nonce that binds what it is for, so that a relayer
can neither change nor reuse it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.chain.abi import PAYMENT_MANAGER, encode_call
from aioum.chain.calls import ContractCall
from aioum.core.amounts import check_amount
from aioum.core.hashing import keccak256
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, ChannelId

_OPEN_SESSION_DOMAIN: Final = keccak256(b"aioum.openSession")
_GAS: Final = 600_000


@dataclass(frozen=True, slots=True)
class Authorization:
    """A payer's word to its token, over one of the nonces below.

    Attributes:
        valid_after, valid_before: unix seconds, both excluded.
        signature: 65 bytes r, s, v; of another length: what the payer's ERC-1271 contract takes.
    """

    valid_after: int
    valid_before: int
    signature: bytes


def opening_nonce(channel_id: ChannelId) -> Bytes32:
    """The EIP-3009 nonce that opens this session and nothing else."""
    return Bytes32(keccak256(_OPEN_SESSION_DOMAIN + channel_id))


def top_up_nonce(
    channel_id: ChannelId, additional_deposit: int, payer: Address, top_up_salt: Bytes32
) -> Bytes32:
    """The EIP-3009 nonce that adds this much to this session; `top_up_salt` tells equal ones apart."""
    amount = check_amount(additional_deposit).to_bytes(32, "big")
    return Bytes32(keccak256(channel_id + amount + payer.rjust(32, b"\0") + top_up_salt))


def open_session_with_authorization(
    payment_manager: Address,
    *,
    payer: Address,
    service_id: int,
    terms_hash: Bytes32,
    deposit: int,
    nonce: Bytes32,
    authorization: Authorization,
    authorized_signer: Address = ZERO_ADDRESS,
    roster_hash: Bytes32 = ZERO_BYTES32,
) -> ContractCall:
    """Open a session for a payer that signed for `opening_nonce` of its channel. By anyone."""
    args = (
        payer, service_id, terms_hash, check_amount(deposit), nonce, authorized_signer, roster_hash,
        _struct(authorization),
    )  # fmt: skip
    name = "openSessionWithAuthorization"
    return ContractCall(payment_manager, encode_call(PAYMENT_MANAGER, name, args), _GAS, name)


def top_up_with_authorization(
    payment_manager: Address,
    channel_id: ChannelId,
    additional_deposit: int,
    top_up_salt: Bytes32,
    authorization: Authorization,
) -> ContractCall:
    """Add to a deposit of a payer that signed `top_up_nonce`. By anyone; not while a close is pending."""
    args = (channel_id, check_amount(additional_deposit), top_up_salt, _struct(authorization))
    name = "topUpWithAuthorization"
    return ContractCall(payment_manager, encode_call(PAYMENT_MANAGER, name, args), _GAS, name)


def _struct(authorization: Authorization) -> tuple[int, int, bytes]:
    return (authorization.valid_after, authorization.valid_before, authorization.signature)
