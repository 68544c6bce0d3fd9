import hashlib
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from aioum.core.errors import AioumError
from aioum.trust.certificates import certificate_digest
from aioum.trust.facts import FactState
from aioum.trust.timestamps import (
    MAX_TIMESTAMP_BYTES,
    MAX_TOKEN_CERTIFICATES,
    Timestamp,
    TimestampTrust,
    timestamp_claim,
    verify_timestamp,
)
from tests.unit.trust.authorities import DAY, NOW, Authority, der, key_usage
from tests.unit.trust.timestamp_authority import (
    CONTENT_TYPE,
    DATA,
    DIGEST,
    MESSAGE,
    MESSAGE_DIGEST,
    ONLY_TIMESTAMPS,
    POLICY,
    SHA1,
    SIGNING_CERTIFICATE_V2,
    STAMPED,
    TimestampAuthority,
    Token,
    response,
)

OTHER_DIGEST = hashlib.sha256(b"something else").digest()


def verify(
    token: Token | bytes,
    authority: TimestampAuthority,
    *,
    trust: TimestampTrust | None = None,
    digest: bytes = DIGEST,
    nonce: int | None = 7,
    now: datetime = NOW,
    algorithm: str = "sha256",
) -> Timestamp:
    return verify_timestamp(
        token if isinstance(token, bytes) else response(token),
        digest=digest,
        trust=trust or TimestampTrust(roots=(authority.root.certificate,)),
        now=now,
        nonce=nonce,
        algorithm=algorithm,
    )


def refusal(token: Token | bytes, authority: TimestampAuthority, **arguments: object) -> str:
    with pytest.raises(AioumError) as caught:
        verify(token, authority, **arguments)  # type: ignore[arg-type]
    return caught.value.code


def test_a_good_timestamp_gives_its_time_and_whose_word_it_is() -> None:
    authority = TimestampAuthority()
    certificate = authority.certificate()
    stamp = verify(authority.stamp(certificate=certificate), authority)
    assert (stamp.time, stamp.accuracy, stamp.policy) == (STAMPED, None, POLICY)
    assert stamp.signer_digest == certificate_digest(certificate)
    assert stamp.root_digest == certificate_digest(authority.root.certificate)
    assert stamp.authority == "CN=timestamps"
    assert stamp.observations == ()


def test_a_token_without_its_response_is_read_as_well() -> None:
    authority = TimestampAuthority()
    assert verify(asn1.encode_der(authority.stamp()), authority).time == STAMPED


def test_a_timestamp_of_another_digest_or_algorithm_is_refused() -> None:
    authority = TimestampAuthority()
    token = authority.stamp()
    assert refusal(token, authority, digest=OTHER_DIGEST) == "timestamp-imprint-differs"
    assert refusal(token, authority, algorithm="sha512") == "timestamp-imprint-differs"
    weak = authority.stamp(hashlib.sha1(MESSAGE).digest(), algorithm=SHA1)
    assert (
        refusal(weak, authority, digest=hashlib.sha1(MESSAGE).digest(), algorithm="sha1")
        == "timestamp-imprint-differs"
    )


def test_a_timestamp_for_another_request_is_refused_where_the_caller_knows_its_nonce() -> None:
    authority = TimestampAuthority()
    token = authority.stamp(nonce=8)
    assert refusal(token, authority) == "timestamp-nonce-differs"
    assert refusal(authority.stamp(nonce=None), authority) == "timestamp-nonce-differs"
    assert verify(token, authority, nonce=None).time == STAMPED


# The library warns of serial numbers that aioum refuses.
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_a_timestamp_changed_by_one_bit_is_refused_or_says_the_very_same() -> None:
    authority = TimestampAuthority()
    data = response(authority.stamp())
    good, survivors = verify(data, authority), 0
    for position in range(8 * len(data)):
        changed = bytearray(data)
        changed[position // 8] ^= 1 << position % 8
        try:
            assert verify(bytes(changed), authority) == good
        except AioumError:
            continue
        # Versions and names of algorithms, which no signature covers and nothing relies on.
        survivors += 1
    assert survivors < 200


def test_a_timestamp_under_an_unknown_root_is_refused_even_if_the_token_shows_that_root() -> None:
    authority = TimestampAuthority()
    certificate = authority.certificate()
    token = authority.stamp(certificate=certificate, shown=(certificate, authority.root.certificate))
    other = TimestampTrust(roots=(Authority().certificate,))
    assert refusal(token, authority, trust=other) == "certificate-path-invalid"
    assert refusal(token, authority, trust=TimestampTrust()) == "certificate-path-invalid"


def test_a_self_signed_signer_in_the_token_is_no_anchor() -> None:
    authority = TimestampAuthority(root=Authority("timestamps"))
    own = TimestampAuthority(
        root=Authority("timestamps", key=authority.key, is_ca=False, extensions=ONLY_TIMESTAMPS[2:]),  # type: ignore[index]
        key=authority.key,
    )
    token = own.stamp(certificate=own.root.certificate)
    assert refusal(token, authority) == "certificate-path-invalid"


def test_a_signer_whose_certificate_was_not_valid_when_it_signed_is_refused() -> None:
    expired = TimestampAuthority(after=STAMPED - DAY)
    early = TimestampAuthority(before=STAMPED + timedelta(hours=1))
    assert refusal(expired.stamp(), expired) == "certificate-not-current"
    assert refusal(early.stamp(), early) == "certificate-not-current"


def test_a_signer_that_expired_since_is_accepted_and_the_report_says_so() -> None:
    authority = TimestampAuthority(after=NOW - timedelta(hours=1))
    stamp = verify(authority.stamp(), authority)
    assert [each.code for each in stamp.observations] == ["signer-expired-since"]


@pytest.mark.parametrize(
    "usage",
    [
        (),
        ((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), False),),
        ((x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), True),),
        (
            (
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.CODE_SIGNING]),
                True,
            ),
        ),
    ],
    ids=["none", "not critical", "another", "more than one"],
)
def test_a_signer_that_is_not_for_timestamps_alone_is_refused(usage: tuple) -> None:
    authority = TimestampAuthority(
        extensions=(
            (x509.BasicConstraints(False, None), True),
            (key_usage(signs=True), True),
            *usage,
        )
    )
    assert refusal(authority.stamp(), authority) == "timestamp-usage-invalid"


def test_a_timestamp_from_the_future_is_refused_beyond_the_tolerance() -> None:
    authority = TimestampAuthority()
    assert verify(authority.stamp(time=NOW + timedelta(seconds=300)), authority).time > NOW
    late = authority.stamp(time=NOW + timedelta(seconds=301))
    assert refusal(late, authority) == "timestamp-in-future"


@pytest.mark.parametrize("missing", [CONTENT_TYPE, MESSAGE_DIGEST, SIGNING_CERTIFICATE_V2])
def test_a_missing_or_repeated_signed_attribute_is_refused(missing: str) -> None:
    authority = TimestampAuthority()
    assert refusal(authority.stamp(without=missing), authority) == "timestamp-attributes-invalid"
    assert refusal(authority.stamp(twice=missing), authority) == "timestamp-attributes-invalid"


def test_a_signature_without_attributes_is_refused() -> None:
    authority = TimestampAuthority()
    assert refusal(authority.stamp(no_attributes=True), authority) == "timestamp-attributes-invalid"


def test_a_signature_over_another_content_type_is_refused() -> None:
    authority = TimestampAuthority()
    assert refusal(authority.stamp(signed_type=DATA), authority) == "timestamp-attributes-invalid"
    assert refusal(authority.stamp(content_type=DATA), authority) == "timestamp-malformed"


def test_two_signers_and_weak_digests_are_refused() -> None:
    authority = TimestampAuthority()
    assert refusal(authority.stamp(signers=2), authority) == "timestamp-attributes-invalid"
    assert refusal(authority.stamp(signer_algorithm=SHA1), authority) == "timestamp-attributes-invalid"


def test_a_signer_that_means_another_certificate_is_refused() -> None:
    authority = TimestampAuthority()
    mine, twin = authority.certificate(), authority.certificate()
    other = TimestampAuthority(root=authority.root)
    theirs = other.certificate()
    assert refusal(authority.stamp(certificate=mine, named=twin), authority) == "timestamp-signer-unknown"
    # The other authority's certificate is shown and meant, but its key did not sign.
    stolen = authority.stamp(certificate=mine, named=theirs, shown=(mine, theirs))
    assert refusal(stolen, authority) == "timestamp-signature-invalid"


def test_a_certificate_named_by_sha1_is_still_found() -> None:
    authority = TimestampAuthority()
    assert verify(authority.stamp(old_identity=True), authority).time == STAMPED


def test_a_token_without_certificates_needs_the_signers_in_hand() -> None:
    authority = TimestampAuthority()
    certificate = authority.certificate()
    token = authority.stamp(certificate=certificate, shown=())
    assert refusal(token, authority) == "timestamp-signer-unknown"
    trust = TimestampTrust(roots=(authority.root.certificate,), certificates=(certificate,))
    assert verify(token, authority, trust=trust).time == STAMPED


def test_a_signer_below_an_intermediate_authority_is_verified() -> None:
    root = Authority()
    between = Authority("between", issuer=root)
    authority = TimestampAuthority(root=between)
    certificate = authority.certificate()
    trust = TimestampTrust(roots=(root.certificate,))
    token = authority.stamp(certificate=certificate, shown=(certificate, between.certificate))
    assert verify(token, authority, trust=trust).root_digest == certificate_digest(root.certificate)
    alone = authority.stamp(certificate=certificate)
    assert refusal(alone, authority, trust=trust) == "certificate-path-invalid"


@pytest.mark.parametrize(
    "usage, accepted",
    [
        (ExtendedKeyUsageOID.SERVER_AUTH, False),
        (ExtendedKeyUsageOID.TIME_STAMPING, True),
        (ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE, True),
    ],
)
def test_an_intermediate_authority_for_other_purposes_cannot_make_a_timestamping_one(
    usage: x509.ObjectIdentifier, accepted: bool
) -> None:
    root = Authority()
    between = Authority("between", issuer=root, extensions=[(x509.ExtendedKeyUsage([usage]), False)])
    authority = TimestampAuthority(root=between)
    certificate = authority.certificate()
    trust = TimestampTrust(roots=(root.certificate,))
    token = authority.stamp(certificate=certificate, shown=(certificate, between.certificate))
    if accepted:
        assert verify(token, authority, trust=trust).time == STAMPED
    else:
        assert refusal(token, authority, trust=trust) == "certificate-path-invalid"


def test_only_pinned_signers_and_policies_count_where_the_caller_names_some() -> None:
    authority = TimestampAuthority()
    certificate = authority.certificate()
    token = authority.stamp(certificate=certificate)
    roots = (authority.root.certificate,)
    pinned = TimestampTrust(
        roots, signer_digests=frozenset({certificate_digest(certificate)}), policies=frozenset({POLICY})
    )
    assert verify(token, authority, trust=pinned).time == STAMPED
    other_signer = TimestampTrust(roots, signer_digests=frozenset({"00" * 32}))
    assert refusal(token, authority, trust=other_signer) == "timestamp-signer-not-pinned"
    other_policy = TimestampTrust(roots, policies=frozenset({"1.2.3"}))
    assert refusal(token, authority, trust=other_policy) == "timestamp-policy-not-accepted"


def test_a_refusal_by_the_authority_is_no_timestamp() -> None:
    authority = TimestampAuthority()
    assert refusal(response(None, status=2), authority) == "timestamp-not-granted"
    assert refusal(response(authority.stamp(), status=1), authority) == "timestamp-not-granted"
    assert refusal(response(None, status=0), authority) == "timestamp-malformed"


def test_what_is_too_large_or_no_der_is_refused_before_it_is_read() -> None:
    authority = TimestampAuthority()
    data = response(authority.stamp())
    assert refusal(bytes(MAX_TIMESTAMP_BYTES + 1), authority) == "timestamp-too-large"
    for broken in (b"", b"\x30", b"\x30\x80", b"\x30\xff", b"not der", data[:-1], data + b"\x00"):
        assert refusal(broken, authority) == "timestamp-malformed"
    crowd = tuple(authority.certificate() for _ in range(MAX_TOKEN_CERTIFICATES + 1))
    assert refusal(authority.stamp(shown=crowd), authority) == "timestamp-malformed"


def test_the_claim_of_time_has_its_own_state_and_reason() -> None:
    authority = TimestampAuthority()
    trust = TimestampTrust(roots=(authority.root.certificate,))
    data = response(authority.stamp())
    for shown, digest, trusted, state, codes in (
        (data, DIGEST, trust, FactState.VERIFIED, []),
        (data, OTHER_DIGEST, trust, FactState.FAILED, ["timestamp-imprint-differs"]),
        (data, DIGEST, TimestampTrust(), FactState.UNVERIFIED, ["certificate-path-invalid"]),
        (None, DIGEST, trust, FactState.NOT_OBSERVED, []),
    ):
        finding = timestamp_claim(shown, digest=digest, trust=trusted, now=NOW)
        assert (finding.state, [reason.code for reason in finding.reasons]) == (state, codes)
        assert finding.to_json()["claim"] == "time"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the command openssl is not installed")
def test_a_timestamp_made_by_openssl_is_verified(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    root = Authority(before=now - DAY, after=now + DAY)
    authority = TimestampAuthority(root=root, before=now - DAY, after=now + DAY)
    certificate = authority.certificate()
    (tmp_path / "signer.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (tmp_path / "key.pem").write_bytes(
        authority.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (tmp_path / "serial").write_text("01")
    (tmp_path / "message").write_bytes(MESSAGE)
    (tmp_path / "ts.cnf").write_text(
        "[tsa]\nserial=serial\nsigner_cert=signer.pem\nsigner_key=key.pem\nsigner_digest=sha256\n"
        f"default_policy={POLICY}\ndigests=sha256\ness_cert_id_alg=sha256\naccuracy=secs:1,millisecs:500\n"
    )
    for command in (
        "openssl ts -config ts.cnf -query -data message -sha256 -cert -out query",
        "openssl ts -config ts.cnf -section tsa -reply -queryfile query -out response",
    ):
        subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    stamp = verify_timestamp(
        (tmp_path / "response").read_bytes(),
        digest=DIGEST,
        trust=TimestampTrust(roots=(root.certificate,)),
        now=datetime.now(UTC),
    )
    assert abs(stamp.time - now) < timedelta(minutes=5)
    assert stamp.accuracy == timedelta(seconds=1.5)
    assert stamp.signer_digest == certificate_digest(certificate)


def test_der_of_a_certificate_is_what_its_digest_is_over() -> None:
    certificate = Authority().certificate
    assert certificate_digest(certificate) == hashlib.sha256(der(certificate)).hexdigest()
