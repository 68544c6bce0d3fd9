"""A caller's policy for attestations, and the ports through which it hands in keys, paths and revocations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from aioum.trust.attestation import ED25519, ExternalAttestation, ExternalKeyRef
from aioum.trust.facts import Reason
from aioum.trust.keys import KeyMaterial


class RevocationPolicy(StrEnum):
    """What a policy asks about revocation."""

    IGNORE = "ignore"
    REJECT_REVOKED = "reject-revoked"
    REQUIRE_VALID = "require-valid"


class RevocationState(StrEnum):
    """What is known about the revocation of an authority's key."""

    VALID = "valid"
    REVOKED = "revoked"
    UNKNOWN = "unknown"
    NOT_CHECKED = "not-checked"


@dataclass(frozen=True, slots=True)
class KeyPin:
    """An authority's key that a caller trusts for one purpose.

    Attributes:
        authority: the reference that attestations carry.
        key_digests: hex SHA-256 of the SubjectPublicKeyInfo of each key that may stand behind the reference.
            Empty: the reference alone is pinned, and whatever key the resolver gives is believed.
    """

    authority: ExternalKeyRef
    key_digests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TrustRules:
    """Rules beyond those of the public system; a finding that is not refused is still reported.

    Attributes:
        require_key_digests: a pin must name key bytes, so that no resolver can put its own key behind a
            reference.
        refuse_future: a statement issued after now, by more than the tolerance, is refused.
        refuse_unknown_revocation: under `reject-revoked`, a source of revocations that has no answer is a
            refusal. A caller who named no source at all asked for none; `require-valid` refuses that too.
        tolerance_seconds: how far the authority's clock may be ahead.
    """

    require_key_digests: bool = True
    refuse_future: bool = True
    refuse_unknown_revocation: bool = True
    tolerance_seconds: int = 300


AIOUM_RULES: Final = TrustRules()
GAOS_RULES: Final = TrustRules(
    require_key_digests=False, refuse_future=False, refuse_unknown_revocation=False
)
"""Exactly what the public system accepts."""


@dataclass(frozen=True, slots=True)
class TrustPolicy:
    """What a caller accepts. The empty policy accepts nothing.

    Attributes:
        pinned_keys: keys that are trusted by name and bytes.
        pinned_root_digests: hex SHA-256 of the DER of root certificates; tried only for references without a
            pin.
        accepted_schemas: meanings of payloads that the caller knows.
    """

    pinned_keys: tuple[KeyPin, ...] = ()
    pinned_root_digests: frozenset[str] = frozenset()
    accepted_schemas: frozenset[str] = frozenset()
    accepted_algorithms: frozenset[str] = frozenset({ED25519})
    revocation: RevocationPolicy = RevocationPolicy.REQUIRE_VALID
    rules: TrustRules = AIOUM_RULES

    def pin_of(self, authority: ExternalKeyRef) -> KeyPin | None:
        """The pin of a reference; several for one reference count as one with all their digests."""
        pins = [pin for pin in self.pinned_keys if pin.authority == authority]
        if not pins:
            return None
        # One pin without digests would open the reference to any key; the others' bytes then decide.
        return KeyPin(authority, frozenset().union(*(pin.key_digests for pin in pins)))


@dataclass(frozen=True, slots=True)
class PathFinding:
    """What a path resolver found.

    Attributes:
        valid: a path from the key to a root exists.
        root_digest: hex SHA-256 of that root's DER.
        reasons: why there is none.
    """

    valid: bool
    root_digest: str | None = None
    reasons: tuple[Reason, ...] = ()


class KeyResolver(Protocol):
    """Finds keys by reference, from the caller's own knowledge; it never sees the artifact."""

    def key(self, authority: ExternalKeyRef) -> KeyMaterial | None:
        """The key behind a reference, or None where the caller knows none."""
        ...


class PathResolver(Protocol):
    """Judges certificate paths."""

    def path(
        self, attestation: ExternalAttestation, key: KeyMaterial | None, roots: frozenset[str], at: datetime
    ) -> PathFinding | None:
        """Whether a path leads from this key to a root with one of these digests; None: none is known."""
        ...


class RevocationResolver(Protocol):
    """Knows of revocations."""

    def revocation(
        self, attestation: ExternalAttestation, key: KeyMaterial | None, at: datetime
    ) -> RevocationState:
        """`valid`, `revoked` or `unknown`."""
        ...


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """A key resolver over keys in hand."""

    keys: Mapping[ExternalKeyRef, KeyMaterial] = field(default_factory=dict)

    def key(self, authority: ExternalKeyRef) -> KeyMaterial | None:
        """The key in hand for a reference."""
        return self.keys.get(authority)


@dataclass(frozen=True, slots=True)
class Resolvers:
    """The caller's sources. None: the caller has no such source."""

    keys: KeyResolver = field(default_factory=KnownKeys)
    paths: PathResolver | None = None
    revocations: RevocationResolver | None = None
