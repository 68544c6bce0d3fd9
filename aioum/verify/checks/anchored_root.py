"""Check 3, anchored-root: the operator anchored exactly this history."""

from __future__ import annotations

from aioum.core.canonical import JsonValue
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hextext import to_hex
from aioum.verify.checks.transcript import Transcript, root_findings
from aioum.verify.grounds import Grounds
from aioum.verify.report import Check, Finding, failed, not_applicable, passed

NAME = "anchored-root"


def check_anchored_root(package: EvidencePackage, transcript: Transcript, grounds: Grounds) -> Check:
    """Hold calls, claimed root and call count against what the chain has."""
    session = grounds.session
    if session is None:
        code, reason = grounds.missing_session
        return not_applicable(NAME, code, f"Not compared with the anchored root: {reason}.")
    if grounds.anchor is None:
        if session.commit_required:
            return failed(
                NAME,
                [
                    Finding(
                        "root-absent",
                        "No root is anchored although the session's terms require one; "
                        f"settled so far: {session.settled}.",
                    )
                ],
                details={"settled": str(session.settled)},
            )
        return not_applicable(
            NAME, "root-not-anchored", "No root is anchored, and the session's terms do not require one."
        )
    root, call_count = grounds.anchor
    findings = root_findings(
        package, transcript, root, call_count, "anchored-root-mismatch", "the anchored root"
    )
    if package.disclosed and package.results_root != root:
        findings.append(
            Finding(
                "anchored-root-mismatch",
                f"The package's root {to_hex(package.results_root)} is not the anchored {to_hex(root)}.",
            )
        )
    if package.call_count != call_count:
        findings.append(
            Finding(
                "call-count-mismatch",
                f"The package counts {package.call_count} calls, the operator anchored {call_count}.",
            )
        )
    details: dict[str, JsonValue] = {"anchoredRoot": to_hex(root), "anchoredCallCount": call_count}
    if findings:
        return failed(NAME, findings, details=details)
    which = "each disclosed call as part of its history" if package.disclosed else "exactly this history"
    return passed(
        NAME, f"The operator anchored {which}: {call_count} calls under {to_hex(root)}.", details=details
    )
