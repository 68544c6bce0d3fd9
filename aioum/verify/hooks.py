"""Attestation verifiers: registered by type, by argument or by entry point (PROTOCOL 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Final, Protocol

from aioum.core.errors import AioumError, ConfigError
from aioum.core.transcript import Entry
from aioum.verify.grounds import Grounds

ENTRY_POINT_GROUP: Final = "aioum.attestation_verifiers"


@dataclass(frozen=True, slots=True)
class Attestation:
    """One attestation of a package, its payload decoded.

    Attributes:
        type: selects the verifier.
        format: defined by the verifier.
        coverage: indexes of the calls that it covers, ascending.
    """

    type: str
    format: str
    payload: bytes
    coverage: tuple[int, ...]
    note: str = ""


class AttestationRejected(AioumError):
    """A verifier's verdict: the attestation does not prove what it claims."""

    default_code = "attestation-rejected"


class AttestationVerifier(Protocol):
    """Checks attestations of one type."""

    async def verify(self, attestation: Attestation, calls: Sequence[Entry], grounds: Grounds) -> str:
        """Return one sentence on what the attestation proves.

        Args:
            attestation: of the type that the verifier is registered for.
            calls: the covered calls.
            grounds: what is fixed about the session; nothing else about it is proven.

        Raises:
            AttestationRejected: it proves nothing, or something else.
        """
        ...


@dataclass(frozen=True, slots=True)
class VerifyHooks:
    """What a caller plugs into the verification."""

    attestation_verifiers: Mapping[str, AttestationVerifier] = field(default_factory=dict)


def installed_hooks() -> VerifyHooks:
    """Hooks from the entry points of installed distributions.

    An entry point's name is the attestation type; it refers to a verifier, or to a class that makes one
    without arguments.

    Raises:
        ConfigError: `attestation-verifier-unusable`, an entry point cannot be loaded.
    """
    verifiers: dict[str, AttestationVerifier] = {}
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            loaded = entry_point.load()
            verifiers[entry_point.name] = loaded() if isinstance(loaded, type) else loaded
        except Exception as error:
            raise ConfigError(
                f"verifier {entry_point.value} of {entry_point.name!r} attestations fails to load: {error}",
                code="attestation-verifier-unusable",
                hint="mend or uninstall the distribution that registers it",
            ) from error
    return VerifyHooks(verifiers)
