"""Proofs of the log: how long they are at growing sizes, and making one from stored nodes against anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aioum.core.merkle import HASH_BYTES, inclusion_proof, verify_consistency, verify_inclusion
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash, node_hash
from benchmarks.measure import Alternative, Plan, measure, repeated
from benchmarks.result import Case, Comparison, Count

NAME = "evidence-proofs"
OPERATION = "making one inclusion proof"
PACKAGES = ()
NOTES = (
    "Longest of the proofs of 1,000 places all over the log, of its ends and its middle; each was checked.",
    "`hash list` is what proves the same without a tree: the hashes of all entries.",
)

_EXPONENTS: Final = range(10, 21, 2)
_MEASURED: Final = 16
_PLACES: Final = 1_000
_MOST_CONSISTENCY_HASHES: Final = 21


def run(plan: Plan) -> list[Case]:
    """Count hashes at every size, and measure at one."""
    leaves = [leaf_hash(number.to_bytes(8, "big")) for number in range(1 << _EXPONENTS[-1])]
    tree = LogTree(MemoryNodes())
    cases = []
    for exponent in _EXPONENTS:
        tree.extend(leaves[tree.size : 1 << exponent])
        cases.append(lengths(tree, leaves[: tree.size], f"2^{exponent} entries"))
    cases.append(_making(tree, leaves[: 1 << _MEASURED], plan))
    return cases


def lengths(tree: LogTree, leaves: list[bytes], name: str) -> Case:
    """The longest proofs of a tree over these leaves. Raises ProofInvalid where one does not verify."""
    size, root = tree.size, tree.root()
    inclusion = consistency = 0
    for place in places(size):
        proof = tree.inclusion(place)
        verify_inclusion(leaves[place], place, size, proof, root, node_hash)
        inclusion = max(inclusion, len(proof))
        earlier = place + 1
        proof = tree.consistency(earlier)
        verify_consistency(earlier, size, tree.root(earlier), root, proof, node_hash)
        consistency = max(consistency, len(proof))
    at_most = _MOST_CONSISTENCY_HASHES if size == 1 << _EXPONENTS[-1] else None
    return Case(
        name=name,
        counts=(
            Count(name="inclusion", value=inclusion, unit="hashes"),
            Count(name="inclusion", value=inclusion * HASH_BYTES, unit="bytes"),
            Count(name="consistency", value=consistency, unit="hashes", at_most=at_most),
            Count(name="consistency", value=consistency * HASH_BYTES, unit="bytes"),
            Count(name="hash list", value=size * HASH_BYTES, unit="bytes"),
        ),
    )


def places(size: int) -> Iterator[int]:
    """Indexes from everywhere in a log of this size, even and odd."""
    # An odd step, so that places are odd and even in turn.
    step = max(1, size // _PLACES) | 1
    yield from range(0, size, step)
    yield from (size // 2 - 1, size // 2, size - 1)


def _making(tree: LogTree, leaves: list[bytes], plan: Plan) -> Case:
    size = len(leaves)
    index = size // 3
    if tree.inclusion(index, size) != inclusion_proof(leaves, index, node_hash):
        raise RuntimeError("the alternatives do not agree")
    stored, anew = "stored nodes", "tree built anew"
    samples = measure(
        [
            Alternative(stored, repeated(tree.inclusion, index, size)),
            Alternative(anew, repeated(inclusion_proof, leaves, index, node_hash)),
        ],
        plan,
    )
    comparison = Comparison(subject=stored, baseline=anew)
    return Case(name=f"inclusion proof at 2^{_MEASURED}", samples=samples, comparisons=(comparison,))
