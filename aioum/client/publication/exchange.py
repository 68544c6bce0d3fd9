"""One HTTP exchange, bounded: which addresses may be asked, for how long, and how much is read.

URIs of evidence are the other side's text. So what they lead to is asked by HTTPS, at addresses of the public
Internet, checked on the very addresses that are connected to; services that the caller names are trusted.
"""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from aioum.client.public_resolver import PublicResolver
from aioum.core.errors import PolicyRefused
from aioum.kits.fetch import require_public_address

MAX_URL_CHARACTERS: Final = 8_192
"""Longest URL, as long as the contracts take one."""

_READ_BYTES: Final = 65_536
_MAX_HEADER_BYTES: Final = 16_384
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Reach:
    """What may be asked, and for how long.

    Attributes:
        timeout_seconds: for a whole answer, redirects included.
        connect_timeout_seconds: for one connection.
        max_redirects: most redirects that are followed for evidence; services are never followed.
        allow_plain_http: also speak HTTP without TLS. It changes nothing about what is verified, but lets
            everybody on the way see and withhold it.
        allow_private_addresses: also connect to machines of the own network, this one included, and to this
            one without TLS. For development, and for evidence of people that you trust.
        tls: whom to believe; by default the system's authorities.
    """

    timeout_seconds: float = 60.0
    connect_timeout_seconds: float = 10.0
    max_redirects: int = 3
    allow_plain_http: bool = False
    allow_private_addresses: bool = False
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context, repr=False)


class Origin(NamedTuple):
    """Where a URL leads to."""

    scheme: str
    host: str
    port: int


class Answer(NamedTuple):
    """A whole answer; of the headers, where it points to."""

    status: int
    location: str | None
    body: bytes


class ExchangeFailed(Exception):
    """No whole answer came; the caller gives it a code of its own.

    Attributes:
        kind: `unreachable`, `timeout` or `too-large`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def origin_of(url: str) -> Origin | None:
    """Where a URL leads to; None for anything but a plain http(s) URL without user, spaces or a fragment."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if (
        parts.scheme not in _PORTS
        or not host
        # In a host it would be a zone of this machine, or a second spelling.
        or "%" in host
        or parts.username is not None
        or parts.password is not None
        or parts.fragment
        or len(url) > MAX_URL_CHARACTERS
        or not url.isascii()
        or any(character <= " " or character in '"<>\\^`{|}\x7f' for character in url)
    ):
        return None
    return Origin(parts.scheme, host, _PORTS[parts.scheme] if port is None else port)


def is_loopback(host: str) -> bool:
    """Whether a host's name says that it is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_allowed(origin: Origin, reach: Reach) -> None:
    """Check an origin that the other side names, before anything is connected to.

    Raises:
        PolicyRefused: `plain-http-refused` or `evidence-address-refused`.
    """
    here = reach.allow_private_addresses and is_loopback(origin.host)
    if origin.scheme == "http" and not reach.allow_plain_http and not here:
        raise PolicyRefused(
            f"{origin.host} speaks plain HTTP, which lets everybody on the way see and withhold evidence",
            code="plain-http-refused",
            hint="take it over https, or allow plain HTTP",
        )
    if reach.allow_private_addresses:
        return
    try:
        # A resolver is not asked about addresses that are written out.
        require_public_address(ipaddress.ip_address(origin.host))
    except PolicyRefused as refusal:
        raise _address_refused(refusal) from refusal
    except ValueError:
        # A name; its addresses are checked as it is looked up.
        return


@asynccontextmanager
async def within(timeout_seconds: float) -> AsyncIterator[None]:
    """Limit what happens inside. Raises ExchangeFailed `timeout`."""
    try:
        async with asyncio.timeout(timeout_seconds):
            yield
    except TimeoutError as error:
        raise ExchangeFailed("timeout", f"no whole answer within {timeout_seconds:g} s") from error


async def exchange(
    method: str,
    url: str,
    *,
    reach: Reach,
    max_bytes: int,
    trusted: bool,
    headers: Mapping[str, str] | None = None,
    body: aiohttp.FormData | bytes | None = None,
) -> Answer:
    """Send one request and read its answer; no redirect is followed, no proxy or cookie used.

    Args:
        method: of HTTP.
        url: one that `origin_of` takes.
        reach: limits; the whole time is the caller's to limit, with `within`.
        max_bytes: most bytes of the answer's body.
        trusted: the caller chose this origin, so it may be in the own network.
        headers: to send.
        body: to send.

    Raises:
        ExchangeFailed: no whole answer.
        PolicyRefused: `evidence-address-refused`.
    """
    anywhere = trusted or reach.allow_private_addresses
    try:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=reach.tls,
                resolver=aiohttp.ThreadedResolver() if anywhere else PublicResolver(),
                force_close=True,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Without decompression a small answer cannot become a large one.
            auto_decompress=False,
            max_field_size=_MAX_HEADER_BYTES,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=reach.connect_timeout_seconds),
        ) as session:
            sent = {"Accept-Encoding": "identity", **(headers or {})}
            async with session.request(
                method, url, headers=sent, data=body, allow_redirects=False
            ) as response:
                return Answer(
                    response.status, response.headers.get("Location"), await _body(response, max_bytes)
                )
    except TimeoutError as error:
        raise ExchangeFailed(
            "timeout", f"no connection within {reach.connect_timeout_seconds:g} s"
        ) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if (refusal := _refusal(error)) is not None:
            raise _address_refused(refusal) from error
        raise ExchangeFailed("unreachable", str(error) or type(error).__name__) from error


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    body = bytearray()
    if (response.content_length or 0) <= max_bytes:
        async for chunk in response.content.iter_chunked(_READ_BYTES):
            body += chunk
            if len(body) > max_bytes:
                break
        else:
            return bytes(body)
    raise ExchangeFailed("too-large", f"the answer has over {max_bytes} bytes")


def _address_refused(refusal: PolicyRefused) -> PolicyRefused:
    return PolicyRefused(
        str(refusal),
        code="evidence-address-refused",
        hint="allow private addresses if it is meant to be there",
    )


def _refusal(error: BaseException | None) -> PolicyRefused | None:
    while error is not None:
        if isinstance(error, PolicyRefused):
            return error
        error = error.__cause__
    return None
