import base64
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError, CanonicalError, InvalidInput
from aioum.trust.attestation import (
    MAX_ATTESTATION_BYTES,
    MAX_CERTIFICATE_BYTES,
    MAX_CHAIN_CERTIFICATES,
    MAX_IDENTIFIER_BYTES,
    MAX_STATEMENT_BYTES,
    ExternalAttestation,
    ExternalKeyRef,
    Purpose,
)
from aioum.trust.keys import KeyMaterial
from aioum.trust.policy import (
    GAOS_RULES,
    KeyPin,
    KnownKeys,
    Resolvers,
    RevocationPolicy,
    RevocationState,
    TrustPolicy,
)
from aioum.trust.verification import AttestationResult, verify_attestation
from tests.unit.trust.authorities import (
    AUTHORITY,
    KEY,
    NOW,
    OTHER_KEY,
    SCHEMA,
    SUBJECT,
    attested,
    material,
    statement,
)

PINNED = KeyPin(AUTHORITY, frozenset({material().digest_hex}))


class Revocations:
    def __init__(self, state: RevocationState) -> None:
        self.state = state

    def revocation(
        self, attestation: ExternalAttestation, key: KeyMaterial | None, at: datetime
    ) -> RevocationState:
        return self.state


def policy(*pins: KeyPin, **changes: Any) -> TrustPolicy:
    return TrustPolicy(
        **({"pinned_keys": pins or (PINNED,), "accepted_schemas": frozenset({SCHEMA})} | changes)
    )


def judge(
    attestation: ExternalAttestation,
    trust: TrustPolicy,
    *,
    key: KeyMaterial | None = None,
    revocation: RevocationState | None = RevocationState.VALID,
    subject: str = SUBJECT,
) -> AttestationResult:
    return verify_attestation(
        attestation,
        subject_digest=subject,
        policy=trust,
        resolvers=Resolvers(
            keys=KnownKeys({AUTHORITY: key or material()}),
            revocations=None if revocation is None else Revocations(revocation),
        ),
        now=NOW,
    )


def codes(result: AttestationResult) -> list[str]:
    return [reason.code for reason in result.reasons]


def observed(result: AttestationResult) -> list[str]:
    return [reason.code for reason in result.observations]


def test_an_attestation_by_a_key_that_is_pinned_with_its_bytes_is_accepted() -> None:
    result = judge(attested(), policy())
    assert (codes(result), observed(result)) == ([], [])
    assert (result.authority_pinned, result.matched_pin) == (True, "organizer/2026-01")


def test_a_resolver_cannot_put_its_own_key_behind_a_pinned_reference() -> None:
    forged = attested(OTHER_KEY)
    result = judge(forged, policy(), key=material(OTHER_KEY))
    assert result.cryptographically_valid
    assert not result.authority_pinned
    assert codes(result) == ["pinned-key-differs"]


def test_a_pin_without_key_bytes_counts_only_under_the_public_systems_rules() -> None:
    bare = KeyPin(AUTHORITY)
    assert codes(judge(attested(), policy(bare))) == ["pin-without-key-digest"]
    lenient = judge(attested(), policy(bare, rules=GAOS_RULES))
    assert (codes(lenient), observed(lenient)) == ([], ["pin-without-key-digest"])


def test_a_bare_pin_beside_one_with_bytes_does_not_open_the_reference() -> None:
    both = policy(KeyPin(AUTHORITY), PINNED, rules=GAOS_RULES)
    assert codes(judge(attested(OTHER_KEY), both, key=material(OTHER_KEY))) == ["pinned-key-differs"]
    assert codes(judge(attested(), both)) == []


def test_a_rotated_authority_is_pinned_with_both_keys() -> None:
    rotated = KeyPin(AUTHORITY, frozenset({material().digest_hex, material(OTHER_KEY).digest_hex}))
    assert codes(judge(attested(OTHER_KEY), policy(rotated), key=material(OTHER_KEY))) == []


def test_a_pin_with_bytes_pins_nothing_where_no_key_is_found() -> None:
    result = verify_attestation(
        attested(), subject_digest=SUBJECT, policy=policy(), resolvers=Resolvers(), now=NOW
    )
    assert codes(result) == ["authority-key-unavailable", "authority-not-pinned", "revocation-not-valid"]


def test_the_empty_policy_accepts_nothing() -> None:
    assert codes(judge(attested(), TrustPolicy())) == ["schema-not-accepted", "authority-not-pinned"]


def test_a_statement_from_the_future_is_refused_beyond_the_tolerance() -> None:
    soon = (NOW + timedelta(seconds=300)).isoformat()
    late = (NOW + timedelta(seconds=301)).isoformat()
    assert codes(judge(attested(issued_at=soon), policy())) == []
    assert codes(judge(attested(issued_at=late), policy())) == ["issued-in-future"]
    lenient = judge(attested(issued_at=late), policy(rules=GAOS_RULES))
    assert (codes(lenient), observed(lenient)) == ([], ["issued-in-future"])


def test_a_statement_expires_at_the_moment_that_it_names() -> None:
    assert codes(judge(attested(expires_at="2026-07-27T00:00:00Z"), policy())) == ["attestation-expired"]
    assert codes(judge(attested(expires_at="2026-07-27T00:00:00.1+00:00"), policy())) == []
    assert codes(judge(attested(issued_at=None, expires_at=None), policy())) == []


@pytest.mark.parametrize(
    ("asked", "state", "reasons", "observations"),
    [
        ("ignore", RevocationState.REVOKED, [], []),
        ("reject-revoked", RevocationState.VALID, [], []),
        ("reject-revoked", RevocationState.REVOKED, ["authority-key-revoked"], []),
        ("reject-revoked", RevocationState.UNKNOWN, ["revocation-unknown"], []),
        ("reject-revoked", None, [], ["revocation-unknown"]),
        ("require-valid", None, ["revocation-not-valid"], []),
        ("require-valid", RevocationState.UNKNOWN, ["revocation-not-valid"], []),
        ("require-valid", RevocationState.REVOKED, ["authority-key-revoked", "revocation-not-valid"], []),
    ],
)
def test_revocation_counts_as_the_policy_says(
    asked: str, state: RevocationState | None, reasons: list[str], observations: list[str]
) -> None:
    result = judge(attested(), policy(revocation=RevocationPolicy(asked)), revocation=state)
    assert (codes(result), observed(result)) == (reasons, observations)


def test_a_source_that_knows_nothing_is_no_refusal_under_the_public_systems_rules() -> None:
    trust = policy(revocation=RevocationPolicy.REJECT_REVOKED, rules=GAOS_RULES)
    result = judge(attested(), trust, revocation=RevocationState.UNKNOWN)
    assert (codes(result), observed(result)) == ([], ["revocation-unknown"])


@pytest.mark.parametrize(
    "changed",
    [
        {"subject_digest": "cd" * 32},
        {"payload": {"observed": False}},
        {"schema": "aioum.other.v1"},
        {"issued_at": None},
        {"expires_at": "2027-01-01T00:00:01Z"},
        {"authority": ExternalKeyRef("organizer", "2026-01", Purpose.IDENTITY)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_every_signed_member_is_under_the_signature(changed: dict[str, Any]) -> None:
    forged = ExternalAttestation(statement(**changed), attested().signature)
    assert "attestation-signature-invalid" in codes(
        verify_attestation(
            forged,
            subject_digest=SUBJECT,
            policy=policy(),
            resolvers=Resolvers(keys=KnownKeys({forged.statement.authority: material()})),
            now=NOW,
        )
    )


def test_a_signature_of_another_length_or_with_s_above_the_order_is_invalid() -> None:
    good = attested()
    order = 2**252 + 27742317777372353535851937790883648493
    s = int.from_bytes(good.signature[32:], "little") + order
    for signature in (
        good.signature[:63],
        good.signature + b"\0",
        good.signature[:32] + s.to_bytes(32, "little"),
    ):
        result = judge(ExternalAttestation(good.statement, signature), policy())
        assert codes(result) == ["attestation-signature-invalid"]


def test_the_chain_is_not_signed_and_changes_nothing_for_a_pinned_key() -> None:
    with_chain = ExternalAttestation(statement(), attested().signature, (b"no certificate",))
    assert codes(judge(with_chain, policy())) == []


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidInput) as caught:
        verify_attestation(
            attested(),
            subject_digest=SUBJECT,
            policy=policy(),
            resolvers=Resolvers(),
            now=NOW.replace(tzinfo=None),
        )
    assert caught.value.code == "time-without-zone"


def test_an_attestation_survives_writing_and_reading() -> None:
    attestation = attested(chain=(b"one", b"two"))
    assert ExternalAttestation.from_bytes(canonical_bytes(attestation.to_json())) == attestation


MEMBERS: dict[str, Any] = attested(chain=(b"one",)).to_json()


@pytest.mark.parametrize(
    "changed",
    [
        {"unknown": 1},
        {"issuedAt": None},
        {"issuedAt": "2026-07-01"},
        {"issuedAt": "2026-07-01T00:00:00"},
        {"issuedAt": "2026-07-01T25:00:00Z"},
        {"issuedAt": 1},
        {"schema": ""},
        {"schema": "x" * (MAX_IDENTIFIER_BYTES + 1)},
        {"schema": "\ud800"},
        {"subjectDigest": 5},
        {"authority": {"authorityId": "a", "keyId": "k"}},
        {"authority": {"authorityId": "a", "keyId": "k", "purpose": "anything"}},
        {"authority": {"authorityId": "", "keyId": "k", "purpose": "witness"}},
        {"signature": ""},
        {"signature": "AB=="},
        {"signature": "AA"},
        {"signature": "A_A="},
        {"signature": "A" * 4_000},
        {"certificateChain": []},
        {"certificateChain": "AA=="},
        {"certificateChain": ["AA=="] * (MAX_CHAIN_CERTIFICATES + 1)},
        {"certificateChain": [base64.b64encode(bytes(MAX_CERTIFICATE_BYTES + 1)).decode()]},
        {"payload": "x" * MAX_STATEMENT_BYTES},
    ],
    ids=repr,
)
def test_malformed_members_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        ExternalAttestation.from_json(MEMBERS | changed)
    assert caught.value.code == "attestation-invalid"


@pytest.mark.parametrize(
    "missing", ["schema", "authority", "subjectDigest", "algorithm", "payload", "signature"]
)
def test_a_missing_member_is_refused(missing: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ExternalAttestation.from_json({name: value for name, value in MEMBERS.items() if name != missing})
    assert caught.value.code == "attestation-invalid"


def test_a_payload_without_a_canonical_form_is_refused() -> None:
    deep: Any = None
    for _ in range(70):
        deep = [deep]
    for payload, code in ((deep, "json-too-deep"), ({"n": 2**53}, "json-number-unsafe")):
        with pytest.raises(CanonicalError) as caught:
            ExternalAttestation.from_json(MEMBERS | {"payload": payload})
        assert caught.value.code == code


def test_too_many_bytes_are_refused_before_they_are_parsed() -> None:
    with pytest.raises(CanonicalError) as caught:
        ExternalAttestation.from_bytes(b" " * (MAX_ATTESTATION_BYTES + 1))
    assert caught.value.code == "json-too-large"


def test_a_key_reads_alike_from_jwk_and_spki_and_has_the_digest_of_its_spki() -> None:
    x = base64.urlsafe_b64encode(KEY.public_key).rstrip(b"=").decode()
    spki = Ed25519PublicKey.from_public_bytes(KEY.public_key).public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    jwk = KeyMaterial.from_json({"format": "jwk", "key": {"kty": "OKP", "crv": "Ed25519", "x": x}})
    assert jwk == material() == KeyMaterial.from_json(material().to_json())
    assert jwk.spki == spki


JWK: dict[str, Any] = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"format": "pem", "key": ""},
        {"format": "jwk", "key": JWK | {"d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}},
        {"format": "jwk", "key": JWK | {"crv": "X25519"}},
        {"format": "jwk", "key": JWK | {"kty": "EC"}},
        {"format": "jwk", "key": JWK | {"x": JWK["x"] + "="}},
        {"format": "jwk", "key": JWK | {"x": JWK["x"].replace("_", "/")}},
        {"format": "jwk", "key": JWK | {"x": "AA"}},
        {"format": "jwk", "key": JWK | {"x": "AQ" + "A" * 41}},
        {"format": "spki", "key": "AAAA"},
        {"format": "spki", "key": base64.b64encode(bytes(44)).decode()},
        {"format": "spki", "key": 7},
    ],
    ids=repr,
)
def test_a_key_that_is_malformed_private_or_of_small_order_is_refused(value: Any) -> None:
    with pytest.raises(AioumError) as caught:
        KeyMaterial.from_json(value)
    assert caught.value.code == "key-material-invalid"
