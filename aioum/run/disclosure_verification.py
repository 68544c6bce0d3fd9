"""What a disclosure proves: that these events, and these contents, are in a run that the keys sealed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.errors import ProofInvalid
from aioum.core.merkle import verify_inclusion
from aioum.run.capsule import Capsule
from aioum.run.disclosure import Disclosure, read_disclosure
from aioum.run.policy import SealPolicy
from aioum.run.seal import Seal
from aioum.run.suite import Suite, suite_named
from aioum.run.verification import Reason, SignerFact, verify_read_capsule


class DisclosureReason(StrEnum):
    """What can be wrong with a disclosure, in the order of PROTOCOL 8; its own where the events would be."""

    PAYLOAD_TYPE_UNEXPECTED = "payload-type-unexpected"
    SUITE_UNKNOWN = "suite-unknown"
    INCLUSION_INVALID = "inclusion-invalid"
    COMMITMENT_MISMATCH = "commitment-mismatch"
    SIGNATURE_MISSING = "signature-missing"
    SIGNATURE_INVALID = "signature-invalid"
    KEY_UNTRUSTED = "key-untrusted"
    PINNED_ROOT_MISMATCH = "pinned-root-mismatch"


_ORDER: Final = {reason: position for position, reason in enumerate(DisclosureReason)}

_ABOUT_SEALS: Final = {
    Reason.PAYLOAD_TYPE_UNEXPECTED,
    Reason.SUITE_UNKNOWN,
    Reason.SIGNATURE_MISSING,
    Reason.SIGNATURE_INVALID,
    Reason.KEY_UNTRUSTED,
    Reason.PINNED_ROOT_MISMATCH,
}
"""Reasons that hold of a seal whichever events come with it."""


@dataclass(frozen=True, slots=True)
class DisclosureFinding:
    """One failure.

    Attributes:
        reason: its code.
        message: for people.
        index: of the event concerned, or None.
    """

    reason: DisclosureReason
    message: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class DisclosureVerdict:
    """What verification found. What is hidden is not judged, nor whether the choice is fair.

    Attributes:
        findings: all failures in order; empty: everything that is shown is in the sealed run.
        seal: of the run, or None where the payload is no seal.
        signers: of the seal.
        disclosure: as read.
        pinned: the root was compared with a pin, and is the pinned one.
    """

    findings: tuple[DisclosureFinding, ...]
    seal: Seal | None
    signers: tuple[SignerFact, ...]
    disclosure: Disclosure
    pinned: bool

    @property
    def reasons(self) -> tuple[DisclosureReason, ...]:
        """The codes of all failures, in order."""
        return tuple(finding.reason for finding in self.findings)

    @property
    def reason(self) -> DisclosureReason | None:
        """The code of the first failure, or None."""
        return self.findings[0].reason if self.findings else None

    def to_json(self) -> dict[str, JsonValue]:
        """The verdict for programs."""
        return {
            "reason": self.reason,
            "findings": [
                {"reason": each.reason.value, "message": each.message, "event": each.index}
                for each in self.findings
            ],
            "root": None if self.seal is None else "0x" + self.seal.root.hex(),
            "eventCount": None if self.seal is None else self.seal.event_count,
            "events": [event.to_json() for event in self.disclosure.events],
            "signers": [
                {**fact.signer.to_json(), "signed": fact.signed, "trusted": fact.trusted}
                for fact in self.signers
            ],
            "pinned": self.pinned,
        }


def verify_disclosure(
    data: bytes, policy: SealPolicy, *, pinned_root: bytes | None = None, log_index: int | None = None
) -> DisclosureVerdict:
    """Verify a disclosure file. Arguments as in `verify_capsule`.

    Raises:
        InvalidInput: the file or its seal cannot be read: as `read_disclosure` and `read_seal`.
    """
    return verify_read_disclosure(read_disclosure(data), policy, pinned_root=pinned_root, log_index=log_index)


def verify_read_disclosure(
    disclosure: Disclosure,
    policy: SealPolicy,
    *,
    pinned_root: bytes | None = None,
    log_index: int | None = None,
) -> DisclosureVerdict:
    """`verify_disclosure` for a disclosure that was read. Raises as `read_seal`."""
    # The seal alone, without events; what they lack is left out.
    sealed = verify_read_capsule(
        Capsule(disclosure.envelope, ()), policy, pinned_root=pinned_root, log_index=log_index
    )
    findings = [
        DisclosureFinding(DisclosureReason(each.reason.value), each.message)
        for each in sealed.findings
        if each.reason in _ABOUT_SEALS
    ]
    if sealed.seal is not None and Reason.SUITE_UNKNOWN not in sealed.reasons:
        findings += _check_events(disclosure, sealed.seal, suite_named(sealed.seal.header.suite))
    findings.sort(key=lambda finding: _ORDER[finding.reason])
    return DisclosureVerdict(tuple(findings), sealed.seal, sealed.signers, disclosure, sealed.pinned)


def _check_events(disclosure: Disclosure, seal: Seal, suite: Suite) -> list[DisclosureFinding]:
    findings = []
    for shown in disclosure.events:
        index = shown.event.index
        leaf = suite.leaf_hash(canonical_bytes(shown.event.to_json()))
        try:
            # The index comes out of the hashed event and the size out of the signed seal.
            verify_inclusion(leaf, index, seal.event_count, shown.proof, seal.root, suite.node_hash)
        except ProofInvalid as error:
            findings.append(
                DisclosureFinding(
                    DisclosureReason.INCLUSION_INVALID, f"event {index} is not in the run: {error}", index
                )
            )
        findings += [
            DisclosureFinding(
                DisclosureReason.COMMITMENT_MISMATCH,
                f"the {side.value} that is shown of event {index} is not what was recorded",
                index,
            )
            for side, opening in shown.openings.items()
            if not opening.opens(shown.committed(side))
        ]
    return findings
