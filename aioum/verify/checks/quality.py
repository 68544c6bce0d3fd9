"""Check 7, quality: never judged by a program."""

from __future__ import annotations

from aioum.core.evidence import Claim
from aioum.core.evidence_reading import EvidencePackage
from aioum.verify.report import Check, not_applicable

NAME = "quality"


def check_quality(package: EvidencePackage) -> Check:
    """Say whose judgment a quality claim is."""
    if package.claim is Claim.QUALITY:
        return not_applicable(
            NAME,
            "quality-not-judged",
            "The claim is about quality: that is an arbitrator's judgment, and no check here stands for it.",
        )
    return not_applicable(
        NAME, "quality-not-claimed", f"The claim is {package.claim.value}; quality is not at issue."
    )
