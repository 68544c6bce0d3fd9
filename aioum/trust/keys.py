"""Public keys of authorities, as a caller's resolver hands them in."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.core.submission.keys import KEY_SIZE_BYTES, VerifyingKey

_CODE: Final = "key-material-invalid"

_SPKI_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
"""DER before the 32 key bytes in a SubjectPublicKeyInfo of Ed25519 (RFC 8410, 4)."""

_JWK_MEMBERS: Final = {"kty", "crv", "x"}
_JWK_REMARKS: Final = {"kid", "use", "alg", "key_ops"}


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """An Ed25519 public key that was accepted: canonical, of prime order, not the identity.

    Attributes:
        raw: 32 bytes.

    Raises:
        InvalidInput: `key-material-invalid`.
    """

    raw: bytes
    verifying_key: VerifyingKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Accept the key, once."""
        try:
            object.__setattr__(self, "verifying_key", VerifyingKey(self.raw))
        except SignatureInvalid as error:
            raise InvalidInput(str(error), code=_CODE) from error

    @property
    def spki(self) -> bytes:
        """The key as DER SubjectPublicKeyInfo, 44 bytes."""
        return _SPKI_PREFIX + self.raw

    @property
    def digest_hex(self) -> str:
        """Hex SHA-256 of `spki`: what a pin names key bytes by."""
        return hashlib.sha256(self.spki).hexdigest()

    @classmethod
    def from_spki(cls, der: bytes) -> KeyMaterial:
        """Read DER SubjectPublicKeyInfo. Raises InvalidInput `key-material-invalid`."""
        if not der.startswith(_SPKI_PREFIX):
            raise InvalidInput("expected a SubjectPublicKeyInfo of an Ed25519 key", code=_CODE)
        return cls(der.removeprefix(_SPKI_PREFIX))

    @classmethod
    def from_jwk(cls, jwk: JsonValue) -> KeyMaterial:
        """Read an OKP key (RFC 8037). Raises InvalidInput `key-material-invalid`, also for a private key."""
        if not isinstance(jwk, dict) or not _JWK_MEMBERS <= jwk.keys() <= _JWK_MEMBERS | _JWK_REMARKS:
            raise InvalidInput("a public JWK has kty, crv and x, and no secret", code=_CODE)
        if jwk["kty"] != "OKP" or jwk["crv"] != "Ed25519":
            raise InvalidInput("expected a JWK of type OKP on the curve Ed25519", code=_CODE)
        return cls(_base64url(jwk["x"]))

    @classmethod
    def from_json(cls, value: JsonValue) -> KeyMaterial:
        """Read `{"format": "jwk" | "spki", "key": …}`. Raises InvalidInput `key-material-invalid`."""
        if isinstance(value, dict) and value.keys() == {"format", "key"}:
            if value["format"] == "jwk":
                return cls.from_jwk(value["key"])
            if value["format"] == "spki":
                size = len(_SPKI_PREFIX) + KEY_SIZE_BYTES
                return cls.from_spki(decode_base64(value["key"], size, code=_CODE))
        raise InvalidInput('expected {"format": "jwk" or "spki", "key": …}', code=_CODE)

    def to_json(self) -> dict[str, JsonValue]:
        """The key in the form `spki`."""
        return {"format": "spki", "key": encode_base64(self.spki)}


def _base64url(value: JsonValue) -> bytes:
    try:
        if isinstance(value, str):
            raw = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
            if base64.urlsafe_b64encode(raw).rstrip(b"=").decode() == value:
                return raw
    except (ValueError, binascii.Error):
        pass
    raise InvalidInput("x must be unpadded base64url", code=_CODE)
