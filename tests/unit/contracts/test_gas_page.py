"""docs/gas.md has the gas that was recorded, the targets, and every slot that the compiler lays out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract_layout import CONTRACTS, layout
from tests.unit.contracts.test_gas_targets import BATCH_SIZE, BATCH_TARGETS, TARGETS

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "gas_page"
PAGE = (ROOT / "docs" / "gas.md").read_text(encoding="utf-8")
MEASURED = re.compile(r"^\|[^|]*\| [\d,]+ <!-- (.+?) --> \|([^|]*)\|$", re.MULTILINE)
SLOT = re.compile(r"^\| `(\w+)`(?: \+(\d+))? \|([^|]*)\|", re.MULTILINE)


def _targets() -> dict[str, int]:
    section = PAGE.split("## Measured\n", 1)[1].split("\n## ", 1)[0]
    rows = {what: target.strip().replace(",", "") for what, target in MEASURED.findall(section)}
    return {what: int(target) for what, target in rows.items() if target}


def test_the_page_has_the_recorded_numbers() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (" <!-- PaymentManager: open -->", "9 <!-- PaymentManager: open -->", "run scripts/gas_page"),
        ("<!-- PaymentManager: release -->", "", "('PaymentManager', 'release')"),
        ("<!-- PaymentManager: release -->", "<!-- PaymentManager: gone -->", "PaymentManager: gone"),
    ],
    ids=["another number", "a record left out", "a record that is none"],
)
def test_a_page_that_says_something_else_fails_the_check(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "snapshots").symlink_to(ROOT / "contracts" / "snapshots")
    copy = tmp_path / "scripts" / "gas_page"
    copy.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "docs" / "gas.md").write_text(PAGE.replace(old, new), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, str(copy), "--check"], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    assert problem in done.stderr


def test_the_page_has_the_targets_that_are_tested() -> None:
    expected = {f"{contract}: {transaction}": target for contract, transaction, target in TARGETS}
    for one, many, target in BATCH_TARGETS:
        expected[f"PaymentManager: {many} minus {one} over {BATCH_SIZE - 1}"] = target

    assert _targets() == expected


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_page_has_every_slot_with_what_it_holds(contract: str) -> None:
    section = PAGE.split(f"### `{contract}`\n", 1)[1].split("\n### ", 1)[0]
    said = {(name, int(offset or 0)): holds.strip() for name, offset, holds in SLOT.findall(section)}
    laid_out = {
        (variable.name, offset): ", ".join(fields)
        for variable in layout()[contract]
        for offset, fields in enumerate(variable.slots)
    }

    assert said.keys() == laid_out.keys()
    assert {slot: said[slot] for slot, fields in laid_out.items() if fields} == {
        slot: fields for slot, fields in laid_out.items() if fields
    }
