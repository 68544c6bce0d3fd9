"""What a verification says: one row per check, with reason codes (PROTOCOL 7, 10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from aioum.chain.model import BlockRef
from aioum.core.canonical import JsonValue
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hextext import address_text, to_hex

REPORT_VERSION: Final = 1

NUMBERS: Final[dict[str, int | None]] = {
    "session": 1,
    "transcript": 2,
    "claimed-root": 2,
    "anchored-root": 3,
    "vouchers": 4,
    "re-execution": 5,
    "attestations": 6,
    "quality": 7,
    "receipts": None,
    "statement": None,
    "submissions": None,
    "log": None,
}
"""Every check by name, in the order of the report, with its number in PROTOCOL 7."""

MAX_LISTED_FINDINGS: Final = 100


class Status(StrEnum):
    """Verdict of one check."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "na"

    @property
    def mark(self) -> str:
        """✓ proven, ✗ failed, ○ not applicable or unverifiable."""
        return _MARKS[self]


_MARKS: Final = {Status.PASS: "✓", Status.FAIL: "✗", Status.NOT_APPLICABLE: "○"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: reason code.
        text: one sentence: what, got, expected.
        index: the call, voucher or attestation it is about, by position; None where it is about none.
    """

    code: str
    text: str
    index: int | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The finding in the report's details."""
        value: dict[str, JsonValue] = {"code": self.code, "text": self.text}
        if self.index is not None:
            value["index"] = self.index
        return value


class Findings:
    """What is wrong in one check: everything is counted, only the first MAX_LISTED_FINDINGS are kept.

    A package can hold millions of wrong entries in few bytes each.
    """

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self.listed: list[Finding] = []
        self.codes: dict[str, None] = {}
        self._count = 0
        self.extend(findings)

    def __len__(self) -> int:
        return self._count

    def append(self, finding: Finding) -> None:
        """Count one, and keep it while there are few."""
        self._count += 1
        self.codes[finding.code] = None
        if len(self.listed) < MAX_LISTED_FINDINGS:
            self.listed.append(finding)

    def extend(self, findings: Iterable[Finding]) -> None:
        """Append each."""
        for finding in findings:
            self.append(finding)


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the report.

    Attributes:
        name: a key of NUMBERS.
        summary: one sentence on what is proven, or why it is not.
        codes: why it failed or does not apply; on a pass, what limits the proof.
        details: facts for programs.
    """

    name: str
    status: Status
    summary: str
    codes: tuple[str, ...] = ()
    details: dict[str, JsonValue] = field(default_factory=dict)

    def to_json(self) -> dict[str, JsonValue]:
        """The row in the JSON report."""
        return {
            "number": NUMBERS[self.name],
            "name": self.name,
            "status": self.status.value,
            "codes": list(self.codes),
            "summary": self.summary,
            "details": self.details,
        }


def passed(name: str, summary: str, *codes: str, details: dict[str, JsonValue] | None = None) -> Check:
    """A ✓ row; codes say what limits the proof."""
    return Check(name, Status.PASS, summary, codes, details or {})


def not_applicable(
    name: str, code: str, summary: str, *, details: dict[str, JsonValue] | None = None
) -> Check:
    """A ○ row with the reason why."""
    return Check(name, Status.NOT_APPLICABLE, summary, (code,), details or {})


def failed(
    name: str, findings: Sequence[Finding] | Findings, *, details: dict[str, JsonValue] | None = None
) -> Check:
    """A ✗ row over at least one finding; the first gives the sentence."""
    found = findings if isinstance(findings, Findings) else Findings(findings)
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    listed: list[JsonValue] = [finding.to_json() for finding in found.listed]
    return Check(
        name,
        Status.FAIL,
        found.listed[0].text + more,
        tuple(found.codes),
        {**(details or {}), "findings": listed, "findingCount": len(found)},
    )


@dataclass(frozen=True, slots=True)
class Report:
    """All rows, and where the chain facts come from.

    Attributes:
        block: the one block that every chain fact was read at; None offline.
    """

    package: EvidencePackage
    block: BlockRef | None
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        """0 where nothing failed, 1 where at least one check did."""
        return int(any(check.status is Status.FAIL for check in self.checks))

    def statuses(self) -> dict[str, str]:
        """Check name → `pass`, `fail` or `na`."""
        return {check.name: check.status.value for check in self.checks}

    def failures(self) -> dict[str, list[str]]:
        """Name → reason codes of every check that failed."""
        return {check.name: list(check.codes) for check in self.checks if check.status is Status.FAIL}

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON report; docs/verify-report.schema.json describes it."""
        package = self.package
        block: JsonValue = None
        if self.block is not None:
            block = {
                "number": self.block.number,
                "hash": to_hex(self.block.hash),
                "timestamp": self.block.timestamp,
            }
        counts = {status: sum(check.status is status for check in self.checks) for status in Status}
        return {
            "reportVersion": REPORT_VERSION,
            "package": {
                "formatVersion": package.format_version,
                "sessionId": str(package.session_id),
                "channelId": None if package.channel_id is None else to_hex(package.channel_id),
                "chainId": package.domain.chain_id,
                "paymentManager": address_text(package.domain.payment_manager),
                "claim": package.claim.value,
                "calls": len(package.calls),
                "callCount": package.call_count,
            },
            "offline": self.block is None,
            "block": block,
            "checks": [check.to_json() for check in self.checks],
            "counts": {status.value: count for status, count in counts.items()},
            "exitCode": self.exit_code,
        }
