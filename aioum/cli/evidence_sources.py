"""Where the commands read a package: a file, standard input, or a URI that a dispute names."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from aioum.options.common import Command, http_url, with_options

if TYPE_CHECKING:
    from aioum.client.publication import FetchedEvidence
    from aioum.core.evidence_reading import EvidencePackage

_URI: Final = re.compile(r"(data|file|ipfs|https?):|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_NETWORK: Final = ("http:", "https:", "ipfs:")


def fetch_options(function: Command) -> Command:
    """Add the options of commands that fetch evidence, for `read_evidence` and `fetch`."""
    return with_options(
        function,
        click.option(
            "--fetch-timeout",
            "fetch_timeout_seconds",
            type=click.FloatRange(0.1, 3_600),
            default=60.0,
            show_default=True,
            metavar="SECONDS",
            help="With a URI: longest time for one source of it.",
        ),
        click.option(
            "--allow-plain-http", is_flag=True, help="With a URI: also fetch over HTTP without TLS."
        ),
        click.option(
            "--allow-private-addresses",
            is_flag=True,
            help="With a URI: also fetch from machines of the own network, this one included.",
        ),
        click.option(
            "--ipfs-api",
            metavar="URL",
            callback=http_url,
            help="With an ipfs: URI: RPC of a Kubo node to ask first.",
        ),
        click.option(
            "--ipfs-gateway",
            "ipfs_gateways",
            multiple=True,
            metavar="URL",
            help="With an ipfs: URI: gateway to ask, in place of public ones; can be given several times.",
        ),
        click.option(
            "--evidence-hash",
            "evidence_hash_hex",
            metavar="HASH",
            help="keccak256 that the bytes must have, as a dispute names it.",
        ),
    )


def read_evidence(source: str, max_bytes: int, options: dict[str, Any]) -> EvidencePackage:
    """Read a package and parse its frame.

    Args:
        source: a file, `-` for standard input, or a URI.
        max_bytes: most bytes of the package.
        options: those of `fetch_options`, and `offline`.

    Raises:
        InvalidInput: `file-unusable`, `evidence-offline`, `evidence-hash-mismatch`, `hex-invalid`; or it is
            no package.
        AioumError: as `fetch_evidence`.
    """
    from aioum.core.errors import AioumError, InvalidInput
    from aioum.core.evidence_reading import parse_package

    name = source if len(source) <= 200 else f"{source[:200]}…"
    if _URI.match(source):
        data = _fetch_unless_offline(source, max_bytes, options)
    else:
        data = _read(source, max_bytes)
        _require_hash(data, options["evidence_hash_hex"], source)
    try:
        return parse_package(data, max_bytes=max_bytes)
    except AioumError as error:
        raise InvalidInput(
            f"{name} is no evidence package: {error}", code=error.code, hint=error.hint, details=error.details
        ) from error


def _read(file: str, max_bytes: int) -> bytes:
    from aioum.core.errors import InvalidInput

    try:
        if file == "-":
            return sys.stdin.buffer.read(max_bytes + 1)
        with Path(file).open("rb") as stream:
            return stream.read(max_bytes + 1)
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror or error}", code="file-unusable") from error


def _require_hash(data: bytes, expected_hex: str | None, source: str) -> None:
    from aioum.core.errors import InvalidInput
    from aioum.core.hashing import keccak256
    from aioum.core.hextext import bytes32, to_hex

    if expected_hex is not None and keccak256(data) != (expected := bytes32(expected_hex)):
        raise InvalidInput(
            f"{source} has the hash {to_hex(keccak256(data))}, not {to_hex(expected)}",
            code="evidence-hash-mismatch",
            hint="these are not the bytes that were published",
        )


def _fetch_unless_offline(uri: str, max_bytes: int, options: dict[str, Any]) -> bytes:
    from aioum.core.errors import InvalidInput

    if options["offline"] and uri.lower().startswith(_NETWORK):
        raise InvalidInput(
            f"{uri:.200} is not on this machine, and --offline asks no network",
            code="evidence-offline",
            hint="`aioum evidence fetch` it first, and name the file",
        )
    return fetch(uri, max_bytes, options).data


def fetch(uri: str, max_bytes: int, options: dict[str, Any]) -> FetchedEvidence:
    """The bytes at a URI that a person types.

    Args:
        uri: as a dispute names it.
        max_bytes: most bytes of it.
        options: those of `fetch_options`.

    Raises:
        InvalidInput: `hex-invalid`.
        AioumError: as `fetch_evidence`.
    """
    from aioum.client.publication import FetchPolicy, Reach, fetch_evidence
    from aioum.client.publication.fetching import DEFAULT_GATEWAYS
    from aioum.core.hextext import bytes32

    expected_hex: str | None = options["evidence_hash_hex"]
    expected = None if expected_hex is None else bytes32(expected_hex)
    policy = FetchPolicy(
        reach=Reach(
            timeout_seconds=options["fetch_timeout_seconds"],
            allow_plain_http=options["allow_plain_http"],
            allow_private_addresses=options["allow_private_addresses"],
        ),
        gateways=options["ipfs_gateways"] or DEFAULT_GATEWAYS,
        ipfs_api=options["ipfs_api"],
        # A person typed it.
        allow_files=True,
    )
    return asyncio.run(fetch_evidence(uri, expected, max_bytes=max_bytes, policy=policy))
