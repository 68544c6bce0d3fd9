from typing import Any

import pytest

from aioum.core.errors import InvalidInput
from aioum.core.types import ChannelId
from aioum.trust.attestation import ExternalAttestation, ExternalKeyRef, Purpose
from aioum.trust.certificates import CertificatePaths, certificate_digest
from aioum.trust.claims import (
    CLAIM_FACTS,
    Claim,
    ClaimSource,
    TailAnchor,
    attestation_claim,
    tail_claim,
)
from aioum.trust.facts import FactState
from aioum.trust.policy import AIOUM_RULES, GAOS_RULES, KeyPin, KnownKeys, Resolvers, TrustRules
from aioum.trust.requirements import (
    MAX_ATTESTATIONS,
    MAX_LISTED,
    MAX_REQUIREMENTS,
    AuthorityRequirement,
    RequirementResult,
    claim_state,
    evaluate_requirements,
)
from tests.unit.trust.authorities import (
    AUTHORITY,
    KEY,
    NOW,
    OTHER_KEY,
    SCHEMA,
    SUBJECT,
    Authority,
    attested,
    der,
    material,
)

PIN = KeyPin(AUTHORITY, frozenset({material().digest_hex}))
REQUIREMENT: dict[str, Any] = {
    "claim": "hidden-test",
    "purpose": "witness",
    "authorityId": "organizer",
    "keyIds": ["2026-01"],
    "acceptedSchemas": [SCHEMA],
    "revocationPolicy": "ignore",
    "required": True,
}


def requirement(**changes: Any) -> AuthorityRequirement:
    members = {name: value for name, value in (REQUIREMENT | changes).items() if value is not ...}
    return AuthorityRequirement.from_json(members)


def evaluate(
    *attestations: ExternalAttestation,
    asked: AuthorityRequirement | None = None,
    pins: tuple[KeyPin, ...] = (PIN,),
    resolvers: Resolvers | None = None,
    rules: TrustRules = AIOUM_RULES,
) -> RequirementResult:
    [result] = evaluate_requirements(
        [asked or requirement()],
        attestations,
        subject_digest=SUBJECT,
        pins=pins,
        resolvers=resolvers or Resolvers(keys=KnownKeys({AUTHORITY: material()})),
        now=NOW,
        rules=rules,
    )
    return result


def codes(result: RequirementResult) -> list[str]:
    return [reason.code for reason in result.reasons]


def test_a_requirement_is_met_by_an_attestation_of_a_key_that_the_caller_pinned() -> None:
    result = evaluate(attested())
    assert (result.state, codes(result), result.blocks) == (FactState.VERIFIED, [], False)


def test_a_requirement_without_key_ids_does_not_pin_the_attestations_own_authority() -> None:
    open_to_all = requirement(keyIds=...)
    for rules in (AIOUM_RULES, GAOS_RULES):
        result = evaluate(attested(), asked=open_to_all, pins=(), rules=rules)
        assert (result.state, codes(result)) == (FactState.UNVERIFIED, ["authority-not-pinned"])
        assert result.blocks
    assert evaluate(attested(), asked=open_to_all).state is FactState.VERIFIED


def test_a_key_id_without_key_bytes_from_the_caller_anchors_only_under_the_public_systems_rules() -> None:
    result = evaluate(attested(), pins=())
    assert (result.state, codes(result)) == (FactState.UNVERIFIED, ["pin-without-key-digest"])
    assert evaluate(attested(), pins=(), rules=GAOS_RULES).state is FactState.VERIFIED


def test_the_callers_pins_of_other_authorities_keys_and_purposes_do_not_count() -> None:
    digests = PIN.key_digests
    others = (
        KeyPin(ExternalKeyRef("somebody", "2026-01", Purpose.WITNESS), digests),
        KeyPin(ExternalKeyRef("organizer", "2026-01", Purpose.IDENTITY), digests),
        KeyPin(ExternalKeyRef("organizer", "2025-01", Purpose.WITNESS), digests),
    )
    assert codes(evaluate(attested(), pins=others)) == ["pin-without-key-digest"]


def test_attestations_by_other_keys_than_those_named_do_not_answer() -> None:
    rotated = ExternalKeyRef("organizer", "2027-01", Purpose.WITNESS)
    stranger = ExternalKeyRef("stranger", "2026-01", Purpose.WITNESS)
    identity = ExternalKeyRef("organizer", "2026-01", Purpose.IDENTITY)
    for authority in (rotated, stranger, identity):
        result = evaluate(attested(authority=authority))
        assert (result.state, codes(result)) == (FactState.NOT_OBSERVED, ["attestation-missing"])
        assert result.blocks


def test_a_requirement_can_name_a_root_instead_of_keys() -> None:
    root = Authority()
    asked = requirement(keyIds=..., pinnedRootDigests=[certificate_digest(root.certificate)])
    resolvers = Resolvers(paths=CertificatePaths((root.certificate,)))
    shown = attested(chain=(der(root.leaf()),))
    assert evaluate(shown, asked=asked, pins=(), resolvers=resolvers).state is FactState.VERIFIED
    other = attested(chain=(der(Authority().leaf()),))
    result = evaluate(other, asked=asked, pins=(), resolvers=resolvers)
    assert (result.state, codes(result)) == (
        FactState.UNVERIFIED,
        ["certificate-path-invalid", "authority-not-pinned"],
    )


def test_revocation_must_be_known_where_a_requirement_does_not_say_otherwise() -> None:
    assert codes(evaluate(attested(), asked=requirement(revocationPolicy=...))) == ["revocation-not-valid"]


def test_a_refuted_attestation_fails_and_a_good_one_beside_it_still_counts() -> None:
    forged = attested(OTHER_KEY)
    assert evaluate(forged).state is FactState.FAILED
    assert evaluate(attested(subject_digest="00" * 32)).state is FactState.FAILED
    assert evaluate(forged, attested()).state is FactState.VERIFIED


def test_an_optional_requirement_never_blocks() -> None:
    optional = requirement(required=False)
    absent = evaluate(asked=optional)
    assert (absent.state, absent.blocks) == (FactState.NOT_REQUIRED, False)
    refuted = evaluate(attested(OTHER_KEY), asked=optional)
    assert (refuted.state, refuted.blocks) == (FactState.FAILED, False)


def test_claims_keep_their_own_facts() -> None:
    results = evaluate_requirements(
        [
            requirement(),
            requirement(claim="identity", purpose="identity"),
            requirement(claim="time", purpose="timestamp", required=False),
            requirement(acceptedSchemas=["another"]),
        ],
        [attested()],
        subject_digest=SUBJECT,
        pins=(PIN,),
        resolvers=Resolvers(keys=KnownKeys({AUTHORITY: material()})),
        now=NOW,
    )
    states = {claim: claim_state(claim, results) for claim in Claim}
    assert states == {
        Claim.HIDDEN_TEST: FactState.UNVERIFIED,
        Claim.IDENTITY: FactState.NOT_OBSERVED,
        Claim.TIME: FactState.NOT_REQUIRED,
        Claim.PUBLICATION: FactState.NOT_OBSERVED,
        Claim.TAIL_ANCHOR: FactState.NOT_OBSERVED,
        Claim.MODEL_IDENTITY: FactState.NOT_OBSERVED,
    }
    assert claim_state(Claim.HIDDEN_TEST, results[:1]) is FactState.VERIFIED
    assert set(CLAIM_FACTS) == set(Claim)


def test_a_requirement_survives_reading_and_writing() -> None:
    full = REQUIREMENT | {"pinnedRootDigests": ["ab"], "acceptedAlgorithms": ["Ed25519"]}
    assert AuthorityRequirement.from_json(full).to_json() == full
    least = requirement(keyIds=..., revocationPolicy=...)
    assert AuthorityRequirement.from_json(least.to_json()) == least


@pytest.mark.parametrize(
    "changed",
    [
        {"unknown": 1},
        {"claim": "honesty"},
        {"claim": ...},
        {"purpose": "anything"},
        {"authorityId": ""},
        {"authorityId": ...},
        {"required": 1},
        {"required": ...},
        {"keyIds": []},
        {"keyIds": None},
        {"keyIds": [1]},
        {"keyIds": ["k"] * (MAX_LISTED + 1)},
        {"acceptedSchemas": []},
        {"acceptedSchemas": ...},
        {"revocationPolicy": "hope"},
    ],
    ids=repr,
)
def test_malformed_requirements_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        requirement(**changed)
    assert caught.value.code == "requirement-invalid"


def test_more_than_can_reasonably_be_asked_or_shown_is_refused() -> None:
    arguments: dict[str, Any] = {
        "subject_digest": SUBJECT,
        "pins": (),
        "resolvers": Resolvers(),
        "now": NOW,
    }
    with pytest.raises(InvalidInput) as caught:
        evaluate_requirements([requirement()] * (MAX_REQUIREMENTS + 1), [], **arguments)
    assert caught.value.code == "requirements-too-many"
    with pytest.raises(InvalidInput) as caught:
        evaluate_requirements([], [attested()] * (MAX_ATTESTATIONS + 1), **arguments)
    assert caught.value.code == "attestations-too-many"


def test_an_attestation_becomes_a_claim_with_its_reasons() -> None:
    result = evaluate(attested(OTHER_KEY)).result
    assert result is not None
    finding = attestation_claim(Claim.PUBLICATION, result)
    assert finding.to_json() == {
        "claim": "publication",
        "source": "external-attestation",
        "state": "failed",
        "reasons": ["attestation-signature-invalid"],
        "observations": [],
        "evidence": {"authority": "organizer/2026-01", "matchedPin": "organizer/2026-01"},
    }


CHANNEL = ChannelId(KEY.public_key)
SESSION = "aioum:0x" + CHANNEL.hex()
ROOT = bytes(range(32))
ANCHOR = TailAnchor.of_session(CHANNEL, root=ROOT, call_count=3, place="eip155:31337 block 9")


@pytest.mark.parametrize(
    ("anchor", "subject", "length", "head", "state", "reasons"),
    [
        (ANCHOR, SESSION, 3, ROOT, FactState.VERIFIED, []),
        (ANCHOR, SESSION, 2, ROOT, FactState.FAILED, ["tail-missing"]),
        (ANCHOR, SESSION, 4, ROOT, FactState.UNVERIFIED, ["tail-not-anchored"]),
        (ANCHOR, SESSION, 3, bytes(32), FactState.FAILED, ["anchor-differs"]),
        (ANCHOR, "aioum:0x00", 3, ROOT, FactState.FAILED, ["anchor-of-another"]),
        (None, SESSION, 3, ROOT, FactState.NOT_OBSERVED, ["no-anchor"]),
    ],
)
def test_an_anchored_session_says_whether_its_tail_is_whole(
    anchor: TailAnchor | None,
    subject: str,
    length: int,
    head: bytes,
    state: FactState,
    reasons: list[str],
) -> None:
    finding = tail_claim(anchor, subject=subject, length=length, head=head)
    assert (finding.state, [reason.code for reason in finding.reasons]) == (state, reasons)
    assert finding.source is ClaimSource.SESSION_ANCHOR
    assert finding.to_json()["claim"] == "tail-anchor"
