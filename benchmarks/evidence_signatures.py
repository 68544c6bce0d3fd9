"""Signatures over a seal: Ed25519 and ML-DSA as seals use them, beside ECDSA P-256 and ML-DSA-87."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, mldsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from aioum.run.keys import ED25519, ML_DSA_44, ML_DSA_65, Ed25519Key, MlDsaKey, SigningKey, require_signature
from benchmarks.evidence_material import sealed
from benchmarks.measure import Alternative, Plan, measure, repeated
from benchmarks.result import Case, Comparison, Count

NAME = "evidence-signatures"
OPERATION = "one signature over a seal"
PACKAGES = ("cryptography",)
NOTES = (
    "Ed25519, ML-DSA-44 and ML-DSA-65 through aioum, whose Ed25519 also refuses keys of small order and "
    "other encodings; keys are read once.",
    "ECDSA P-256 with SHA-256. Its key is counted compressed, and its signature as r ‖ s; in DER it is up to "
    "8 bytes longer.",
)

P256: Final = "ECDSA P-256"
ML_DSA_87: Final = "ML-DSA-87"

# Throw-away.
_SEED: Final = b"\x09" * 32


@dataclass(frozen=True, slots=True)
class Scheme:
    """A key of an algorithm.

    Attributes:
        sign: message -> signature.
        verify: (message, signature) -> None; raises where it does not fit.
        key_bytes: length of the public key.
        signature_bytes: length of the signature.
    """

    sign: Callable[[bytes], bytes]
    verify: Callable[[bytes, bytes], None]
    key_bytes: int
    signature_bytes: int


def schemes() -> dict[str, Scheme]:
    """All algorithms by name."""
    return {
        ED25519: _ours(Ed25519Key(_SEED)),
        P256: _p256(),
        ML_DSA_44: _ours(MlDsaKey(ML_DSA_44, _SEED)),
        ML_DSA_65: _ours(MlDsaKey(ML_DSA_65, _SEED)),
        ML_DSA_87: _ml_dsa_87(),
    }


def _ours(key: SigningKey) -> Scheme:
    public_key = key.public_key

    def verify(message: bytes, signature: bytes) -> None:
        require_signature(key.alg, public_key, message, signature)

    return Scheme(key.sign, verify, len(public_key), len(key.sign(b"")))


def _p256() -> Scheme:
    key = ec.derive_private_key(int.from_bytes(_SEED, "big"), ec.SECP256R1())
    public = key.public_key()
    algorithm = ec.ECDSA(hashes.SHA256())

    def sign(message: bytes) -> bytes:
        return key.sign(message, algorithm)

    def verify(message: bytes, signature: bytes) -> None:
        public.verify(signature, message, algorithm)

    key_bytes = len(public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint))
    return Scheme(sign, verify, key_bytes, 2 * key.key_size // 8)


def _ml_dsa_87() -> Scheme:
    key = mldsa.MLDSA87PrivateKey.from_seed_bytes(_SEED)
    public = key.public_key()

    def verify(message: bytes, signature: bytes) -> None:
        public.verify(signature, message)

    return Scheme(key.sign, verify, len(public.public_bytes_raw()), len(key.sign(b"")))


def run(plan: Plan) -> list[Case]:
    """Measure signing and verifying, and count bytes."""
    message = sealed(1).envelope.signed_bytes()
    found = schemes()
    signatures = {name: scheme.sign(message) for name, scheme in found.items()}
    for name, scheme in found.items():
        scheme.verify(message, signatures[name])
    compared = (
        *(Comparison(subject=ED25519, baseline=name) for name in found if name != ED25519),
        Comparison(subject=ML_DSA_65, baseline=ML_DSA_44),
        Comparison(subject=ML_DSA_65, baseline=ML_DSA_87),
    )
    signing = [Alternative(name, repeated(scheme.sign, message)) for name, scheme in found.items()]
    verifying = [
        Alternative(name, repeated(scheme.verify, message, signatures[name]))
        for name, scheme in found.items()
    ]
    return [
        Case(name=f"sign {len(message)} bytes", samples=measure(signing, plan), comparisons=compared),
        Case(name=f"verify {len(message)} bytes", samples=measure(verifying, plan), comparisons=compared),
        _sizes("public key", {name: scheme.key_bytes for name, scheme in found.items()}),
        _sizes("signature", {name: scheme.signature_bytes for name, scheme in found.items()}),
    ]


def _sizes(name: str, sizes: dict[str, int]) -> Case:
    return Case(
        name=name, counts=tuple(Count(name=of, value=size, unit="bytes") for of, size in sizes.items())
    )
