"""An HTTP service as a tool: the arguments are posted as JSON, the body of a 2xx answer is the response."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import aiohttp
import structlog

from aioum.client.public_resolver import PublicResolver
from aioum.core.canonical import canonical_bytes
from aioum.core.ledger import Answer
from aioum.core.wire import JsonObject
from aioum_node.failures import answer_of, failed
from aioum_node.upstream.addresses import require_upstream_url
from aioum_node.upstream.queues import WatchedSemaphore

_log = structlog.get_logger(__name__)
_READ_SIZE_BYTES = 65_536
_MAX_HEADER_BYTES = 16_384
_FALLBACK_CONTENT_TYPE = "text/plain; charset=utf-8"
_PLAIN_CONTENT_TYPE = re.compile(r"[ -~]{1,200}")


class HttpUpstream:
    """Posts canonical arguments to one fixed URL, without redirects, cookies or proxies from the environment.

    Nothing of a call chooses where it goes. A host that is not trusted is connected to at addresses of the
    public Internet only (`upstream.addresses`), however its name resolves.

    The limit on the response counts decoded bytes, so a compressed answer cannot grow past it.
    """

    def __init__(
        self,
        url: str,
        *,
        tool_id: str,
        headers: Mapping[str, str],
        connect_timeout_seconds: float,
        max_connections: int,
        max_response_bytes: int,
        trusted_host: str | None = None,
    ) -> None:
        """Args: trusted_host: the URL's host, where it may be inside the own network.

        Raises:
            ConfigError: as `require_upstream_url`.
        """
        require_upstream_url(url, tool_id=tool_id, trusted_host=trusted_host)
        self._resolver = aiohttp.ThreadedResolver if trusted_host is not None else PublicResolver
        self._url = url
        self._tool_id = tool_id
        self._headers = {"Content-Type": "application/json", **headers}
        self._connect_timeout_seconds = connect_timeout_seconds
        self._max_connections = max_connections
        # A request for each connection: nobody waits inside of the library, where it is not seen.
        self._connections = WatchedSemaphore(max_connections)
        self._max_response_bytes = max_response_bytes
        self._session: aiohttp.ClientSession | None = None

    @property
    def waiting(self) -> int:
        """Calls that wait for a connection."""
        return self._connections.waiting

    async def run(self, arguments: JsonObject, request: bytes, timeout_seconds: float) -> Answer:
        """Post once; nothing is retried, since the service may charge or act on each request."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout_seconds)
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._connections,
                self._client().post(
                    self._url,
                    data=canonical_bytes(arguments),
                    headers=self._headers,
                    timeout=timeout,
                    allow_redirects=False,
                ) as response,
            ):
                return await self._read(response)
        except TimeoutError as error:
            # A connection that cannot be made in its own, shorter time is a timeout to aiohttp too.
            unreachable = isinstance(error, aiohttp.ConnectionTimeoutError)
            return failed("upstream-unreachable" if unreachable else "tool-timeout")
        except aiohttp.ClientError as error:
            # The text of other errors may show the whole URL, which may hold a secret.
            why = str(error) if isinstance(error, aiohttp.ClientConnectorError) else ""
            _log.warning("upstream-unreachable", tool=self._tool_id, error=type(error).__name__, why=why)
            return failed("upstream-unreachable")

    async def _read(self, response: aiohttp.ClientResponse) -> Answer:
        if not 200 <= response.status < 300:
            _log.warning("upstream-refused", tool=self._tool_id, status=response.status)
            return failed("tool-failed")
        body = bytearray()
        async for chunk in response.content.iter_chunked(_READ_SIZE_BYTES):
            body += chunk
            if len(body) > self._max_response_bytes:
                return failed("response-too-large")
        content_type = response.headers.get("Content-Type", "")
        if not _PLAIN_CONTENT_TYPE.fullmatch(content_type):
            # It is stored and sent again: bytes that are no text could be neither.
            content_type = _FALLBACK_CONTENT_TYPE
        return answer_of(bytes(body), content_type, max_bytes=self._max_response_bytes)

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._max_connections, resolver=self._resolver()),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
