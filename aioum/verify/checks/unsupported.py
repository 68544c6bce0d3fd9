"""Evidence that a package can carry and this version cannot judge; it is named, never passed over."""

from __future__ import annotations

from aioum.core.evidence_reading import EvidencePackage
from aioum.verify.report import Check, not_applicable


def check_unsupported(package: EvidencePackage) -> list[Check]:
    """A ○ row for each member that nothing here verifies."""
    carried = {"log": package.log}
    return [
        not_applicable(
            name, "unsupported-evidence", f"The package carries {name}, which this version does not verify."
        )
        for name, member in carried.items()
        if member is not None
    ]
