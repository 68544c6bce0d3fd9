"""The public system's own cases for attestations, under its own rules."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from aioum.trust.attestation import DOMAIN, ExternalAttestation, ExternalKeyRef
from aioum.trust.facts import Reason
from aioum.trust.keys import KeyMaterial
from aioum.trust.policy import (
    GAOS_RULES,
    KeyPin,
    PathFinding,
    Resolvers,
    RevocationPolicy,
    RevocationState,
    TrustPolicy,
    TrustRules,
)
from aioum.trust.verification import AttestationResult, verify_attestation

# Words that occur in one of the public system's texts each, and our code for it.
REASONS = {
    "subject digest": "subject-differs",
    "schema is not": "schema-not-accepted",
    "algorithm is not": "algorithm-not-accepted",
    "unsupported": "algorithm-unsupported",
    "is expired": "attestation-expired",
    "key is unavailable": "authority-key-unavailable",
    "signature is invalid": "attestation-signature-invalid",
    "is not pinned": "authority-not-pinned",
    "is revoked": "authority-key-revoked",
    "no valid revocation": "revocation-not-valid",
    "untrusted issuer": "untrusted-issuer",
}


@dataclass(frozen=True)
class CaseResolver:
    """Answers as a case says, whatever it is asked."""

    answers: dict[str, Any]

    def key(self, authority: ExternalKeyRef) -> KeyMaterial | None:
        return KeyMaterial.from_json(self.answers["key"]) if self.answers["key"] else None

    def path(
        self, attestation: ExternalAttestation, key: KeyMaterial | None, roots: frozenset[str], at: datetime
    ) -> PathFinding | None:
        answer = self.answers["certificatePath"]
        if answer is None:
            return None
        reasons = tuple(Reason(_code(text), text) for text in answer.get("reasons", ()))
        return PathFinding(answer["valid"], answer.get("matchedRootDigest"), reasons)

    def revocation(
        self, attestation: ExternalAttestation, key: KeyMaterial | None, at: datetime
    ) -> RevocationState:
        return RevocationState(self.answers["revocation"])


def _code(text: str) -> str:
    [code] = [code for words, code in REASONS.items() if words in text]
    return code


@pytest.fixture(scope="module")
def document(shared_vectors_dir: Path) -> dict[str, Any]:
    path = shared_vectors_dir / "gaos" / "generated" / "external-attestation.cases.json"
    return json.loads(path.read_text(encoding="utf-8"))


def judge(case: dict[str, Any], rules: TrustRules) -> AttestationResult:
    policy, resolver = case["policy"], CaseResolver(case["resolver"])
    return verify_attestation(
        ExternalAttestation.from_json(case["attestation"]),
        subject_digest=case["expectedSubjectDigest"],
        policy=TrustPolicy(
            pinned_keys=tuple(KeyPin(ExternalKeyRef.from_json(pin)) for pin in policy["pinnedKeys"]),
            pinned_root_digests=frozenset(policy.get("pinnedRootDigests", ())),
            accepted_schemas=frozenset(policy["acceptedSchemas"]),
            accepted_algorithms=frozenset(policy["acceptedAlgorithms"]),
            revocation=RevocationPolicy(policy["revocationPolicy"]),
            rules=rules,
        ),
        resolvers=Resolvers(
            keys=resolver,
            paths=resolver,
            revocations=resolver if case["resolver"]["revocation"] else None,
        ),
        now=datetime.fromisoformat(case["now"]),
    )


def test_signed_bytes_are_those_of_the_public_system(document: dict[str, Any]) -> None:
    attestation = ExternalAttestation.from_json(document["cases"][0]["attestation"])
    assert document["domain"] == DOMAIN
    assert attestation.statement.signed_bytes().hex() == document["preimageHex"]


def test_every_case_gives_the_facts_and_reasons_of_the_public_system(document: dict[str, Any]) -> None:
    assert len(document["cases"]) == 22
    for case in document["cases"]:
        facts = judge(case, GAOS_RULES).to_json()
        del facts["observations"]
        expected = case["expected"] | {"reasons": [_code(text) for text in case["expected"]["reasons"]]}
        assert facts == expected, case["name"]


def test_reading_and_writing_a_case_again_gives_the_same_members(document: dict[str, Any]) -> None:
    for case in document["cases"]:
        assert ExternalAttestation.from_json(case["attestation"]).to_json() == case["attestation"]


def test_own_rules_differ_from_the_public_system_exactly_where_it_is_weak(document: dict[str, Any]) -> None:
    stricter = {}
    for case in document["cases"]:
        ours, theirs = judge(case, TrustRules()), judge(case, GAOS_RULES)
        assert ours.policy_accepted <= theirs.policy_accepted, case["name"]
        if ours.policy_accepted != theirs.policy_accepted:
            stricter[case["name"]] = {reason.code for reason in ours.reasons} - {"pin-without-key-digest"}
    assert stricter == {
        "accepted-pinned-key": set(),
        "accepted-spki": set(),
        "issued-in-future": {"issued-in-future"},
        "revocation-ignored": set(),
        "revocation-unknown-reject-revoked": {"revocation-unknown"},
    }
