import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.errors import InvalidInput, ProofInvalid
from aioum.core.merkle import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from tests.many import strides

LARGEST = 64


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def leaf(index: int) -> bytes:
    return hashlib.sha256(b"\x00" + index.to_bytes(8, "big")).digest()


LEAVES = [leaf(index) for index in range(LARGEST + 1)]


def recursive_root(leaves: list[bytes]) -> bytes:
    """RFC 6962's own definition: split at the largest power of two below the size."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node_hash(recursive_root(leaves[:split]), recursive_root(leaves[split:]))


def refusal_code(leaf: bytes, index: int, size: int, siblings: list[bytes], root: bytes) -> str:
    with pytest.raises(ProofInvalid) as caught:
        verify_inclusion(leaf, index, size, siblings, root, node_hash)
    return caught.value.code


def known_root(size: int) -> bytes:
    root = root_of(LEAVES[:size], node_hash)
    assert root is not None
    return root


def test_no_leaves_have_no_root_and_one_leaf_is_its_own() -> None:
    assert root_of([], node_hash) is None
    assert Frontier().root(node_hash) is None
    assert root_of(LEAVES[:1], node_hash) == LEAVES[0]


def test_levels_give_the_root_that_rfc_6962_defines_by_recursion() -> None:
    for size in range(1, LARGEST + 1):
        assert known_root(size) == recursive_root(LEAVES[:size])


def test_the_running_frontier_has_the_rebuilt_root_at_every_size() -> None:
    frontier = Frontier()
    for size in range(1, LARGEST + 1):
        frontier = frontier.append(LEAVES[size - 1], node_hash)
        assert frontier.size == size
        assert frontier.root(node_hash) == known_root(size)


def test_duplicating_the_odd_last_leaf_changes_the_root() -> None:
    for size in range(1, LARGEST, 2):
        assert root_of([*LEAVES[:size], LEAVES[size - 1]], node_hash) != known_root(size)


def test_every_proof_verifies() -> None:
    for size in range(1, LARGEST + 1):
        for index in range(size):
            siblings = inclusion_proof(LEAVES[:size], index, node_hash)
            verify_inclusion(LEAVES[index], index, size, siblings, known_root(size), node_hash)


def test_a_proof_with_a_sibling_altered_missing_or_extra_is_refused() -> None:
    for size in range(1, LARGEST + 1):
        root = known_root(size)
        for index in range(size):
            siblings = inclusion_proof(LEAVES[:size], index, node_hash)
            for place, sibling in enumerate(siblings):
                before, after = siblings[:place], siblings[place + 1 :]
                altered = bytes([sibling[0] ^ 1]) + sibling[1:]
                assert refusal_code(LEAVES[index], index, size, [*before, altered, *after], root) == (
                    "proof-root-mismatch"
                )
                assert refusal_code(LEAVES[index], index, size, before + after, root) == "proof-length-wrong"
            for extra in (root, LEAVES[index], LEAVES[-1]):
                assert (
                    refusal_code(LEAVES[index], index, size, [*siblings, extra], root) == "proof-length-wrong"
                )
                assert (
                    refusal_code(LEAVES[index], index, size, [extra, *siblings], root) == "proof-length-wrong"
                )


@pytest.mark.slow
def test_a_proof_at_another_index_is_refused() -> None:
    for size in range(2, LARGEST + 1):
        root = known_root(size)
        for index in range(size):
            siblings = inclusion_proof(LEAVES[:size], index, node_hash)
            for other in range(size):
                if other != index:
                    code = refusal_code(LEAVES[index], other, size, siblings, root)
                    assert code in {"proof-length-wrong", "proof-root-mismatch"}
            for outside in (-1, size, size + 1):
                assert (
                    refusal_code(LEAVES[index], outside, size, siblings, root) == "proof-index-out-of-range"
                )


@pytest.mark.slow
@pytest.mark.parametrize("stride", strides(3))
def test_a_proof_against_another_sizes_root_is_refused(stride: int) -> None:
    for size in range(1, LARGEST + 1):
        for index in range(size):
            siblings = inclusion_proof(LEAVES[:size], index, node_hash)
            for other in range(index % stride, LARGEST + 1, stride):
                if other == size:
                    continue
                other_root = known_root(other) if other else bytes(32)
                code = refusal_code(LEAVES[index], index, other, siblings, other_root)
                if other <= index:
                    assert code == "proof-index-out-of-range"
                else:
                    assert code in {"proof-length-wrong", "proof-root-mismatch"}


@pytest.mark.slow
def test_a_claimed_size_whose_path_has_another_length_or_order_is_refused() -> None:
    for size in range(1, LARGEST + 1):
        root = known_root(size)
        for index in range(size):
            siblings = inclusion_proof(LEAVES[:size], index, node_hash)
            for other in range(index + 1, LARGEST + 1):
                if path_shape(index, other) != path_shape(index, size):
                    code = refusal_code(LEAVES[index], index, other, siblings, root)
                    assert code in {"proof-length-wrong", "proof-root-mismatch"}


def path_shape(index: int, size: int) -> list[str]:
    """The side on which each sibling stands: all that a proof shows of its tree's size."""
    shape = []
    while size > 1:
        if index ^ 1 < size:
            shape.append("left" if index % 2 else "right")
        index, size = index // 2, (size + 1) // 2
    return shape


def test_an_inner_node_is_no_leaf_of_the_tree_above_it() -> None:
    inner = node_hash(LEAVES[0], LEAVES[1])
    siblings = inclusion_proof(LEAVES[:4], 0, node_hash)
    assert refusal_code(inner, 0, 4, siblings[1:], known_root(4)) == "proof-length-wrong"
    assert refusal_code(inner, 0, 4, siblings, known_root(4)) == "proof-root-mismatch"


def test_hashes_of_another_length_than_32_bytes_are_refused() -> None:
    root = known_root(2)
    # The same 64 bytes, cut elsewhere.
    joined = LEAVES[0] + LEAVES[1]
    assert refusal_code(joined[:31], 0, 2, [joined[31:]], root) == "proof-hash-size-wrong"
    assert refusal_code(LEAVES[0], 0, 2, [LEAVES[1][:31]], root) == "proof-hash-size-wrong"
    assert refusal_code(LEAVES[0], 0, 2, [LEAVES[1]], root[:31]) == "proof-hash-size-wrong"


def test_a_proof_for_an_index_outside_of_the_tree_is_not_made() -> None:
    for index in (-1, 3):
        with pytest.raises(ProofInvalid) as caught:
            inclusion_proof(LEAVES[:3], index, node_hash)
        assert caught.value.code == "proof-index-out-of-range"


@given(st.integers(min_value=0, max_value=LARGEST))
def test_a_frontier_survives_its_bytes_and_goes_on(size: int) -> None:
    frontier = Frontier()
    for item in LEAVES[:size]:
        frontier = frontier.append(item, node_hash)
    data = frontier.to_bytes()
    assert len(data) == 8 + 32 * size.bit_count()
    restored = Frontier.from_bytes(data)
    assert restored == frontier
    assert restored.append(LEAVES[size], node_hash).root(node_hash) == known_root(size + 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(7),
        bytes(8) + bytes(32),
        (1).to_bytes(8, "big"),
        (1).to_bytes(8, "big") + bytes(31),
        (1).to_bytes(8, "big") + bytes(33),
        (2).to_bytes(8, "big") + bytes(64),
        (3).to_bytes(8, "big") + bytes(32),
    ],
)
def test_bytes_that_are_no_frontier_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        Frontier.from_bytes(data)
    assert caught.value.code == "frontier-malformed"


def test_a_frontier_whose_peaks_do_not_fit_its_size_cannot_be_made() -> None:
    for size, peaks in ((1, ()), (-1, (bytes(32),)), (1 << 64, (bytes(32),)), (3, (bytes(32),))):
        with pytest.raises(InvalidInput) as caught:
            Frontier(size, peaks)
        assert caught.value.code == "frontier-malformed"


def test_a_leaf_of_another_length_is_not_appended() -> None:
    with pytest.raises(InvalidInput) as caught:
        Frontier().append(bytes(31), node_hash)
    assert caught.value.code == "frontier-malformed"


def consistency_refusal(first: int, second: int, proof: list[bytes], first_root: bytes | None = None) -> str:
    roots = (first_root or known_root(max(first, 1)), known_root(max(second, 1)))
    with pytest.raises(ProofInvalid) as caught:
        verify_consistency(first, second, *roots, proof, node_hash)
    return caught.value.code


@pytest.mark.slow
def test_every_consistency_proof_to_the_largest_size_verifies_and_no_other_one_does() -> None:
    for second in range(1, LARGEST + 1):
        for first in range(1, second + 1):
            proof = consistency_proof(LEAVES[:second], first, node_hash)
            verify_consistency(first, second, known_root(first), known_root(second), proof, node_hash)
            assert consistency_refusal(first, second, proof, leaf(999)) == "proof-root-mismatch"
            assert consistency_refusal(first, second, [*proof, leaf(0)]) in (
                "proof-length-wrong",
                "proof-root-mismatch",
            )
            if proof:
                assert consistency_refusal(first, second, proof[:-1]) in (
                    "proof-length-wrong",
                    "proof-root-mismatch",
                )
                changed = [leaf(999), *proof[1:]]
                assert consistency_refusal(first, second, changed) == "proof-root-mismatch"


def test_a_consistency_proof_over_sizes_that_cannot_be_is_refused() -> None:
    assert consistency_refusal(0, 4, []) == "proof-size-out-of-range"
    assert consistency_refusal(5, 4, []) == "proof-size-out-of-range"
    assert consistency_refusal(3, 4, [b"short"]) == "proof-hash-size-wrong"
    assert consistency_refusal(3, 4, []) == "proof-length-wrong"
    with pytest.raises(ProofInvalid) as caught:
        consistency_proof(LEAVES[:4], 5, node_hash)
    assert caught.value.code == "proof-size-out-of-range"
