"""A small RFC 3161 authority that can also err in every way that a verifier has to notice."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from tests.unit.trust.authorities import DAY, NOW, Authority, Extensions, der, key_usage

SHA1 = "1.3.14.3.2.26"
SHA256 = "2.16.840.1.101.3.4.2.1"
ECDSA_SHA256 = "1.2.840.10045.4.3.2"
SIGNED_DATA = "1.2.840.113549.1.7.2"
DATA = "1.2.840.113549.1.7.1"
TIMESTAMP_INFO = "1.2.840.113549.1.9.16.1.4"
CONTENT_TYPE = "1.2.840.113549.1.9.3"
MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.12"
SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.47"
POLICY = "1.3.6.1.4.1.13762.3"
MESSAGE = b"what was stamped"
DIGEST = hashlib.sha256(MESSAGE).digest()
STAMPED = NOW - DAY

ONLY_TIMESTAMPS: Extensions = (
    (x509.BasicConstraints(False, None), True),
    (key_usage(signs=True), True),
    (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), True),
)


def oid(text: str) -> x509.ObjectIdentifier:
    return x509.ObjectIdentifier(text)


@asn1.sequence
class Algorithm:
    oid: x509.ObjectIdentifier
    parameters: asn1.Null | None


@asn1.sequence
class Imprint:
    algorithm: Algorithm
    digest: bytes


@asn1.sequence
class Info:
    version: int
    policy: x509.ObjectIdentifier
    imprint: Imprint
    serial: int
    time: asn1.GeneralizedTime
    nonce: int | None


@asn1.sequence
class Attribute:
    oid: x509.ObjectIdentifier
    values: asn1.SetOf[asn1.TLV]


@asn1.sequence
class CertificateId:
    digest: bytes


@asn1.sequence
class SigningCertificate:
    certificates: list[CertificateId]


@asn1.sequence
class Attributes:
    values: asn1.SetOf[Attribute]


@asn1.sequence
class Signer:
    issuer: asn1.TLV
    serial: int


@asn1.sequence
class SignerInfo:
    version: int
    signer: Signer
    digest_algorithm: Algorithm
    signed: Annotated[asn1.SetOf[Attribute] | None, asn1.Implicit(0)]
    signature_algorithm: Algorithm
    signature: bytes


@asn1.sequence
class Content:
    oid: x509.ObjectIdentifier
    content: Annotated[bytes, asn1.Explicit(0)]


@asn1.sequence
class SignedData:
    version: int
    digest_algorithms: asn1.SetOf[Algorithm]
    content: Content
    certificates: Annotated[asn1.SetOf[asn1.TLV] | None, asn1.Implicit(0)]
    signers: asn1.SetOf[SignerInfo]


@asn1.sequence
class Token:
    oid: x509.ObjectIdentifier
    content: Annotated[SignedData, asn1.Explicit(0)]


@asn1.sequence
class Status:
    status: int


@asn1.sequence
class Response:
    status: Status
    token: Token | None


def tlv(value: object) -> asn1.TLV:
    return asn1.decode_der(asn1.TLV, asn1.encode_der(value))


def attribute(kind: str, *values: object) -> Attribute:
    return Attribute(oid=oid(kind), values=asn1.SetOf([tlv(value) for value in values]))


def signed_form(attributes: list[Attribute]) -> bytes:
    """The attributes as a plain SET, which is what the signature is over (RFC 5652, 5.4)."""
    wrapped = asn1.encode_der(Attributes(values=asn1.SetOf(attributes)))
    return bytes(asn1.decode_der(asn1.TLV, wrapped).data)


@dataclass(frozen=True)
class TimestampAuthority:
    """Stamps digests. What a test wants wrong is a field that differs from its default."""

    root: Authority = field(default_factory=Authority)
    extensions: Extensions = ONLY_TIMESTAMPS
    before: datetime = NOW - 10 * DAY
    after: datetime = NOW + 10 * DAY
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def certificate(self) -> x509.Certificate:
        return self.root.issue(
            "timestamps", self.key.public_key(), self.extensions, before=self.before, after=self.after
        )

    def stamp(
        self,
        digest: bytes = DIGEST,
        *,
        time: datetime = STAMPED,
        nonce: int | None = 7,
        algorithm: str = SHA256,
        signer_algorithm: str = SHA256,
        certificate: x509.Certificate | None = None,
        named: x509.Certificate | None = None,
        shown: tuple[x509.Certificate, ...] | None = None,
        without: str = "",
        twice: str = "",
        content_type: str = TIMESTAMP_INFO,
        signed_type: str = TIMESTAMP_INFO,
        old_identity: bool = False,
        signers: int = 1,
        no_attributes: bool = False,
    ) -> Token:
        own = certificate or self.certificate()
        info = asn1.encode_der(
            Info(
                version=1,
                policy=oid(POLICY),
                imprint=Imprint(
                    algorithm=Algorithm(oid=oid(algorithm), parameters=asn1.Null()), digest=digest
                ),
                serial=1,
                time=asn1.GeneralizedTime(time),
                nonce=nonce,
            )
        )
        meant = der(named or own)
        identity = (
            attribute(SIGNING_CERTIFICATE, _meaning(hashlib.sha1(meant).digest()))
            if old_identity
            else attribute(SIGNING_CERTIFICATE_V2, _meaning(hashlib.sha256(meant).digest()))
        )
        attributes = [
            each
            for each in (
                attribute(CONTENT_TYPE, oid(signed_type)),
                attribute(MESSAGE_DIGEST, hashlib.sha256(info).digest()),
                identity,
            )
            if each.oid.dotted_string != without
        ]
        attributes += [each for each in attributes if each.oid.dotted_string == twice]
        covered = info if no_attributes else signed_form(attributes)
        signer = SignerInfo(
            version=1,
            signer=Signer(
                issuer=asn1.decode_der(asn1.TLV, own.issuer.public_bytes()), serial=own.serial_number
            ),
            digest_algorithm=Algorithm(oid=oid(signer_algorithm), parameters=asn1.Null()),
            signed=None if no_attributes else asn1.SetOf(attributes),
            signature_algorithm=Algorithm(oid=oid(ECDSA_SHA256), parameters=None),
            signature=self.key.sign(covered, ec.ECDSA(hashes.SHA256())),
        )
        held = sorted(map(der, (own,) if shown is None else shown))
        return Token(
            oid=oid(SIGNED_DATA),
            content=SignedData(
                version=3,
                digest_algorithms=asn1.SetOf([Algorithm(oid=oid(SHA256), parameters=asn1.Null())]),
                content=Content(oid=oid(content_type), content=info),
                certificates=asn1.SetOf([asn1.decode_der(asn1.TLV, each) for each in held]) if held else None,
                signers=asn1.SetOf([signer] * signers),
            ),
        )


def _meaning(digest: bytes) -> SigningCertificate:
    return SigningCertificate(certificates=[CertificateId(digest=digest)])


def response(token: Token | None, status: int = 0) -> bytes:
    return asn1.encode_der(Response(status=Status(status=status), token=token))
