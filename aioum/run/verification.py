"""What a capsule proves. All failures are reported; the first in PROTOCOL 8's order is the reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.run.capsule import Capsule, read_capsule
from aioum.run.errors import SuiteUnknown
from aioum.run.keys import require_signature
from aioum.run.policy import SealPolicy
from aioum.run.seal import PAYLOAD_TYPE, Seal, Signer, read_seal
from aioum.run.suite import Suite, suite_named

MAX_POSITIONS_NAMED: Final = 16
"""Most events that a finding names; it counts the others."""


class Reason(StrEnum):
    """What can be wrong with a capsule, in the order of PROTOCOL 8; the pin, no part of the file, last."""

    PAYLOAD_TYPE_UNEXPECTED = "payload-type-unexpected"
    SUITE_UNKNOWN = "suite-unknown"
    LEAF_HASH_MISMATCH = "leaf-hash-mismatch"
    EVENT_COUNT_MISMATCH = "event-count-mismatch"
    CHAIN_BREAK = "chain-break"
    CHAIN_HEAD_MISMATCH = "chain-head-mismatch"
    ROOT_MISMATCH = "root-mismatch"
    SIGNATURE_MISSING = "signature-missing"
    SIGNATURE_INVALID = "signature-invalid"
    KEY_UNTRUSTED = "key-untrusted"
    PINNED_ROOT_MISMATCH = "pinned-root-mismatch"


_ORDER: Final = {reason: position for position, reason in enumerate(Reason)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One failure.

    Attributes:
        reason: its code.
        message: what was found and what was expected, for people.
        positions: of the first events concerned, at most MAX_POSITIONS_NAMED.
    """

    reason: Reason
    message: str
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SignerFact:
    """What is known of one signer of a seal.

    Attributes:
        signer: as the seal names it.
        signed: its signature is there and fits.
        trusted: the policy believes the key; always False where the policy names no keys.
    """

    signer: Signer
    signed: bool
    trusted: bool


@dataclass(frozen=True, slots=True)
class CapsuleVerdict:
    """What verification found.

    A capsule without failures is what the keys sealed, and no more: its owner could have rebuilt it and
    sealed it anew, unless the root was pinned, logged or anchored before.

    Attributes:
        findings: all failures in the order of PROTOCOL 8; empty: the capsule verifies.
        seal: what was sealed, or None where the payload is of another type and is no seal.
        signers: of the seal.
        capsule: as read.
        pinned: the root was compared with a pin, and is the pinned one.
    """

    findings: tuple[Finding, ...]
    seal: Seal | None
    signers: tuple[SignerFact, ...]
    capsule: Capsule
    pinned: bool

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The codes of all failures, in order, each once."""
        return tuple(finding.reason for finding in self.findings)

    @property
    def reason(self) -> Reason | None:
        """The code of the first failure, or None where the capsule verifies."""
        return self.findings[0].reason if self.findings else None

    def to_json(self) -> dict[str, JsonValue]:
        """The verdict for programs."""
        return {
            "reason": self.reason,
            "findings": [
                {
                    "reason": finding.reason.value,
                    "message": finding.message,
                    "events": list(finding.positions),
                }
                for finding in self.findings
            ],
            "root": None if self.seal is None else "0x" + self.seal.root.hex(),
            "eventCount": None if self.seal is None else self.seal.event_count,
            "signers": [
                {**fact.signer.to_json(), "signed": fact.signed, "trusted": fact.trusted}
                for fact in self.signers
            ],
            "pinned": self.pinned,
        }


def verify_capsule(
    data: bytes, policy: SealPolicy, *, pinned_root: bytes | None = None, log_index: int | None = None
) -> CapsuleVerdict:
    """Verify a capsule file.

    Args:
        data: the file.
        policy: whose seals are believed.
        pinned_root: the root that was pinned, logged or anchored for this run before, 32 bytes. Only this
            shows a run that its owner rebuilt and sealed again.
        log_index: where an inclusion proof places the capsule's root in the log that the bounds of the
            policy's keys speak of; None where it is in none.

    Returns:
        The verdict with all failures. Ask for `reason`; a verdict is no bool.

    Raises:
        InvalidInput: the file or its seal cannot be read, so there is nothing to judge: as `read_capsule` and
            `read_seal`.
    """
    return verify_read_capsule(read_capsule(data), policy, pinned_root=pinned_root, log_index=log_index)


def verify_read_capsule(
    capsule: Capsule, policy: SealPolicy, *, pinned_root: bytes | None = None, log_index: int | None = None
) -> CapsuleVerdict:
    """`verify_capsule` for a capsule that was read or sealed in this process. Raises as `read_seal`."""
    findings: list[Finding] = []
    seal = _seal_of(capsule, findings)
    signers: tuple[SignerFact, ...] = ()
    pinned = False
    if seal is not None:
        _check_events(capsule, seal, findings)
        signers = _check_signatures(capsule, seal, policy, log_index, findings)
        pinned = pinned_root is not None and seal.root == pinned_root
    if pinned_root is not None and not pinned:
        sealed = "nothing" if seal is None else "0x" + seal.root.hex()
        findings.append(
            Finding(Reason.PINNED_ROOT_MISMATCH, f"sealed is {sealed}, pinned was 0x{pinned_root.hex()}")
        )
    findings.sort(key=lambda finding: _ORDER[finding.reason])
    return CapsuleVerdict(tuple(findings), seal, signers, capsule, pinned)


def _seal_of(capsule: Capsule, findings: list[Finding]) -> Seal | None:
    envelope = capsule.envelope
    if envelope.payload_type == PAYLOAD_TYPE:
        return read_seal(envelope.payload)
    findings.append(
        Finding(
            Reason.PAYLOAD_TYPE_UNEXPECTED,
            f"the payload is of type {envelope.payload_type}, expected {PAYLOAD_TYPE}",
        )
    )
    try:
        return read_seal(envelope.payload)
    except InvalidInput:
        # A payload of another type need not be a seal; one that is, is checked to the end.
        return None


def _check_events(capsule: Capsule, seal: Seal, findings: list[Finding]) -> None:
    if len(capsule.events) != seal.event_count:
        findings.append(
            Finding(
                Reason.EVENT_COUNT_MISMATCH,
                f"the file has {len(capsule.events)} events, sealed were {seal.event_count}",
            )
        )
    try:
        suite = suite_named(seal.header.suite)
    except SuiteUnknown as error:
        findings.append(Finding(Reason.SUITE_UNKNOWN, str(error)))
        return
    _check_chain(capsule, seal, suite, findings)
    root = suite.root([item.leaf for item in capsule.events])
    if root != seal.root:
        computed = "none" if root is None else "0x" + root.hex()
        findings.append(
            Finding(Reason.ROOT_MISMATCH, f"the leaves have root {computed}, sealed is 0x{seal.root.hex()}")
        )


def _check_chain(capsule: Capsule, seal: Seal, suite: Suite, findings: list[Finding]) -> None:
    other_leaves: list[int] = []
    breaks: list[int] = []
    # Each link is checked from the one that the file gives before it, so that a break is named where it is.
    head = suite.chain_start(canonical_bytes(seal.header.to_json()))
    for position, item in enumerate(capsule.events):
        if suite.leaf_hash(canonical_bytes(item.event.to_json())) != item.leaf:
            other_leaves.append(position)
        if item.event.index != position or suite.chain_next(head, item.leaf) != item.chain:
            breaks.append(position)
        head = item.chain
    if other_leaves:
        findings.append(
            _at_events(Reason.LEAF_HASH_MISMATCH, other_leaves, "is not what its leaf was made of")
        )
    if breaks:
        findings.append(_at_events(Reason.CHAIN_BREAK, breaks, "does not follow the one before it"))
    if head != seal.chain_head:
        findings.append(
            Finding(
                Reason.CHAIN_HEAD_MISMATCH,
                f"the chain ends in 0x{head.hex()}, sealed is 0x{seal.chain_head.hex()}",
            )
        )


def _at_events(reason: Reason, positions: list[int], what: str) -> Finding:
    more = f", and {len(positions) - 1} more" if len(positions) > 1 else ""
    message = f"event {positions[0]} {what}{more}"
    return Finding(reason, message, tuple(positions[:MAX_POSITIONS_NAMED]))


def _check_signatures(
    capsule: Capsule, seal: Seal, policy: SealPolicy, log_index: int | None, findings: list[Finding]
) -> tuple[SignerFact, ...]:
    message = capsule.envelope.signed_bytes()
    signatures = {item.key_id: item.signature for item in capsule.envelope.signatures}
    missing: list[str] = []
    invalid: list[str] = []
    facts = []
    for signer in seal.signers:
        signature = signatures.pop(signer.key_id, None)
        signed = False
        if signature is None:
            missing.append(f"{signer.alg} key {signer.key_id} is named and did not sign")
        else:
            try:
                require_signature(signer.alg, signer.public_key, message, signature)
                signed = True
            except SignatureInvalid as error:
                invalid.append(f"{signer.alg} key {signer.key_id}: {error}")
        trusted = policy.trusted is not None and policy.trusts(signer.alg, signer.public_key, log_index)
        facts.append(SignerFact(signer, signed, trusted))
    # Nobody can tell whose these are, since only the seal says which key a key id is.
    invalid.extend(f"a signature by {stranger}, which the seal does not name" for stranger in signatures)
    untrusted = _check_policy(facts, policy, missing)
    for reason, messages in (
        (Reason.SIGNATURE_MISSING, missing),
        (Reason.SIGNATURE_INVALID, invalid),
        (Reason.KEY_UNTRUSTED, untrusted),
    ):
        if messages:
            findings.append(Finding(reason, "; ".join(messages)))
    return tuple(facts)


def _check_policy(facts: list[SignerFact], policy: SealPolicy, missing: list[str]) -> list[str]:
    """Says what is untrusted; what is missing is added to `missing`."""
    # The seal names each key once and the facts are by key, so that no key can count twice.
    signed = [fact for fact in facts if fact.signed]
    believed = [fact for fact in signed if fact.trusted or policy.trusted is None]
    untrusted = []
    if len(facts) < policy.threshold:
        missing.append(f"{len(facts)} keys are named, {policy.threshold} must sign")
    elif len(believed) < policy.threshold <= len(signed):
        untrusted.append(f"{len(believed)} of the keys that signed are trusted, {policy.threshold} must be")
    named, signing, believable = ({fact.signer.alg for fact in some} for some in (facts, signed, believed))
    for alg in sorted(policy.require - named):
        missing.append(f"no {alg} key is named, and one must sign")
    for alg in sorted(policy.require & signing - believable):
        untrusted.append(f"no {alg} key that signed is trusted")
    return untrusted
