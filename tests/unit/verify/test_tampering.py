"""Every way to tamper gives exactly the failed checks and codes of tests/vectors/tampering.json."""

from collections.abc import Callable
from typing import Any

import pytest

from aioum.core.errors import AioumError
from aioum.core.evidence import package_bytes
from aioum.core.evidence_reading import parse_package
from aioum.verify.report import Report
from tests.unit.verify.honest import TRUSTED, Honest, judge
from tests.unit.verify.tampering import CASES

HONEST = Honest()


@pytest.fixture(scope="session")
def vectors(load_vectors: Callable[[str], Any]) -> Any:
    return load_vectors("tampering.json")


async def report_on(name: str) -> Report:
    tampered = CASES[name](HONEST)
    return await judge(
        tampered.package,
        HONEST.chain(HONEST.session(**tampered.on_chain)),
        trusted=TRUSTED if tampered.trusted is None else tampered.trusted,
        re_executor=tampered.re_executor,
    )


@pytest.mark.parametrize("name", CASES)
async def test_tampering_fails_exactly_the_written_checks_with_the_written_codes(
    name: str, vectors: Any
) -> None:
    expected = vectors["packages"][name]

    report = await report_on(name)

    assert report.failures() == expected["fail"]
    assert report.exit_code == expected["exit"]
    open_checks = {check.name: list(check.codes) for check in report.checks if check.status.value == "na"}
    for check, codes in expected.get("unverified", {}).items():
        assert open_checks[check] == codes


def test_the_vectors_hold_exactly_these_cases_and_name_the_cause_among_the_failures(vectors: Any) -> None:
    assert vectors["packages"].keys() == CASES.keys()
    for name, expected in vectors["packages"].items():
        assert bool(expected["fail"]) == bool(expected["exit"])
        if expected["exit"]:
            assert expected["cause"] in expected["fail"], name


TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "truncated file": lambda text: text[: len(text) // 2],
    "not JSON": lambda text: b"session 42: the operator never answered\n",
    "empty file": lambda text: b"",
    "duplicate member": lambda text: text[:-1] + b',"claim":"quality"}',
    "bytes after the package": lambda text: text + b"{}",
    "not UTF-8": lambda text: b"\xff" + text,
    "an array": lambda text: b"[" + text + b"]",
    "member missing": lambda text: text.replace(b'"resultsRoot"', b'"resultRoot"'),
    "formatVersion of the future": lambda text: text.replace(b'"formatVersion":1', b'"formatVersion":3'),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_that_is_no_package_is_refused_with_the_written_code(name: str, vectors: Any) -> None:
    text = TEXTS[name](package_bytes(HONEST.package()))

    with pytest.raises(AioumError) as refusal:
        parse_package(text)

    assert refusal.value.code == vectors["files"][name]["error"]
    assert vectors["files"][name]["exit"] == 2


def test_the_vectors_hold_exactly_these_files(vectors: Any) -> None:
    assert vectors["files"].keys() == TEXTS.keys()
