"""Calls of the DisputeManager as values (PROTOCOL 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from aioum.chain.abi import DISPUTE_MANAGER, encode_call
from aioum.chain.calls import ContractCall
from aioum.core.amounts import check_amount
from aioum.core.errors import InvalidInput
from aioum.core.lies import (
    ConflictingReceipts,
    ConflictingStatements,
    OmittedReceipt,
    OmittedStatement,
    Overcharge,
    ProvableLie,
    StatementAgainstRoot,
)
from aioum.core.types import ZERO_BYTES32, Address, Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement

_NO_STATEMENT = (0, ZERO_BYTES32, 0, b"")


class Claim(IntEnum):
    """What a payer complains of, as the contract numbers it."""

    NON_DELIVERY = 0
    WRONG_RESULT = 1
    QUALITY = 2

    @property
    def text(self) -> str:
        """As evidence packages spell it: `non-delivery`, `wrong-result`, `quality`."""
        return self.name.lower().replace("_", "-")

    @classmethod
    def of(cls, text: str) -> Claim:
        """The claim of this spelling. Raises InvalidInput `claim-unknown`."""
        for claim in cls:
            if claim.text == text:
                return claim
        known = ", ".join(claim.text for claim in cls)
        raise InvalidInput(f"a claim is one of {known}; got {text!r:.90}", code="claim-unknown")


def raise_dispute(
    dispute_manager: Address,
    channel_id: ChannelId,
    claim: Claim,
    evidence_uri: str,
    evidence_hash: Bytes32,
) -> ContractCall:
    """Dispute what a session captured. By its payer, who has approved the bond for the DisputeManager."""
    args = (channel_id, int(claim), evidence_uri, evidence_hash)
    return _call(dispute_manager, "raiseDispute", args, 400_000 + _uri_gas(evidence_uri))


def respond(
    dispute_manager: Address, channel_id: ChannelId, response_uri: str, response_hash: Bytes32
) -> ContractCall:
    """Add the operator's side. By the operator."""
    args = (channel_id, response_uri, response_hash)
    return _call(dispute_manager, "respond", args, 200_000 + _uri_gas(response_uri))


def rule(dispute_manager: Address, channel_id: ChannelId, award: int) -> ContractCall:
    """Give `award` base units of what is held back to the payer, the rest to the payee. By the arbitrator."""
    return _call(dispute_manager, "rule", (channel_id, check_amount(award)), 1_000_000)


def lapse(dispute_manager: Address, channel_id: ChannelId) -> ContractCall:
    """End a dispute that nobody ruled on in time. By anyone."""
    return _call(dispute_manager, "lapse", (channel_id,), 500_000)


def prove(dispute_manager: Address, channel_id: ChannelId, lie: ProvableLie) -> ContractCall:
    """Show a lie that is decided at once (L1 to L3). By anyone."""
    function, args = _proof(lie)
    words = 1 + (len(lie.receipts) if isinstance(lie, Overcharge) else 1)
    return _call(dispute_manager, function, (channel_id, *args), 1_000_000 + 30_000 * words)


def challenge(
    dispute_manager: Address, channel_id: ChannelId, word: SignedReceipt | SignedStatement
) -> ContractCall:
    """Ask the operator to prove its word part of what it anchored (L4). By the payer, who has approved the
    bond for the DisputeManager.
    """
    if isinstance(word, SignedReceipt):
        return _call(dispute_manager, "challengeReceipt", (channel_id, _receipt(word)), 400_000)
    return _call(dispute_manager, "challengeStatement", (channel_id, _statement(word)), 400_000)


def answer_receipt(
    dispute_manager: Address, channel_id: ChannelId, index: int, leaf: Bytes32, siblings: Sequence[bytes]
) -> ContractCall:
    """Answer a challenged receipt with its inclusion proof. By anyone."""
    args = (channel_id, index, leaf, list(siblings))
    return _call(dispute_manager, "answerReceipt", args, 500_000)


def answer_statement(
    dispute_manager: Address, channel_id: ChannelId, call_count: int, root: Bytes32, proof: Sequence[bytes]
) -> ContractCall:
    """Answer a challenged statement with the consistency proof from it to what was anchored. By anyone."""
    args = (channel_id, call_count, root, list(proof))
    return _call(dispute_manager, "answerStatement", args, 500_000)


def claim_unanswered(dispute_manager: Address, channel_id: ChannelId) -> ContractCall:
    """End a challenge that nobody answered: all that is held goes to the payer. By anyone."""
    return _call(dispute_manager, "claimUnanswered", (channel_id,), 1_000_000)


def claim_bond_credit(dispute_manager: Address, token: Address, to: Address) -> ContractCall:
    """Send the caller's whole credit that bonds left in the DisputeManager to an address."""
    return _call(dispute_manager, "claimCredit", (token, to), 200_000)


def _proof(lie: ProvableLie) -> tuple[str, tuple[Any, ...]]:
    match lie:
        case ConflictingReceipts(one, other):
            return "proveConflictingReceipts", (_receipt(one), _receipt(other))
        case ConflictingStatements(first, second):
            return "proveConflictingStatements", (_statement(first), _statement(second))
        case StatementAgainstRoot(statement):
            return "proveStatementAgainstRoot", (_statement(statement),)
        case OmittedReceipt(receipt):
            return "proveOmittedReceipt", (_receipt(receipt),)
        case OmittedStatement(statement):
            return "proveOmittedStatement", (_statement(statement),)
        case Overcharge(cover, receipts, _):
            beginning = _NO_STATEMENT if cover is None else _statement(cover)
            return "proveOvercharge", (beginning, [_receipt(receipt) for receipt in receipts])


def _receipt(word: SignedReceipt) -> tuple[int, Bytes32, int, bytes]:
    receipt = word.receipt
    return (receipt.index, receipt.leaf, receipt.charge, word.signature)


def _statement(word: SignedStatement) -> tuple[int, Bytes32, int, bytes]:
    statement = word.statement
    return (statement.call_count, statement.root, statement.spent, word.signature)


def _call(to: Address, function: str, args: tuple[Any, ...], gas_limit: int) -> ContractCall:
    return ContractCall(to, encode_call(DISPUTE_MANAGER, function, args), gas_limit, function)


def _uri_gas(uri: str) -> int:
    # 16 gas per calldata byte, and 8 per byte of each of the two events.
    return 32 * len(uri.encode())
