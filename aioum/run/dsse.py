"""DSSE envelopes (secure-systems-lab/dsse, protocol 1.0), read strictly.

The specification leaves open what a reader does with unknown members, other base64 alphabets and repeated
key ids. Here each envelope has one spelling, so that nothing beside the payload can be smuggled along.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.run.errors import EnvelopeMalformed
from aioum.run.keys import MAX_SIGNATURE_BYTES, SigningKey, key_id

MAX_SIGNATURES: Final = 16
"""Most signatures of an envelope."""

MAX_PAYLOAD_BYTES: Final = 65_536
"""Most bytes of a payload; a seal with sixteen ML-DSA-65 keys has some 43,000."""

MAX_PAYLOAD_TYPE_BYTES: Final = 255

_MEMBERS: Final = {"payload", "payloadType", "signatures"}
_SIGNATURE_MEMBERS: Final = {"keyid", "sig"}
_KEY_ID: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class EnvelopeSignature:
    """One signature.

    Attributes:
        key_id: hex SHA-256 of the key that is said to have signed; nobody has signed this name.
        signature: raw bytes, 1 to MAX_SIGNATURE_BYTES.
    """

    key_id: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload with signatures over it and its type.

    Attributes:
        payload_type: 1 to MAX_PAYLOAD_TYPE_BYTES of printable ASCII.
        payload: at most MAX_PAYLOAD_BYTES.
        signatures: at most MAX_SIGNATURES.
    """

    payload_type: str
    payload: bytes
    signatures: tuple[EnvelopeSignature, ...]

    def signed_bytes(self) -> bytes:
        """What the signatures are over."""
        return pre_authentication_encoding(self.payload_type, self.payload)

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object."""
        return {
            "payload": encode_base64(self.payload),
            "payloadType": self.payload_type,
            "signatures": [
                {"keyid": signature.key_id, "sig": encode_base64(signature.signature)}
                for signature in self.signatures
            ],
        }

    @classmethod
    def from_json(cls, value: JsonValue) -> Envelope:
        """Read an envelope.

        Raises:
            EnvelopeMalformed: `dsse-malformed`, a member is missing, unknown, of another type or too long;
                `dsse-base64-invalid`, not padded standard base64 in its one canonical spelling;
                `dsse-signature-duplicate`, two signatures name one key.
        """
        if type(value) is not dict or value.keys() != _MEMBERS:
            raise EnvelopeMalformed(f"an envelope has exactly the members {', '.join(sorted(_MEMBERS))}")
        payload_type, signatures = value["payloadType"], value["signatures"]
        if type(payload_type) is not str or not _is_payload_type(payload_type):
            raise EnvelopeMalformed(
                f"payloadType is {payload_type!r:.80}, expected 1 to {MAX_PAYLOAD_TYPE_BYTES} of ASCII"
            )
        if type(signatures) is not list or len(signatures) > MAX_SIGNATURES:
            raise EnvelopeMalformed(f"signatures must be a list of at most {MAX_SIGNATURES}")
        read = tuple(_signature(signature) for signature in signatures)
        if len({signature.key_id for signature in read}) != len(read):
            raise EnvelopeMalformed("two signatures name one key", code="dsse-signature-duplicate")
        return cls(payload_type, _base64("payload", value["payload"], MAX_PAYLOAD_BYTES), read)


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """DSSE's PAE: what is signed, so that no payload can pass for one of another type."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_envelope(payload_type: str, payload: bytes, keys: Sequence[SigningKey]) -> Envelope:
    """The envelope of a payload, with one signature by each key, in the order of the keys."""
    message = pre_authentication_encoding(payload_type, payload)
    signatures = (EnvelopeSignature(key_id(key.public_key), key.sign(message)) for key in keys)
    return Envelope(payload_type, payload, tuple(signatures))


def _signature(value: JsonValue) -> EnvelopeSignature:
    if type(value) is not dict or value.keys() != _SIGNATURE_MEMBERS:
        raise EnvelopeMalformed("a signature has exactly the members keyid and sig")
    name = value["keyid"]
    if type(name) is not str or not _KEY_ID.fullmatch(name):
        raise EnvelopeMalformed(f"keyid is {name!r:.80}, expected 64 lower-case hex digits")
    return EnvelopeSignature(name, _base64("sig", value["sig"], MAX_SIGNATURE_BYTES))


def _base64(name: str, value: JsonValue, max_bytes: int) -> bytes:
    if type(value) is not str:
        raise EnvelopeMalformed(f"{name} must be base64 text")
    size_bytes = len(value.rstrip("=")) * 3 // 4
    if not 0 < size_bytes <= max_bytes:
        raise EnvelopeMalformed(f"{name} has {size_bytes} bytes, expected 1 to {max_bytes}")
    try:
        return decode_base64(value, size_bytes)
    except InvalidInput as error:
        raise EnvelopeMalformed(f"{name}: {error}", code="dsse-base64-invalid") from error


def _is_payload_type(text: str) -> bool:
    return 0 < len(text) <= MAX_PAYLOAD_TYPE_BYTES and text.isascii() and text.isprintable()
