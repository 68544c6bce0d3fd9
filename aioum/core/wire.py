"""HTTP wire forms that node and client share (PROTOCOL 6, SCHEME): challenge, credential, receipts, reads.

Pure text in, frozen values out. Signatures are carried here, and checked elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import string
from dataclasses import dataclass, field
from typing import Final

from aioum.core.amounts import parse_amount
from aioum.core.canonical import JsonValue, canonical_bytes, parse_json
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.hextext import address_text, channel_id, from_hex, to_hex
from aioum.core.payment import CallReceipt, CloseRequest, ReadAccess, Statement, check_uint64
from aioum.core.types import Address, Bytes32, ChannelId

METHOD: Final = "evm"
INTENT: Final = "session"
MAX_CREDENTIAL_BYTES: Final = 16_384
MAX_CHALLENGE_BYTES: Final = 8_192
RECEIPT_HEADER: Final = "Aioum-Receipt"
PAYMENT_RECEIPT_HEADER: Final = "Payment-Receipt"

JsonObject = dict[str, JsonValue]

_BASE64URL: Final = (string.ascii_letters + string.digits + "-_").encode()


def encode_token(value: JsonValue) -> str:
    """Canonical JSON as base64url without padding."""
    return base64.urlsafe_b64encode(canonical_bytes(value)).rstrip(b"=").decode()


def decode_token(text: str, *, max_bytes: int, code: str) -> JsonObject:
    """Read a base64url JSON object strictly. Raises InvalidInput with `code`."""
    foreign = text.isascii() and text.encode().translate(None, _BASE64URL)
    if foreign != b"" or not text or len(text) > max_bytes * 4 // 3 + 4:
        raise InvalidInput("expected base64url text without padding", code=code)
    try:
        value = parse_json(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), max_bytes=max_bytes)
    except (binascii.Error, AioumError) as error:
        raise InvalidInput(f"not base64url JSON: {error}", code=code) from error
    if not isinstance(value, dict):
        raise InvalidInput("expected a JSON object", code=code)
    return value


def _text(source: JsonObject, name: str, code: str) -> str:
    value = source.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"member {name!r} must be text", code=code)
    return value


def _integer(source: JsonObject, name: str, code: str) -> int:
    value = source.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"member {name!r} must be an integer", code=code)
    return check_uint64(value, name)


@dataclass(frozen=True, slots=True)
class Challenge:
    """A 402 challenge. `id` binds the rest by an HMAC, so a node keeps no state per challenge.

    Attributes:
        request: base64url canonical JSON of the payment request (SCHEME 2.2), as sent.
        expires: RFC 3339 text, or None.
    """

    id: str
    realm: str
    request: str
    expires: str | None = None
    method: str = METHOD
    intent: str = INTENT

    @classmethod
    def issue(cls, secret: bytes, realm: str, request: JsonObject, expires: str | None) -> Challenge:
        """Make a challenge bound to `secret`."""
        encoded = encode_token(request)
        return cls(_challenge_id(secret, realm, encoded, expires), realm, encoded, expires)

    def is_ours(self, secret: bytes) -> bool:
        """Whether this node issued exactly this challenge."""
        own = _challenge_id(secret, self.realm, self.request, self.expires)
        return (self.method, self.intent) == (METHOD, INTENT) and hmac.compare_digest(
            own.encode(), self.id.encode()
        )

    def request_json(self) -> JsonObject:
        """The payment request. Raises InvalidInput `challenge-malformed`."""
        return decode_token(self.request, max_bytes=MAX_CHALLENGE_BYTES, code="challenge-malformed")

    def header(self) -> str:
        """The `WWW-Authenticate` value."""
        parts = [f'{name}="{value}"' for name, value in self.to_json().items()]
        return "Payment " + ", ".join(parts)

    def to_json(self) -> dict[str, JsonValue]:
        """The members that a credential echoes."""
        value: dict[str, JsonValue] = {
            "id": self.id,
            "realm": self.realm,
            "method": self.method,
            "intent": self.intent,
            "request": self.request,
        }
        if self.expires is not None:
            value["expires"] = self.expires
        return value

    @classmethod
    def from_json(cls, value: JsonValue) -> Challenge:
        """Read an echoed challenge. Raises InvalidInput `challenge-malformed`."""
        code = "challenge-malformed"
        if not isinstance(value, dict):
            raise InvalidInput("challenge must be an object", code=code)
        expires = _text(value, "expires", code) if "expires" in value else None
        return cls(
            _text(value, "id", code), _text(value, "realm", code), _text(value, "request", code), expires,
            _text(value, "method", code), _text(value, "intent", code),
        )  # fmt: skip

    @classmethod
    def from_header(cls, header: str) -> Challenge:
        """Read a `WWW-Authenticate: Payment …` value. Raises InvalidInput `challenge-malformed`."""
        scheme, _, rest = header.partition(" ")
        if scheme.lower() != "payment" or len(header) > MAX_CHALLENGE_BYTES:
            raise InvalidInput("not a Payment challenge", code="challenge-malformed")
        pairs: dict[str, JsonValue] = {
            name.lower(): re.sub(r"\\(.)", r"\1", value)
            for name, value in re.findall(r'\b([A-Za-z][\w-]{0,63})\s?=\s?"((?:[^"\\]|\\.)*)"', rest)
        }
        return cls.from_json(pairs)


def _challenge_id(secret: bytes, realm: str, request: str, expires: str | None) -> str:
    slots = "|".join([realm, METHOD, INTENT, request, expires or "", "", ""])
    return base64.urlsafe_b64encode(hmac.digest(secret, slots.encode(), hashlib.sha256)).rstrip(b"=").decode()


def payment_request(
    *,
    price: int,
    token: Address,
    payee: Address,
    chain_id: int,
    payment_manager: Address,
    suggested_deposit: int,
) -> JsonObject:
    """The `request` object of a challenge (SCHEME 2.2)."""
    return {
        "amount": str(price),
        "currency": address_text(token),
        "recipient": address_text(payee),
        "suggestedDeposit": str(suggested_deposit),
        "unitType": "call",
        "methodDetails": {"chainId": chain_id, "escrowContract": address_text(payment_manager)},
    }


@dataclass(frozen=True, slots=True)
class Credential:
    """An `Authorization: Payment` credential.

    Attributes:
        action: `open`, `topUp` or `voucher`.
        amount: cumulative amount of the voucher (0 for topUp).
        signature: the voucher's signature, of any length (ERC-1271 wallets differ); empty for topUp.
        transaction: hash of the opening or top-up transaction; None for voucher.
        source: `did:pkh` text of the payer, where given.
        submission: the envelope's members in `payload.aioum` as received, or None for an unsigned call.
        roster: `payload.aioum.roster` of an `open` as received, or None.
    """

    challenge: Challenge
    action: str
    channel_id: ChannelId
    amount: int = 0
    signature: bytes = b""
    transaction: Bytes32 | None = None
    source: str | None = None
    submission: JsonObject | None = field(default=None)
    roster: list[JsonValue] | None = field(default=None)

    def header(self) -> str:
        """The `Authorization` value."""
        payload: JsonObject = {"action": self.action, "channelId": to_hex(self.channel_id)}
        if self.action != "topUp":
            payload["cumulativeAmount"] = str(self.amount)
            payload["signature"] = to_hex(self.signature)
        if self.transaction is not None:
            payload["type"] = "hash"
            payload["hash"] = to_hex(self.transaction)
        if self.submission is not None or self.roster is not None:
            signed = dict(self.submission or {})
            if self.roster is not None:
                signed["roster"] = self.roster
            payload["aioum"] = signed
        value: JsonObject = {"challenge": self.challenge.to_json(), "payload": payload}
        if self.source is not None:
            value["source"] = self.source
        return "Payment " + encode_token(value)

    @classmethod
    def from_header(cls, header: str) -> Credential:
        """Read an `Authorization: Payment …` value.

        Raises:
            InvalidInput: `credential-malformed`, `challenge-malformed` or `action-unsupported`.
        """
        code = "credential-malformed"
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "payment":
            raise InvalidInput("not a Payment credential", code=code)
        value = decode_token(token.strip(), max_bytes=MAX_CREDENTIAL_BYTES, code=code)
        payload = value.get("payload")
        if not isinstance(payload, dict):
            raise InvalidInput("credential has no payload object", code=code)
        action = _text(payload, "action", code)
        if action not in ("open", "topUp", "voucher"):
            raise InvalidInput(f"unsupported action {action!r:.40}", code="action-unsupported")
        submission, roster = _signed_members(payload.get("aioum"), action)
        try:
            challenge = Challenge.from_json(value.get("challenge"))
            transaction = None
            if action != "voucher":
                if _text(payload, "type", code) != "hash":
                    raise InvalidInput("only payloads of type hash are supported", code="action-unsupported")
                transaction = Bytes32(from_hex(payload.get("hash"), 32))
            voucher = action != "topUp"
            return cls(
                challenge=challenge,
                action=action,
                channel_id=channel_id(payload.get("channelId")),
                amount=parse_amount(payload.get("cumulativeAmount")) if voucher else 0,
                signature=from_hex(payload.get("signature")) if voucher else b"",
                transaction=transaction,
                source=_text(value, "source", code) if "source" in value else None,
                submission=submission,
                roster=roster,
            )
        except InvalidInput as error:
            if error.code in ("hex-invalid", "amount-invalid"):
                raise InvalidInput(str(error), code=code) from error
            raise


def _signed_members(value: JsonValue, action: str) -> tuple[JsonObject | None, list[JsonValue] | None]:
    """What `payload.aioum` holds: an envelope's members, and beside them the roster where a session opens."""
    if value is None:
        return None, None
    if not isinstance(value, dict) or action == "topUp":
        raise InvalidInput(
            "payload.aioum must be an object, and comes with calls only", code="credential-malformed"
        )
    if action != "open" or "roster" not in value:
        return value, None
    members = dict(value)
    roster = members.pop("roster")
    if not isinstance(roster, list):
        raise InvalidInput("payload.aioum.roster must be a list", code="credential-malformed")
    return members or None, roster


@dataclass(frozen=True, slots=True)
class SignedReceipt:
    """A CallReceipt with its signature, as the `Aioum-Receipt` header carries it."""

    receipt: CallReceipt
    signature: bytes

    def header(self) -> str:
        """The header's value; the same bytes for the same receipt."""
        return encode_token(
            {
                "channelId": to_hex(self.receipt.channel_id),
                "index": self.receipt.index,
                "leaf": to_hex(self.receipt.leaf),
                "charge": str(self.receipt.charge),
                "signature": to_hex(self.signature),
            }
        )

    @classmethod
    def from_header(cls, text: str) -> SignedReceipt:
        """Read the header. Raises InvalidInput `receipt-malformed`."""
        code = "receipt-malformed"
        value = decode_token(text, max_bytes=2_048, code=code)
        try:
            receipt = CallReceipt(
                channel_id(value.get("channelId")), _integer(value, "index", code),
                Bytes32(from_hex(value.get("leaf"), 32)), parse_amount(value.get("charge")),
            )  # fmt: skip
            return cls(receipt, from_hex(value.get("signature")))
        except InvalidInput as error:
            raise InvalidInput(str(error), code=code) from error


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """A Statement with its signature."""

    statement: Statement
    signature: bytes

    def to_json(self) -> JsonObject:
        """`{"callCount","root","spent","signature"}` as in evidence packages (PROTOCOL 7)."""
        return {
            "callCount": self.statement.call_count,
            "root": to_hex(self.statement.root),
            "spent": str(self.statement.spent),
            "signature": to_hex(self.signature),
        }

    @classmethod
    def from_json(cls, value: JsonValue, channel: ChannelId) -> SignedStatement:
        """Read a statement of `channel`. Raises InvalidInput `statement-malformed`."""
        code = "statement-malformed"
        if not isinstance(value, dict):
            raise InvalidInput("statement must be an object", code=code)
        try:
            statement = Statement(
                channel, _integer(value, "callCount", code), Bytes32(from_hex(value.get("root"), 32)),
                parse_amount(value.get("spent")),
            )  # fmt: skip
            return cls(statement, from_hex(value.get("signature")))
        except InvalidInput as error:
            raise InvalidInput(str(error), code=code) from error


def read_access_header(access: ReadAccess, signature: bytes) -> str:
    """The `Authorization: AioumRead` value."""
    return "AioumRead " + encode_token(
        {
            "channelId": to_hex(access.channel_id),
            "expiresAt": access.expires_at,
            "signature": to_hex(signature),
        }
    )


def parse_read_access(header: str) -> tuple[ReadAccess, bytes]:
    """Read an `AioumRead` value: access and signature. Raises InvalidInput `read-access-malformed`."""
    code = "read-access-malformed"
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "aioumread":
        raise InvalidInput("not an AioumRead authorization", code=code)
    value = decode_token(token.strip(), max_bytes=2_048, code=code)
    try:
        access = ReadAccess(channel_id(value.get("channelId")), _integer(value, "expiresAt", code))
        return access, from_hex(value.get("signature"))
    except InvalidInput as error:
        raise InvalidInput(str(error), code=code) from error


def close_request_json(request: CloseRequest, signature: bytes) -> JsonObject:
    """The body of a cooperative close."""
    return {"callCount": request.call_count, "signature": to_hex(signature)}


def parse_close_request(value: JsonValue, channel: ChannelId) -> tuple[CloseRequest, bytes]:
    """Read the body of a cooperative close. Raises InvalidInput `close-request-malformed`."""
    code = "close-request-malformed"
    if not isinstance(value, dict):
        raise InvalidInput("expected an object", code=code)
    try:
        return CloseRequest(channel, _integer(value, "callCount", code)), from_hex(value.get("signature"))
    except InvalidInput as error:
        raise InvalidInput(str(error), code=code) from error
