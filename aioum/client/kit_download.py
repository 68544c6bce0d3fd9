"""Downloading kits over HTTPS from addresses that an untrusted artifact names."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from aioum.client.public_resolver import PublicResolver
from aioum.core.errors import PolicyRefused
from aioum.kits.fetch import FetchFailed, require_mirror_url, require_public_address

_CHUNK_BYTES: Final = 65_536
_MAX_HEADER_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class HttpsKitFetcher:
    """A `KitFetcher` over aiohttp: no redirects, no proxies, no cookies, one connection for each request.

    Attributes:
        timeout_seconds: for a whole answer.
        connect_timeout_seconds: for the connection alone.
        allow_private_addresses: also connect to machines of the own network, this one included. For mirrors
            that the caller runs; it lets an artifact's author reach them too.
        tls: whom to believe; by default the system's authorities.
    """

    timeout_seconds: float = 60.0
    connect_timeout_seconds: float = 10.0
    allow_private_addresses: bool = False
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context, repr=False)

    async def fetch(self, url: str, *, max_bytes: int) -> bytes:
        """See `KitFetcher.fetch`.

        Raises:
            FetchFailed: `kit-mirror-unreachable`, `kit-mirror-timeout`, `kit-mirror-redirect`,
                `kit-mirror-status`, `kit-mirror-too-large`.
            PolicyRefused: `kit-mirror-not-https`, `kit-mirror-address-refused`.
            InvalidInput: `kit-mirror-url-invalid`.
        """
        require_mirror_url(url)
        if not self.allow_private_addresses:
            _require_public_literal(url)
        timeout = aiohttp.ClientTimeout(total=self.timeout_seconds, sock_connect=self.connect_timeout_seconds)
        try:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    ssl=self.tls,
                    resolver=aiohttp.ThreadedResolver() if self.allow_private_addresses else PublicResolver(),
                    force_close=True,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                max_field_size=_MAX_HEADER_BYTES,
                timeout=timeout,
            ) as session:
                # Without decompression a small answer cannot become a large one.
                headers = {"Accept-Encoding": "identity"}
                async with session.get(url, headers=headers, allow_redirects=False) as response:
                    return await _body(response, url, max_bytes)
        except TimeoutError as error:
            raise FetchFailed(
                f"no whole answer within {self.timeout_seconds:g} s", code="kit-mirror-timeout"
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            if (refusal := _refusal(error)) is not None:
                raise refusal from error
            raise FetchFailed(str(error) or type(error).__name__, code="kit-mirror-unreachable") from error


async def _body(response: aiohttp.ClientResponse, url: str, max_bytes: int) -> bytes:
    if 300 <= response.status < 400:
        raise FetchFailed("it points elsewhere, and redirects are not followed", code="kit-mirror-redirect")
    if response.status != 200:
        raise FetchFailed(f"it answered with status {response.status}", code="kit-mirror-status")
    body = bytearray()
    if (response.content_length or 0) <= max_bytes:
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > max_bytes:
                break
        else:
            return bytes(body)
    raise FetchFailed(f"{url} is longer than the {max_bytes} bytes expected", code="kit-mirror-too-large")


def _require_public_literal(url: str) -> None:
    # aiohttp does not ask a resolver about addresses that are written out.
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return
    require_public_address(address)


def _refusal(error: BaseException | None) -> PolicyRefused | None:
    while error is not None:
        if isinstance(error, PolicyRefused):
            return error
        error = error.__cause__
    return None
