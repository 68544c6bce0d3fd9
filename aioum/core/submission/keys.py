"""Ed25519 keys of seats. A key is accepted once, by one rule; after that OpenSSL checks signatures.

Without the rule, a key of small order accepts one signature for every message, and a key with a torsion part
is accepted by some verifiers and refused by others (SUBMISSIONS 2.3).
"""

from __future__ import annotations

from typing import Final

from Crypto.Signature import eddsa
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.submission.framing import encode_base64

KEY_SIZE_BYTES: Final = 32
SIGNATURE_SIZE_BYTES: Final = 64

_FIELD_PRIME: Final = 2**255 - 19
_GROUP_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_IDENTITY: Final = bytes((1,)) + bytes(31)
_SIGN_BIT: Final = 1 << 255


class SubmissionKey:
    """A seat's secret key, held in memory. It never appears in `repr`, messages or logs."""

    __slots__ = ("_key", "public_key")

    def __init__(self, seed: bytes) -> None:
        """Args: seed: 32 random bytes. Raises InvalidInput `submission-key-invalid`."""
        if len(seed) != KEY_SIZE_BYTES:
            raise InvalidInput(
                f"a submission key's seed has {KEY_SIZE_BYTES} bytes", code="submission-key-invalid"
            )
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key: bytes = self._key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"SubmissionKey({encode_base64(self.public_key)})"

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature; the same for the same message (RFC 8032)."""
        return self._key.sign(message)

    def seed(self) -> bytes:
        """The 32 secret bytes, for a key store only."""
        return self._key.private_bytes_raw()


class VerifyingKey:
    """A public key that was accepted: canonical, of prime order, not the identity."""

    __slots__ = ("_key", "raw")

    def __init__(self, raw: bytes) -> None:
        """Accept a key.

        Args:
            raw: 32 bytes (RFC 8032, 5.1.2).

        Raises:
            SignatureInvalid: `submission-key-invalid`.
        """
        _require_acceptable(raw)
        self.raw = raw
        self._key = Ed25519PublicKey.from_public_bytes(raw)

    def __repr__(self) -> str:
        return f"VerifyingKey({encode_base64(self.raw)})"

    def verify(self, message: bytes, signature: bytes) -> None:
        """Check a signature without cofactor: S below the group order, R not the identity.

        Raises:
            SignatureInvalid: `bad-signature`.
        """
        # The key has prime order, so the only R of small order that can verify is the identity.
        if len(signature) == SIGNATURE_SIZE_BYTES and not signature.startswith(_IDENTITY):
            try:
                self._key.verify(signature, message)
            except InvalidSignature:
                pass
            else:
                return
        raise SignatureInvalid("the signature does not fit the message and the key", code="bad-signature")


def _require_acceptable(raw: bytes) -> None:
    if len(raw) != KEY_SIZE_BYTES:
        raise _refused(f"has {len(raw)} bytes, expected {KEY_SIZE_BYTES}")
    y = int.from_bytes(raw, "little") % _SIGN_BIT
    if y >= _FIELD_PRIME:
        raise _refused("is not canonically encoded")
    if y == 1:
        raise _refused("is the identity")
    if not _in_prime_subgroup(raw):
        raise _refused("is not a point of the subgroup of prime order")


def _in_prime_subgroup(raw: bytes) -> bool:
    try:
        product = eddsa.import_public_key(raw).pointQ * _GROUP_ORDER
    except ValueError:
        # No point of the curve; or the product is a point of order four, which the library cannot hold.
        return False
    # `is_point_at_infinity` would also take the point of order two, whose x is 0 as well.
    return bool(product.xy == (0, 1))


def _refused(why: str) -> SignatureInvalid:
    return SignatureInvalid(f"the submission key {why}", code="submission-key-invalid")
