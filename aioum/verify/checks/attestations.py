"""Check 6, attestations: each goes to the verifier registered for its type, or is reported unverified."""

from __future__ import annotations

import base64
from dataclasses import replace

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.verify.checks.transcript import Transcript
from aioum.verify.grounds import Grounds
from aioum.verify.hooks import Attestation, AttestationRejected, VerifyHooks
from aioum.verify.report import Check, Finding, Findings, Status, failed, not_applicable, passed

NAME = "attestations"


async def check_attestations(
    package: EvidencePackage, transcript: Transcript, grounds: Grounds, hooks: VerifyHooks
) -> Check:
    """Dispatch by type. One that nobody verifies is never accepted, whatever the others prove."""
    if not package.attestations:
        return not_applicable(NAME, "attestations-absent", "The package carries no attestations.")
    indexes = _indexes(package)
    known = frozenset(indexes)
    failures, unverified = Findings(), Findings()
    proven: list[JsonValue] = []
    for position, value in enumerate(package.attestations):
        try:
            attestation = _read(value, indexes, known)
            outcome = await _judge(attestation, transcript, grounds, hooks)
        except InvalidInput as error:
            outcome = Finding(error.code, f"Attestation {position}: {error}.")
        except AttestationRejected as error:
            outcome = Finding("attestation-rejected", f"Attestation {position} is rejected: {error}.")
        if isinstance(outcome, str):
            proven.append(outcome)
        elif outcome.code in _FAILURES:
            failures.append(replace(outcome, index=position))
        else:
            unverified.append(replace(outcome, index=position))
    details: dict[str, JsonValue] = {"attestations": len(package.attestations), "proven": proven}
    if failures:
        return failed(NAME, failures, details=details)
    if unverified:
        open_ones = failed(NAME, unverified, details=details)
        return Check(
            NAME,
            Status.NOT_APPLICABLE,
            f"UNVERIFIED: {open_ones.summary}",
            open_ones.codes,
            open_ones.details,
        )
    return passed(NAME, " ".join(str(sentence) for sentence in proven), details=details)


_FAILURES = frozenset({"attestation-malformed", "attestation-coverage-outside", "attestation-rejected"})


def _indexes(package: EvidencePackage) -> tuple[int, ...]:
    if not package.disclosed:
        return tuple(range(len(package.calls)))
    stated = (call.get("index") for call in package.calls if isinstance(call, dict))
    return tuple(index for index in stated if type(index) is int)


def _read(value: JsonValue, indexes: tuple[int, ...], known: frozenset[int]) -> Attestation:
    if not isinstance(value, dict):
        raise _malformed("not an object")
    kind, form, payload = value.get("type"), value.get("format"), value.get("payload")
    note = value.get("note", "")
    if not (isinstance(kind, str) and isinstance(form, str) and isinstance(payload, str)) or not kind:
        raise _malformed("type, format and payload are not all text")
    if not isinstance(note, str):
        raise _malformed("note is not text")
    try:
        decoded = base64.b64decode(payload, validate=True)
    except ValueError as error:
        # binascii.Error is one; characters beyond ASCII are refused with the plain kind.
        raise _malformed(f"payload is not base64: {error}") from error
    return Attestation(kind, form, decoded, _coverage(value, indexes, known), note)


def _coverage(
    value: dict[str, JsonValue], indexes: tuple[int, ...], known: frozenset[int]
) -> tuple[int, ...]:
    if "coverage" not in value:
        return indexes
    coverage = value["coverage"]
    if not isinstance(coverage, list):
        raise _malformed("coverage is not an array")
    covered = []
    for index in coverage:
        if type(index) is not int:
            raise _malformed("coverage holds something other than integers")
        if index not in known:
            raise InvalidInput(
                f"it covers call {index}, which the package does not have",
                code="attestation-coverage-outside",
            )
        covered.append(index)
    return tuple(sorted(set(covered)))


def _malformed(reason: str) -> InvalidInput:
    return InvalidInput(reason, code="attestation-malformed")


async def _judge(
    attestation: Attestation, transcript: Transcript, grounds: Grounds, hooks: VerifyHooks
) -> str | Finding:
    verifier = hooks.attestation_verifiers.get(attestation.type)
    if verifier is None:
        return Finding(
            "attestation-unverified", f"no verifier is registered for type {attestation.type!r:.80}"
        )
    if transcript.entries is None:
        return Finding("transcript-invalid", "the calls that it covers are not well-formed")
    covered = set(attestation.coverage)
    calls = [entry for entry in transcript.entries if entry.index in covered]
    try:
        return await verifier.verify(attestation, calls, grounds)
    except AttestationRejected:
        raise
    except Exception as error:
        # A verifier is foreign code: its crash proves nothing, and must not hide the other checks.
        return Finding(
            "attestation-verifier-failed",
            f"the verifier of type {attestation.type!r:.80} broke: {type(error).__name__}: {error}",
        )
