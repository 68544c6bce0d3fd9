"""Tests that say "every function" of a contract leave none out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ATTACKS = ROOT / "contracts" / "test" / "attack"
ARTIFACTS = ROOT / "aioum" / "chain" / "artifacts"


def _state_changing(contract: str) -> set[str]:
    abi = json.loads((ARTIFACTS / f"{contract}.json").read_text(encoding="utf-8"))["abi"]
    return {
        entry["name"]
        for entry in abi
        if entry["type"] == "function" and entry["stateMutability"] in ("nonpayable", "payable")
    }


@pytest.mark.parametrize(
    ("contract", "test", "variable"),
    [
        ("PaymentManager", "Reentrancy", "manager"),
        ("DisputeManager", "DisputeReentrancy", "decisions"),
    ],
)
def test_every_function_that_changes_state_is_called_back_into(
    contract: str, test: str, variable: str
) -> None:
    source = (ATTACKS / f"{test}.t.sol").read_text(encoding="utf-8")
    called = set(re.findall(rf"abi\.encodeCall\(\s*{variable}\.(\w+)", source))

    assert called == _state_changing(contract)
