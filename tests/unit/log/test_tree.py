"""The log's tree against the plain one of aioum.core.merkle, with both hashes, at every size up to 64."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from aioum.core.errors import AioumError, InvalidInput, ProofInvalid
from aioum.core.hashing import keccak256
from aioum.core.merkle import (
    NodeHash,
    consistency_proof,
    inclusion_proof,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from aioum.log.proofs import MAX_SIZE, Node, consistency_plan, inclusion_plan, nodes_of
from aioum.log.tree import (
    EMPTY_ROOT,
    LogTree,
    MemoryNodes,
    leaf_hash,
    node_count,
    node_hash,
    node_position,
)

LARGEST = 64


def keccak_node(left: bytes, right: bytes) -> bytes:
    return keccak256(b"\x01" + left + right)


@dataclass
class Grown:
    hash: NodeHash
    leaves: list[bytes]
    tree: LogTree
    store: MemoryNodes


def grown(hash: NodeHash, make_leaf: Callable[[bytes], bytes]) -> Grown:
    leaves = [make_leaf(b"%d" % number) for number in range(LARGEST)]
    store = MemoryNodes()
    tree = LogTree(store, node_hash=hash)
    for leaf in leaves:
        tree.append(leaf)
    return Grown(hash, leaves, tree, store)


@pytest.fixture(
    scope="module",
    params=[(node_hash, leaf_hash), (keccak_node, keccak256)],
    ids=["sha256", "keccak256"],
)
def log(request: pytest.FixtureRequest) -> Grown:
    return grown(*request.param)


SHA256 = grown(node_hash, leaf_hash)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(AioumError) as caught:
        act()
    return caught.value.code


def test_roots_of_all_sizes_are_those_of_the_plain_tree(log: Grown) -> None:
    for size in range(1, LARGEST + 1):
        assert log.tree.root(size) == root_of(log.leaves[:size], log.hash)


def test_inclusion_proofs_of_all_leaves_at_all_sizes_are_those_of_the_plain_tree_and_verify(
    log: Grown,
) -> None:
    for size in range(1, LARGEST + 1):
        for index in range(size):
            proof = log.tree.inclusion(index, size)
            assert proof == inclusion_proof(log.leaves[:size], index, log.hash)
            verify_inclusion(log.leaves[index], index, size, proof, log.tree.root(size), log.hash)


def test_consistency_proofs_of_all_pairs_of_sizes_are_those_of_the_plain_tree_and_verify(log: Grown) -> None:
    for second in range(1, LARGEST + 1):
        for first in range(1, second + 1):
            proof = log.tree.consistency(first, second)
            assert proof == consistency_proof(log.leaves[:second], first, log.hash)
            verify_consistency(first, second, log.tree.root(first), log.tree.root(second), proof, log.hash)


def test_a_batch_stores_the_same_nodes_as_single_appends_wherever_it_starts(log: Grown) -> None:
    expected = [log.store.get(position) for position in range(len(log.store))]
    for split in range(LARGEST + 1):
        store = MemoryNodes()
        LogTree(store, node_hash=log.hash).extend(log.leaves[:split])
        # Taken up from the store alone, as after a restart.
        LogTree(store, node_hash=log.hash).extend(log.leaves[split:])
        assert [store.get(position) for position in range(len(store))] == expected


def test_appending_adds_nodes_and_never_changes_one() -> None:
    store = MemoryNodes()
    tree = LogTree(store)
    before = b""
    for number, leaf in enumerate(SHA256.leaves):
        assert tree.append(leaf) == number
        after = b"".join(store.get(position) for position in range(len(store)))
        assert after.startswith(before)
        assert len(store) == node_count(number + 1) < 2 * (number + 1)
        before = after


def test_an_append_costs_about_two_hashes() -> None:
    hashed = 0

    def counting(left: bytes, right: bytes) -> bytes:
        nonlocal hashed
        hashed += 1
        return node_hash(left, right)

    LogTree(MemoryNodes(), node_hash=counting).extend([bytes(32)] * 4_096)
    # Beside one for each leaf.
    assert hashed == 4_095


def test_every_complete_node_is_where_its_index_says() -> None:
    for level in range(7):
        for number in range(LARGEST >> level):
            covered = SHA256.leaves[number << level : (number + 1) << level]
            assert SHA256.tree.node(Node(level, number)) == root_of(covered, node_hash)
    positions = {node_position(Node(level, at)) for level in range(7) for at in range(LARGEST >> level)}
    assert positions == set(range(node_count(LARGEST)))


def test_no_entries_have_the_hash_of_nothing_for_a_root() -> None:
    tree = LogTree(MemoryNodes())
    assert tree.root() == EMPTY_ROOT == hashlib.sha256(b"").digest()
    assert SHA256.tree.root(0) == EMPTY_ROOT
    assert refusal(lambda: tree.inclusion(0)) == "proof-index-out-of-range"
    assert refusal(lambda: tree.consistency(0)) == "proof-size-out-of-range"


def test_a_million_entries_take_at_most_twenty_one_hashes() -> None:
    size = 1 << 20
    for first in (1, 2, 3, size // 2 - 1, size // 2 + 1, 699_051, size - 2, size - 1):
        assert len(consistency_plan(first, size)) <= 21
    for index in (0, 1, size // 2, 699_050, size - 1):
        assert len(inclusion_plan(index, size)) == 20


def test_plans_of_the_largest_log_stay_short() -> None:
    assert len(nodes_of(inclusion_plan(MAX_SIZE - 1, MAX_SIZE))) < 130
    assert len(nodes_of(consistency_plan(MAX_SIZE // 3, MAX_SIZE))) < 200


def test_what_the_tree_has_not_is_refused() -> None:
    tree = SHA256.tree
    assert refusal(lambda: tree.root(LARGEST + 1)) == "proof-size-out-of-range"
    assert refusal(lambda: tree.root(-1)) == "proof-size-out-of-range"
    assert refusal(lambda: tree.inclusion(3, 3)) == "proof-index-out-of-range"
    assert refusal(lambda: tree.inclusion(-1, 3)) == "proof-index-out-of-range"
    assert refusal(lambda: tree.inclusion(0, LARGEST + 1)) == "proof-size-out-of-range"
    assert refusal(lambda: tree.consistency(4, 3)) == "proof-size-out-of-range"
    assert refusal(lambda: tree.node(Node(6, 1))) == "proof-index-out-of-range"
    assert refusal(lambda: LogTree(MemoryNodes([bytes(32)] * 2))) == "log-nodes-malformed"
    assert refusal(lambda: LogTree(MemoryNodes([bytes(32)] * 3), 3)) == "log-nodes-malformed"


def test_a_refused_batch_leaves_the_tree_as_it_was() -> None:
    store = MemoryNodes()
    tree = LogTree(store)
    tree.append(SHA256.leaves[0])
    with pytest.raises(InvalidInput) as caught:
        tree.extend([SHA256.leaves[1], b"short"])
    assert caught.value.code == "log-leaf-malformed"
    assert (tree.size, len(store)) == (1, 1)


class _FullLog(MemoryNodes):
    def __len__(self) -> int:
        return node_count(MAX_SIZE)

    def get(self, position: int) -> bytes:
        return bytes(32)


def test_a_full_log_takes_no_more() -> None:
    assert refusal(lambda: LogTree(_FullLog()).append(bytes(32))) == "log-full"


# What a liar tries.


def inclusion_refusal(leaf: bytes, index: int, size: int, proof: list[bytes], root: bytes) -> str:
    return refusal(lambda: verify_inclusion(leaf, index, size, proof, root, node_hash))


def test_a_duplicated_odd_node_is_not_the_tree_and_its_proof_does_not_verify() -> None:
    doubled = root_of([*SHA256.leaves[:5], SHA256.leaves[4]], node_hash)
    assert doubled is not None
    assert SHA256.tree.root(5) != doubled
    proof = inclusion_proof([*SHA256.leaves[:5], SHA256.leaves[4]], 4, node_hash)
    assert inclusion_refusal(SHA256.leaves[4], 4, 5, proof, SHA256.tree.root(5)) == "proof-length-wrong"


def test_an_interior_node_is_no_leaf() -> None:
    left, right = SHA256.leaves[:2]
    interior = SHA256.tree.node(Node(1, 0))
    proof = SHA256.tree.inclusion(0, 8)[1:]
    # As an entry, it is hashed as one; as a leaf of a smaller tree, its proof is that of another size.
    assert leaf_hash(left + right) != interior
    assert inclusion_refusal(leaf_hash(left + right), 0, 4, proof, SHA256.tree.root(8)) == (
        "proof-root-mismatch"
    )
    assert inclusion_refusal(interior, 0, 8, proof, SHA256.tree.root(8)) == "proof-length-wrong"


def test_shortened_and_lengthened_proofs_are_refused() -> None:
    for index in range(13):
        proof = SHA256.tree.inclusion(index, 13)
        for wrong in (proof[:-1], proof[1:], [*proof, bytes(32)], [bytes(32), *proof]):
            assert inclusion_refusal(SHA256.leaves[index], index, 13, wrong, SHA256.tree.root(13)) == (
                "proof-length-wrong"
            )
    for first in range(1, 13):
        proof = SHA256.tree.consistency(first, 13)
        roots = SHA256.tree.root(first), SHA256.tree.root(13)
        for wrong in (proof[:-1], [*proof, bytes(32)]):
            with pytest.raises(ProofInvalid) as caught:
                verify_consistency(first, 13, *roots, wrong, node_hash)
            assert caught.value.code in ("proof-length-wrong", "proof-root-mismatch")


def test_a_relabeled_size_is_refused_unless_its_root_comes_from_elsewhere_too() -> None:
    proof = SHA256.tree.inclusion(2, 8)
    assert inclusion_refusal(SHA256.leaves[2], 2, 9, proof, SHA256.tree.root(8)) == "proof-length-wrong"
    # Sizes 7 and 8 give proofs of one length: the root, which is signed with the size, tells them apart.
    assert inclusion_refusal(SHA256.leaves[2], 2, 7, proof, SHA256.tree.root(7)) == "proof-root-mismatch"


def test_a_reordered_history_is_inconsistent_with_the_root_before() -> None:
    swapped = [*SHA256.leaves[:3], SHA256.leaves[4], SHA256.leaves[3], *SHA256.leaves[5:9]]
    other = LogTree(MemoryNodes())
    other.extend(swapped)
    with pytest.raises(ProofInvalid) as caught:
        verify_consistency(5, 9, SHA256.tree.root(5), other.root(), other.consistency(5), node_hash)
    assert caught.value.code == "proof-root-mismatch"
