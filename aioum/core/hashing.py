"""Keccak-256 as Ethereum uses it (original padding 0x01, not FIPS 202's SHA3-256)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Protocol

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


class _Digest(Protocol):
    def digest(self) -> bytes: ...


_Constructor = Callable[[bytes], _Digest]


def pysha3_keccak256() -> Callable[[bytes], bytes] | None:
    """Keccak-256 by safe-pysha3, or None where it is not installed.

    About five times faster on short inputs. It also keeps the interpreter lock on them, where
    pycryptodome gives it up several times per hash and waits each time behind every busy thread.
    """
    constructor = _pysha3_constructor()
    return None if constructor is None else _in_one_call(constructor)


def openssl_keccak256() -> Callable[[bytes], bytes] | None:
    """Keccak-256 by OpenSSL (3.2 and later), or None where Python's is older or has it switched off."""
    constructor = _openssl_constructor()
    return None if constructor is None else _in_one_call(constructor)


def _pysha3_constructor() -> _Constructor | None:
    try:
        # Not an import statement: the package is optional and ships no type information.
        constructor: _Constructor = import_module("sha3").keccak_256
    except (ImportError, AttributeError):
        return None
    return constructor


def _openssl_constructor() -> _Constructor | None:
    try:
        hashlib.new("keccak-256")
    except ValueError:
        return None
    return partial(hashlib.new, "keccak-256")


def _in_one_call(constructor: _Constructor) -> Callable[[bytes], bytes]:
    def hash_at_once(data: bytes) -> bytes:
        return constructor(data).digest()

    return hash_at_once


def pycryptodome_pairs(prefix: bytes, nodes: Sequence[bytes]) -> list[bytes]:
    """`keccak256_pairs` by pycryptodome's C functions, without an object for each hash: four times as fast.

    Raises:
        ImportError, LookupError, AttributeError, TypeError: this pycryptodome has no such functions. They are
            not part of what it promises, so whoever chooses this function tries it first.
    """
    c: Any = import_module("Crypto.Util._raw_api")
    library: Any = vars(_pycryptodome_keccak)["_raw_keccak_lib"]
    pointer = c.VoidPointer()
    if library.keccak_init(pointer.address_of(), c.c_size_t(64), c.c_ubyte(24)):
        raise MemoryError("pycryptodome gave no Keccak state")
    # One state for each call, freed with the last reference: other threads run while C hashes.
    owner = c.SmartPointer(pointer.get(), library.keccak_destroy)
    state, digest, digest_bytes, padding = (
        owner.get(),
        c.create_string_buffer(32),
        c.c_size_t(32),
        c.c_ubyte(1),
    )
    reset, absorb, finish = library.keccak_reset, library.keccak_absorb, library.keccak_digest
    size, read = c.c_size_t, c.get_raw_buffer
    parents = []
    for left, right in zip(nodes[::2], nodes[1::2], strict=False):
        data = prefix + left + right
        if (
            reset(state)
            or absorb(state, data, size(len(data)))
            or finish(state, digest, digest_bytes, padding)
        ):
            raise RuntimeError("pycryptodome's Keccak failed")
        parents.append(read(digest))
    return parents


def gives_known_answers(hash_function: Callable[[bytes], bytes]) -> bool:
    """Whether a function is Keccak-256 on the known answers; SHA3-256 is not."""
    return all(hash_function(data).hex() == digest_hex for data, digest_hex in _KNOWN_ANSWERS)


def _chosen_constructor() -> _Constructor | None:
    for fast in (_pysha3_constructor(), _openssl_constructor()):
        # Many packages are importable as `sha3`; one that is not Keccak is passed over.
        if fast is not None and gives_known_answers(_in_one_call(fast)):
            return fast
    return None


def _chosen_backend() -> Callable[[bytes], bytes]:
    fast = _chosen_constructor()
    if fast is not None:
        return _in_one_call(fast)
    if not gives_known_answers(pycryptodome_keccak256):
        raise ImportError("pycryptodome's Keccak-256 does not give the known answers; reinstall pycryptodome")
    return pycryptodome_keccak256


def _chosen_pairs() -> Callable[[bytes, Sequence[bytes]], list[bytes]]:
    fast = _chosen_constructor()
    if fast is not None:
        return _pairs_with(fast)
    # Lengths on both sides of a rate block, and an odd last one.
    samples = [(b"", [b"", b"", b"abc"]), (b"\x01", [b"a" * 32, b"b" * 32, b"c" * 100, b"d" * 200, b"e"])]
    try:
        if all(pycryptodome_pairs(*sample) == _pairs_one_by_one(*sample) for sample in samples):
            return pycryptodome_pairs
    except (ImportError, LookupError, AttributeError, TypeError, ValueError):
        pass
    return _pairs_one_by_one


def _pairs_with(constructor: _Constructor) -> Callable[[bytes, Sequence[bytes]], list[bytes]]:
    def pairs(prefix: bytes, nodes: Sequence[bytes]) -> list[bytes]:
        # Written out, since a call in between costs a tenth of the hash.
        return [
            constructor(prefix + left + right).digest()
            for left, right in zip(nodes[::2], nodes[1::2], strict=False)
        ]

    return pairs


def _pairs_one_by_one(prefix: bytes, nodes: Sequence[bytes]) -> list[bytes]:
    pairs = zip(nodes[::2], nodes[1::2], strict=False)
    return [pycryptodome_keccak256(prefix + left + right) for left, right in pairs]


# Not wrapped in a function of its own: a call makes some twenty hashes.
keccak256: Callable[[bytes], bytes] = _chosen_backend()
"""Keccak-256 of data of any length; 32 bytes."""

keccak256_pairs: Callable[[bytes, Sequence[bytes]], list[bytes]] = _chosen_pairs()
"""(prefix, nodes) -> Keccak-256 of prefix ‖ nodes[0] ‖ nodes[1], of prefix ‖ nodes[2] ‖ nodes[3], and so on.

Of an odd number of nodes the last is left out. For the levels of large Merkle trees.
"""
