"""Revocation lists in hand: whether a path's certificates were revoked, where the lists can say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.trust.attestation import ExternalAttestation
from aioum.trust.certificates import CertificatePaths
from aioum.trust.keys import KeyMaterial
from aioum.trust.policy import RevocationState


@dataclass(frozen=True, slots=True)
class RevocationLists:
    """A revocation resolver for certificates, over full lists (RFC 5280, 5) that the caller fetched.

    Attributes:
        paths: builds the path whose certificates are looked up.
        root_digests: the caller's pinned roots.
        lists: loaded lists; each counts only where the certificate's issuer signed it, while it is current.
    """

    paths: CertificatePaths
    root_digests: frozenset[str]
    lists: tuple[x509.CertificateRevocationList, ...]

    def revocation(
        self, attestation: ExternalAttestation, key: KeyMaterial | None, at: datetime
    ) -> RevocationState:
        """`revoked` if a list says so of a certificate below the root; `valid` if lists cover all of them."""
        if not attestation.certificate_chain:
            return RevocationState.UNKNOWN
        try:
            chain = self.paths.certificates(attestation, key, self.root_digests, at)
        except (InvalidInput, SignatureInvalid):
            return RevocationState.UNKNOWN
        covered = True
        for certificate, issuer in pairwise(chain):
            usable = [listed for listed in self.lists if _is_usable(listed, issuer, at)]
            if any(
                listed.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
                for listed in usable
            ):
                return RevocationState.REVOKED
            covered = covered and bool(usable)
        return RevocationState.VALID if covered else RevocationState.UNKNOWN


def _is_usable(listed: x509.CertificateRevocationList, issuer: x509.Certificate, at: datetime) -> bool:
    if listed.issuer != issuer.subject or listed.next_update_utc is None:
        return False
    if not listed.last_update_utc <= at < listed.next_update_utc:
        return False
    try:
        # A critical extension says that the list is not simply this issuer's: partial, a delta, or indirect.
        if any(extension.critical for extension in listed.extensions):
            return False
        if not issuer.extensions.get_extension_for_class(x509.KeyUsage).value.crl_sign:
            return False
        key = issuer.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
            return False
        return listed.is_signature_valid(key)
    except (ValueError, x509.ExtensionNotFound, UnsupportedAlgorithm, TypeError):
        return False
