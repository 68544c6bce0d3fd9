"""EIP-712 signatures as eth-account's documentation shows them: typed data in, address or signature out."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from eth_account import Account
from eth_account.messages import SignableMessage, encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_utils.address import to_canonical_address

from aioum.core.payment import (
    DOMAIN_NAME,
    DOMAIN_VERSION,
    CallReceipt,
    CloseRequest,
    Domain,
    ReadAccess,
    SignedMessage,
    Statement,
    Voucher,
)
from aioum.core.types import Address

_DOMAIN_TYPES: Final = [
    {"name": "name", "type": "string"},
    {"name": "version", "type": "string"},
    {"name": "chainId", "type": "uint256"},
    {"name": "verifyingContract", "type": "address"},
]


def _members(kind: type[SignedMessage]) -> list[dict[str, str]]:
    listed = kind.TYPE[kind.TYPE.index("(") + 1 : -1].split(",")
    return [{"type": pair.split(" ")[0], "name": pair.split(" ")[1]} for pair in listed]


# One table at import, as anyone would keep it: naive is what happens with it on every call.
_TYPES: Final[dict[type[SignedMessage], dict[str, list[dict[str, str]]]]] = {
    kind: {"EIP712Domain": _DOMAIN_TYPES, kind.__name__: _members(kind)}
    for kind in (Voucher, ReadAccess, CloseRequest, CallReceipt, Statement)
}


def typed_data(message: SignedMessage, domain: Domain) -> dict[str, Any]:
    """The typed data of a message."""
    name = type(message).__name__
    types = _TYPES[type(message)]
    values = [getattr(message, field.name) for field in fields(message)]
    return {
        "types": types,
        "primaryType": name,
        "domain": {
            "name": DOMAIN_NAME,
            "version": DOMAIN_VERSION,
            "chainId": domain.chain_id,
            "verifyingContract": "0x" + domain.payment_manager.hex(),
        },
        "message": {member["name"]: value for member, value in zip(types[name], values, strict=True)},
    }


def _signable(message: SignedMessage, domain: Domain) -> SignableMessage:
    return encode_typed_data(full_message=typed_data(message, domain))


def recover_with_eth_account(message: SignedMessage, domain: Domain, signature: bytes) -> Address:
    """The address that signed a message. Raises what eth-account raises."""
    return Address(
        to_canonical_address(Account.recover_message(_signable(message, domain), signature=signature))
    )


def sign_with_eth_account(message: SignedMessage, domain: Domain, account: LocalAccount) -> bytes:
    """The 65-byte signature of a message."""
    return bytes(account.sign_message(_signable(message, domain)).signature)
