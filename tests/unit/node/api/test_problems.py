"""One table of codes: every status is the documented one."""

import re
from pathlib import Path

import pytest

from aioum.core.errors import (
    AioumError,
    CanonicalError,
    ChainError,
    OutcomeUnknown,
    PolicyRefused,
    Refused,
    SignatureInvalid,
)
from aioum_node.api.problems import STATUS_OF_CODE, refusal, status_of
from aioum_node.failures import FAILURES, failed


def documented(repository: Path, heading: str) -> str:
    page = (repository / "docs" / "http-api.md").read_text(encoding="utf-8")
    return page.partition(heading)[2].partition("\n## ")[0]


def test_every_refusal_is_documented_with_its_status(repository: Path) -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", documented(repository, "## Refusals"), re.MULTILINE)
    statuses = {code: int(status) for status, codes in rows for code in re.findall(r"`([a-z-]+)`", codes)}

    assert {code: statuses.get(code) for code in STATUS_OF_CODE} == dict(STATUS_OF_CODE)


def test_every_failure_is_documented_with_its_status(repository: Path) -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d{3}) \|", documented(repository, "## Paying"), re.MULTILINE)

    assert {code: int(status) for code, status in rows} == {
        code: status for code, (status, _) in FAILURES.items()
    }


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SignatureInvalid("", code="signature-invalid"), 402),
        (CanonicalError("", code="json-syntax"), 400),
        (PolicyRefused(""), 403),
        (Refused(""), 409),
        (ChainError("", code="rpc-timeout"), 503),
        (OutcomeUnknown(""), 503),
        (AioumError("", code="store-corrupt"), 500),
        (AioumError("", code="store-failed"), 503),
        (OutcomeUnknown("", code="watermark-failed"), 503),
        (AioumError("", code="store-busy"), 503),
    ],
)
def test_code_without_a_row_has_the_status_of_its_kind(error: AioumError, status: int) -> None:
    assert status_of(error, signature_status=402) == status


def test_internal_error_tells_nothing_of_what_broke() -> None:
    error = AioumError("disk /secret full", code="store-corrupt", hint="secret", details={"path": "/secret"})

    response = refusal(error, 500, retry_after_seconds=1)

    assert isinstance(response.body, bytes)
    assert b"secret" not in response.body
    assert b"internal-error" in response.body


@pytest.mark.parametrize("kind", [AioumError, OutcomeUnknown])
def test_store_that_is_away_is_one_to_come_back_to_and_tells_nothing_of_where_it_is(
    kind: type[AioumError],
) -> None:
    error = kind("10.0.0.5 is down", code="store-failed", hint="10.0.0.5", details={"outcome": "10.0.0.5"})

    response = refusal(error, status_of(error, signature_status=402), retry_after_seconds=7)

    assert (response.status, response.headers["Retry-After"]) == (503, "7")
    assert isinstance(response.body, bytes)
    assert b"10.0.0.5" not in response.body
    assert b"store-busy" in response.body


def test_title_of_a_failure_is_bounded() -> None:
    assert len(failed("tool-failed", "x" * 10_000).response) < 400
