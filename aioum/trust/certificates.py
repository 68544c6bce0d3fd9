"""X.509 paths from a signer's certificate to a root that the caller pinned.

Paths are built and signatures, names, lengths and name constraints are checked by `cryptography`'s verifier
(RFC 5280): certificate authorities with P-256, P-384, P-521 or RSA keys of at least 2,048 bits; a leaf may
have any key. This module adds what that verifier leaves to its caller: what a leaf is for, and whom it names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import (
    Criticality,
    ExtensionPolicy,
    Policy,
    PolicyBuilder,
    Store,
    VerificationError,
)

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.trust.attestation import MAX_CERTIFICATE_BYTES, MAX_CHAIN_CERTIFICATES, ExternalAttestation
from aioum.trust.facts import Reason
from aioum.trust.keys import KeyMaterial
from aioum.trust.policy import PathFinding

MAX_INTERMEDIATES: Final = MAX_CHAIN_CERTIFICATES - 2
"""Most certificate authorities between a leaf and its root."""

Usages: TypeAlias = "x509.ExtendedKeyUsage | None"


@dataclass(frozen=True, slots=True)
class CertificatePaths:
    """A path resolver over the chain that an attestation carries and roots in hand.

    A chain may show its root; that root counts only by its digest, which the caller pinned. The leaf must
    hold the very key that signed, be no certificate authority, be allowed to sign, and name the authority:
    by a URI, DNS name or e-mail address equal to its `authorityId`, or, where it has no alternative names, by
    its only common name. Below an issuer with name constraints only a kind of name counts that they speak of:
    else the issuer would name whom it likes in another kind.

    Attributes:
        roots: root certificates that chains may leave out.
        usages: extended key usages that a leaf, and an issuer above it, may be limited to; one without that
            extension is not limited.
    """

    roots: tuple[x509.Certificate, ...] = ()
    usages: frozenset[x509.ObjectIdentifier] = frozenset()

    def path(
        self, attestation: ExternalAttestation, key: KeyMaterial | None, roots: frozenset[str], at: datetime
    ) -> PathFinding | None:
        """Judge the attestation's chain; None where it carries none. Never raises for what a chain holds."""
        if not attestation.certificate_chain:
            return None
        try:
            chain = self.certificates(attestation, key, roots, at)
        except (InvalidInput, SignatureInvalid) as error:
            return PathFinding(False, reasons=(Reason(error.code, str(error)),))
        return PathFinding(True, root_digest=certificate_digest(chain[-1]))

    def certificates(
        self, attestation: ExternalAttestation, key: KeyMaterial | None, roots: frozenset[str], at: datetime
    ) -> Sequence[x509.Certificate]:
        """The path, leaf first, root last.

        Raises:
            InvalidInput: `certificate-malformed`.
            SignatureInvalid: `certificate-key-differs`, `certificate-names-another`,
                `certificate-not-current`, `certificate-path-invalid`.
        """
        leaf, *others = map(load_certificate, attestation.certificate_chain)
        if key is None or _key_of(leaf) != key:
            raise SignatureInvalid(
                "the first certificate does not hold the key that signed", code="certificate-key-differs"
            )
        authority = attestation.statement.authority.authority_id
        if authority not in _names(leaf):
            raise SignatureInvalid(
                f"the first certificate does not name {authority:.100}", code="certificate-names-another"
            )
        anchors = [c for c in (*self.roots, *others) if certificate_digest(c) in roots]
        path = validate_path(leaf, others, anchors, at=at, require_usages=self._require_usages)
        for issuer in path[1:]:
            if authority not in _names(leaf, _constrained_kinds(issuer)):
                raise _no_path("an issuer constrains names, and not of the kind that names the authority")
        return path

    def _require_usages(self, usages: Usages) -> None:
        allowed = self.usages | {ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
        if usages is not None and allowed.isdisjoint(usages):
            raise ValueError("a certificate is limited to other usages")


def validate_path(
    leaf: x509.Certificate,
    intermediates: Sequence[x509.Certificate],
    roots: Iterable[x509.Certificate],
    *,
    at: datetime,
    require_usages: Callable[[Usages], None],
) -> Sequence[x509.Certificate]:
    """Build a path from a leaf to one of the roots, all of it valid at one moment.

    Args:
        leaf: the signer's certificate.
        intermediates: untrusted helpers, at most MAX_CHAIN_CERTIFICATES.
        roots: trusted by the caller. Their own validity and constraints count too.
        at: with a time zone.
        require_usages: raises ValueError where the extended key usage of the leaf, or of an issuer above it,
            does not fit; None: it has none.

    Returns:
        The path, leaf first, root last; at least two certificates.

    Raises:
        SignatureInvalid: `certificate-not-current` (the leaf), `certificate-path-invalid`.
    """
    if not leaf.not_valid_before_utc <= at <= leaf.not_valid_after_utc:
        raise SignatureInvalid(
            f"the first certificate was not valid at {at.isoformat()}", code="certificate-not-current"
        )
    anchors = list(roots)
    if not anchors:
        raise _no_path("no root in hand has a pinned digest")
    if leaf in anchors:
        # The verifier would take it unseen. A key that is trusted by itself is pinned by its digest.
        raise _no_path("a root signs certificates; it is nobody's leaf")
    if len(intermediates) > MAX_CHAIN_CERTIFICATES:
        raise _no_path(f"{len(intermediates)} certificates, at most {MAX_CHAIN_CERTIFICATES} are looked at")
    verifier = (
        PolicyBuilder()
        .store(Store(anchors))
        .time(at.astimezone(UTC))
        .max_chain_depth(MAX_INTERMEDIATES)
        .extension_policies(
            ca_policy=_authority_policy(require_usages), ee_policy=_leaf_policy(require_usages)
        )
        .build_client_verifier()
    )
    try:
        return verifier.verify(leaf, list(intermediates)).chain
    except (VerificationError, ValueError, UnsupportedAlgorithm) as error:
        # Its text is followed by the certificate, which says nothing new and may be long.
        raise _no_path(str(error).split(" (encountered processing")[0]) from error


def load_certificate(der: bytes) -> x509.Certificate:
    """Read DER of at most MAX_CERTIFICATE_BYTES. Raises InvalidInput `certificate-malformed`."""
    if len(der) > MAX_CERTIFICATE_BYTES:
        raise InvalidInput(
            f"a certificate of {len(der)} bytes, at most {MAX_CERTIFICATE_BYTES} are taken",
            code="certificate-malformed",
        )
    try:
        certificate = x509.load_der_x509_certificate(der)
        # Only now the library reads these, and only now it finds them malformed.
        _ = certificate.subject, certificate.issuer, certificate.extensions
        _ = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    except (
        ValueError,
        x509.InvalidVersion,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise InvalidInput("not a DER certificate", code="certificate-malformed") from error
    if certificate.serial_number <= 0:
        raise InvalidInput("a certificate's serial number is not positive", code="certificate-malformed")
    return certificate


def certificate_digest(certificate: x509.Certificate) -> str:
    """Hex SHA-256 of the certificate's DER: what a caller pins a root by."""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def key_of_certificate(der: bytes) -> KeyMaterial:
    """A certificate's Ed25519 key. Raises InvalidInput `certificate-malformed`, `key-material-invalid`."""
    key = _key_of(load_certificate(der))
    if key is None:
        raise InvalidInput("the certificate holds no Ed25519 key", code="key-material-invalid")
    return key


def _key_of(certificate: x509.Certificate) -> KeyMaterial | None:
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None
    return KeyMaterial(key.public_bytes_raw()) if isinstance(key, Ed25519PublicKey) else None


_NameKinds: TypeAlias = "tuple[type[x509.UniformResourceIdentifier | x509.DNSName | x509.RFC822Name], ...]"
_NAME_KINDS: Final[_NameKinds] = (x509.UniformResourceIdentifier, x509.DNSName, x509.RFC822Name)


def _names(leaf: x509.Certificate, kinds: _NameKinds | None = None) -> set[str]:
    """What a leaf is called, in some kinds of alternative names alone, or in any and by its common name."""
    try:
        alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        if kinds is not None:
            return set()
        common = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return {str(common[0].value)} if len(common) == 1 else set()
    chosen = _NAME_KINDS if kinds is None else kinds
    return {name for kind in chosen for name in alternatives.get_values_for_type(kind)}


def _constrained_kinds(issuer: x509.Certificate) -> _NameKinds | None:
    """The kinds of names that an issuer's constraints speak of; None: it has no constraints."""
    try:
        constraints = issuer.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return None
    subtrees = (*(constraints.permitted_subtrees or ()), *(constraints.excluded_subtrees or ()))
    return tuple(kind for kind in _NAME_KINDS if any(isinstance(subtree, kind) for subtree in subtrees))


def _authority_policy(require_usages: Callable[[Usages], None]) -> ExtensionPolicy:
    def check(_policy: Policy, _issuer: x509.Certificate, usages: Usages) -> None:
        require_usages(usages)

    # The verifier itself refuses critical extensions that no rule names, and keeps path lengths.
    return (
        ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, Criticality.CRITICAL, _require_authority)
        .require_present(x509.KeyUsage, Criticality.AGNOSTIC, _require_certificate_signing)
        .may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, check)
    )


def _leaf_policy(require_usages: Callable[[Usages], None]) -> ExtensionPolicy:
    def check(_policy: Policy, _leaf: x509.Certificate, usages: Usages) -> None:
        require_usages(usages)

    return (
        ExtensionPolicy.permit_all()
        .may_be_present(x509.BasicConstraints, Criticality.AGNOSTIC, _require_no_authority)
        .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _require_signing)
        .may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, check)
    )


def _require_authority(_p: Policy, _c: x509.Certificate, extension: x509.BasicConstraints) -> None:
    if not extension.ca:
        raise ValueError("an issuer is no certificate authority")


def _require_no_authority(_p: Policy, _c: x509.Certificate, extension: x509.BasicConstraints | None) -> None:
    if extension is not None and extension.ca:
        raise ValueError("the leaf is a certificate authority")


def _require_certificate_signing(_p: Policy, _c: x509.Certificate, extension: x509.KeyUsage) -> None:
    if not extension.key_cert_sign:
        raise ValueError("an issuer's key may not sign certificates")


def _require_signing(_p: Policy, _c: x509.Certificate, extension: x509.KeyUsage | None) -> None:
    if extension is not None and not (extension.digital_signature or extension.content_commitment):
        raise ValueError("the leaf's key may not sign")


def _no_path(why: str) -> SignatureInvalid:
    return SignatureInvalid(f"no certificate path: {why}", code="certificate-path-invalid")
