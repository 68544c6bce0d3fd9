"""The Merkle tree of RFC 6962's shape, with the node hash injected.

A level's odd last node moves up unchanged and is never duplicated; one leaf is its own root; no leaves have
no root. Leaves are hashes already: the caller's scheme keeps the preimages of leaves and nodes apart
(PROTOCOL 2, 8, 9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aioum.core.errors import InvalidInput, ProofInvalid

NodeHash = Callable[[bytes, bytes], bytes]
"""(left, right) -> parent; all three are 32 bytes."""

PairsHash = Callable[[Sequence[bytes]], list[bytes]]
"""The nodes of a level -> the parent of each pair, from the left; an odd last node has none."""

HASH_BYTES = 32
"""Length of leaves, nodes and roots."""

_SIZE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Frontier:
    """The perfect subtrees of a tree that grows at its end: all that appending needs (PROTOCOL 2).

    Attributes:
        size: number of leaves, 0 to 2^64-1.
        peaks: roots of the perfect subtrees, 32 bytes each, largest first; one for each set bit of size.

    Raises:
        InvalidInput: `frontier-malformed`, the peaks are not those of a tree of this size.
    """

    size: int = 0
    peaks: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.size < 1 << 8 * _SIZE_BYTES or len(self.peaks) != self.size.bit_count():
            raise InvalidInput(
                f"a frontier of {self.size} leaves does not have {len(self.peaks)} peaks",
                code="frontier-malformed",
            )

    def append(self, leaf: bytes, node_hash: NodeHash) -> Frontier:
        """The frontier with one more leaf (32 bytes); O(log n) hashes at worst, one on average.

        Raises:
            InvalidInput: `frontier-malformed`, the leaf is not 32 bytes.
        """
        if len(leaf) != HASH_BYTES:
            raise InvalidInput(
                f"a leaf has {len(leaf)} bytes, expected {HASH_BYTES}", code="frontier-malformed"
            )
        kept = len(self.peaks)
        carried = leaf
        remaining = self.size
        while remaining & 1:
            kept -= 1
            carried = node_hash(self.peaks[kept], carried)
            remaining >>= 1
        return Frontier(self.size + 1, (*self.peaks[:kept], carried))

    def root(self, node_hash: NodeHash) -> bytes | None:
        """The root over all leaves (32 bytes), or None where there is no leaf."""
        if not self.peaks:
            return None
        node = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            node = node_hash(peak, node)
        return node

    def to_bytes(self) -> bytes:
        """8 bytes of size, big-endian, then the peaks, largest first."""
        return self.size.to_bytes(_SIZE_BYTES, "big") + b"".join(self.peaks)

    @classmethod
    def from_bytes(cls, data: bytes) -> Frontier:
        """Read what `to_bytes` wrote.

        Raises:
            InvalidInput: `frontier-malformed`, too short, or the length does not fit the size.
        """
        body = data[_SIZE_BYTES:]
        if len(data) < _SIZE_BYTES or len(body) % HASH_BYTES:
            raise InvalidInput(
                f"a frontier of {len(data)} bytes; expected {_SIZE_BYTES} and a multiple of {HASH_BYTES}",
                code="frontier-malformed",
            )
        peaks = tuple(body[start : start + HASH_BYTES] for start in range(0, len(body), HASH_BYTES))
        return cls(int.from_bytes(data[:_SIZE_BYTES], "big"), peaks)


def _pairs(level: Sequence[bytes], node_hash: NodeHash) -> list[bytes]:
    return [node_hash(level[left], level[left + 1]) for left in range(0, len(level) - 1, 2)]


def _parents(level: Sequence[bytes], node_hash: NodeHash) -> list[bytes]:
    return _with_odd_last(_pairs(level, node_hash), level)


def _with_odd_last(above: list[bytes], level: Sequence[bytes]) -> list[bytes]:
    if len(level) % 2:
        above.append(level[-1])
    return above


def root_of(leaves: Sequence[bytes], node_hash: NodeHash) -> bytes | None:
    """The root over leaves of 32 bytes each, or None where there are none."""
    return root_by_levels(leaves, lambda level: _pairs(level, node_hash))


def root_by_levels(leaves: Sequence[bytes], pairs_hash: PairsHash) -> bytes | None:
    """`root_of`, for a hash that is faster on a whole level at once."""
    if not leaves:
        return None
    level = leaves
    while len(level) > 1:
        level = _with_odd_last(pairs_hash(level), level)
    return level[0]


def inclusion_proof(leaves: Sequence[bytes], index: int, node_hash: NodeHash) -> list[bytes]:
    """The siblings from the leaf at index up to the root, 32 bytes each; O(n) hashes.

    Raises:
        ProofInvalid: `proof-index-out-of-range`.
    """
    _require_index(index, len(leaves))
    siblings = []
    level = leaves
    position = index
    while len(level) > 1:
        beside = position ^ 1
        if beside < len(level):
            siblings.append(level[beside])
        level = _parents(level, node_hash)
        position //= 2
    return siblings


def verify_inclusion(
    leaf: bytes, index: int, size: int, siblings: Sequence[bytes], root: bytes, node_hash: NodeHash
) -> None:
    """Return if the leaf is at index in the tree of this size and root (PROTOCOL 2); raise otherwise.

    Args:
        leaf: leaf hash, 32 bytes.
        index: 0 to size-1.
        size: number of leaves. A proof does not bind it: take it from the chain or from a signed statement.
        siblings: from the leaf up, 32 bytes each.
        root: 32 bytes, from where size came from.
        node_hash: the tree's own.

    Raises:
        ProofInvalid: `proof-index-out-of-range`; `proof-hash-size-wrong`, something is not 32 bytes;
            `proof-length-wrong`, too few or too many siblings; `proof-root-mismatch`.
    """
    _require_index(index, size)
    for value in (leaf, root, *siblings):
        # Else bytes could be moved over the border between two neighbors without changing their parent.
        if len(value) != HASH_BYTES:
            raise ProofInvalid(
                f"a hash of the proof has {len(value)} bytes, expected {HASH_BYTES}",
                code="proof-hash-size-wrong",
            )
    node = leaf
    position, width, used = index, size, 0
    while width > 1:
        if not (position == width - 1 and width % 2):
            if used == len(siblings):
                raise ProofInvalid(
                    f"{used} siblings are too few for index {index} of {size}", code="proof-length-wrong"
                )
            sibling = siblings[used]
            used += 1
            node = node_hash(sibling, node) if position % 2 else node_hash(node, sibling)
        position //= 2
        width = (width + 1) // 2
    if used != len(siblings):
        raise ProofInvalid(
            f"{len(siblings)} siblings, expected {used} for index {index} of {size}",
            code="proof-length-wrong",
        )
    if node != root:
        raise ProofInvalid(
            f"the leaf at index {index} of {size} leads to root 0x{node.hex()}, expected 0x{root.hex()}",
            code="proof-root-mismatch",
        )


def consistency_proof(leaves: Sequence[bytes], first: int, node_hash: NodeHash) -> list[bytes]:
    """The hashes that lead from the root over the first `first` leaves to the root over all: bottom-up, 32
    bytes each.

    Source: RFC 9162 section 2.1.4.1; O(n) hashes.

    Raises:
        ProofInvalid: `proof-size-out-of-range` unless 1 ≤ first ≤ number of leaves.
    """
    _require_sizes(first, len(leaves))
    if first == len(leaves):
        return []
    return _subproof(leaves, first, True, node_hash)


def _subproof(leaves: Sequence[bytes], first: int, whole: bool, node_hash: NodeHash) -> list[bytes]:
    size = len(leaves)
    if first == size:
        # Where the first tree is this very subtree, its root is known already.
        return [] if whole else [*_peak(leaves, node_hash)]
    split = 1 << (size - 1).bit_length() - 1
    if first <= split:
        return [*_subproof(leaves[:split], first, whole, node_hash), *_peak(leaves[split:], node_hash)]
    rest = _subproof(leaves[split:], first - split, False, node_hash)
    return [*rest, *_peak(leaves[:split], node_hash)]


def verify_consistency(
    first: int,
    second: int,
    first_root: bytes,
    second_root: bytes,
    proof: Sequence[bytes],
    node_hash: NodeHash,
) -> None:
    """Return if the tree of `second` leaves begins with the tree of `first` leaves; raise otherwise.

    Source: RFC 9162 section 2.1.4.2.

    Args:
        first: a size; a proof does not bind it: take it from where its root came from.
        second: likewise.
        first_root: over `first` leaves, 32 bytes.
        second_root: over `second` leaves, 32 bytes.
        proof: bottom-up, 32 bytes each.
        node_hash: the tree's own.

    Raises:
        ProofInvalid: `proof-size-out-of-range`, unless 1 ≤ first ≤ second; `proof-hash-size-wrong`;
            `proof-length-wrong`; `proof-root-mismatch`.
    """
    _require_sizes(first, second)
    if first == second:
        if proof:
            raise ProofInvalid("equal sizes take no proof", code="proof-length-wrong")
        if first_root != second_root:
            raise ProofInvalid(f"two roots over {first} leaves", code="proof-root-mismatch")
        return
    for value in (first_root, second_root, *proof):
        if len(value) != HASH_BYTES:
            raise ProofInvalid(
                f"a hash of the proof has {len(value)} bytes, expected {HASH_BYTES}",
                code="proof-hash-size-wrong",
            )
    first_last, second_last = first - 1, second - 1
    while first_last % 2:
        first_last, second_last = first_last // 2, second_last // 2
    rest = list(proof)
    if first_last and not rest:
        raise ProofInvalid("the proof is too short", code="proof-length-wrong")
    first_node = second_node = rest.pop(0) if first_last else first_root
    for sibling in rest:
        if not second_last:
            raise ProofInvalid("the proof is too long", code="proof-length-wrong")
        if first_last % 2 or first_last == second_last:
            first_node, second_node = node_hash(sibling, first_node), node_hash(sibling, second_node)
            while first_last and not first_last % 2:
                first_last, second_last = first_last // 2, second_last // 2
        else:
            second_node = node_hash(second_node, sibling)
        first_last, second_last = first_last // 2, second_last // 2
    if second_last:
        raise ProofInvalid("the proof is too short", code="proof-length-wrong")
    if (first_node, second_node) != (first_root, second_root):
        raise ProofInvalid(
            f"the proof does not lead from {first} to {second} leaves", code="proof-root-mismatch"
        )


def _peak(leaves: Sequence[bytes], node_hash: NodeHash) -> tuple[bytes, ...]:
    root = root_of(leaves, node_hash)
    return () if root is None else (root,)


def _require_sizes(first: int, second: int) -> None:
    if not 1 <= first <= second:
        raise ProofInvalid(
            f"a tree of {second} leaves begins with no tree of {first}", code="proof-size-out-of-range"
        )


def _require_index(index: int, size: int) -> None:
    if not 0 <= index < size:
        raise ProofInvalid(
            f"index {index} is not in a tree of {size} leaves", code="proof-index-out-of-range"
        )
