"""The log's tree: a Merkle Mountain Range whose root is the RFC 6962 root (PROTOCOL 9).

Nodes are stored in the order in which appending makes them: a leaf, then the parents that it completes. So a
stored node never changes, an entry costs about two hashes, and the place of each node follows from its index.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from aioum.core.errors import InvalidInput, ProofInvalid
from aioum.core.merkle import HASH_BYTES, NodeHash
from aioum.log.proofs import (
    MAX_SIZE,
    Node,
    Peaks,
    bag,
    consistency_plan,
    fill,
    inclusion_plan,
    nodes_of,
    root_plan,
)

EMPTY_ROOT: Final = hashlib.sha256().digest()
"""The root over no entries (RFC 9162, 2.1.1)."""


def leaf_hash(entry: bytes) -> bytes:
    """SHA-256(00 ‖ entry), 32 bytes."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(01 ‖ left ‖ right), 32 bytes."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def node_count(size: int) -> int:
    """How many nodes a tree of `size` leaves has stored."""
    return 2 * size - size.bit_count()


def node_position(node: Node) -> int:
    """Where a node is stored, from 0."""
    last_leaf = ((node.number + 1) << node.level) - 1
    return node_count(last_leaf) + node.level


class NodeStore(Protocol):
    """An append-only sequence of hashes of 32 bytes. What it makes durable, and when, is its own."""

    def __len__(self) -> int:
        """How many are stored."""
        ...

    def get(self, position: int) -> bytes:
        """The hash at a position below the length."""
        ...

    def extend(self, hashes: Sequence[bytes]) -> None:
        """Append hashes, all or none."""
        ...


class MemoryNodes:
    """Nodes in memory."""

    def __init__(self, hashes: Iterable[bytes] = ()) -> None:
        self._data = bytearray(b"".join(hashes))

    def __len__(self) -> int:
        return len(self._data) // HASH_BYTES

    def get(self, position: int) -> bytes:
        """The hash at a position below the length."""
        return bytes(self._data[position * HASH_BYTES : (position + 1) * HASH_BYTES])

    def extend(self, hashes: Sequence[bytes]) -> None:
        """Append hashes."""
        self._data += b"".join(hashes)


class LogTree:
    """The tree over a store of nodes: appending adds some, roots and proofs of any size are read off."""

    def __init__(
        self,
        store: NodeStore,
        size: int | None = None,
        *,
        node_hash: NodeHash = node_hash,
        empty_root: bytes = EMPTY_ROOT,
    ) -> None:
        """Take up a tree.

        Args:
            store: with the nodes of exactly `size` leaves.
            size: number of leaves, or None to infer it.
            node_hash: the tree's own.
            empty_root: the root over no leaves, 32 bytes.

        Raises:
            InvalidInput: `log-nodes-malformed`, no tree (or not one of this size) has that many nodes.
        """
        stored = len(store)
        found = _size_of(stored) if size is None else size
        if node_count(found) != stored:
            raise InvalidInput(
                f"{stored} stored nodes are not those of a log of {found} entries", code="log-nodes-malformed"
            )
        self._store = store
        self._node_hash = node_hash
        self._empty_root = empty_root
        # One object, so that a thread which reads while another appends sees a size with its peaks.
        self._state = found, [store.get(node_position(peak)) for peak in root_plan(found)]

    @property
    def size(self) -> int:
        """Number of leaves."""
        return self._state[0]

    def append(self, leaf: bytes) -> int:
        """Add a leaf hash (32 bytes) and give its index. Raises as `extend`."""
        self.extend((leaf,))
        return self.size - 1

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaf hashes, 32 bytes each, with one write to the store; all or none.

        Raises:
            InvalidInput: `log-leaf-malformed`, a leaf is not 32 bytes; `log-full`.
        """
        size, peaks = self._state
        if size + len(leaves) > MAX_SIZE:
            raise InvalidInput(f"a log has at most {MAX_SIZE} entries", code="log-full")
        node_hash, peaks = self._node_hash, peaks.copy()
        added: list[bytes] = []
        for leaf in leaves:
            if len(leaf) != HASH_BYTES:
                raise InvalidInput(
                    f"a leaf has {len(leaf)} bytes, expected {HASH_BYTES}", code="log-leaf-malformed"
                )
            node = leaf
            added.append(node)
            complete = size
            while complete & 1:
                node = node_hash(peaks.pop(), node)
                added.append(node)
                complete >>= 1
            peaks.append(node)
            size += 1
        self._store.extend(added)
        self._state = size, peaks

    def node(self, node: Node) -> bytes:
        """A stored node, 32 bytes.

        Raises:
            ProofInvalid: `proof-index-out-of-range`, the tree has not completed it.
        """
        level, number = node
        if level < 0 or number < 0 or (number + 1) << level > self.size:
            raise ProofInvalid(f"a log of {self.size} entries lacks {node}", code="proof-index-out-of-range")
        return self._store.get(node_position(node))

    def root(self, size: int | None = None) -> bytes:
        """The root over the first `size` leaves (None: all), 32 bytes.

        Raises:
            ProofInvalid: `proof-size-out-of-range`.
        """
        whole, peaks = self._state
        if size is None or size == whole:
            return bag(peaks, self._node_hash) if peaks else self._empty_root
        self._require_size(size)
        return self._fill([root_plan(size)])[0] if size else self._empty_root

    def inclusion(self, index: int, size: int | None = None) -> list[bytes]:
        """The proof that the leaf at index is in the tree of `size` leaves (RFC 9162, 2.1.3).

        Check it with `aioum.core.merkle.verify_inclusion`.

        Raises:
            ProofInvalid: `proof-index-out-of-range` or `proof-size-out-of-range`.
        """
        within = self.size if size is None else size
        self._require_size(within)
        return self._fill(inclusion_plan(index, within))

    def consistency(self, first: int, second: int | None = None) -> list[bytes]:
        """The proof that the tree of `second` leaves begins with that of `first` (RFC 9162, 2.1.4).

        Check it with `aioum.core.merkle.verify_consistency`.

        Raises:
            ProofInvalid: `proof-size-out-of-range`.
        """
        within = self.size if second is None else second
        self._require_size(within)
        return self._fill(consistency_plan(first, within))

    def _fill(self, plan: list[Peaks]) -> list[bytes]:
        hashes = {node: self._store.get(node_position(node)) for node in nodes_of(plan)}
        return fill(plan, hashes, self._node_hash)

    def _require_size(self, size: int) -> None:
        if not 0 <= size <= self.size:
            raise ProofInvalid(
                f"a log of {self.size} entries has no size {size}", code="proof-size-out-of-range"
            )


def _size_of(nodes: int) -> int:
    # node_count grows with the size, between 1 and 2 for each leaf.
    size = nodes // 2
    while node_count(size) < nodes:
        size += 1
    return size
