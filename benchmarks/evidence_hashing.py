"""Hashes: BLAKE3 of a run's leaves and contents, keccak of its nodes, SHA-256 of the log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from blake3 import blake3
from eth_hash.auto import keccak as eth_hash_keccak

from aioum.core.canonical import canonical_bytes
from aioum.core.hashing import keccak256_pairs, openssl_keccak256, pycryptodome_keccak256, pycryptodome_pairs
from benchmarks.evidence_material import events
from benchmarks.keccak import choices
from benchmarks.measure import Alternative, Plan, in_batches, measure, repeated
from benchmarks.result import Case, Comparison

NAME = "evidence-hashing"
OPERATION = "hashing one input; of a level, hashing one pair"
PACKAGES = ("blake3", "safe-pysha3", "pycryptodome", "eth-hash")

_OPENSSL: Final = openssl_keccak256()

NOTES = (
    "BLAKE3 in one thread, as runs use it.",
    "`keccak (aioum, …)` is the function that was chosen at import, with the library that it took.",
    "OpenSSL's own keccak-256 is in no row: Python's OpenSSL here has none (it came with 3.2)."
    if _OPENSSL is None
    else "`keccak (OpenSSL)` is `hashlib.new('keccak-256')`.",
)

_NODE_BYTES: Final = 65
_LEVEL_NODES: Final = 1_000
_BLAKE3: Final = "BLAKE3"
_SHA256: Final = "SHA-256"
_PYCRYPTODOME: Final = "keccak (pycryptodome)"

Hash = Callable[[bytes], bytes]


def sha256(data: bytes) -> bytes:
    """SHA-256, by OpenSSL."""
    return hashlib.sha256(data).digest()


def blake3_hash(data: bytes) -> bytes:
    """BLAKE3 of 32 bytes."""
    return blake3(data).digest()


def keccaks() -> dict[str, Hash]:
    """All keccaks that are installed; the one that aioum chose is the first."""
    (chosen, function), *_ = choices().items()
    name = f"keccak ({chosen.replace(' (', ', ')}" if chosen.endswith(")") else f"keccak ({chosen})"
    found: dict[str, Hash] = {
        name: function,
        _PYCRYPTODOME: pycryptodome_keccak256,
        "keccak (eth-hash)": eth_hash_keccak,
    }
    if _OPENSSL is not None:
        found["keccak (OpenSSL)"] = _OPENSSL
    return found


def run(plan: Plan) -> list[Case]:
    """Measure leaves, contents, nodes, and a level of nodes."""
    all_keccaks = keccaks()
    ours, *_ = all_keccaks
    sums: dict[str, Hash] = {_BLAKE3: blake3_hash, _SHA256: sha256, ours: all_keccaks[ours]}
    leaf = b"\x00" + canonical_bytes(events(1)[0].to_json())
    node = bytes(range(_NODE_BYTES))
    return [
        _case(f"leaf, an event of {len(leaf)} bytes", leaf, sums, {_BLAKE3: [_SHA256, ours]}, plan),
        _case("content of 16 kB", bytes(16_384), sums, {_BLAKE3: [_SHA256, ours]}, plan),
        _case("content of 1 MB", bytes(1_000_000), sums, {_BLAKE3: [_SHA256, ours]}, plan),
        _case(
            f"node, {_NODE_BYTES} bytes",
            node,
            {**sums, **all_keccaks},
            {
                ours: [*(name for name in all_keccaks if name != ours), _SHA256, _BLAKE3],
                _SHA256: [_BLAKE3, ours],
            },
            plan,
        ),
        _level(plan),
    ]


def _case(
    name: str,
    data: bytes,
    functions: Mapping[str, Hash],
    compared: Mapping[str, Sequence[str]],
    plan: Plan,
) -> Case:
    return Case(
        name=name,
        samples=measure(
            [Alternative(of, repeated(function, data)) for of, function in functions.items()], plan
        ),
        comparisons=tuple(
            Comparison(subject=subject, baseline=baseline)
            for subject, baselines in compared.items()
            for baseline in baselines
        ),
    )


def _level(plan: Plan) -> Case:
    """A level of nodes at once, as verifying builds a tree, against node by node."""
    nodes = [sha256(bytes((number % 256,))) for number in range(_LEVEL_NODES)]

    def one_by_one() -> list[bytes]:
        return [
            pycryptodome_keccak256(b"\x01" + left + right)
            for left, right in zip(nodes[::2], nodes[1::2], strict=True)
        ]

    ours, batched, single = "aioum", "pycryptodome, without objects", "pycryptodome, one by one"
    ways: dict[str, Callable[[], list[bytes]]] = {
        ours: lambda: keccak256_pairs(b"\x01", nodes),
        batched: lambda: pycryptodome_pairs(b"\x01", nodes),
        single: one_by_one,
    }
    if any(way() != one_by_one() for way in ways.values()):
        raise RuntimeError("the alternatives do not agree")
    pairs = _LEVEL_NODES // 2
    samples = measure([Alternative(name, in_batches(way, pairs)) for name, way in ways.items()], plan)
    comparisons = (
        Comparison(subject=ours, baseline=batched),
        Comparison(subject=ours, baseline=single),
        Comparison(subject=batched, baseline=single),
    )
    return Case(name=f"level of {_LEVEL_NODES:,} nodes", samples=samples, comparisons=comparisons)
