"""External attestations: one authority's signed statement about one digest (SUBMISSIONS 3.1)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.core.submission.framing import encode_base64

DOMAIN: Final = "gaos.external-attestation.v1"
ED25519: Final = "Ed25519"

MAX_IDENTIFIER_BYTES: Final = 1_024
"""Most UTF-8 bytes of a schema, an identifier, a digest or an algorithm's name."""

MAX_STATEMENT_BYTES: Final = 65_536
"""Most bytes of a statement's canonical JSON."""

MAX_SIGNATURE_BYTES: Final = 1_024

MAX_CHAIN_CERTIFICATES: Final = 8
MAX_CERTIFICATE_BYTES: Final = 16_384

MAX_ATTESTATION_BYTES: Final = 262_144
"""Most bytes of an attestation's JSON text, chain included."""

_CODE: Final = "attestation-invalid"
_REQUIRED: Final = {"schema", "authority", "subjectDigest", "algorithm", "payload", "signature"}
_OPTIONAL: Final = {"issuedAt", "expiresAt", "certificateChain"}
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


class Purpose(StrEnum):
    """What an authority's key is for; a key pinned for one purpose proves nothing for another."""

    IDENTITY = "identity"
    TIMESTAMP = "timestamp"
    TRANSPARENCY = "transparency"
    WITNESS = "witness"


@dataclass(frozen=True, slots=True)
class ExternalKeyRef:
    """Names a key without showing it.

    Raises:
        InvalidInput: `attestation-invalid`.
    """

    authority_id: str
    key_id: str
    purpose: Purpose

    def __post_init__(self) -> None:
        """Check the names."""
        read_identifier(self.authority_id, "authorityId")
        read_identifier(self.key_id, "keyId")

    @property
    def label(self) -> str:
        """`authorityId/keyId`, for reports."""
        return f"{self.authority_id}/{self.key_id}"

    @classmethod
    def from_json(cls, value: JsonValue) -> ExternalKeyRef:
        """Read exactly the three members. Raises InvalidInput `attestation-invalid`."""
        if not isinstance(value, dict) or value.keys() != {"authorityId", "keyId", "purpose"}:
            raise InvalidInput("an authority has exactly authorityId, keyId and purpose", code=_CODE)
        return cls(
            read_identifier(value["authorityId"], "authorityId"),
            read_identifier(value["keyId"], "keyId"),
            read_purpose(value["purpose"]),
        )

    def to_json(self) -> dict[str, JsonValue]:
        """The three members."""
        return {"authorityId": self.authority_id, "keyId": self.key_id, "purpose": self.purpose.value}


@dataclass(frozen=True, slots=True)
class Statement:
    """What an authority signs.

    Attributes:
        schema: says what the payload means.
        subject_digest: names what the statement is about; compared as text.
        issued_at: RFC 3339 text, kept as it was signed.
        expires_at: likewise.

    Raises:
        InvalidInput: `attestation-invalid`.
        CanonicalError: the payload has no canonical form.
    """

    schema: str
    authority: ExternalKeyRef
    subject_digest: str
    payload: JsonValue
    algorithm: str = ED25519
    issued_at: str | None = None
    expires_at: str | None = None

    def __post_init__(self) -> None:
        """Check every limit, so that nothing is hashed or shown beyond it."""
        read_identifier(self.schema, "schema")
        read_identifier(self.subject_digest, "subjectDigest")
        read_identifier(self.algorithm, "algorithm")
        for name, moment in (("issuedAt", self.issued_at), ("expiresAt", self.expires_at)):
            if moment is not None:
                read_instant(moment, name)
        size = len(canonical_json(self.to_json()))
        if size > MAX_STATEMENT_BYTES:
            raise InvalidInput(
                f"a statement of {size} bytes, at most {MAX_STATEMENT_BYTES} are taken", code=_CODE
            )

    @property
    def issued(self) -> datetime | None:
        """When the authority says it signed."""
        return None if self.issued_at is None else read_instant(self.issued_at, "issuedAt")

    @property
    def expires(self) -> datetime | None:
        """From when on the authority no longer stands by it."""
        return None if self.expires_at is None else read_instant(self.expires_at, "expiresAt")

    def signed_bytes(self) -> bytes:
        """The domain, a line feed, and the canonical JSON without signature and certificate chain."""
        return f"{DOMAIN}\n".encode() + canonical_json(self.to_json())

    def to_json(self) -> dict[str, JsonValue]:
        """The signed members."""
        members: dict[str, JsonValue] = {
            "schema": self.schema,
            "authority": self.authority.to_json(),
            "subjectDigest": self.subject_digest,
            "algorithm": self.algorithm,
            "payload": self.payload,
        }
        if self.issued_at is not None:
            members["issuedAt"] = self.issued_at
        if self.expires_at is not None:
            members["expiresAt"] = self.expires_at
        return members


@dataclass(frozen=True, slots=True)
class ExternalAttestation:
    """A statement and its signature. Reading one checks its form and nothing else.

    Attributes:
        certificate_chain: DER certificates, the signer's first. Unsigned, and never an anchor.
    """

    statement: Statement
    signature: bytes
    certificate_chain: tuple[bytes, ...] = ()

    @classmethod
    def sign(
        cls,
        statement: Statement,
        signer: Callable[[bytes], bytes],
        certificate_chain: tuple[bytes, ...] = (),
    ) -> ExternalAttestation:
        """Have a statement signed; the private key stays with the signer."""
        return cls(statement, signer(statement.signed_bytes()), certificate_chain)

    @classmethod
    def from_bytes(cls, data: bytes) -> ExternalAttestation:
        """Read JSON text of at most MAX_ATTESTATION_BYTES; raises as `from_json` and `parse_json`."""
        return cls.from_json(parse_json(data, max_bytes=MAX_ATTESTATION_BYTES))

    @classmethod
    def from_json(cls, value: JsonValue) -> ExternalAttestation:
        """Read an attestation; unknown members and explicit nulls are refused.

        Raises:
            InvalidInput: `attestation-invalid`.
            CanonicalError: the payload has no canonical form.
        """
        if not isinstance(value, dict) or not _REQUIRED <= value.keys() <= _REQUIRED | _OPTIONAL:
            raise InvalidInput("an attestation lacks members or has unknown ones", code=_CODE)
        statement = Statement(
            schema=read_identifier(value["schema"], "schema"),
            authority=ExternalKeyRef.from_json(value["authority"]),
            subject_digest=read_identifier(value["subjectDigest"], "subjectDigest"),
            payload=value["payload"],
            algorithm=read_identifier(value["algorithm"], "algorithm"),
            issued_at=_moment(value, "issuedAt"),
            expires_at=_moment(value, "expiresAt"),
        )
        signature = _base64(value["signature"], MAX_SIGNATURE_BYTES, "signature")
        return cls(statement, signature, _chain(value))

    def to_json(self) -> dict[str, JsonValue]:
        """The attestation's members."""
        members = self.statement.to_json() | {"signature": encode_base64(self.signature)}
        if self.certificate_chain:
            members["certificateChain"] = [encode_base64(der) for der in self.certificate_chain]
        return members


def read_purpose(value: JsonValue) -> Purpose:
    """Read a purpose. Raises InvalidInput `attestation-invalid`."""
    try:
        return Purpose(str(value))
    except ValueError as error:
        raise InvalidInput(
            f"purpose must be one of {', '.join(Purpose)}, got {value!r:.40}", code=_CODE
        ) from error


def read_instant(value: JsonValue, name: str) -> datetime:
    """Read a moment with its zone (RFC 3339). Raises InvalidInput `attestation-invalid`."""
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass
    raise InvalidInput(f"{name} must be an RFC 3339 time with a zone, got {value!r:.40}", code=_CODE)


def read_identifier(value: JsonValue, name: str) -> str:
    """Read a non-empty text of at most MAX_IDENTIFIER_BYTES. Raises InvalidInput `attestation-invalid`."""
    if isinstance(value, str):
        try:
            if 0 < len(value.encode()) <= MAX_IDENTIFIER_BYTES:
                return value
        except UnicodeEncodeError:
            pass
    raise InvalidInput(
        f"{name} must be a text of 1 to {MAX_IDENTIFIER_BYTES} bytes of UTF-8, got {value!r:.40}", code=_CODE
    )


def _moment(members: dict[str, JsonValue], name: str) -> str | None:
    if name not in members:
        return None
    text = members[name]
    read_instant(text, name)
    return str(text)


def _base64(value: JsonValue, max_bytes: int, name: str) -> bytes:
    try:
        if isinstance(value, str) and 0 < len(value) <= 4 * (max_bytes // 3 + 1):
            data = binascii.a2b_base64(value, strict_mode=True)
            if len(data) <= max_bytes and base64.b64encode(data).decode() == value:
                return data
    except ValueError:
        pass
    raise InvalidInput(f"{name} must be canonical base64 of 1 to {max_bytes} bytes", code=_CODE)


def _chain(members: dict[str, JsonValue]) -> tuple[bytes, ...]:
    if "certificateChain" not in members:
        return ()
    chain = members["certificateChain"]
    if not isinstance(chain, list) or not 0 < len(chain) <= MAX_CHAIN_CERTIFICATES:
        raise InvalidInput(
            f"certificateChain must list 1 to {MAX_CHAIN_CERTIFICATES} certificates", code=_CODE
        )
    return tuple(_base64(der, MAX_CERTIFICATE_BYTES, "a certificate") for der in chain)
