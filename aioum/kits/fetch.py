"""Fetching a kit from the mirrors that a reference names: which addresses may be asked, and what is kept.

The mirrors are text of an untrusted artifact. So a fetcher asks by HTTPS alone, follows no redirect, and
connects only to addresses of the public Internet; bytes that are not the named ones are dropped.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from aioum.core.errors import AioumError, InvalidInput, PolicyRefused
from aioum.kits.archive import MAX_ARCHIVE_BYTES, content_digest
from aioum.kits.kit import Kit, read_kit
from aioum.kits.reference import MAX_MIRROR_CHARACTERS, KitReference

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_UNICAST: Final = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is given out; beyond it, site-local and IPv4-compatible addresses pass as global."""


class FetchFailed(AioumError):
    """A mirror gave nothing that could be used: `kit-mirror-…` says what happened."""

    default_code = "kit-mirror-unreachable"


class KitFetcher(Protocol):
    """How bytes are had from a mirror. Keeps nothing."""

    async def fetch(self, url: str, *, max_bytes: int) -> bytes:
        """Read a whole answer of at most `max_bytes`.

        Args:
            url: an address that `require_mirror_url` accepted.
            max_bytes: most bytes of the body.

        Raises:
            FetchFailed: nothing usable came.
            PolicyRefused: `kit-mirror-address-refused`.
        """
        ...


@dataclass(frozen=True, slots=True)
class MirrorFailure:
    """Why one mirror gave no kit."""

    url: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """What asking the mirrors gave.

    Attributes:
        kit: the kit of the reference's digest, or None.
        source: the mirror it came from, or None.
        failures: of mirrors asked before.
    """

    kit: Kit | None
    source: str | None
    failures: tuple[MirrorFailure, ...]


async def fetch_kit(reference: KitReference, fetcher: KitFetcher) -> Fetched:
    """Ask the mirrors in order until one gives exactly the named bytes."""
    failures: list[MirrorFailure] = []
    for url in reference.mirrors:
        try:
            require_mirror_url(url)
            # A mirror may give no more than was promised, so a lie is found without loading it.
            archive = await fetcher.fetch(url, max_bytes=min(reference.size_bytes, MAX_ARCHIVE_BYTES))
            if len(archive) != reference.size_bytes or content_digest(archive) != reference.digest:
                raise FetchFailed("it gave other bytes than those named", code="kit-mirror-mismatch")
            return Fetched(read_kit(archive), url, tuple(failures))
        except AioumError as error:
            failures.append(MirrorFailure(url, error.code, str(error)))
    return Fetched(None, None, tuple(failures))


def require_mirror_url(url: str) -> None:
    """Refuse everything but a plain HTTPS address.

    Raises:
        InvalidInput: `kit-mirror-url-invalid`.
        PolicyRefused: `kit-mirror-not-https`.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _bad_url(url) from error
    if (
        len(url) > MAX_MIRROR_CHARACTERS
        or not url.isascii()
        or any(character <= " " or character in "\\\x7f" for character in url)
    ):
        raise _bad_url(url)
    if parts.scheme != "https":
        raise PolicyRefused(f"{url!r:.200} is not fetched: HTTPS alone is", code="kit-mirror-not-https")
    if not host or parts.username is not None or parts.password is not None or parts.fragment:
        raise _bad_url(url)


def require_public_address(address: IpAddress) -> None:
    """Refuse an address that is not one of the public Internet, also where it is wrapped in another.

    Raises:
        PolicyRefused: `kit-mirror-address-refused`.
    """
    if not all(
        inner.is_global and not inner.is_multicast and (inner.version == 4 or inner in _UNICAST)
        for inner in _meant(address)
    ):
        raise PolicyRefused(
            f"{address} is not an address of the public Internet", code="kit-mirror-address-refused"
        )


def _meant(address: IpAddress) -> list[IpAddress]:
    """The address and the IPv4 addresses that it stands for (mapped, 6to4, Teredo, NAT64)."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    inner = [address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address, *(wrapped for wrapped in inner if wrapped is not None)]


def _bad_url(url: str) -> InvalidInput:
    return InvalidInput(f"not the address of a mirror: {url!r:.200}", code="kit-mirror-url-invalid")
