"""What words prove against the operator that signed them, and that true ones prove nothing."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from aioum.core.lies import (
    Anchored,
    ConflictingReceipts,
    ConflictingStatements,
    OmittedReceipt,
    OmittedStatement,
    Overcharge,
    StatementAgainstRoot,
    challengeable,
    provable_lies,
)
from aioum.core.merkle import root_of
from aioum.core.payment import CallReceipt, Statement
from aioum.core.transcript import node_hash
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement

CHANNEL = ChannelId(b"\x01" * 32)


@dataclass(frozen=True)
class History:
    """A session's calls as an honest operator keeps them: charges, by index."""

    charges: tuple[int, ...]

    def leaf(self, index: int) -> Bytes32:
        return Bytes32(bytes([index, self.charges[index] % 256]) * 16)

    def receipt(self, index: int) -> SignedReceipt:
        return SignedReceipt(CallReceipt(CHANNEL, index, self.leaf(index), self.charges[index]), b"r")

    def statement(self, count: int) -> SignedStatement:
        root = root_of([self.leaf(index) for index in range(count)], node_hash) or bytes(32)
        return SignedStatement(Statement(CHANNEL, count, Bytes32(root), sum(self.charges[:count])), b"s")

    @property
    def anchored(self) -> Anchored:
        word = self.statement(len(self.charges)).statement
        return Anchored(word.root, word.call_count, word.spent)


FIVE = History((10, 0, 20, 30, 40))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60).map(tuple), st.data())
def test_whatever_an_honest_operator_signed_proves_nothing_against_it(
    charges: tuple[int, ...], data: st.DataObject
) -> None:
    history = History(charges)
    n = len(charges)
    receipts = [history.receipt(i) for i in data.draw(st.lists(st.integers(0, n - 1), max_size=80))]
    statements = [history.statement(k) for k in data.draw(st.lists(st.integers(0, n), max_size=20))]
    captured = data.draw(st.integers(0, sum(charges)))

    assert provable_lies(receipts, statements, replace(history.anchored, captured=captured)) == []


def test_two_words_about_one_thing_are_double_signing() -> None:
    other = replace(FIVE.receipt(2), receipt=replace(FIVE.receipt(2).receipt, charge=21))
    assert provable_lies([FIVE.receipt(2), other], [], FIVE.anchored) == [
        ConflictingReceipts(FIVE.receipt(2), other)
    ]
    word = replace(FIVE.statement(3), statement=replace(FIVE.statement(3).statement, spent=31))
    assert provable_lies([], [FIVE.statement(3), word], FIVE.anchored) == [
        ConflictingStatements(FIVE.statement(3), word)
    ]


def test_a_statement_over_all_calls_with_another_root_is_double_signing() -> None:
    anchored = replace(FIVE.anchored, root=Bytes32(b"\x07" * 32))
    assert provable_lies([], [FIVE.statement(5)], anchored) == [StatementAgainstRoot(FIVE.statement(5))]


def test_words_behind_the_end_of_what_was_anchored_are_omissions() -> None:
    word = FIVE.statement(4).statement
    anchored = Anchored(word.root, 4, 60)
    assert provable_lies([FIVE.receipt(3), FIVE.receipt(4)], [FIVE.statement(5)], anchored) == [
        OmittedReceipt(FIVE.receipt(4)),
        OmittedStatement(FIVE.statement(5)),
    ]


def test_more_captured_than_the_words_add_up_to_is_an_overcharge() -> None:
    too_much = replace(FIVE.anchored, captured=101)
    all_receipts = [FIVE.receipt(index) for index in range(5)]

    assert provable_lies(all_receipts, [], too_much) == [Overcharge(None, tuple(all_receipts), 100)]
    assert provable_lies(all_receipts[3:], [FIVE.statement(3)], too_much) == [
        Overcharge(FIVE.statement(3), tuple(all_receipts[3:]), 100)
    ]
    assert provable_lies([], [FIVE.statement(5)], too_much) == [Overcharge(FIVE.statement(5), (), 100)]


def test_an_overcharge_is_not_found_where_a_call_has_no_word_or_the_receipts_would_be_too_many() -> None:
    too_much = replace(FIVE.anchored, captured=101)
    assert provable_lies([FIVE.receipt(0), FIVE.receipt(2), *map(FIVE.receipt, (3, 4))], [], too_much) == []
    long = History((1,) * 34)
    anchored = replace(long.anchored, captured=35)
    receipts = [long.receipt(index) for index in range(34)]
    assert provable_lies(receipts, [], anchored) == []
    assert provable_lies(receipts, [long.statement(1)], anchored) == []
    (found,) = provable_lies(receipts, [long.statement(2)], anchored)
    assert isinstance(found, Overcharge)
    assert len(found.receipts) == 32


def test_what_can_be_challenged_is_inside_the_anchored_history_and_the_longest_statement_comes_first() -> (
    None
):
    words = challengeable(
        [FIVE.receipt(index) for index in (1, 4)],
        [FIVE.statement(count) for count in (0, 2, 3, 4)],
        Anchored(FIVE.statement(4).statement.root, 4, 0),
    )
    assert words == [FIVE.statement(3), FIVE.statement(2), FIVE.receipt(1)]


def test_what_was_answered_and_what_that_covers_is_not_challenged_again() -> None:
    anchored = Anchored(FIVE.statement(4).statement.root, 4, 0)
    receipts = [FIVE.receipt(index) for index in range(4)]
    statements = [FIVE.statement(count) for count in (1, 2, 3)]

    after_two = challengeable(receipts, statements, anchored, answered_calls=2, answered_receipts={3})
    assert after_two == [FIVE.statement(3), FIVE.receipt(2)]
    assert challengeable(receipts, statements, anchored, answered_calls=3, answered_receipts={3}) == []
