"""What transactions cost, as recorded in contracts/snapshots, is within the project's targets.

That the records are what the contracts really cost is forge's to check: its tests in test/gas with
FORGE_SNAPSHOT_CHECK (contracts/README.md).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SNAPSHOTS = Path(__file__).resolve().parents[3] / "contracts" / "snapshots"
BATCH_SIZE = 25

# (contract, transaction, most gas). Calldata and the 21,000 of a transaction are part of each.
TARGETS = (
    ("PaymentManager", "openSession", 250_000),
    ("PaymentManager", "openSession, with an authorizedSigner", 250_000),
    ("PaymentManager", "openSessionWithAuthorization", 250_000),
    ("PaymentManager", "openSession, a token's first", 285_000),
    ("PaymentManager", "openSession, a contract's first", 285_000),
    ("PaymentManager", "settleSession", 110_000),
    ("PaymentManager", "settleSession, held", 125_000),
    ("DisputeManager", "proveConflictingReceipts", 150_000),
    ("DisputeManager", "proveConflictingReceipts, two bonds pending", 150_000),
    ("DisputeManager", "proveConflictingStatements", 150_000),
    ("DisputeManager", "proveStatementAgainstRoot", 150_000),
    ("DisputeManager", "proveOmittedReceipt", 150_000),
    ("DisputeManager", "proveOmittedStatement", 150_000),
    ("DisputeManager", "challengeReceipt", 200_000),
    ("DisputeManager", "challengeReceipt, a token's first bond", 200_000),
    ("DisputeManager", "challengeStatement", 200_000),
    ("DisputeManager", "answerReceipt, 1,000 calls", 120_000),
    ("DisputeManager", "answerStatement, 1,000 calls", 120_000),
    ("LogAnchor", "anchor, 2^20 - 1 to 2^20 entries (21 hashes)", 70_000),
)

# (a batch of one, a batch of 25, most gas of each further item)
BATCH_TARGETS = (
    ("settleSessions, 1 of one payer", "settleSessions, 25 of one payer", 75_000),
    ("settleSessions, 1 of one payer", "settleSessions, 25 of as many payers", 75_000),
    ("settleSessions, 1 held", "settleSessions, 25 held", 95_000),
    ("settleSessions, 1 held", "settleSessions, 25 held of as many payers", 95_000),
    ("settleSessions, 1 held", "settleSessions, 25 held of as many payers who have nothing left", 95_000),
)


def _recorded(contract: str) -> dict[str, int]:
    records: dict[str, str] = json.loads((SNAPSHOTS / f"{contract}.json").read_text(encoding="utf-8"))
    return {name: int(gas) for name, gas in records.items()}


@pytest.mark.parametrize(("contract", "transaction", "target"), TARGETS)
def test_a_transaction_costs_at_most_its_target(contract: str, transaction: str, target: int) -> None:
    assert _recorded(contract)[transaction] <= target


@pytest.mark.parametrize(("one", "many", "target"), BATCH_TARGETS)
def test_each_further_item_of_a_batch_costs_at_most_its_target(one: str, many: str, target: int) -> None:
    recorded = _recorded("PaymentManager")

    assert recorded[many] - recorded[one] <= target * (BATCH_SIZE - 1)
