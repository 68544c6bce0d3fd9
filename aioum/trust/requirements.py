"""What a manifest asks of outside authorities, and whether shown attestations meet it (SUBMISSIONS 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.trust.attestation import (
    ED25519,
    ExternalAttestation,
    ExternalKeyRef,
    Purpose,
    read_identifier,
    read_purpose,
)
from aioum.trust.claims import Claim, attestation_state
from aioum.trust.facts import FactState, Reason
from aioum.trust.policy import AIOUM_RULES, KeyPin, Resolvers, RevocationPolicy, TrustPolicy, TrustRules
from aioum.trust.verification import AttestationResult, verify_attestation

MAX_REQUIREMENTS: Final = 64
MAX_ATTESTATIONS: Final = 256
MAX_LISTED: Final = 64
"""Most keys, roots, schemas or algorithms that one requirement lists."""

_CODE: Final = "requirement-invalid"
_REQUIRED: Final = {"claim", "purpose", "authorityId", "acceptedSchemas", "required"}
_OPTIONAL: Final = {"keyIds", "pinnedRootDigests", "acceptedAlgorithms", "revocationPolicy"}


@dataclass(frozen=True, slots=True)
class AuthorityRequirement:
    """One authority whose word a manifest asks for.

    Attributes:
        key_ids: the authority's keys that count. None names no key: then only the caller's own pins of this
            authority and the pinned roots anchor an attestation, never what it says of itself.
        required: without it, the artifact is not accepted.
    """

    claim: Claim
    purpose: Purpose
    authority_id: str
    accepted_schemas: tuple[str, ...]
    required: bool
    key_ids: tuple[str, ...] | None = None
    pinned_root_digests: tuple[str, ...] | None = None
    accepted_algorithms: tuple[str, ...] | None = None
    revocation_policy: RevocationPolicy | None = None

    @classmethod
    def from_json(cls, value: JsonValue) -> AuthorityRequirement:
        """Read a requirement; unknown members and explicit nulls are refused.

        Raises:
            InvalidInput: `requirement-invalid`.
        """
        if not isinstance(value, dict) or not _REQUIRED <= value.keys() <= _REQUIRED | _OPTIONAL:
            raise InvalidInput("a requirement lacks members or has unknown ones", code=_CODE)
        required = value["required"]
        if not isinstance(required, bool):
            raise InvalidInput("required must be true or false", code=_CODE)
        try:
            return cls(
                claim=Claim(str(value["claim"])),
                purpose=read_purpose(value["purpose"]),
                authority_id=read_identifier(value["authorityId"], "authorityId"),
                accepted_schemas=_texts(value, "acceptedSchemas"),
                required=required,
                key_ids=_optional_texts(value, "keyIds"),
                pinned_root_digests=_optional_texts(value, "pinnedRootDigests"),
                accepted_algorithms=_optional_texts(value, "acceptedAlgorithms"),
                revocation_policy=RevocationPolicy(str(value["revocationPolicy"]))
                if "revocationPolicy" in value
                else None,
            )
        except (ValueError, InvalidInput) as error:
            raise InvalidInput(f"a requirement is malformed: {error}", code=_CODE) from error

    def to_json(self) -> dict[str, JsonValue]:
        """The members that are present."""
        members: dict[str, JsonValue] = {
            "claim": self.claim.value,
            "purpose": self.purpose.value,
            "authorityId": self.authority_id,
            "acceptedSchemas": list(self.accepted_schemas),
            "required": self.required,
        }
        for name, texts in (
            ("keyIds", self.key_ids),
            ("pinnedRootDigests", self.pinned_root_digests),
            ("acceptedAlgorithms", self.accepted_algorithms),
        ):
            if texts is not None:
                members[name] = list(texts)
        if self.revocation_policy is not None:
            members["revocationPolicy"] = self.revocation_policy.value
        return members

    def policy(self, pins: Iterable[KeyPin], rules: TrustRules) -> TrustPolicy:
        """The requirement as a policy.

        Args:
            pins: the caller's own. Those of this authority and purpose count, so far as `key_ids` lets them.
            rules: under `require_key_digests`, a key id without a pin by the caller anchors nothing.
        """
        own = [
            pin
            for pin in pins
            if (pin.authority.authority_id, pin.authority.purpose) == (self.authority_id, self.purpose)
            and (self.key_ids is None or pin.authority.key_id in self.key_ids)
        ]
        known = {pin.authority.key_id for pin in own}
        named = [
            KeyPin(ExternalKeyRef(self.authority_id, key_id, self.purpose))
            for key_id in self.key_ids or ()
            if key_id not in known
        ]
        return TrustPolicy(
            pinned_keys=(*own, *named),
            pinned_root_digests=frozenset(self.pinned_root_digests or ()),
            accepted_schemas=frozenset(self.accepted_schemas),
            accepted_algorithms=frozenset(self.accepted_algorithms or (ED25519,)),
            revocation=self.revocation_policy or RevocationPolicy.REQUIRE_VALID,
            rules=rules,
        )


@dataclass(frozen=True, slots=True)
class RequirementResult:
    """What became of one requirement.

    Attributes:
        result: the attestation that decided, or None where none was shown.
        reasons: why the state is not `verified`.
    """

    requirement: AuthorityRequirement
    state: FactState
    result: AttestationResult | None
    reasons: tuple[Reason, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether a required claim is not verified."""
        return self.requirement.required and self.state is not FactState.VERIFIED


def evaluate_requirements(
    requirements: Sequence[AuthorityRequirement],
    attestations: Sequence[ExternalAttestation],
    *,
    subject_digest: str,
    pins: Sequence[KeyPin],
    resolvers: Resolvers,
    now: datetime,
    rules: TrustRules = AIOUM_RULES,
) -> tuple[RequirementResult, ...]:
    """Hold shown attestations against requirements; one result each, in order.

    Args:
        requirements: of the manifest that the caller supplied, not of a copy inside the artifact.
        attestations: what the submitter shows.
        subject_digest: computed by the caller.
        pins: the caller's own pins.
        resolvers: the caller's sources.
        now: with a time zone.
        rules: the caller's.

    Raises:
        InvalidInput: `requirements-too-many`, `attestations-too-many`, `time-without-zone`.
    """
    if len(requirements) > MAX_REQUIREMENTS:
        raise InvalidInput(f"at most {MAX_REQUIREMENTS} requirements", code="requirements-too-many")
    if len(attestations) > MAX_ATTESTATIONS:
        raise InvalidInput(f"at most {MAX_ATTESTATIONS} attestations", code="attestations-too-many")

    def evaluate(requirement: AuthorityRequirement) -> RequirementResult:
        policy = requirement.policy(pins, rules)
        results = [
            verify_attestation(
                attestation,
                subject_digest=subject_digest,
                policy=policy,
                resolvers=resolvers,
                now=now,
            )
            for attestation in attestations
            if _answers(attestation, requirement)
        ]
        if not results:
            state = FactState.NOT_OBSERVED if requirement.required else FactState.NOT_REQUIRED
            missing = Reason("attestation-missing", f"nothing shown by {requirement.authority_id:.100}")
            return RequirementResult(requirement, state, None, (missing,))
        # A good attestation is not spoiled by bad ones beside it: anybody can add those.
        best = min(results, key=lambda result: _SEVERITY[attestation_state(result)])
        return RequirementResult(requirement, attestation_state(best), best, best.reasons)

    return tuple(evaluate(requirement) for requirement in requirements)


def claim_state(claim: Claim, results: Iterable[RequirementResult]) -> FactState:
    """One claim's fact: the worst of its required results, else of its optional ones, else not observed."""
    own = [result for result in results if result.requirement.claim is claim]
    counted = [result for result in own if result.requirement.required] or own
    return max(
        (result.state for result in counted), key=_SEVERITY.__getitem__, default=FactState.NOT_OBSERVED
    )


_SEVERITY: Final = {
    FactState.VERIFIED: 0,
    FactState.NOT_REQUIRED: 1,
    FactState.NOT_OBSERVED: 2,
    FactState.UNVERIFIED: 3,
    FactState.FAILED: 4,
}


def _answers(attestation: ExternalAttestation, requirement: AuthorityRequirement) -> bool:
    authority = attestation.statement.authority
    return (authority.authority_id, authority.purpose) == (
        requirement.authority_id,
        requirement.purpose,
    ) and (requirement.key_ids is None or authority.key_id in requirement.key_ids)


def _texts(members: dict[str, JsonValue], name: str) -> tuple[str, ...]:
    texts = members[name]
    if not isinstance(texts, list) or not 0 < len(texts) <= MAX_LISTED:
        raise InvalidInput(f"{name} must list 1 to {MAX_LISTED} texts", code=_CODE)
    return tuple(read_identifier(text, name) for text in texts)


def _optional_texts(members: dict[str, JsonValue], name: str) -> tuple[str, ...] | None:
    return _texts(members, name) if name in members else None
