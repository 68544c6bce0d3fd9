"""What an operator's own words prove against it (PROTOCOL 4.3): L1 to L3 at once, L4 by challenge and answer.

Pure: from the words that somebody holds and what is anchored to what the DisputeManager can be shown. An
operator that keeps PROTOCOL 3.2 signs one (leaf, charge) per index and one (root, spent) per count, and seals
before it anchors: for its words nothing here is ever found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aioum.core.types import Bytes32
from aioum.core.wire import SignedReceipt, SignedStatement

MAX_OVERCHARGE_RECEIPTS: Final = 32
"""As many receipts as the contract takes behind a statement."""


@dataclass(frozen=True, slots=True)
class Anchored:
    """A session's last word on-chain: its committed history and what was captured for it, in base units."""

    root: Bytes32
    call_count: int
    captured: int


@dataclass(frozen=True, slots=True)
class ConflictingReceipts:
    """L1: two receipts of one call, with another leaf or charge."""

    one: SignedReceipt
    other: SignedReceipt


@dataclass(frozen=True, slots=True)
class ConflictingStatements:
    """L1: two statements over equally many calls, with another root or sum."""

    one: SignedStatement
    other: SignedStatement


@dataclass(frozen=True, slots=True)
class StatementAgainstRoot:
    """L1: a statement over all anchored calls, with another root."""

    statement: SignedStatement


@dataclass(frozen=True, slots=True)
class OmittedReceipt:
    """L2: a receipt of a call behind the end of the anchored history."""

    receipt: SignedReceipt


@dataclass(frozen=True, slots=True)
class OmittedStatement:
    """L2: a statement over more calls than were anchored."""

    statement: SignedStatement


@dataclass(frozen=True, slots=True)
class Overcharge:
    """L3: more was captured than these words add up to.

    Attributes:
        statement: over the first calls; None where the receipts begin with call 0.
        receipts: one for each further call, in order; at most 32.
        charged: what they add up to, base units.
    """

    statement: SignedStatement | None
    receipts: tuple[SignedReceipt, ...]
    charged: int


ProvableLie = (
    ConflictingReceipts
    | ConflictingStatements
    | StatementAgainstRoot
    | OmittedReceipt
    | OmittedStatement
    | Overcharge
)
"""What the DisputeManager decides at once."""


def provable_lies(
    receipts: Iterable[SignedReceipt], statements: Iterable[SignedStatement], anchored: Anchored
) -> list[ProvableLie]:
    """Everything that these words prove against the operator; the cheapest proof first.

    Args:
        receipts: words whose signatures were checked, of one session, in any order.
        statements: the same.
        anchored: the session's own root, count and captured amount, of a finalized session.
    """
    by_index: dict[int, SignedReceipt] = {}
    by_count: dict[int, SignedStatement] = {}
    lies: list[ProvableLie] = []
    for receipt in receipts:
        known = by_index.setdefault(receipt.receipt.index, receipt)
        if known.receipt != receipt.receipt:
            lies.append(ConflictingReceipts(known, receipt))
    for statement in statements:
        before = by_count.setdefault(statement.statement.call_count, statement)
        if before.statement != statement.statement:
            lies.append(ConflictingStatements(before, statement))
        if statement.statement.call_count == anchored.call_count and (
            statement.statement.root != anchored.root
        ):
            lies.append(StatementAgainstRoot(statement))
    lies += [OmittedReceipt(by_index[index]) for index in sorted(by_index) if index >= anchored.call_count]
    lies += [OmittedStatement(by_count[count]) for count in sorted(by_count) if count > anchored.call_count]
    overcharge = _overcharge(by_index, by_count, anchored)
    return lies if overcharge is None else [*lies, overcharge]


def challengeable(
    receipts: Iterable[SignedReceipt],
    statements: Iterable[SignedStatement],
    anchored: Anchored,
    *,
    answered_calls: int = 0,
    answered_receipts: Collection[int] = (),
) -> list[SignedStatement | SignedReceipt]:
    """The words that L4 may ask the operator to prove part of what it anchored.

    Args:
        receipts: of calls, in any order.
        statements: over beginnings of the history, in any order.
        anchored: what is on-chain.
        answered_calls: calls of the longest statement that it proved already; words about them alone are left
            out, since their challenge would be answered too.
        answered_receipts: indexes of receipts that it proved already.

    Returns:
        statements over fewer calls than were anchored, the longest first, as one answers for all calls before
        it; then receipts of anchored calls, the last first.
    """
    shorter = [
        word for word in statements if answered_calls < word.statement.call_count < anchored.call_count
    ]
    inside = [
        word
        for word in receipts
        if answered_calls <= word.receipt.index < anchored.call_count
        and word.receipt.index not in answered_receipts
    ]
    return [
        *sorted(shorter, key=lambda word: -word.statement.call_count),
        *sorted(inside, key=lambda word: -word.receipt.index),
    ]


def _overcharge(
    receipts: dict[int, SignedReceipt], statements: dict[int, SignedStatement], anchored: Anchored
) -> Overcharge | None:
    """The cover with the fewest words: receipts from the end on, as far as it takes to reach a statement, or
    call 0.
    """
    tail: list[SignedReceipt] = []
    for covered in range(anchored.call_count, max(anchored.call_count - MAX_OVERCHARGE_RECEIPTS, 0) - 1, -1):
        statement = statements.get(covered) if covered else None
        if statement is not None or covered == 0:
            charged = _charges(tail) + (0 if statement is None else statement.statement.spent)
            if anchored.captured > charged:
                return Overcharge(statement, tuple(reversed(tail)), charged)
        receipt = receipts.get(covered - 1)
        if receipt is None:
            return None
        tail.append(receipt)
    return None


def _charges(receipts: Sequence[SignedReceipt]) -> int:
    return sum(receipt.receipt.charge for receipt in receipts)
