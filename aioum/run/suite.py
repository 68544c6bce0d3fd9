"""The hashes of runs, by the names in a run's header: computed exactly as named, or refused (PROTOCOL 8).

A suite is never substituted. `sha256` is in the table so that a capsule whose header was downgraded to it
is hashed with it, and shown to have other leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from blake3 import blake3

from aioum.core.errors import InvalidInput
from aioum.core.hashing import keccak256, keccak256_pairs
from aioum.core.merkle import root_by_levels
from aioum.run.errors import SuiteUnknown
from aioum.run.event import SuiteNames

SALT_BYTES: Final = 16
"""Length of a commitment's salt."""

_LEAF: Final = b"\x00"
_NODE: Final = b"\x01"
_LINK: Final = b"\x02"
_START: Final = b"\x03"

Hash = Callable[[bytes], bytes]
"""Data of any length -> 32 bytes."""

_KNOWN_ANSWERS: Final = {
    "blake3": {
        b"": "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        b"abc": "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    },
    "keccak256": {
        b"": "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
        b"abc": "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
    },
    "sha256": {
        b"": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        b"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    },
}


def checked(name: str, function: Hash) -> Hash:
    """The function, if it gives the known answers of the hash of this name.

    Raises:
        ImportError: it does not; SHA3-256 is not keccak256, for one.
    """
    if any(function(data).hex() != answer for data, answer in _KNOWN_ANSWERS[name].items()):
        raise ImportError(f"what is installed as {name} does not give the known answers of {name}")
    return function


def _blake3(data: bytes) -> bytes:
    return blake3(data).digest()


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@dataclass(frozen=True, slots=True)
class Suite:
    """The functions that a header names.

    Attributes:
        names: as in the header.
        hash: the one called `leafHash`: of leaves and of the chain.
    """

    names: SuiteNames
    hash: Hash

    def leaf_hash(self, event_json: bytes) -> bytes:
        """The leaf of an event, 32 bytes, of its canonical JSON."""
        return self.hash(_LEAF + event_json)

    def chain_start(self, header_json: bytes) -> bytes:
        """The chain's value before the first event, 32 bytes, of the header's canonical JSON."""
        return self.hash(_START + header_json)

    def chain_next(self, before: bytes, leaf: bytes) -> bytes:
        """The chain's value after one more event; all are 32 bytes."""
        return self.hash(_LINK + before + leaf)

    def node_hash(self, left: bytes, right: bytes) -> bytes:
        """The parent of two nodes; all are 32 bytes."""
        return keccak256(_NODE + left + right)

    def root(self, leaves: Sequence[bytes]) -> bytes | None:
        """The Merkle root over leaves of 32 bytes each, or None where there are none."""
        return root_by_levels(leaves, _parents)


def _parents(level: Sequence[bytes]) -> list[bytes]:
    return keccak256_pairs(_NODE, level)


checked("keccak256", keccak256)

_SUITES: Final = {
    names: Suite(names, checked(names.leaf_hash, function))
    for names, function in (
        (SuiteNames("jcs", "blake3", "keccak256"), _blake3),
        (SuiteNames("jcs", "sha256", "keccak256"), _sha256),
    )
}


def suite_named(names: SuiteNames) -> Suite:
    """The suite of these names.

    Raises:
        SuiteUnknown: `suite-unknown`.
    """
    suite = _SUITES.get(names)
    if suite is None:
        raise SuiteUnknown(
            f"a suite of {names.canonicalization}, {names.leaf_hash} and {names.node_hash} is not known here",
            hint="verify the capsule with a program that knows its suite; another one proves nothing",
        )
    return suite


def commitment(salt: bytes, content: bytes) -> bytes:
    """What stands for a content in an event, 32 bytes: BLAKE3 of the salt and the content.

    Args:
        salt: SALT_BYTES random bytes, one salt for each content; without it, contents could be guessed.
        content: any length.

    Raises:
        InvalidInput: `commitment-salt-invalid`, the salt has another length.
    """
    if len(salt) != SALT_BYTES:
        raise InvalidInput(f"a salt has {SALT_BYTES} bytes, got {len(salt)}", code="commitment-salt-invalid")
    return _blake3(salt + content)
