"""The proof that a challenged word is part of what was anchored, from a session's leaves (PROTOCOL 4.3, L4).

The contract names a challenged word by a hash. An operator that keeps PROTOCOL 3.2 signed no word that does
not follow from its calls, so the word is found by naming every one that it can have signed: no event is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from aioum.chain import dispute_calls
from aioum.chain.calls import ContractCall
from aioum.core.errors import AioumError, ProofInvalid
from aioum.core.hashing import keccak256
from aioum.core.hextext import to_hex
from aioum.core.merkle import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    verify_consistency,
    verify_inclusion,
)
from aioum.core.transcript import node_hash
from aioum.core.types import Address, Bytes32, ChannelId

_RECEIPT_KIND: Final = 1
_STATEMENT_KIND: Final = 2


class Unanswerable(AioumError):
    """Nothing that is recorded proves the challenged word."""

    default_code: ClassVar[str] = "challenge-unanswerable"


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a session's history is proven against: the chain's own root (32 bytes) and number of calls."""

    root: Bytes32
    call_count: int


@dataclass(frozen=True, slots=True)
class ReceiptAnswer:
    """That call `index` has `leaf`: siblings bottom-up, 32 bytes each."""

    index: int
    leaf: Bytes32
    siblings: tuple[bytes, ...]

    def verify(self, anchor: Anchor) -> None:
        """Raises ProofInvalid, as `verify_inclusion`, where the contract would not take it."""
        verify_inclusion(self.leaf, self.index, anchor.call_count, self.siblings, anchor.root, node_hash)

    def call(self, dispute_manager: Address, channel_id: ChannelId) -> ContractCall:
        """The transaction."""
        return dispute_calls.answer_receipt(dispute_manager, channel_id, self.index, self.leaf, self.siblings)


@dataclass(frozen=True, slots=True)
class StatementAnswer:
    """That the anchored history begins with `call_count` calls whose root is `root`: hashes bottom-up."""

    call_count: int
    root: Bytes32
    proof: tuple[bytes, ...]

    def verify(self, anchor: Anchor) -> None:
        """Raises ProofInvalid, as `verify_consistency`, where the contract would not take it."""
        verify_consistency(self.call_count, anchor.call_count, self.root, anchor.root, self.proof, node_hash)

    def call(self, dispute_manager: Address, channel_id: ChannelId) -> ContractCall:
        """The transaction."""
        return dispute_calls.answer_statement(
            dispute_manager, channel_id, self.call_count, self.root, self.proof
        )


Answer = ReceiptAnswer | StatementAnswer


def receipt_word(index: int, leaf: bytes) -> Bytes32:
    """How the contract names "call `index` has this leaf"."""
    return _word(_RECEIPT_KIND, index, leaf)


def statement_word(call_count: int, root: bytes) -> Bytes32:
    """How the contract names "the first `call_count` calls have this root"."""
    return _word(_STATEMENT_KIND, call_count, root)


def find_answer(leaves: Sequence[Bytes32], word: Bytes32, anchor: Anchor) -> Answer:
    """The proof of a challenged word, checked as the contract checks it. O(n log n) hashes: off the loop.

    Args:
        leaves: of the session's calls, from the first, without gaps.
        word: as the contract names it.
        anchor: of the session.

    Raises:
        Unanswerable: `challenge-unanswerable`; details `reason`: `history-incomplete`, fewer calls are
            recorded than were anchored; `word-unknown`, it does not follow from what is recorded; or the
            proof's own code, what is recorded is not what was anchored.
    """
    if len(leaves) < anchor.call_count:
        raise _unanswerable(
            word, "history-incomplete", f"{len(leaves)} of {anchor.call_count} calls are kept"
        )
    anchored = leaves[: anchor.call_count]
    answer = _receipt_answer(anchored, word) or _statement_answer(anchored, word)
    if answer is None:
        raise _unanswerable(word, "word-unknown", "it does not follow from the recorded calls")
    try:
        answer.verify(anchor)
    except ProofInvalid as error:
        raise _unanswerable(word, error.code, str(error)) from error
    return answer


def _receipt_answer(leaves: Sequence[Bytes32], word: Bytes32) -> ReceiptAnswer | None:
    for index, leaf in enumerate(leaves):
        if receipt_word(index, leaf) == word:
            return ReceiptAnswer(index, leaf, tuple(inclusion_proof(leaves, index, node_hash)))
    return None


def _statement_answer(leaves: Sequence[Bytes32], word: Bytes32) -> StatementAnswer | None:
    frontier = Frontier()
    for leaf in leaves:
        frontier = frontier.append(leaf, node_hash)
        root = frontier.root(node_hash)
        if root is not None and statement_word(frontier.size, root) == word:
            proof = consistency_proof(leaves, frontier.size, node_hash)
            return StatementAnswer(frontier.size, Bytes32(root), tuple(proof))
    return None


def _word(kind: int, number: int, value: bytes) -> Bytes32:
    return Bytes32(keccak256(kind.to_bytes(32, "big") + number.to_bytes(32, "big") + value))


def _unanswerable(word: Bytes32, reason: str, why: str) -> Unanswerable:
    return Unanswerable(
        f"the challenged word {to_hex(word)} cannot be proven: {why}",
        hint="if the store was restored, get the calls back that it lacks; else who else holds the key?",
        details={"reason": reason, "word": to_hex(word)},
    )
