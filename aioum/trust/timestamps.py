"""RFC 3161 timestamps: a pinned authority's word that a digest existed at a time.

Reading tokens and checking their signatures is left to `rfc3161-client` and the OpenSSL inside it. What they
leave to the caller is done here: the digest's algorithm, which certificate the signer meant, and a path to a
pinned root by the same rules as for attestations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

import rfc3161_client as tsp
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, InvalidInput, SignatureInvalid
from aioum.trust.certificates import Usages, certificate_digest, load_certificate, validate_path
from aioum.trust.claims import Claim, ClaimFinding, ClaimSource
from aioum.trust.cms import HASHES, SignerIdentity, as_response, signer_of_token
from aioum.trust.facts import FactState, Reason
from aioum.trust.verification import require_zone

MAX_TIMESTAMP_BYTES: Final = 65_536
"""Most bytes of a response or token."""

MAX_TOKEN_CERTIFICATES: Final = 8


@dataclass(frozen=True, slots=True)
class TimestampTrust:
    """Whose timestamps a caller believes. Without roots it believes nobody.

    Attributes:
        roots: trusted root certificates.
        certificates: the authorities' and intermediate certificates in hand, for tokens that leave them out;
            untrusted by themselves.
        signer_digests: hex SHA-256 of the DER of the only signing certificates that count; None: any under a
            root.
        policies: dotted identifiers of the only policies that count; None: any.
        tolerance_seconds: how far an authority's clock may be ahead.
    """

    roots: tuple[x509.Certificate, ...] = ()
    certificates: tuple[x509.Certificate, ...] = ()
    signer_digests: frozenset[str] | None = None
    policies: frozenset[str] | None = None
    tolerance_seconds: int = 300


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A timestamp that was verified.

    Attributes:
        time: the digest existed no later than this; UTC.
        accuracy: the authority's own bound on its error, or None where it states none.
        authority: the signing certificate's subject (RFC 4514).
        signer_digest: hex SHA-256 of that certificate.
        root_digest: hex SHA-256 of the root it leads to.
        policy: dotted identifier of the authority's policy.
        observations: `signer-expired-since`: the signer's certificate was valid then and is not now, so
            whoever got hold of its key could have dated this back.
    """

    time: datetime
    accuracy: timedelta | None
    authority: str
    signer_digest: str
    root_digest: str
    policy: str
    serial_number: int
    observations: tuple[Reason, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """The facts, for a report."""
        return {
            "time": self.time.isoformat(),
            "accuracySeconds": None if self.accuracy is None else self.accuracy.total_seconds(),
            "authority": self.authority,
            "signerDigest": self.signer_digest,
            "rootDigest": self.root_digest,
            "policy": self.policy,
            "serialNumber": str(self.serial_number),
        }


def verify_timestamp(
    data: bytes,
    *,
    digest: bytes,
    trust: TimestampTrust,
    now: datetime,
    algorithm: str = "sha256",
    nonce: int | None = None,
) -> Timestamp:
    """Verify a timestamp over a digest.

    Args:
        data: DER of a TimeStampResp, or of its token alone; at most MAX_TIMESTAMP_BYTES.
        digest: what was to be stamped, computed by the caller.
        trust: the caller's pins.
        now: with a time zone; nothing is stamped later than it.
        algorithm: the digest's, by hashlib's name: sha256, sha384 or sha512.
        nonce: of the caller's own request, or None where it was somebody else's.

    Raises:
        InvalidInput: `timestamp-too-large`, `timestamp-malformed`, `certificate-malformed` or
            `time-without-zone`.
        SignatureInvalid: `timestamp-not-granted`, `timestamp-imprint-differs`, `timestamp-nonce-differs`,
            `timestamp-policy-not-accepted`, `timestamp-in-future`, `timestamp-attributes-invalid`,
            `timestamp-signer-unknown`, `timestamp-signer-not-pinned`, `timestamp-usage-invalid`,
            `certificate-not-current`, `certificate-path-invalid`, `timestamp-signature-invalid`.
    """
    require_zone(now)
    response = _read(data)
    info = response.tst_info
    imprint = info.message_imprint
    if HASHES.get(imprint.hash_algorithm.dotted_string) != algorithm or imprint.message != digest:
        raise _refused("imprint-differs", "it is about another digest")
    if nonce is not None and info.nonce != nonce:
        raise _refused("nonce-differs", "it answers another request")
    policy = info.policy.dotted_string
    if trust.policies is not None and policy not in trust.policies:
        raise _refused("policy-not-accepted", f"policy {policy:.100} is not accepted")
    if info.gen_time - now > timedelta(seconds=trust.tolerance_seconds):
        raise _refused("in-future", f"it says {info.gen_time.isoformat()}, which is after now")

    shown = _certificates(response)
    signer = _find_signer(signer_of_token(response.time_stamp_token()), (*shown, *trust.certificates))
    if trust.signer_digests is not None and certificate_digest(signer) not in trust.signer_digests:
        raise _refused("signer-not-pinned", "another certificate signed than those that are pinned")
    _require_timestamping(signer)
    # Before anything that was shown is handed on as trusted, its path to a pinned root stands.
    path = validate_path(
        signer,
        (*shown, *trust.certificates),
        trust.roots,
        at=info.gen_time,
        require_usages=_require_timestamping_issuer,
    )
    _check_signature(response, digest, path)
    return Timestamp(
        time=info.gen_time,
        accuracy=_accuracy(info),
        authority=signer.subject.rfc4514_string(),
        signer_digest=certificate_digest(signer),
        root_digest=certificate_digest(path[-1]),
        policy=policy,
        serial_number=info.serial_number,
        observations=_observations(signer, now),
    )


def timestamp_claim(
    data: bytes | None,
    *,
    digest: bytes,
    trust: TimestampTrust,
    now: datetime,
    algorithm: str = "sha256",
    nonce: int | None = None,
) -> ClaimFinding:
    """The claim that a digest existed at a time; as `verify_timestamp`. No data: nothing was shown."""
    if data is None:
        return ClaimFinding(Claim.TIME, ClaimSource.TIMESTAMP, FactState.NOT_OBSERVED)
    try:
        stamp = verify_timestamp(data, digest=digest, trust=trust, now=now, algorithm=algorithm, nonce=nonce)
    except AioumError as error:
        state = FactState.UNVERIFIED if error.code in _UNDECIDED else FactState.FAILED
        reasons = (Reason(error.code, str(error)),)
        return ClaimFinding(Claim.TIME, ClaimSource.TIMESTAMP, state, reasons=reasons)
    return ClaimFinding(
        Claim.TIME,
        ClaimSource.TIMESTAMP,
        FactState.VERIFIED,
        observations=stamp.observations,
        evidence=tuple(stamp.to_json().items()),
    )


_UNDECIDED: Final = frozenset(
    {
        "certificate-path-invalid",
        "timestamp-policy-not-accepted",
        "timestamp-signer-not-pinned",
        "timestamp-signer-unknown",
    }
)


def _read(data: bytes) -> tsp.TimeStampResponse:
    if len(data) > MAX_TIMESTAMP_BYTES:
        raise InvalidInput(
            f"a timestamp of {len(data)} bytes, at most {MAX_TIMESTAMP_BYTES} are taken",
            code="timestamp-too-large",
        )
    try:
        response = tsp.decode_timestamp_response(as_response(data))
        if response.status == tsp.PKIStatus.GRANTED:
            # Touched here, because a malformed token shows only when it is asked for.
            _ = response.tst_info, response.signed_data
            return response
    except ValueError as error:
        raise InvalidInput("not a timestamp response or token in DER", code="timestamp-malformed") from error
    raise _refused("not-granted", f"the authority answered with status {response.status}")


def _certificates(response: tsp.TimeStampResponse) -> tuple[x509.Certificate, ...]:
    try:
        ders = response.signed_data.certificates
    except ValueError as error:
        raise InvalidInput("the token holds malformed certificates", code="timestamp-malformed") from error
    if len(ders) > MAX_TOKEN_CERTIFICATES:
        raise InvalidInput(
            f"the token holds {len(ders)} certificates, at most {MAX_TOKEN_CERTIFICATES} are taken",
            code="timestamp-malformed",
        )
    return tuple(load_certificate(der) for der in sorted(ders))


def _find_signer(identity: SignerIdentity, certificates: Sequence[x509.Certificate]) -> x509.Certificate:
    for certificate in certificates:
        if identity.names(certificate.public_bytes(Encoding.DER)):
            return certificate
    raise _refused("signer-unknown", "the signer's certificate is neither in the token nor in hand")


def _require_timestamping(signer: x509.Certificate) -> None:
    try:
        usage = signer.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except (x509.ExtensionNotFound, ValueError):
        usage = None
    # RFC 3161, 2.3: this one purpose, and critical.
    if usage is None or not usage.critical or list(usage.value) != [ExtendedKeyUsageOID.TIME_STAMPING]:
        raise _refused("usage-invalid", "the signer's certificate is not for timestamps alone")


def _require_timestamping_issuer(usages: Usages) -> None:
    accepted = {ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    if usages is not None and accepted.isdisjoint(usages):
        raise ValueError("a certificate is limited to other usages")


def _check_signature(
    response: tsp.TimeStampResponse, digest: bytes, path: Sequence[x509.Certificate]
) -> None:
    signer, *intermediates, root = path
    verifier = tsp.VerifierBuilder(tsa_certificate=signer, intermediates=intermediates, roots=[root]).build()
    try:
        verifier.verify(response, digest)
    except (tsp.VerificationError, ValueError) as error:
        raise _refused("signature-invalid", str(error)) from error


def _accuracy(info: tsp.TimeStampTokenInfo) -> timedelta | None:
    # The library types it as present; an authority may leave it out.
    stated = cast("tsp.Accuracy | None", info.accuracy)
    if stated is None:
        return None
    return timedelta(
        seconds=stated.seconds or 0, milliseconds=stated.millis or 0, microseconds=stated.micros or 0
    )


def _observations(signer: x509.Certificate, now: datetime) -> tuple[Reason, ...]:
    if now <= signer.not_valid_after_utc:
        return ()
    until = signer.not_valid_after_utc.isoformat()
    return (Reason("signer-expired-since", f"the signer's certificate was valid until {until}"),)


def _refused(code: str, why: str) -> SignatureInvalid:
    return SignatureInvalid(f"the timestamp is not good: {why}", code=f"timestamp-{code}")
