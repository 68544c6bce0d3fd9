"""Publishing an evidence package: it is read first, placed, and described by what a dispute names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from aioum.client.publication.cid import Cid
from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import AioumError, InvalidInput
from aioum.core.evidence import MAX_PACKAGE_BYTES
from aioum.core.evidence_reading import read_package
from aioum.core.hashing import keccak256
from aioum.core.types import Bytes32

MAX_EVIDENCE_URI_BYTES: Final = 8_192
"""Longest URI that `DisputeManager` takes (its MAX_URI_BYTES)."""


class PublishFailed(AioumError):
    """The package is not published, or not as it should be. Publishing the same bytes again does no harm."""

    default_code = "publish-service-unreachable"


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a publisher put bytes.

    Attributes:
        uri: of the bytes, ASCII.
        cid: on IPFS, else None.
    """

    uri: str
    cid: Cid | None = None


class Publisher(Protocol):
    """A place where evidence is published."""

    async def place(self, data: bytes, evidence_hash: Bytes32) -> Placed:
        """Put bytes where others can get them; when it returns, they are there durably.

        Args:
            data: a package's canonical bytes.
            evidence_hash: their keccak256.

        Raises:
            AioumError: with a code `publish-…`; nothing is there, or the same bytes are.
        """
        ...


@dataclass(frozen=True, slots=True)
class Published:
    """A published package, as `raiseDispute` and `respond` name it.

    Attributes:
        uri: evidenceURI.
        evidence_hash: keccak256 of the published bytes.
        size_bytes: of the package.
        cid: on IPFS, else None.
    """

    uri: str
    evidence_hash: Bytes32
    size_bytes: int
    cid: Cid | None


async def publish_evidence(
    data: bytes, publisher: Publisher, *, max_bytes: int = MAX_PACKAGE_BYTES
) -> Published:
    """Publish the bytes of an evidence package.

    Args:
        data: as `package_bytes` wrote them.
        publisher: where to.
        max_bytes: most bytes of the package.

    Raises:
        InvalidInput: it is no package: as `parse_package`; or `package-not-canonical`.
        PublishFailed, PolicyRefused, InvalidInput: as the publisher.
    """
    require_publishable(data, max_bytes)
    evidence_hash = Bytes32(keccak256(data))
    placed = await publisher.place(data, evidence_hash)
    return Published(placed.uri, evidence_hash, len(data), placed.cid)


def require_publishable(data: bytes, max_bytes: int) -> None:
    """Check that bytes are an evidence package in its one canonical form.

    Raises:
        InvalidInput: as `publish_evidence`.
    """
    value = parse_json(data, max_bytes=max_bytes)
    read_package(value)
    if canonical_bytes(value) != data:
        raise InvalidInput(
            "the package is not canonical JSON: written anew, it would have another hash",
            code="package-not-canonical",
            hint="publish the file as `aioum evidence build` or `verify-evidence --export` wrote it",
        )


def require_uri_length(uri: str, max_bytes: int = MAX_EVIDENCE_URI_BYTES) -> None:
    """Refuse a URI that a dispute cannot name.

    Raises:
        PublishFailed: `publish-uri-too-long`.
    """
    if len(uri) > max_bytes:
        raise PublishFailed(
            f"the URI would have {len(uri)} bytes, and at most {max_bytes} are taken",
            code="publish-uri-too-long",
            hint="a data URI holds about 6,000 bytes of a package; publish larger ones elsewhere",
        )
