import pytest
from eth_abi.abi import encode
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.errors import ProofInvalid
from aioum.core.hashing import keccak256
from aioum.core.merkle import root_of
from aioum.core.transcript import node_hash
from aioum.core.types import Bytes32
from aioum_node.disputes.answers import (
    Anchor,
    ReceiptAnswer,
    StatementAnswer,
    Unanswerable,
    find_answer,
    receipt_word,
    statement_word,
)


def leaves_of(count: int) -> list[Bytes32]:
    return [Bytes32(keccak256(index.to_bytes(4, "big"))) for index in range(count)]


def root(leaves: list[Bytes32]) -> Bytes32:
    found = root_of(leaves, node_hash)
    assert found is not None
    return Bytes32(found)


def anchor_of(leaves: list[Bytes32]) -> Anchor:
    return Anchor(root(leaves), len(leaves))


def reason(leaves: list[Bytes32], word: Bytes32, anchor: Anchor) -> str:
    with pytest.raises(Unanswerable) as caught:
        find_answer(leaves, word, anchor)
    assert caught.value.code == "challenge-unanswerable"
    return str(caught.value.details["reason"])


def test_words_are_named_as_the_contract_names_them() -> None:
    value = Bytes32(b"\x07" * 32)
    kinds = ["uint256", "uint64", "bytes32"]
    assert receipt_word(5, value) == keccak256(encode(kinds, [1, 5, value]))
    assert statement_word(5, value) == keccak256(encode(kinds, [2, 5, value]))


@given(st.integers(1, 40), st.data())
def test_every_receipt_of_a_history_is_found_and_proven(count: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, count - 1))
    leaves = leaves_of(count)
    answer = find_answer(leaves, receipt_word(index, leaves[index]), anchor_of(leaves))
    assert isinstance(answer, ReceiptAnswer)
    assert (answer.index, answer.leaf) == (index, leaves[index])
    answer.verify(anchor_of(leaves))


@given(st.integers(2, 40), st.data())
def test_every_statement_about_the_beginning_of_a_history_is_found_and_proven(
    count: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, count - 1))
    leaves = leaves_of(count)
    beginning = root(leaves[:first])
    answer = find_answer(leaves, statement_word(first, beginning), anchor_of(leaves))
    assert isinstance(answer, StatementAnswer)
    assert (answer.call_count, answer.root) == (first, beginning)
    answer.verify(anchor_of(leaves))


def test_calls_that_are_kept_beyond_what_was_anchored_do_no_harm() -> None:
    leaves = leaves_of(9)
    anchored = leaves[:6]
    answer = find_answer(leaves, receipt_word(2, leaves[2]), anchor_of(anchored))
    answer.verify(anchor_of(anchored))
    assert reason(leaves, receipt_word(7, leaves[7]), anchor_of(anchored)) == "word-unknown"


def test_word_that_does_not_follow_from_the_calls_is_unknown() -> None:
    leaves = leaves_of(4)
    assert reason(leaves, receipt_word(1, leaves[2]), anchor_of(leaves)) == "word-unknown"
    assert reason(leaves, statement_word(2, leaves[0]), anchor_of(leaves)) == "word-unknown"
    assert reason(leaves, Bytes32(bytes(32)), anchor_of(leaves)) == "word-unknown"


def test_history_that_lacks_calls_proves_nothing() -> None:
    leaves = leaves_of(4)
    word = receipt_word(1, leaves[1])
    assert reason(leaves[:3], word, anchor_of(leaves)) == "history-incomplete"
    assert reason([], word, anchor_of(leaves)) == "history-incomplete"


@pytest.mark.parametrize("make_word", [lambda leaves: receipt_word(0, leaves[0]), None])
def test_word_of_ours_is_not_sent_where_another_history_is_anchored(make_word: object) -> None:
    leaves = leaves_of(4)
    other = Anchor(Bytes32(b"\x01" * 32), 4)
    word = receipt_word(0, leaves[0]) if make_word else statement_word(2, root(leaves[:2]))
    assert reason(leaves, word, other) == "proof-root-mismatch"


def test_answer_for_another_tree_is_refused_before_it_is_sent() -> None:
    leaves = leaves_of(5)
    answer = find_answer(leaves, receipt_word(0, leaves[0]), anchor_of(leaves))
    with pytest.raises(ProofInvalid):
        answer.verify(Anchor(root(leaves), 4))
