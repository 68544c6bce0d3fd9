import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from aioum.core.evidence import disclose
from aioum.core.hextext import to_hex
from aioum.verify.report import MAX_LISTED_FINDINGS, NUMBERS, Finding, Findings, Status, failed
from tests.unit.verify.honest import BLOCK, SEATS, Honest, edited, judge
from tests.unit.verify.tampering import CASES
from tests.unit.verify.tampering_signed import CASES as SIGNED_CASES

HONEST = Honest()


@pytest.fixture(scope="module")
def validator(repository: Path) -> Any:
    schema = json.loads((repository / "docs" / "verify-report.schema.json").read_text(encoding="utf-8"))
    return jsonschema_rs.validator_for(schema)


@pytest.mark.parametrize("name", [name for name in CASES if "re-execut" not in name])
async def test_every_report_keeps_to_the_documented_schema(name: str, validator: Any) -> None:
    tampered = CASES[name](HONEST)

    report = await judge(tampered.package, HONEST.chain(HONEST.session(**tampered.on_chain)))

    validator.validate(json.loads(json.dumps(report.to_json())))


async def test_reports_offline_and_on_disclosed_packages_keep_to_the_schema(validator: Any) -> None:
    for package in (HONEST.package(), disclose(HONEST.package(), [2]), HONEST.package(channel=None)):
        validator.validate((await judge(package, None)).to_json())


def test_the_schema_knows_exactly_the_checks_that_exist(repository: Path) -> None:
    schema = json.loads((repository / "docs" / "verify-report.schema.json").read_text(encoding="utf-8"))

    assert schema["$defs"]["check"]["properties"]["name"]["enum"] == list(NUMBERS)


def documented_codes(repository: Path) -> dict[str, list[set[str]]]:
    """By check: the codes in the columns ✗, ○ and ✓ of docs/verify-report.md."""
    text = (repository / "docs" / "verify-report.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ")][1:]
    return {
        name: [{code for code in cell.replace(",", " ").split()} for cell in cells]
        for first, *cells in rows
        for name in first.replace(",", " ").split()
        if not name.isdigit()
    }


async def test_the_documented_codes_cover_what_the_checks_say(repository: Path) -> None:
    documented = documented_codes(repository)
    column = {Status.FAIL: 0, Status.NOT_APPLICABLE: 1, Status.PASS: 2}

    assert documented.keys() == NUMBERS.keys()
    for case in CASES.values():
        tampered = case(HONEST)
        online = await judge(tampered.package, HONEST.chain(HONEST.session(**tampered.on_chain)))
        offline = await judge(tampered.package, None)
        for check in (*online.checks, *offline.checks):
            assert set(check.codes) <= documented[check.name][column[check.status]]
    for signed_case in SIGNED_CASES.values():
        told = signed_case(Honest(seats=SEATS))
        for chain in (told.told.chain(), None):
            for check in (await judge(told.package, chain)).checks:
                assert set(check.codes) <= documented[check.name][column[check.status]]


async def test_a_report_names_the_block_of_its_chain_facts() -> None:
    online = (await judge(HONEST.package(), HONEST.chain())).to_json()
    offline = (await judge(HONEST.package(), None)).to_json()

    assert online["block"] == {
        "number": BLOCK.number, "hash": to_hex(BLOCK.hash), "timestamp": BLOCK.timestamp,
    }  # fmt: skip
    assert (offline["block"], offline["offline"]) == (None, True)


async def test_the_seven_numbered_checks_come_first_and_in_order() -> None:
    report = await judge(HONEST.package(), HONEST.chain())

    numbers = [check.to_json()["number"] for check in report.checks]
    assert numbers == [1, 2, 2, 3, 4, 5, 6, 7, None, None]


async def test_findings_are_all_counted_and_listed_up_to_a_limit() -> None:
    count = MAX_LISTED_FINDINGS + 20
    package = edited(HONEST.package(), lambda package: package.update(vouchers=[{}] * count))

    report = await judge(package, HONEST.chain())

    vouchers = next(check for check in report.checks if check.name == "vouchers")
    listed = vouchers.details["findings"]
    assert isinstance(listed, list)
    assert (len(listed), vouchers.details["findingCount"]) == (MAX_LISTED_FINDINGS, count)
    assert vouchers.codes == ("voucher-malformed",)


def test_each_status_has_its_mark() -> None:
    assert [status.mark for status in Status] == ["✓", "✗", "○"]


async def test_of_millions_of_wrong_entries_only_the_first_take_memory() -> None:
    findings = Findings(Finding("voucher-malformed", "wrong", position) for position in range(100_000))
    findings.append(Finding("voucher-above-deposit", "too much"))

    assert len(findings.listed) == MAX_LISTED_FINDINGS
    check = failed("vouchers", findings)
    assert check.codes == ("voucher-malformed", "voucher-above-deposit")
    assert check.details["findingCount"] == 100_001
