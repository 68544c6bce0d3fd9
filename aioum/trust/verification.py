"""Judging an attestation: separate facts, and a reason for everything that a policy does not accept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.trust.attestation import ED25519, ExternalAttestation, ExternalKeyRef, Statement
from aioum.trust.certificates import key_of_certificate
from aioum.trust.facts import Reason
from aioum.trust.keys import KeyMaterial
from aioum.trust.policy import KeyPin, Resolvers, RevocationPolicy, RevocationState, TrustPolicy, TrustRules

_NOT_PINNED: Final = Reason(
    "authority-not-pinned", "neither the authority's key nor a root above it is pinned by the caller"
)


@dataclass(frozen=True, slots=True)
class AttestationResult:
    """Facts about an attestation, each for itself (SUBMISSIONS 3.1).

    Attributes:
        cryptographically_valid: the signature fits the statement and the resolved key. Whose key that is, is
            another fact.
        authority_pinned: the caller pinned this key, or a root above it.
        certificate_path_valid: None where no path was tried.
        matched_pin: `authorityId/keyId`, or the digest of the pinned root.
        reasons: why the policy does not accept it; empty exactly where it does.
        observations: what a stricter policy would refuse.
    """

    cryptographically_valid: bool
    authority_pinned: bool
    certificate_path_valid: bool | None
    revocation_state: RevocationState
    authority: ExternalKeyRef
    matched_pin: str | None
    reasons: tuple[Reason, ...]
    observations: tuple[Reason, ...] = ()

    @property
    def policy_accepted(self) -> bool:
        """Whether there is no reason against it."""
        return not self.reasons

    def to_json(self) -> dict[str, JsonValue]:
        """The facts under their public names; absent ones are left out."""
        facts: dict[str, JsonValue] = {
            "cryptographicallyValid": self.cryptographically_valid,
            "authorityPinned": self.authority_pinned,
            "revocationState": self.revocation_state.value,
            "policyAccepted": self.policy_accepted,
            "authority": self.authority.to_json(),
            "reasons": [reason.code for reason in self.reasons],
            "observations": [reason.code for reason in self.observations],
        }
        if self.certificate_path_valid is not None:
            facts["certificatePathValid"] = self.certificate_path_valid
        if self.matched_pin is not None:
            facts["matchedPin"] = self.matched_pin
        return facts


def verify_attestation(
    attestation: ExternalAttestation,
    *,
    subject_digest: str,
    policy: TrustPolicy,
    resolvers: Resolvers,
    now: datetime,
) -> AttestationResult:
    """Judge an attestation by a caller's policy.

    Args:
        attestation: read, and so far believed in nothing.
        subject_digest: what the caller itself computed over the artifact; never taken from the attestation.
        policy: what the caller accepts.
        resolvers: the caller's sources; what they raise is not caught.
        now: with a time zone.

    Raises:
        InvalidInput: `time-without-zone`. What is wrong with the attestation is a reason, not an exception.
    """
    require_zone(now)
    statement, rules = attestation.statement, policy.rules
    reasons: list[Reason] = []
    observations: list[Reason] = []

    if statement.subject_digest != subject_digest:
        reasons.append(Reason("subject-differs", "the attestation is about another digest"))
    if statement.schema not in policy.accepted_schemas:
        reasons.append(Reason("schema-not-accepted", f"schema {statement.schema:.100} is not accepted"))
    if statement.algorithm not in policy.accepted_algorithms:
        reasons.append(
            Reason("algorithm-not-accepted", f"algorithm {statement.algorithm:.100} is not accepted")
        )
    if statement.expires is not None and now >= statement.expires:
        reasons.append(Reason("attestation-expired", f"it expired at {statement.expires_at}"))
    if statement.issued is not None and statement.issued - now > timedelta(seconds=rules.tolerance_seconds):
        found = reasons if rules.refuse_future else observations
        found.append(Reason("issued-in-future", f"it says it was issued at {statement.issued_at}"))

    pin = policy.pin_of(statement.authority)
    key = resolvers.keys.key(statement.authority)
    if key is None and pin is None and policy.pinned_root_digests:
        # Only a path to a pinned root can vouch for this key: no pin names its reference.
        key = _first_certificates_key(attestation)
    valid = _check_signature(attestation, key, reasons)

    if pin is not None:
        path_valid = None
        matched = _match_pin(pin, key, rules, reasons, observations)
    else:
        path_valid, matched = _match_root(attestation, key, policy, resolvers, now, reasons)
    revocation = _check_revocation(attestation, key, policy, resolvers, now, reasons, observations)
    return AttestationResult(
        cryptographically_valid=valid,
        authority_pinned=matched is not None,
        certificate_path_valid=path_valid,
        revocation_state=revocation,
        authority=statement.authority,
        matched_pin=matched,
        reasons=tuple(reasons),
        observations=tuple(observations),
    )


def require_zone(moment: datetime) -> None:
    """Refuse a time that does not say where it was read. Raises InvalidInput `time-without-zone`."""
    if moment.utcoffset() is None:
        raise InvalidInput("the time has no time zone", code="time-without-zone")


def _first_certificates_key(attestation: ExternalAttestation) -> KeyMaterial | None:
    if not attestation.certificate_chain:
        return None
    try:
        return key_of_certificate(attestation.certificate_chain[0])
    except InvalidInput:
        return None


def _check_signature(
    attestation: ExternalAttestation, key: KeyMaterial | None, reasons: list[Reason]
) -> bool:
    statement: Statement = attestation.statement
    if statement.algorithm != ED25519:
        reasons.append(
            Reason("algorithm-unsupported", f"algorithm {statement.algorithm:.100} cannot be checked")
        )
        return False
    if key is None:
        reasons.append(Reason("authority-key-unavailable", "no source has the authority's key"))
        return False
    try:
        key.verifying_key.verify(statement.signed_bytes(), attestation.signature)
    except SignatureInvalid as error:
        reasons.append(Reason("attestation-signature-invalid", str(error)))
        return False
    return True


def _match_pin(
    pin: KeyPin,
    key: KeyMaterial | None,
    rules: TrustRules,
    reasons: list[Reason],
    observations: list[Reason],
) -> str | None:
    if not pin.key_digests:
        found = reasons if rules.require_key_digests else observations
        found.append(
            Reason("pin-without-key-digest", "the pin names a reference and does not say which key it is")
        )
        return None if rules.require_key_digests else pin.authority.label
    if key is None:
        reasons.append(_NOT_PINNED)
        return None
    if key.digest_hex not in pin.key_digests:
        reasons.append(Reason("pinned-key-differs", "the resolved key is not the one that is pinned"))
        return None
    return pin.authority.label


def _match_root(
    attestation: ExternalAttestation,
    key: KeyMaterial | None,
    policy: TrustPolicy,
    resolvers: Resolvers,
    now: datetime,
    reasons: list[Reason],
) -> tuple[bool | None, str | None]:
    roots, paths = policy.pinned_root_digests, resolvers.paths
    finding = paths.path(attestation, key, roots, now) if roots and paths is not None else None
    if finding is not None:
        reasons.extend(finding.reasons)
        if finding.valid and finding.root_digest in roots:
            return True, finding.root_digest
    reasons.append(_NOT_PINNED)
    return (finding is not None and finding.valid) if roots else None, None


def _check_revocation(
    attestation: ExternalAttestation,
    key: KeyMaterial | None,
    policy: TrustPolicy,
    resolvers: Resolvers,
    now: datetime,
    reasons: list[Reason],
    observations: list[Reason],
) -> RevocationState:
    if policy.revocation is RevocationPolicy.IGNORE:
        return RevocationState.NOT_CHECKED
    source = resolvers.revocations
    state = RevocationState.UNKNOWN if source is None else source.revocation(attestation, key, now)
    if state is RevocationState.REVOKED:
        reasons.append(Reason("authority-key-revoked", "the authority's key is revoked"))
    elif state is not RevocationState.VALID and policy.revocation is RevocationPolicy.REJECT_REVOKED:
        # Whoever can silence a source must not thereby turn `revoked` into accepted.
        refused = policy.rules.refuse_unknown_revocation and source is not None
        found = reasons if refused else observations
        found.append(Reason("revocation-unknown", "no source says whether the authority's key is revoked"))
    if state is not RevocationState.VALID and policy.revocation is RevocationPolicy.REQUIRE_VALID:
        reasons.append(
            Reason("revocation-not-valid", "no source says that the authority's key is still valid")
        )
    return state
