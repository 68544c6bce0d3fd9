"""Keccak-256 as Ethereum uses it (original padding 0x01, not FIPS 202's SHA3-256)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from Crypto.Hash import keccak as _pycryptodome_keccak

_KNOWN_ANSWERS = (
    (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
    (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
    # Exactly one rate block, so the padding fills a second one.
    (b"a" * 136, "a6c4d403279fe3e0af03729caada8374b5ca54d8065329a3ebcaeb4b60aa386e"),
)


def pycryptodome_keccak256(data: bytes) -> bytes:
    """Keccak-256 by pycryptodome, which is always installed; data of any length, 32 bytes out."""
    return _pycryptodome_keccak.new(data=data, digest_bits=256).digest()


def pysha3_keccak256() -> Callable[[bytes], bytes] | None:
    """Keccak-256 by safe-pysha3, or None where it is not installed.

    About five times faster on short inputs. It also keeps the interpreter lock on them, where
    pycryptodome gives it up several times per hash and waits each time behind every busy thread.
    """
    try:
        # Not an import statement: the package is optional and ships no type information.
        keccak_256 = import_module("sha3").keccak_256
    except (ImportError, AttributeError):
        return None

    def hash_with_pysha3(data: bytes) -> bytes:
        digest: bytes = keccak_256(data).digest()
        return digest

    return hash_with_pysha3


def gives_known_answers(hash_function: Callable[[bytes], bytes]) -> bool:
    """Whether a function is Keccak-256 on the known answers; SHA3-256 is not."""
    return all(hash_function(data).hex() == digest_hex for data, digest_hex in _KNOWN_ANSWERS)


def _chosen_backend() -> Callable[[bytes], bytes]:
    fast = pysha3_keccak256()
    # Many packages are importable as `sha3`; one that is not Keccak is passed over.
    if fast is not None and gives_known_answers(fast):
        return fast
    if not gives_known_answers(pycryptodome_keccak256):
        raise ImportError("pycryptodome's Keccak-256 does not give the known answers; reinstall pycryptodome")
    return pycryptodome_keccak256


# Not wrapped in a function of its own: a call makes some twenty hashes.
keccak256: Callable[[bytes], bytes] = _chosen_backend()
"""Keccak-256 of data of any length; 32 bytes."""
