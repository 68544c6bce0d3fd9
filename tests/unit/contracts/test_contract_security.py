"""The tables of known failures name tests that exist, and leave no failure without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "contracts" / "test"
FAILURES = ROOT / "docs" / "contract-security.md"
BUGS = ROOT / "contracts" / "README.md"

NAMED_TEST = re.compile(r"`(?P<file>[a-z]+/\w+): (?P<name>\w+)`")
ROW = re.compile(r"^\| (?P<first>[^|]+) \|(?P<rest>.*)\|$", re.MULTILINE)
# Issues of such contracts that a reader looks for by name.
KNOWN = (
    "Reentrancy through hook tokens",
    "Fee-on-transfer",
    "Signature malleability",
    "Replay across chains",
    "Replay across contracts",
    "Replay across channels",
    "Replay across epochs",
    "ERC-1271 mutability",
    "ERC-1271 return bombs",
    "Front-running of authorisations",
    "Withdraw race",
    "Grace overflow",
    "Griefing by dust",
    "Blocked pushes",
    "Batch poisoning",
    "Rounding",
    "Timestamp edges",
    "Storage re-use after finalising",
    "Unbounded loops",
)


def _rows(page: Path, heading: str) -> dict[str, str]:
    text = page.read_text(encoding="utf-8").split(heading, 1)[1]
    return {match["first"]: match["rest"] for match in ROW.finditer(text) if match["first"] != "#"}


@pytest.mark.parametrize("page", [FAILURES, BUGS], ids=["failures", "bugs"])
def test_every_test_that_a_table_names_exists(page: Path) -> None:
    named = list(NAMED_TEST.finditer(page.read_text(encoding="utf-8")))
    missing = []
    for match in named:
        source = TESTS / f"{match['file']}.t.sol"
        found = source.is_file() and re.search(
            rf"function {match['name']}\(", source.read_text(encoding="utf-8")
        )
        if not found:
            missing.append(match.group(0))

    assert named
    assert missing == []


def test_every_known_failure_has_a_test() -> None:
    rows = _rows(FAILURES, "| failure | why not here | shown by |\n|---|---|---|\n")

    assert set(KNOWN) <= set(rows)
    assert [failure for failure, rest in rows.items() if NAMED_TEST.search(rest) is None] == []


def test_every_published_bug_has_a_test() -> None:
    rows = _rows(BUGS, "| # | bug | shown by |\n|---|---|---|\n")

    assert list(rows) == [str(number) for number in range(1, 16)]
    assert [number for number, rest in rows.items() if NAMED_TEST.search(rest) is None] == []


def test_every_exception_for_slither_has_a_reason() -> None:
    reasons = (ROOT / "contracts" / "slither.md").read_text(encoding="utf-8")
    excluded = re.search(
        r'"detectors_to_exclude": "([^"]+)"',
        (ROOT / "contracts" / "slither.config.json").read_text(encoding="utf-8"),
    )
    assert excluded is not None
    detectors = set(excluded[1].split(","))
    for source in (ROOT / "contracts" / "src").rglob("*.sol"):
        detectors |= set(
            re.findall(r"slither-disable-next-line ([\w-]+)", source.read_text(encoding="utf-8"))
        )

    assert [detector for detector in sorted(detectors) if f"`{detector}`" not in reasons] == []
