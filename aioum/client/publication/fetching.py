"""Getting published evidence: bounded, from allowed places alone, and only as the bytes that are named."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

from aioum.client.publication.cid import Cid, parse_cid
from aioum.client.publication.data_uri import data_of
from aioum.client.publication.exchange import (
    Answer,
    ExchangeFailed,
    Reach,
    exchange,
    origin_of,
    require_allowed,
    within,
)
from aioum.client.publication.service import service_url
from aioum.client.publication.unixfs import is_content_of
from aioum.core.errors import AioumError, InvalidInput, PolicyRefused
from aioum.core.evidence import MAX_PACKAGE_BYTES
from aioum.core.hashing import keccak256
from aioum.core.hextext import to_hex
from aioum.core.types import Bytes32

DEFAULT_GATEWAYS: Final = ("https://ipfs.io", "https://dweb.link")
"""Gateways that anybody may ask; what they give is held against the CID."""

SCHEMES: Final = ("https", "http", "ipfs", "file", "data")

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_CODES: Final = {
    "unreachable": "evidence-unreachable",
    "timeout": "evidence-timeout",
    "too-large": "evidence-too-large",
}


class EvidenceUnavailable(AioumError):
    """No evidence was had at a URI, or none that is what the URI or the hash names."""

    default_code = "evidence-unreachable"


@dataclass(frozen=True, slots=True)
class FetchPolicy:
    """Where evidence may come from.

    Attributes:
        reach: times, redirects, addresses.
        gateways: IPFS gateways, asked in this order; chosen by the caller, so they may be in the own network.
        ipfs_api: RPC of a Kubo node, asked before the gateways; None: none is.
        allow_files: also read `file:` URIs. For URIs that a person types, not for the other side's.
    """

    reach: Reach = field(default_factory=Reach)
    gateways: tuple[str, ...] = DEFAULT_GATEWAYS
    ipfs_api: str | None = None
    allow_files: bool = False


@dataclass(frozen=True, slots=True)
class FetchedEvidence:
    """Evidence that was had.

    Attributes:
        data: the bytes.
        evidence_hash: their keccak256.
        source: who gave them: the URI, a gateway or a node.
    """

    data: bytes
    evidence_hash: Bytes32
    source: str


async def fetch_evidence(
    uri: str,
    expected_hash: bytes | None = None,
    *,
    max_bytes: int = MAX_PACKAGE_BYTES,
    policy: FetchPolicy | None = None,
) -> FetchedEvidence:
    """Get the bytes at an `https:`, `http:`, `ipfs:`, `file:` or `data:` URI. They are not judged.

    Args:
        uri: where they are, as a dispute names it.
        expected_hash: their keccak256 as a dispute names it; None: whatever is there (an `ipfs:` URI is held
            against its CID in any case).
        max_bytes: most bytes of them.
        policy: where they may come from; by default public addresses, and no files.

    Raises:
        InvalidInput: `evidence-uri-invalid`, `evidence-scheme-unsupported`, `cid-invalid`, `cid-unsupported`,
            `service-url-invalid`, `ipfs-source-missing`, `file-unusable`.
        PolicyRefused: `plain-http-refused`, `evidence-address-refused`, `evidence-file-refused`.
        EvidenceUnavailable: `evidence-unreachable`, `evidence-timeout`, `evidence-status`,
            `evidence-redirect-refused`, `evidence-too-large`, `evidence-cid-mismatch`,
            `evidence-hash-mismatch`. Where several sources of an `ipfs:` URI failed, the first one's; all are
            in `details`.
    """
    policy = policy or FetchPolicy()
    scheme = uri.partition(":")[0].lower()
    if scheme == "data":
        data, source = data_of(uri), "data:"
        if len(data) > max_bytes:
            raise _too_large("the data URI", max_bytes)
    elif scheme == "file":
        data, source = await asyncio.to_thread(_read_file, uri, max_bytes, policy), uri
    elif scheme == "ipfs":
        data, source = await _from_ipfs(uri, max_bytes, policy)
    elif scheme in ("http", "https"):
        data, source = await _get(uri, max_bytes, policy.reach, trusted=False), uri
    else:
        raise InvalidInput(
            f"evidence is not fetched from {uri!r:.100}",
            code="evidence-scheme-unsupported",
            hint=f"known schemes: {', '.join(SCHEMES)}",
        )
    evidence_hash = Bytes32(keccak256(data))
    if expected_hash is not None and evidence_hash != expected_hash:
        raise EvidenceUnavailable(
            f"what {source:.200} gives has the hash {to_hex(evidence_hash)}, not {to_hex(expected_hash)}",
            code="evidence-hash-mismatch",
            hint="these are not the bytes that were published",
            details={"found": to_hex(evidence_hash), "expected": to_hex(expected_hash)},
        )
    return FetchedEvidence(data, evidence_hash, source)


async def _get(url: str, max_bytes: int, reach: Reach, *, trusted: bool) -> bytes:
    """Read what a URL leads to. A trusted URL's own origin is not checked; what it points to is."""
    start = origin_of(url)
    if start is None:
        raise InvalidInput(f"not a URL: {url!r:.200}", code="evidence-uri-invalid")
    try:
        async with within(reach.timeout_seconds):
            for _ in range(reach.max_redirects + 1):
                origin = origin_of(url)
                if origin is None:
                    raise _redirect_refused(url, "to what is no plain http(s) URL")
                chosen = trusted and origin == start
                if not chosen:
                    require_allowed(origin, reach)
                answer = await exchange("GET", url, reach=reach, max_bytes=max_bytes, trusted=chosen)
                if answer.status not in _REDIRECTS:
                    return _content(answer, url)
                url = urljoin(url, answer.location or "")
    except ExchangeFailed as error:
        raise _failed(url, error) from error
    raise _redirect_refused(url, f"more than {reach.max_redirects} times")


async def _from_ipfs(uri: str, max_bytes: int, policy: FetchPolicy) -> tuple[bytes, str]:
    if not uri[:7].lower() == "ipfs://":
        raise InvalidInput("an IPFS URI is ipfs://CID", code="evidence-uri-invalid")
    cid = parse_cid(uri[7:].removesuffix("/"))
    sources: list[tuple[str, Callable[[], Awaitable[bytes]]]] = []
    if policy.ipfs_api is not None:
        api = service_url(policy.ipfs_api, policy.reach)
        sources.append((api, partial(_cat, api, cid, max_bytes, policy.reach)))
    for gateway in (service_url(text, policy.reach) for text in policy.gateways):
        url = f"{gateway}/ipfs/{cid}"
        sources.append((gateway, partial(_get, url, max_bytes, policy.reach, trusted=True)))
    failures: list[tuple[str, AioumError]] = []
    for name, read in sources:
        try:
            data = await read()
            if await asyncio.to_thread(is_content_of, data, cid):
                return data, name
            raise EvidenceUnavailable(
                f"what {name} gives is not the file {cid}",
                code="evidence-cid-mismatch",
                hint="if it was imported in an unusual layout, fetch the file by other means, and check it "
                "with the evidence hash",
            )
        except (EvidenceUnavailable, PolicyRefused) as error:
            failures.append((name, error))
    if not failures:
        raise InvalidInput(
            "no IPFS gateway or node is named to ask", code="ipfs-source-missing", hint="name a gateway"
        )
    first = failures[0][1]
    first.details["sources"] = [{"source": name, "code": error.code} for name, error in failures]
    raise first


async def _cat(api: str, cid: Cid, max_bytes: int, reach: Reach) -> bytes:
    url = f"{api}/api/v0/cat?arg={cid}&length={max_bytes + 1}"
    try:
        async with within(reach.timeout_seconds):
            return _content(await exchange("POST", url, reach=reach, max_bytes=max_bytes, trusted=True), api)
    except ExchangeFailed as error:
        raise _failed(api, error) from error


def _content(answer: Answer, source: str) -> bytes:
    if answer.status != 200:
        raise EvidenceUnavailable(f"{source} answered with status {answer.status}", code="evidence-status")
    return answer.body


def _read_file(uri: str, max_bytes: int, policy: FetchPolicy) -> bytes:
    if not policy.allow_files:
        raise PolicyRefused(
            "a file URI names a file of whoever reads it, so it is not followed here",
            code="evidence-file-refused",
        )
    try:
        parts = urlsplit(uri)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not parts.path:
            raise ValueError("a file URI is file:///path")
        path = Path(url2pathname(parts.path))
        return _read_regular_file(path, max_bytes)
    except ValueError as error:
        raise InvalidInput(f"{uri!r:.200}: {error}", code="evidence-uri-invalid") from error


def _read_regular_file(path: Path, max_bytes: int) -> bytes:
    """A file's bytes; no device, pipe or folder is read."""
    try:
        # Looked at before it is opened, for opening a device can have effects; and again once it is open.
        _require_regular(path, path.stat())
        with open(path, "rb", opener=_open_without_waiting) as stream:
            _require_regular(path, os.fstat(stream.fileno()))
            data = stream.read(max_bytes + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror or error}", code="file-unusable") from error
    if len(data) > max_bytes:
        raise _too_large(str(path), max_bytes)
    return data


def _require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise InvalidInput(f"{path} is no file", code="file-unusable")


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _too_large(source: str, max_bytes: int) -> EvidenceUnavailable:
    return EvidenceUnavailable(f"{source} has over {max_bytes} bytes", code="evidence-too-large")


def _redirect_refused(url: str, why: str) -> EvidenceUnavailable:
    return EvidenceUnavailable(f"{url} points elsewhere {why}", code="evidence-redirect-refused")


def _failed(source: str, error: ExchangeFailed) -> EvidenceUnavailable:
    return EvidenceUnavailable(f"{source}: {error}", code=_CODES[error.kind])
