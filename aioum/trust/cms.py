"""What a timestamp token's signer put under signature, read from its DER (RFC 5652, RFC 5035).

The signature itself is checked elsewhere; this says which certificate the signer meant and what it signed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar

from cryptography import x509
from cryptography.hazmat import asn1

from aioum.core.errors import InvalidInput, SignatureInvalid

_OBJECT_IDENTIFIER_TAG: Final = b"\x06"
_SIGNED_DATA: Final = "1.2.840.113549.1.7.2"
_TIMESTAMP_INFO: Final = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE: Final = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST: Final = "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE: Final = "1.2.840.113549.1.9.16.2.12"
_SIGNING_CERTIFICATE_V2: Final = "1.2.840.113549.1.9.16.2.47"

HASHES: Final = {
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}
"""Accepted digest algorithms: object identifier to hashlib's name."""

T = TypeVar("T")


@asn1.sequence
class _Algorithm:
    oid: x509.ObjectIdentifier
    parameters: asn1.Null | None


@asn1.sequence
class _Attribute:
    oid: x509.ObjectIdentifier
    values: asn1.SetOf[asn1.TLV]


@asn1.sequence
class _SignerInfo:
    version: int
    signer: asn1.TLV
    digest_algorithm: _Algorithm
    signed: Annotated[asn1.SetOf[_Attribute] | None, asn1.Implicit(0)]
    signature_algorithm: asn1.TLV
    signature: bytes
    unsigned: Annotated[asn1.SetOf[_Attribute] | None, asn1.Implicit(1)]


@asn1.sequence
class _Content:
    oid: x509.ObjectIdentifier
    content: Annotated[bytes, asn1.Explicit(0)]


@asn1.sequence
class _SignedData:
    version: int
    digest_algorithms: asn1.SetOf[asn1.TLV]
    content: _Content
    certificates: Annotated[asn1.SetOf[asn1.TLV] | None, asn1.Implicit(0)]
    lists: Annotated[asn1.SetOf[asn1.TLV] | None, asn1.Implicit(1)]
    signers: asn1.SetOf[_SignerInfo]


@asn1.sequence
class _Token:
    oid: x509.ObjectIdentifier
    content: Annotated[_SignedData, asn1.Explicit(0)]


@asn1.sequence
class _Status:
    status: int


@asn1.sequence
class _Response:
    status: _Status
    token: asn1.TLV


@asn1.sequence
class _IssuerSerial:
    issuer: list[asn1.TLV]
    serial: int


@asn1.sequence
class _CertificateId:
    digest: bytes
    issuer_serial: _IssuerSerial | None


@asn1.sequence
class _SigningCertificate:
    certificates: list[_CertificateId]
    policies: list[asn1.TLV] | None


@asn1.sequence
class _CertificateIdV2:
    algorithm: _Algorithm | None
    digest: bytes
    issuer_serial: _IssuerSerial | None


@asn1.sequence
class _SigningCertificateV2:
    certificates: list[_CertificateIdV2]
    policies: list[asn1.TLV] | None


@dataclass(frozen=True, slots=True)
class SignerIdentity:
    """The signed word about who signed.

    Attributes:
        algorithm: hashlib's name of the digest.
        digest: of the signer's whole DER certificate.
    """

    algorithm: str
    digest: bytes

    def names(self, certificate_der: bytes) -> bool:
        """Whether it means this certificate."""
        # SHA-1 names one certificate among those that a path vouches for; it authenticates nothing.
        return hashlib.new(self.algorithm, certificate_der, usedforsecurity=False).digest() == self.digest


def as_response(data: bytes) -> bytes:
    """A timestamp response; a token alone is put into one that grants it.

    Raises:
        InvalidInput: `timestamp-malformed`.
    """
    whole = _decode(asn1.TLV, data)
    # A token starts with an object identifier where a response has a status.
    if bytes(whole.data[:1]) != _OBJECT_IDENTIFIER_TAG:
        return data
    return asn1.encode_der(_Response(status=_Status(status=0), token=whole))


def signer_of_token(token: bytes) -> SignerIdentity:
    """Check the attributes that a timestamp's one signer signed (RFC 3161, 2.4.1; RFC 5816).

    Raises:
        InvalidInput: `timestamp-malformed`.
        SignatureInvalid: `timestamp-attributes-invalid`: not one signer, attributes missing, repeated or of
            other content, or a digest algorithm that is not accepted.
    """
    data = _decode(_Token, token)
    signers = data.content.signers.as_list()
    if data.oid.dotted_string != _SIGNED_DATA or len(signers) != 1:
        raise _refused(f"a token is signed data of one signer, got {len(signers)}")
    [signer] = signers
    if signer.digest_algorithm.oid.dotted_string not in HASHES:
        raise _refused("the signer's digest algorithm is not accepted")
    if signer.signed is None:
        raise _refused("the signer signed no attributes")
    attributes: dict[str, asn1.TLV] = {}
    for attribute in signer.signed.as_list():
        values = attribute.values.as_list()
        if len(values) != 1 or attribute.oid.dotted_string in attributes:
            raise _refused("a signed attribute is repeated or has not one value")
        attributes[attribute.oid.dotted_string] = values[0]
    content = data.content.content
    if content.oid.dotted_string != _TIMESTAMP_INFO:
        raise _refused("the token's content is no timestamp")
    if _parse(attributes, _CONTENT_TYPE, x509.ObjectIdentifier) != content.oid:
        raise _refused("the signed content type is another")
    name = HASHES[signer.digest_algorithm.oid.dotted_string]
    if _parse(attributes, _MESSAGE_DIGEST, bytes) != hashlib.new(name, content.content).digest():
        raise _refused("the signed message digest is another")
    return _identity(attributes)


def _identity(attributes: dict[str, asn1.TLV]) -> SignerIdentity:
    if _SIGNING_CERTIFICATE_V2 in attributes:
        newer = _parse(attributes, _SIGNING_CERTIFICATE_V2, _SigningCertificateV2).certificates
        if newer:
            algorithm = newer[0].algorithm
            name = "sha256" if algorithm is None else HASHES.get(algorithm.oid.dotted_string)
            if name is not None:
                return SignerIdentity(name, newer[0].digest)
    elif _SIGNING_CERTIFICATE in attributes:
        older = _parse(attributes, _SIGNING_CERTIFICATE, _SigningCertificate).certificates
        if older:
            return SignerIdentity("sha1", older[0].digest)
    raise _refused("the signer did not sign which certificate is its own")


def _parse(attributes: dict[str, asn1.TLV], oid: str, kind: type[T]) -> T:
    if oid not in attributes:
        raise _refused(f"the signed attribute {oid} is missing")
    try:
        value: T = attributes[oid].parse(kind)
    except ValueError as error:
        raise _refused(f"the signed attribute {oid} is malformed") from error
    return value


def _decode(kind: type[T], der: bytes) -> T:
    try:
        return asn1.decode_der(kind, der)
    except ValueError as error:
        raise InvalidInput("not a timestamp token in DER", code="timestamp-malformed") from error


def _refused(why: str) -> SignatureInvalid:
    return SignatureInvalid(f"the timestamp is not good: {why}", code="timestamp-attributes-invalid")
