"""What an external signer is asked, and what it may answer: pure functions.

A signer is trusted with a key, not with what is signed: each answer is held against what was asked, so a
signer that is broken, misconfigured or taken over can refuse, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, ClassVar, Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import ChainError, InvalidInput, SignatureInvalid
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, from_hex, to_hex
from aioum.core.payment import DOMAIN_NAME, DOMAIN_VERSION, Domain, SignedMessage
from aioum.core.signing import SIGNATURE_SIZE_BYTES, recover
from aioum.core.types import Address

_TYPE: Final = re.compile(r"(\w+)\(((?:\w+ \w+)(?:,\w+ \w+)*)\)")
_DOMAIN_MEMBERS: Final = (
    ("string", "name"),
    ("string", "version"),
    ("uint256", "chainId"),
    ("address", "verifyingContract"),
)
# In the order of the envelope, so that the first difference is the one that is named.
_TRANSACTION_FIELDS: Final = (
    *("type", "chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value", "data"),
    "accessList",
)


class SignerError(ChainError):
    """An external signer gave no signature that may be used; nothing was signed, or it was thrown away.

    Texts and details reach clients of a node: no address and no words of the signer are in them.
    """

    default_code: ClassVar[str] = "signer-unreachable"


class SignerKind(StrEnum):
    """The JSON-RPC dialect of a signer.

    Attributes:
        CLEF: `account_…` methods; typed data as an object, the transaction as `{"raw", "tx"}`.
        WEB3SIGNER: `eth_…` methods; typed data as JSON text, the transaction as hex text.
    """

    CLEF = "clef"
    WEB3SIGNER = "web3signer"

    @property
    def list_method(self) -> str:
        """The method that lists accounts."""
        return "account_list" if self is SignerKind.CLEF else "eth_accounts"

    @property
    def message_method(self) -> str:
        """The method that signs typed data."""
        return "account_signTypedData" if self is SignerKind.CLEF else "eth_signTypedData"

    @property
    def transaction_method(self) -> str:
        """The method that signs transactions."""
        return "account_signTransaction" if self is SignerKind.CLEF else "eth_signTransaction"


def typed_data(message: SignedMessage, domain: Domain, kind: SignerKind) -> dict[str, JsonValue]:
    """The EIP-712 JSON of a message, whose digest is the message's own.

    Raises:
        SignerError: `signer-message-invalid`, the two digests differ: a signer must not be asked.
    """
    matched = _TYPE.fullmatch(message.TYPE)
    names = [] if matched is None else [tuple(member.split(" ")) for member in matched.group(2).split(",")]
    values = [getattr(message, field.name) for field in fields(message)]
    if matched is None or len(names) != len(values):
        raise _not_the_message()
    # Numbers as text keep all their digits everywhere; clef takes the chain's number as text only.
    chain_id: JsonValue = str(domain.chain_id) if kind is SignerKind.CLEF else domain.chain_id
    made: dict[str, JsonValue] = {
        "types": {
            "EIP712Domain": [{"name": name, "type": kind_} for kind_, name in _DOMAIN_MEMBERS],
            matched.group(1): [{"name": name, "type": kind_} for kind_, name in names],
        },
        "primaryType": matched.group(1),
        "domain": {
            "name": DOMAIN_NAME,
            "version": DOMAIN_VERSION,
            "chainId": chain_id,
            "verifyingContract": address_text(domain.payment_manager),
        },
        "message": {
            name: to_hex(value) if isinstance(value, bytes) else str(value)
            for (_, name), value in zip(names, values, strict=True)
        },
    }
    if digest_of(made) != message.digest(domain):
        raise _not_the_message()
    return made


def digest_of(typed: Mapping[str, Any]) -> bytes:
    """The 32-byte digest of EIP-712 JSON as another implementation than ours reads it."""
    from eth_account.messages import encode_typed_data

    signable = encode_typed_data(full_message=dict(typed))
    return keccak256(b"\x19" + signable.version + signable.header + signable.body)


def transaction_json(fields_: Mapping[str, Any], account: Address) -> dict[str, JsonValue]:
    """The transaction as JSON-RPC takes it; a creation has no `to`."""
    asked: dict[str, JsonValue] = {
        "from": address_text(account),
        "chainId": hex(fields_["chainId"]),
        "nonce": hex(fields_["nonce"]),
        "gas": hex(fields_["gas"]),
        "maxFeePerGas": hex(fields_["maxFeePerGas"]),
        "maxPriorityFeePerGas": hex(fields_["maxPriorityFeePerGas"]),
        "value": hex(fields_["value"]),
        "data": to_hex(bytes(fields_["data"])),
    }
    if fields_["to"]:
        asked["to"] = address_text(Address(bytes(fields_["to"])))
    return asked


def require_account(answer: JsonValue, account: Address) -> None:
    """Check that a list of accounts has this one.

    Raises:
        SignerError: `signer-answer-invalid`, `signer-account-unknown`.
    """
    if not isinstance(answer, list):
        raise answer_invalid("no list of accounts")
    if address_text(account).lower() not in {str(listed).lower() for listed in answer}:
        raise SignerError(
            f"the external signer has no key of {address_text(account)}",
            code="signer-account-unknown",
            hint="name an address that it lists, or give it the key",
        )


def signature_in(answer: JsonValue, digest: bytes, account: Address) -> bytes:
    """The 65-byte signature `r‖s‖v` of an answer, v in {27, 28}.

    Raises:
        SignerError: `signer-answer-invalid`, `signer-high-s`, or `signer-wrong-address`: another key signed,
            or something else than what was asked.
    """
    try:
        signature = from_hex(answer, SIGNATURE_SIZE_BYTES)
    except InvalidInput:
        raise answer_invalid("no 65 bytes of hex") from None
    if signature[64] in (0, 1):
        signature = signature[:64] + bytes((signature[64] + 27,))
    _require_signed_by(digest, signature, account)
    return signature


def transaction_in(answer: JsonValue, asked: Mapping[str, Any], account: Address) -> bytes:
    """The raw transaction of an answer, which is exactly what was asked, signed by `account`.

    Args:
        answer: hex text, or an object with it in `raw`.
        asked: as `Signer.sign_transaction`.
        account: who was asked to sign.

    Raises:
        SignerError: `signer-answer-invalid`, `signer-high-s`, `signer-wrong-address`, or `signer-altered`
            (details `field`): it signed another transaction.
    """
    from eth_account.typed_transactions.typed_transaction import TypedTransaction
    from hexbytes import HexBytes

    try:
        raw = from_hex(answer.get("raw") if isinstance(answer, dict) else answer)
    except InvalidInput:
        raise answer_invalid("no raw transaction in hex") from None
    expected = _comparable(asked)
    if raw[:1] != b"\x02":
        raise _altered("type")
    try:
        signed = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    except Exception as error:
        # The library lets a dozen exceptions of its own and of its codecs escape from damaged bytes.
        raise answer_invalid("a transaction that cannot be decoded") from error
    got = _comparable(signed)
    for name in _TRANSACTION_FIELDS:
        if got[name] != expected[name]:
            raise _altered(name)
    v, r, s = signed["v"], signed["r"], signed["s"]
    if v not in (0, 1) or max(r, s).bit_length() > 256:
        raise answer_invalid("a transaction without a signature")
    signature = r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes((27 + v,))
    unsigned = {name: value for name, value in expected.items() if name != "type"} | {"type": 2}
    _require_signed_by(TypedTransaction.from_dict(unsigned).hash(), signature, account)
    # One transaction has one encoding: another one would be journaled under a hash that no block has.
    if TypedTransaction.from_dict(unsigned | {"v": v, "r": r, "s": s}).encode() != raw:
        raise answer_invalid("a transaction in another encoding")
    return raw


def _comparable(transaction: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": int(transaction.get("type", 2)),
        **{name: int(transaction[name]) for name in ("chainId", "nonce", "gas", "value")},
        **{name: int(transaction[name]) for name in ("maxFeePerGas", "maxPriorityFeePerGas")},
        "to": bytes(transaction["to"]),
        "data": bytes(transaction["data"]),
        "accessList": list(transaction.get("accessList", ())),
    }


def _require_signed_by(digest: bytes, signature: bytes, account: Address) -> None:
    try:
        signer = recover(digest, signature)
    except SignatureInvalid as error:
        if error.code == "signature-high-s":
            raise SignerError(
                "the external signer gave a signature with a high s", code="signer-high-s"
            ) from error
        raise answer_invalid("no signature") from error
    if signer != account:
        raise SignerError(
            f"what the external signer gave is not signed by {address_text(account)}",
            code="signer-wrong-address",
            hint="it has another key, or signed something else than it was asked",
        )


def answer_invalid(what: str) -> SignerError:
    """An answer that is none: `signer-answer-invalid`."""
    return SignerError(f"the external signer answered with {what}", code="signer-answer-invalid")


def _altered(name: str) -> SignerError:
    return SignerError(
        f"the external signer signed another transaction than it was asked: {name} differs",
        code="signer-altered",
        hint="is it set up for this chain? nothing was sent",
        details={"field": name},
    )


def _not_the_message() -> SignerError:
    return SignerError(
        "the message's JSON has another digest than the message", code="signer-message-invalid"
    )
