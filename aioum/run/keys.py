"""Keys that sign seals: Ed25519, and ML-DSA beside it for the day when curves fall (PROTOCOL 8).

A signature is checked by the algorithm that the signed payload names, never by one that a key or a signature
suggests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import mldsa

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.submission.keys import SubmissionKey, VerifyingKey

ED25519: Final = "Ed25519"
ML_DSA_44: Final = "ML-DSA-44"
ML_DSA_65: Final = "ML-DSA-65"

SEED_BYTES: Final = 32
"""Length of every secret seed (RFC 8032; FIPS 204, 3.6.3)."""

MAX_PUBLIC_KEY_BYTES: Final = 1_952
"""Length of the longest key, one of ML-DSA-65."""

MAX_SIGNATURE_BYTES: Final = 3_309
"""Length of the longest signature, one of ML-DSA-65."""

_ML_DSA_PRIVATE: Final[dict[str, type[mldsa.MLDSA44PrivateKey] | type[mldsa.MLDSA65PrivateKey]]] = {
    ML_DSA_44: mldsa.MLDSA44PrivateKey,
    ML_DSA_65: mldsa.MLDSA65PrivateKey,
}
_ML_DSA_PUBLIC: Final[dict[str, type[mldsa.MLDSA44PublicKey] | type[mldsa.MLDSA65PublicKey]]] = {
    ML_DSA_44: mldsa.MLDSA44PublicKey,
    ML_DSA_65: mldsa.MLDSA65PublicKey,
}

ALGORITHMS: Final = (ED25519, ML_DSA_44, ML_DSA_65)
"""Names of all algorithms, as seals write them."""


class SigningKey(Protocol):
    """A key that signs seals; it may live in a device."""

    @property
    def alg(self) -> str:
        """Name of its algorithm, one of ALGORITHMS."""
        ...

    @property
    def public_key(self) -> bytes:
        """The raw public key: 32 bytes for Ed25519, 1,312 for ML-DSA-44, 1,952 for ML-DSA-65."""
        ...

    def sign(self, message: bytes, /) -> bytes:
        """The signature: 64, 2,420 or 3,309 bytes."""
        ...


class Ed25519Key:
    """An Ed25519 secret key, held in memory; it never appears in `repr`, messages or logs."""

    __slots__ = ("_key",)

    def __init__(self, seed: bytes) -> None:
        """Args: seed: 32 random bytes. Raises InvalidInput `run-key-invalid`."""
        _require_seed(seed)
        self._key = SubmissionKey(seed)

    def __repr__(self) -> str:
        return f"Ed25519Key({key_id(self.public_key)})"

    @property
    def alg(self) -> str:
        """`Ed25519`."""
        return ED25519

    @property
    def public_key(self) -> bytes:
        """32 bytes."""
        return self._key.public_key

    def sign(self, message: bytes, /) -> bytes:
        """64 bytes, the same for the same message (RFC 8032)."""
        return self._key.sign(message)


class MlDsaKey:
    """An ML-DSA secret key (FIPS 204), held in memory; it never appears in `repr`, messages or logs."""

    __slots__ = ("_alg", "_key", "_public_key")

    def __init__(self, alg: str, seed: bytes) -> None:
        """Args: alg: ML_DSA_44 or ML_DSA_65. seed: 32 random bytes. Raises InvalidInput `run-key-invalid`."""
        _require_seed(seed)
        if alg not in _ML_DSA_PRIVATE:
            raise InvalidInput(f"{alg!r:.40} is no ML-DSA that seals use", code="run-key-invalid")
        self._alg = alg
        self._key = _ML_DSA_PRIVATE[alg].from_seed_bytes(seed)
        self._public_key: bytes = self._key.public_key().public_bytes_raw()

    def __repr__(self) -> str:
        return f"MlDsaKey({self._alg}, {key_id(self._public_key)})"

    @property
    def alg(self) -> str:
        """`ML-DSA-44` or `ML-DSA-65`."""
        return self._alg

    @property
    def public_key(self) -> bytes:
        """1,312 or 1,952 bytes."""
        return self._public_key

    def sign(self, message: bytes, /) -> bytes:
        """2,420 or 3,309 bytes, hedged: another one each time. The context is empty."""
        return self._key.sign(message)


def key_id(public_key: bytes) -> str:
    """How a signature names its key: hex SHA-256 of the raw public key."""
    return hashlib.sha256(public_key).hexdigest()


def require_signature(alg: str, public_key: bytes, message: bytes, signature: bytes) -> None:
    """Return if a signature is the key's over the message; raise otherwise.

    Ed25519 is checked as seats' signatures are: keys of small or mixed order and non-canonical encodings are
    refused, so that one signature fits one message under one key.

    Args:
        alg: as the signed payload names it.
        public_key: raw.
        message: what was signed.
        signature: raw.

    Raises:
        SignatureInvalid: `signature-algorithm-unknown`; `signature-key-invalid`; `signature-invalid`.
    """
    _verifier(alg, public_key)(message, signature)


_Verify = Callable[[bytes, bytes], None]


# Accepting an Ed25519 key costs as much as checking many signatures.
@lru_cache(maxsize=256)
def _verifier(alg: str, public_key: bytes) -> _Verify:
    if alg == ED25519:
        return _ed25519_verifier(public_key)
    if alg in _ML_DSA_PUBLIC:
        return _ml_dsa_verifier(alg, public_key)
    raise SignatureInvalid(
        f"signatures by {alg!r:.40} cannot be checked; known are {', '.join(ALGORITHMS)}",
        code="signature-algorithm-unknown",
    )


def _ed25519_verifier(public_key: bytes) -> _Verify:
    try:
        key = VerifyingKey(public_key)
    except SignatureInvalid as error:
        raise SignatureInvalid(f"no Ed25519 key: {error}", code="signature-key-invalid") from error

    def verify(message: bytes, signature: bytes) -> None:
        try:
            key.verify(message, signature)
        except SignatureInvalid as error:
            raise _does_not_fit() from error

    return verify


def _ml_dsa_verifier(alg: str, public_key: bytes) -> _Verify:
    try:
        key = _ML_DSA_PUBLIC[alg].from_public_bytes(public_key)
    except ValueError as error:
        raise SignatureInvalid(f"no {alg} key: {error}", code="signature-key-invalid") from error

    def verify(message: bytes, signature: bytes) -> None:
        try:
            key.verify(signature, message)
        except InvalidSignature as error:
            raise _does_not_fit() from error

    return verify


def _does_not_fit() -> SignatureInvalid:
    return SignatureInvalid("the signature does not fit the message and the key")


def _require_seed(seed: bytes) -> None:
    if len(seed) != SEED_BYTES:
        raise InvalidInput(f"a key's seed has {SEED_BYTES} bytes, got {len(seed)}", code="run-key-invalid")
