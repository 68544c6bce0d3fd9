"""Which stored nodes make up a root or a proof: pure arithmetic, whatever the nodes are stored in.

A node is the root of a perfect subtree. A hash of a proof is either such a node or, at the right edge of the
tree, several of them bagged from right to left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from aioum.core.errors import ProofInvalid
from aioum.core.merkle import NodeHash

MAX_SIZE = 2**62 - 1
"""Most entries of a log; its nodes, twice as many, are counted in 63 bits."""


class Node(NamedTuple):
    """The root over the leaves `number << level` up to `(number + 1) << level`, without that one."""

    level: int
    number: int


Peaks = tuple[Node, ...]
"""One hash of a proof: nodes from left to right, to be bagged; never empty."""


def peaks_of(first: int, last: int) -> Peaks:
    """The nodes over leaves `first` to `last`-1, left to right; first is a multiple of the largest one."""
    peaks = []
    while first < last:
        level = (last - first).bit_length() - 1
        peaks.append(Node(level, first >> level))
        first += 1 << level
    return tuple(peaks)


def root_plan(size: int) -> Peaks:
    """The nodes that the root over `size` leaves is bagged from, size at least 1."""
    return peaks_of(0, size)


def inclusion_plan(index: int, size: int) -> list[Peaks]:
    """The siblings of the leaf at index in the tree of `size` leaves, from the leaf up (RFC 9162, 2.1.3.1).

    Raises:
        ProofInvalid: `proof-index-out-of-range`.
    """
    if not 0 <= index < size <= MAX_SIZE:
        raise ProofInvalid(
            f"index {index} is not in a log of {size} entries", code="proof-index-out-of-range"
        )
    plan: list[Peaks] = []
    first, last = 0, size
    while last - first > 1:
        split = first + _left_width(last - first)
        if index < split:
            plan.append(peaks_of(split, last))
            last = split
        else:
            plan.append(peaks_of(first, split))
            first = split
    return plan[::-1]


def consistency_plan(first: int, second: int) -> list[Peaks]:
    """The hashes that lead from `first` leaves to `second`, bottom-up (RFC 9162, 2.1.4.1).

    Raises:
        ProofInvalid: `proof-size-out-of-range`, unless 1 ≤ first ≤ second.
    """
    if not 1 <= first <= second <= MAX_SIZE:
        raise ProofInvalid(
            f"a log of {second} entries begins with no log of {first}", code="proof-size-out-of-range"
        )
    if first == second:
        return []
    plan: list[Peaks] = []
    start, end = 0, second
    while first != end:
        split = start + _left_width(end - start)
        if first <= split:
            plan.append(peaks_of(split, end))
            end = split
        else:
            plan.append(peaks_of(start, split))
            start = split
    if start:
        plan.append(peaks_of(start, end))
    return plan[::-1]


def nodes_of(plan: Iterable[Peaks]) -> list[Node]:
    """All nodes of a plan."""
    return [node for peaks in plan for node in peaks]


def bag(hashes: Sequence[bytes], node_hash: NodeHash) -> bytes:
    """One hash over those of neighboring perfect subtrees, largest first; at least one."""
    bagged = hashes[-1]
    for peak in reversed(hashes[:-1]):
        bagged = node_hash(peak, bagged)
    return bagged


def fill(plan: Sequence[Peaks], hashes: Mapping[Node, bytes], node_hash: NodeHash) -> list[bytes]:
    """The proof that a plan describes, from the hashes of its nodes."""
    return [bag([hashes[node] for node in peaks], node_hash) for peaks in plan]


def _left_width(width: int) -> int:
    return 1 << (width - 1).bit_length() - 1
