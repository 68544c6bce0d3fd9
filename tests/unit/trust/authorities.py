"""A small world of authorities: keys, certificates, attestations. All of it is made on the spot."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from aioum.core.submission.keys import SubmissionKey
from aioum.trust.attestation import ExternalAttestation, ExternalKeyRef, Purpose, Statement
from aioum.trust.keys import KeyMaterial

NOW = datetime(2026, 7, 27, tzinfo=UTC)
DAY = timedelta(days=1)
SUBJECT = "ab" * 32
AUTHORITY = ExternalKeyRef("organizer", "2026-01", Purpose.WITNESS)
SCHEMA = "aioum.witness.v1"

KEY = SubmissionKey(bytes(31) + b"\x01")
OTHER_KEY = SubmissionKey(bytes(31) + b"\x02")

Extensions = Iterable[tuple[x509.ExtensionType, bool]]


def material(key: SubmissionKey = KEY) -> KeyMaterial:
    return KeyMaterial(key.public_key)


def statement(**changes: object) -> Statement:
    members: dict[str, object] = {
        "schema": SCHEMA,
        "authority": AUTHORITY,
        "subject_digest": SUBJECT,
        "payload": {"observed": True},
        "issued_at": "2026-07-01T00:00:00Z",
        "expires_at": "2027-01-01T00:00:00Z",
    }
    return Statement(**(members | changes))  # type: ignore[arg-type]


def attested(
    key: SubmissionKey = KEY, chain: tuple[bytes, ...] = (), **changes: object
) -> ExternalAttestation:
    return ExternalAttestation.sign(statement(**changes), key.sign, chain)


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)


def name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def key_usage(*, signs: bool = False, certifies: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=certifies,
        crl_sign=certifies,
        encipher_only=False,
        decipher_only=False,
    )


CaKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


class Authority:
    """A certificate authority, a root unless it was issued by another."""

    def __init__(
        self,
        common: str = "root",
        *,
        key: CaKey | None = None,
        issuer: "Authority | None" = None,
        path_length: int | None = None,
        is_ca: bool = True,
        extensions: Extensions = (),
        before: datetime = NOW - 100 * DAY,
        after: datetime = NOW + 100 * DAY,
    ) -> None:
        self.key: CaKey = key or ec.generate_private_key(ec.SECP256R1())
        self.common = common
        usual: Extensions = (
            (x509.BasicConstraints(is_ca, path_length if is_ca else None), True),
            (key_usage(certifies=is_ca, signs=not is_ca), True),
        )
        signer = issuer or self
        self.certificate = signer.issue(
            common, self.key.public_key(), (*usual, *extensions), before=before, after=after
        )

    def issue(
        self,
        common: str,
        public_key: object,
        extensions: Extensions,
        *,
        before: datetime = NOW - 10 * DAY,
        after: datetime = NOW + 10 * DAY,
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(common))
            .issuer_name(name(self.common))
            .public_key(public_key)  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(before)
            .not_valid_after(after)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        algorithm = None if isinstance(self.key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
        return builder.sign(self.key, algorithm)

    def leaf(
        self,
        common: str = AUTHORITY.authority_id,
        *,
        key: SubmissionKey = KEY,
        extensions: Extensions = (),
        usual: bool = True,
        before: datetime = NOW - 10 * DAY,
        after: datetime = NOW + 10 * DAY,
    ) -> x509.Certificate:
        """A certificate for an authority's Ed25519 key."""
        own: Extensions = (
            ((x509.BasicConstraints(False, None), True), (key_usage(signs=True), True)) if usual else ()
        )
        public = ed25519.Ed25519PublicKey.from_public_bytes(key.public_key)
        return self.issue(common, public, (*own, *extensions), before=before, after=after)

    def revoking(
        self, *certificates: x509.Certificate, before: datetime = NOW - DAY, after: datetime = NOW + DAY
    ) -> x509.CertificateRevocationListBuilder:
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(name(self.common))
            .last_update(before)
            .next_update(after)
        )
        for certificate in certificates:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(certificate.serial_number)
                .revocation_date(before)
                .build()
            )
        return builder

    def revocation_list(
        self, *certificates: x509.Certificate, before: datetime = NOW - DAY, after: datetime = NOW + DAY
    ) -> x509.CertificateRevocationList:
        return self.revoking(*certificates, before=before, after=after).sign(self.key, hashes.SHA256())
