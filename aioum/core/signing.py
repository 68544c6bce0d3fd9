"""secp256k1 signatures over digests: 65 bytes `r‖s‖v`, v in {27, 28}, low s only (PROTOCOL 3)."""

from __future__ import annotations

from typing import Final

from coincurve import PrivateKey, PublicKey

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, from_hex
from aioum.core.types import Address

SIGNATURE_SIZE_BYTES: Final = 65
COUNTERFACTUAL_SUFFIX: Final = b"\x64\x92" * 16
"""What ERC-6492 puts behind the signature of a wallet that is not deployed yet."""

_HALF_ORDER: Final = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


class LocalKey:
    """A secp256k1 private key held in memory. Signatures are deterministic (RFC 6979).

    The key never appears in `repr`, messages or logs.
    """

    __slots__ = ("_key", "address")

    def __init__(self, secret: bytes) -> None:
        """Args: secret: 32 bytes. Raises InvalidInput `key-invalid`."""
        if len(secret) != 32:
            raise InvalidInput("a private key has 32 bytes", code="key-invalid")
        try:
            self._key = PrivateKey(secret)
        except ValueError:
            raise InvalidInput("not a secp256k1 private key", code="key-invalid") from None
        self.address: Address = _address_of(self._key.public_key)

    @classmethod
    def from_hex(cls, text: str) -> LocalKey:
        """Read `0x…` hex text. Raises InvalidInput `key-invalid` without repeating the text."""
        try:
            secret = from_hex(text.strip(), 32)
        except InvalidInput:
            raise InvalidInput("a private key is 0x and 64 hex digits", code="key-invalid") from None
        return cls(secret)

    def __repr__(self) -> str:
        return f"LocalKey({address_text(self.address)})"

    def sign_digest(self, digest: bytes) -> bytes:
        """Return the 65-byte signature over a 32-byte digest."""
        signature = self._key.sign_recoverable(digest, hasher=None)
        return signature[:64] + (b"\x1b" if signature[64] == 0 else b"\x1c")

    def secret_bytes(self) -> bytes:
        """Return the 32 secret bytes, for a key store or a transaction signer only."""
        return self._key.secret


def recover(digest: bytes, signature: bytes) -> Address:
    """Return the address that signed `digest`.

    Raises:
        SignatureInvalid: `signature-malformed` (length or v), `signature-high-s`, `signature-invalid`, or
            `signature-counterfactual` (ERC-6492: no contract could ask a wallet that is not there).
    """
    if signature.endswith(COUNTERFACTUAL_SUFFIX):
        raise SignatureInvalid(
            "signed for a wallet that is not deployed yet (ERC-6492)",
            code="signature-counterfactual",
            hint="deploy the wallet, or open the session with a plain key as its authorizedSigner",
        )
    if len(signature) != SIGNATURE_SIZE_BYTES or signature[64] not in (27, 28):
        raise SignatureInvalid("expected 65 bytes r, s, v with v 27 or 28", code="signature-malformed")
    if int.from_bytes(signature[32:64], "big") > _HALF_ORDER:
        raise SignatureInvalid("s is in the upper half of the group order", code="signature-high-s")
    try:
        key = PublicKey.from_signature_and_message(
            signature[:64] + bytes((signature[64] - 27,)), digest, hasher=None
        )
    except ValueError:
        raise SignatureInvalid("no public key fits this signature", code="signature-invalid") from None
    return _address_of(key)


def require_signer(digest: bytes, signature: bytes, expected: Address) -> None:
    """Check that `expected` signed `digest`.

    Raises:
        SignatureInvalid: as `recover`, or `signer-mismatch`.
    """
    signer = recover(digest, signature)
    if signer != expected:
        raise SignatureInvalid(
            f"signed by {address_text(signer)}, expected {address_text(expected)}", code="signer-mismatch"
        )


def _address_of(key: PublicKey) -> Address:
    return Address(keccak256(key.format(compressed=False)[1:])[12:])
