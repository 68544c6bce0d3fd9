import hashlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from aioum.trust.attestation import ExternalAttestation
from aioum.trust.certificates import MAX_INTERMEDIATES, CertificatePaths, certificate_digest
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
from aioum.trust.revocations import RevocationLists
from aioum.trust.verification import AttestationResult, verify_attestation
from tests.unit.trust.authorities import (
    AUTHORITY,
    DAY,
    NOW,
    OTHER_KEY,
    SCHEMA,
    SUBJECT,
    Authority,
    CaKey,
    attested,
    der,
    key_usage,
    material,
    name,
)

UNKNOWN_CRITICAL = (
    x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00"),
    True,
)


def judge(
    *chain: x509.Certificate,
    root: x509.Certificate,
    paths: CertificatePaths | None = None,
    key: KeyMaterial | None = None,
    attestation: ExternalAttestation | None = None,
    pins: tuple[KeyPin, ...] = (),
) -> AttestationResult:
    return verify_attestation(
        attestation or attested(chain=tuple(map(der, chain))),
        subject_digest=SUBJECT,
        policy=TrustPolicy(
            pinned_keys=pins,
            pinned_root_digests=frozenset({certificate_digest(root)}),
            accepted_schemas=frozenset({SCHEMA}),
            revocation=RevocationPolicy.IGNORE,
        ),
        resolvers=Resolvers(
            keys=KnownKeys({} if key is None else {AUTHORITY: key}),
            paths=paths or CertificatePaths(roots=(root,)),
        ),
        now=NOW,
    )


def codes(result: AttestationResult) -> list[str]:
    return [reason.code for reason in result.reasons]


@pytest.mark.parametrize(
    "make_key",
    [
        lambda: ec.generate_private_key(ec.SECP256R1()),
        lambda: ec.generate_private_key(ec.SECP384R1()),
        lambda: rsa.generate_private_key(65537, 2048),
    ],
    ids=["P-256", "P-384", "RSA"],
)
def test_an_ed25519_key_under_a_pinned_root_is_anchored(make_key: Callable[[], CaKey]) -> None:
    root = Authority(key=make_key())
    between = Authority("between", key=make_key(), issuer=root, path_length=0)
    result = judge(between.leaf(), between.certificate, root=root.certificate)
    assert codes(result) == []
    assert result.certificate_path_valid
    assert result.matched_pin == certificate_digest(root.certificate)


def test_a_root_may_be_shown_in_the_chain_and_counts_only_by_its_pinned_digest() -> None:
    root, other = Authority(), Authority()
    chain = (root.leaf(), root.certificate)
    assert codes(judge(*chain, root=root.certificate, paths=CertificatePaths())) == []
    refused = judge(*chain, root=other.certificate)
    assert codes(refused) == ["certificate-path-invalid", "authority-not-pinned"]
    assert refused.certificate_path_valid is False
    assert refused.cryptographically_valid


def test_a_root_of_the_same_name_with_another_key_is_another_root() -> None:
    root, twin = Authority(), Authority()
    assert codes(judge(twin.leaf(), root=root.certificate)) == [
        "certificate-path-invalid",
        "authority-not-pinned",
    ]


def test_a_chain_for_another_key_than_the_resolved_one_is_refused() -> None:
    root = Authority()
    result = judge(root.leaf(key=OTHER_KEY), root=root.certificate, key=material())
    assert codes(result) == ["certificate-key-differs", "authority-not-pinned"]


def test_a_certificate_for_another_authority_under_the_same_root_is_refused() -> None:
    root = Authority()
    stranger = root.leaf("stranger")
    assert codes(judge(stranger, root=root.certificate)) == [
        "certificate-names-another",
        "authority-not-pinned",
    ]


@pytest.mark.parametrize(
    ("alternative", "expected"),
    [
        (x509.UniformResourceIdentifier("organizer"), []),
        (x509.DNSName("organizer"), []),
        (x509.RFC822Name("organizer"), []),
        (x509.DNSName("other.example"), ["certificate-names-another", "authority-not-pinned"]),
    ],
    ids=["uri", "dns", "mail", "another name beside the right common name"],
)
def test_alternative_names_decide_where_there_are_any(
    alternative: x509.GeneralName, expected: list[str]
) -> None:
    root = Authority()
    leaf = root.leaf(extensions=[(x509.SubjectAlternativeName([alternative]), False)])
    assert codes(judge(leaf, root=root.certificate)) == expected


def test_a_root_path_is_not_tried_for_a_reference_that_is_pinned() -> None:
    root = Authority()
    pin = KeyPin(AUTHORITY, frozenset({material(OTHER_KEY).digest_hex}))
    result = judge(root.leaf(), root=root.certificate, key=material(), pins=(pin,))
    assert codes(result) == ["pinned-key-differs"]
    assert result.certificate_path_valid is None


def test_a_key_that_only_the_artifact_shows_is_never_taken_for_a_pinned_reference() -> None:
    root = Authority()
    result = verify_attestation(
        attested(chain=(der(root.leaf()),)),
        subject_digest=SUBJECT,
        policy=TrustPolicy(
            pinned_keys=(KeyPin(AUTHORITY),),
            pinned_root_digests=frozenset({certificate_digest(root.certificate)}),
            accepted_schemas=frozenset({SCHEMA}),
            revocation=RevocationPolicy.IGNORE,
            rules=GAOS_RULES,
        ),
        resolvers=Resolvers(paths=CertificatePaths(roots=(root.certificate,))),
        now=NOW,
    )
    assert codes(result) == ["authority-key-unavailable"]


def test_without_pinned_roots_or_a_resolver_no_path_is_tried() -> None:
    root = Authority()
    attestation = attested(chain=(der(root.leaf()), der(root.certificate)))
    policy = TrustPolicy(
        accepted_schemas=frozenset({SCHEMA}),
        pinned_root_digests=frozenset({certificate_digest(root.certificate)}),
        revocation=RevocationPolicy.IGNORE,
    )
    result = verify_attestation(
        attestation,
        subject_digest=SUBJECT,
        policy=policy,
        resolvers=Resolvers(keys=KnownKeys({AUTHORITY: material()})),
        now=NOW,
    )
    assert (codes(result), result.certificate_path_valid) == (["authority-not-pinned"], False)


@pytest.mark.parametrize(
    ("before", "after"),
    [(NOW - 9 * DAY, NOW - DAY), (NOW + DAY, NOW + 9 * DAY)],
    ids=["expired", "not yet valid"],
)
def test_certificates_outside_of_their_time_are_refused(before: object, after: object) -> None:
    root = Authority()
    late = root.leaf(before=before, after=after)  # type: ignore[arg-type]
    assert codes(judge(late, root=root.certificate))[0] == "certificate-not-current"
    between = Authority("between", issuer=root, before=before, after=after)  # type: ignore[arg-type]
    assert codes(judge(between.leaf(), between.certificate, root=root.certificate)) == [
        "certificate-path-invalid",
        "authority-not-pinned",
    ]
    old = Authority(before=before, after=after)  # type: ignore[arg-type]
    assert codes(judge(old.leaf(), root=old.certificate))[0] == "certificate-path-invalid"


def refused_path(*chain: x509.Certificate, root: x509.Certificate) -> bool:
    return codes(judge(*chain, root=root)) == ["certificate-path-invalid", "authority-not-pinned"]


def test_an_issuer_that_is_no_authority_is_refused() -> None:
    root = Authority()
    between = Authority("between", issuer=root, is_ca=False)
    assert refused_path(between.leaf(), between.certificate, root=root.certificate)


def test_an_issuer_without_the_right_to_sign_certificates_is_refused() -> None:
    root = Authority()
    key = ec.generate_private_key(ec.SECP256R1())
    between = Authority("between", key=key)
    weak = root.issue(
        "between",
        key.public_key(),
        [(x509.BasicConstraints(True, None), True), (key_usage(signs=True), True)],
    )
    assert refused_path(between.leaf(), weak, root=root.certificate)


def test_a_path_longer_than_an_issuer_allows_is_refused() -> None:
    root = Authority()
    first = Authority("first", issuer=root, path_length=0)
    second = Authority("second", issuer=first)
    chain = (second.leaf(), second.certificate, first.certificate)
    assert refused_path(*chain, root=root.certificate)


def test_a_path_longer_than_the_limit_is_refused() -> None:
    top = root = Authority()
    chain: list[x509.Certificate] = []
    for number in range(MAX_INTERMEDIATES):
        top = Authority(f"level {number}", issuer=top)
        chain.insert(0, top.certificate)
    assert codes(judge(top.leaf(), *chain, root=root.certificate)) == []
    beyond = Authority("beyond", issuer=top)
    assert refused_path(beyond.leaf(), beyond.certificate, *chain, root=root.certificate)


def test_unknown_critical_extensions_are_refused_anywhere() -> None:
    root = Authority()
    assert refused_path(root.leaf(extensions=[UNKNOWN_CRITICAL]), root=root.certificate)
    between = Authority("between", issuer=root, extensions=[UNKNOWN_CRITICAL])
    assert refused_path(between.leaf(), between.certificate, root=root.certificate)
    harmless = root.leaf(extensions=[(UNKNOWN_CRITICAL[0], False)])
    assert codes(judge(harmless, root=root.certificate)) == []


def test_names_outside_of_an_issuers_constraints_are_refused() -> None:
    root = Authority()
    constraint = x509.NameConstraints([x509.DNSName("inside.example")], None)
    between = Authority("between", issuer=root, extensions=[(constraint, True)])
    outside = between.leaf(extensions=[(x509.SubjectAlternativeName([x509.DNSName("organizer")]), False)])
    assert refused_path(outside, between.certificate, root=root.certificate)


@pytest.mark.parametrize(
    "alternatives",
    [
        (),
        ((x509.SubjectAlternativeName([x509.UniformResourceIdentifier("organizer")]), False),),
        ((x509.SubjectAlternativeName([x509.RFC822Name("organizer@inside.example")]), False),),
    ],
)
def test_an_issuer_with_constraints_cannot_name_an_authority_in_another_kind_of_name(
    alternatives: tuple[tuple[x509.ExtensionType, bool], ...],
) -> None:
    root = Authority()
    for constraint in (
        x509.NameConstraints([x509.DNSName("inside.example")], None),
        x509.NameConstraints(None, [x509.DNSName("organizer")]),
    ):
        between = Authority("between", issuer=root, extensions=[(constraint, True)])
        leaf = between.leaf(extensions=alternatives)
        assert not judge(leaf, between.certificate, root=root.certificate).policy_accepted


def test_an_authority_inside_of_its_issuers_constraints_is_anchored() -> None:
    root = Authority()
    constraint = x509.NameConstraints([x509.DNSName("organizer")], None)
    between = Authority("between", issuer=root, extensions=[(constraint, True)])
    leaf = between.leaf(extensions=[(x509.SubjectAlternativeName([x509.DNSName("organizer")]), False)])
    assert codes(judge(leaf, between.certificate, root=root.certificate)) == []


def test_a_leaf_that_may_not_sign_or_is_an_authority_is_refused() -> None:
    root = Authority()
    mute = root.leaf(usual=False, extensions=[(key_usage(certifies=True), True)])
    assert refused_path(mute, root=root.certificate)
    authority = root.leaf(
        usual=False, extensions=[(x509.BasicConstraints(True, None), True), (key_usage(signs=True), True)]
    )
    assert refused_path(authority, root=root.certificate)
    assert codes(judge(root.leaf(usual=False), root=root.certificate)) == []


def test_a_leaf_limited_to_other_usages_is_refused_unless_the_caller_accepts_them() -> None:
    root = Authority()
    client = root.leaf(extensions=[(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)])
    assert refused_path(client, root=root.certificate)
    accepting = CertificatePaths((root.certificate,), frozenset({ExtendedKeyUsageOID.CLIENT_AUTH}))
    assert codes(judge(client, root=root.certificate, paths=accepting)) == []


def test_an_issuer_limited_to_other_usages_is_refused_unless_the_caller_accepts_them() -> None:
    root = Authority()
    limit = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    between = Authority("between", issuer=root, extensions=[(limit, False)])
    chain = (between.leaf(), between.certificate)
    assert refused_path(*chain, root=root.certificate)
    accepting = CertificatePaths((root.certificate,), frozenset({ExtendedKeyUsageOID.SERVER_AUTH}))
    assert codes(judge(*chain, root=root.certificate, paths=accepting)) == []


def test_issuers_with_weak_or_unsupported_keys_are_refused() -> None:
    for key in (rsa.generate_private_key(65537, 1024), ed25519.Ed25519PrivateKey.generate()):
        root = Authority(key=key)
        assert refused_path(root.leaf(), root=root.certificate)


def test_a_pinned_certificate_that_signed_itself_is_no_path() -> None:
    own = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01")
    root = Authority(AUTHORITY.authority_id, key=own)
    assert refused_path(root.certificate, root=root.certificate)


def test_what_is_no_certificate_is_a_reason_and_no_exception() -> None:
    root = Authority()
    leaf = der(root.leaf())
    usage = der(root.leaf(extensions=[(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), False)]))
    for chain in (
        (b"garbage",),
        (leaf[:-1],),
        (leaf, b"garbage"),
        # A common name that is no UTF-8, and key usage twice.
        (leaf.replace(AUTHORITY.authority_id.encode(), b"\xff" * len(AUTHORITY.authority_id)),),
        (usage.replace(b"\x06\x03\x55\x1d\x25", b"\x06\x03\x55\x1d\x0f"),),
    ):
        result = judge(root=root.certificate, attestation=attested(chain=chain), key=material())
        assert codes(result) == ["certificate-malformed", "authority-not-pinned"]
    empty = judge(root=root.certificate, attestation=attested(), key=material())
    assert codes(empty) == ["authority-not-pinned"]


def test_the_digest_of_a_certificate_is_over_its_der() -> None:
    certificate = Authority().certificate
    assert certificate_digest(certificate) == hashlib.sha256(der(certificate)).hexdigest()


class TestRevocationLists:
    root = Authority()
    between = Authority("between", issuer=root)
    leaf = between.leaf()
    attestation = attested(chain=(der(leaf), der(between.certificate)))

    def state(
        self,
        *lists: x509.CertificateRevocationList,
        attestation: ExternalAttestation | None = None,
        key: KeyMaterial | None = None,
    ) -> RevocationState:
        source = RevocationLists(
            CertificatePaths((self.root.certificate,)),
            frozenset({certificate_digest(self.root.certificate)}),
            lists,
        )
        return source.revocation(attestation or self.attestation, key or material(), NOW)

    def test_lists_that_cover_the_whole_path_and_name_none_of_it_make_it_valid(self) -> None:
        lists = self.root.revocation_list(), self.between.revocation_list(self.root.leaf())
        assert self.state(*lists) is RevocationState.VALID

    def test_a_revoked_leaf_or_issuer_is_revoked_even_if_other_lists_are_missing(self) -> None:
        assert self.state(self.between.revocation_list(self.leaf)) is RevocationState.REVOKED
        assert self.state(self.root.revocation_list(self.between.certificate)) is RevocationState.REVOKED

    def test_a_missing_list_leaves_it_unknown(self) -> None:
        assert self.state() is RevocationState.UNKNOWN
        assert self.state(self.between.revocation_list()) is RevocationState.UNKNOWN

    def test_lists_that_are_outdated_forged_or_partial_do_not_count(self) -> None:
        whole = self.root.revocation_list()
        outdated = self.between.revocation_list(before=NOW - 9 * DAY, after=NOW - timedelta(seconds=1))
        early = self.between.revocation_list(before=NOW + DAY, after=NOW + 9 * DAY)
        forged = Authority("between").revocation_list()
        partial = self.between.revoking().add_extension(x509.DeltaCRLIndicator(1), True)
        delta = partial.sign(self.between.key, hashes.SHA256())
        foreign = Authority("elsewhere").revocation_list()
        for unusable in (outdated, early, forged, delta, foreign):
            assert self.state(whole, unusable) is RevocationState.UNKNOWN

    def test_an_issuer_without_the_right_to_sign_lists_revokes_nothing(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        usage = key_usage(certifies=True)
        signs_no_lists = x509.KeyUsage(
            False, False, False, False, False, usage.key_cert_sign, False, False, False
        )
        certificate = self.root.issue(
            "between", key.public_key(), [(x509.BasicConstraints(True, None), True), (signs_no_lists, True)]
        )
        twin = Authority("between", key=key)
        leaf = twin.leaf()
        attestation = attested(chain=(der(leaf), der(certificate)))
        lists = self.root.revocation_list(), twin.revocation_list(leaf)
        assert self.state(*lists, attestation=attestation) is RevocationState.UNKNOWN

    def test_without_a_path_nothing_is_known(self) -> None:
        lists = self.root.revocation_list(), self.between.revocation_list()
        assert self.state(*lists, attestation=attested()) is RevocationState.UNKNOWN
        assert self.state(*lists, key=material(OTHER_KEY)) is RevocationState.UNKNOWN
        assert name("between") == self.between.certificate.subject
