"""Every way to tamper with a signed session gives exactly the codes of tests/vectors/tampering.json."""

from collections.abc import Callable
from typing import Any

import pytest

from aioum.verify.package import verify_package
from aioum.verify.report import Report
from tests.unit.verify.honest import SEATS, TRUSTED, Honest, read
from tests.unit.verify.tampering_signed import CASES

HONEST = Honest(seats=SEATS)


@pytest.fixture(scope="session")
def vectors(load_vectors: Callable[[str], Any]) -> Any:
    return load_vectors("tampering.json")["signed"]


async def report_on(name: str) -> Report:
    tampered = CASES[name](HONEST)
    return await verify_package(
        read(tampered.package),
        chain=tampered.told.chain(),
        trusted_payment_managers=TRUSTED,
        retained_heads=tampered.retained,
    )


@pytest.mark.parametrize("name", CASES)
async def test_tampering_with_a_signed_session_fails_exactly_the_written_checks_with_the_written_codes(
    name: str, vectors: Any
) -> None:
    expected = vectors[name]

    report = await report_on(name)

    assert report.failures() == expected["fail"]
    assert report.exit_code == expected["exit"]
    open_checks = {check.name: list(check.codes) for check in report.checks if check.status.value == "na"}
    assert {name: open_checks.get(name) for name in ("submissions",) if name in open_checks} == expected.get(
        "unverified", {}
    )


def test_the_vectors_hold_exactly_these_cases_and_name_the_cause_among_the_failures(vectors: Any) -> None:
    assert vectors.keys() == CASES.keys()
    for name, expected in vectors.items():
        assert bool(expected["fail"]) == bool(expected["exit"])
        if expected["exit"]:
            assert expected["cause"] in expected["fail"], name
