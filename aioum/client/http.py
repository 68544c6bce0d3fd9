"""HTTP as a client uses it: bounded, without redirects; everything that is not an answer is an unknown
outcome.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver

from aioum.core.errors import InvalidInput, OutcomeUnknown, PolicyRefused

WELL_KNOWN_PATH: Final = "/.well-known/aioum.json"
_MAX_URL_CHARACTERS: Final = 2_048
_CHUNK_BYTES: Final = 65_536
_MAX_HEADER_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole HTTP answer. Header names are lower-case; the body is after content decoding."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport(Protocol):
    """How requests reach a node."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        max_bytes: int,
        timeout_seconds: float,
    ) -> HttpAnswer:
        """Send one request and read the whole answer.

        Raises:
            OutcomeUnknown: `node-unreachable`, `node-timeout`, `answer-truncated` or `answer-too-large`. The
                node may have acted on the request in every one of these cases.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class HttpTransport:
    """The transport over aiohttp. One connection pool for all nodes of a client.

    Args:
        connect_timeout_seconds: for one connection.
        resolver: of names, other than the system's; it is not asked about addresses that are written out.
    """

    def __init__(self, *, connect_timeout_seconds: float, resolver: AbstractResolver | None = None) -> None:
        self._connect_timeout_seconds = connect_timeout_seconds
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        max_bytes: int,
        timeout_seconds: float,
    ) -> HttpAnswer:
        """Send one request; see `Transport.request`."""
        if self._session is None:
            # Unlimited: the number of sessions, and of calls that each has under way, is the bound.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, resolver=self._resolver),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                max_field_size=_MAX_HEADER_BYTES,
            )
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=self._connect_timeout_seconds)
        sent = {"Accept-Encoding": "identity", **headers}
        try:
            async with self._session.request(
                method, url, headers=sent, data=body, timeout=timeout, allow_redirects=False
            ) as response:
                content = await _read_bounded(response, max_bytes)
                names = {name.lower() for name in response.headers}
                values = {name: ", ".join(response.headers.getall(name)) for name in names}
                return HttpAnswer(response.status, values, content)
        except TimeoutError as error:
            raise OutcomeUnknown(
                f"no answer of {url} within {timeout_seconds:g} s", code="node-timeout"
            ) from error
        except aiohttp.ClientPayloadError as error:
            raise OutcomeUnknown(f"the answer of {url} broke off", code="answer-truncated") from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:
            # Of a name with an empty or too long label, Python's resolver says that it cannot be encoded.
            raise OutcomeUnknown(
                f"{url}: {str(error) or type(error).__name__}",
                code="node-unreachable",
                hint="check that the node runs and its address is right",
            ) from error

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            # aiohttp closes its sockets in the loop's next turn.
            await asyncio.sleep(0)
            self._session = None


async def _read_bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    content = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        content += chunk
        if len(content) > max_bytes:
            raise OutcomeUnknown(
                f"the answer of {response.url} is longer than {max_bytes} bytes", code="answer-too-large"
            )
    return bytes(content)


def node_base_url(text: str, *, allow_plain_http: bool) -> str:
    """The base URL of a node, from what a person or the registry names; the card's well-known path may be
    part of it.

    Raises:
        InvalidInput: `node-url-invalid`.
        PolicyRefused: `plain-http-refused`, no TLS although the node is not on this machine.
    """
    try:
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"not a URL: {text!r:.200}", code="node-url-invalid") from error
    if (
        parts.scheme not in ("http", "https")
        or not host
        or len(text) > _MAX_URL_CHARACTERS
        or any((parts.username, parts.password, parts.query, parts.fragment))
        or any(character.isspace() or not character.isprintable() for character in text.strip())
    ):
        raise InvalidInput(
            f"not the URL of a node: {text!r:.200}",
            code="node-url-invalid",
            hint="write it like https://node.example",
        )
    if parts.scheme == "http" and not allow_plain_http and not _is_loopback(host):
        raise PolicyRefused(
            f"{host} is not this machine, and plain HTTP lets everybody on the way read and alter",
            code="plain-http-refused",
            hint="use https, or Policy(allow_plain_http=True)",
        )
    path = parts.path.removesuffix(WELL_KNOWN_PATH).rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
