"""The way to an external signer: HTTP, HTTPS or a Unix socket, bounded in time, size and number."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from aiohttp import ClientError, ClientSession, ClientTimeout, ServerDisconnectedError, TCPConnector

from aioum.chain.external_signer_wire import SignerError, answer_invalid
from aioum.core.errors import ConfigError

MAX_ANSWER_BYTES: Final = 1_048_576
"""Largest answer of a signer. A deployment's code comes back twice in hex, and is the largest there is."""

MAX_CONCURRENT_REQUESTS: Final = 16
"""Requests to one signer at a time; others wait within their time limit."""

_CHUNK_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class SignerEndpoint:
    """Where an external signer is, and how it is reached.

    Attributes:
        url: `https://…`, `http://…` (to this machine only), or `unix:PATH`: JSON lines as clef's own socket
            speaks them.
        timeout_seconds: for one request, waiting for its turn included. A signer that asks a person needs
            more than a machine.
        ca_file: certificates (PEM) that the signer's has to descend from, in place of the system's.
        certificate_file, certificate_key_file: this program's own certificate (PEM), where the signer asks
            for one.
        token: a bearer token, where the signer asks for one. It never appears in `repr`, messages or logs.
    """

    url: str
    timeout_seconds: float = 10.0
    ca_file: Path | None = None
    certificate_file: Path | None = None
    certificate_key_file: Path | None = None
    token: str | None = field(default=None, repr=False)


class SignerLink(Protocol):
    """Carries one request at a time; several may be under way together."""

    async def exchange(self, request: bytes) -> bytes:
        """Send a JSON-RPC request and return the answer's bytes, at most MAX_ANSWER_BYTES.

        Raises:
            SignerError: `signer-unreachable`, `signer-timeout`, `signer-refused` (an HTTP 401 or 403),
                `signer-answer-too-large`, `signer-answer-invalid`.
        """
        ...


@asynccontextmanager
async def opened_link(endpoint: SignerEndpoint) -> AsyncIterator[SignerLink]:
    """Prepare the way; nothing is sent yet.

    Raises:
        ConfigError: `signer-url-invalid`; `signer-url-insecure`, plain HTTP to another machine;
            `signer-file-unusable`.
    """
    parts = urlsplit(endpoint.url)
    async with AsyncExitStack() as stack:
        if parts.scheme == "unix" and parts.path:
            yield _Bounded(_SocketLink(Path(parts.path)), endpoint.timeout_seconds)
            return
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                "a signer's URL begins with https://, http:// or unix:", code="signer-url-invalid"
            )
        if parts.username is not None or parts.password is not None:
            raise ConfigError(
                "a signer's URL holds no password", code="signer-url-invalid", hint="use a token"
            )
        if parts.scheme == "http" and not _is_this_machine(parts.hostname):
            raise ConfigError(
                "plain HTTP reaches a signer on this machine only",
                code="signer-url-insecure",
                hint="use https://, or a tunnel that ends here",
            )
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if endpoint.token is not None:
            headers["Authorization"] = f"Bearer {endpoint.token}"
        connector = TCPConnector(
            limit=MAX_CONCURRENT_REQUESTS, ssl=_tls(endpoint) if parts.scheme == "https" else True
        )
        session = await stack.enter_async_context(
            ClientSession(
                connector=connector,
                headers=headers,
                timeout=ClientTimeout(total=None),
                auto_decompress=False,
            )
        )
        yield _Bounded(_HttpLink(endpoint.url, session), endpoint.timeout_seconds)


class _Bounded:
    def __init__(self, link: SignerLink, timeout_seconds: float) -> None:
        self._link = link
        self._timeout_seconds = timeout_seconds
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def exchange(self, request: bytes) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_seconds), self._slots:
                return await self._link.exchange(request)
        except TimeoutError:
            raise SignerError(
                f"the external signer did not answer within {self._timeout_seconds:g} s",
                code="signer-timeout",
                hint="is it waiting for a person?",
            ) from None
        except (ClientError, OSError, EOFError) as error:
            raise SignerError(
                "the external signer cannot be reached",
                code="signer-unreachable",
                hint="is it running, and its address right?",
            ) from error


class _HttpLink:
    def __init__(self, url: str, session: ClientSession) -> None:
        self._url = url
        self._session = session

    async def exchange(self, request: bytes) -> bytes:
        try:
            return await self._post(request)
        except (ServerDisconnectedError, ConnectionResetError):
            # An idle connection turned out to be closed. Signing changes nothing, so it may be asked again.
            return await self._post(request)

    async def _post(self, request: bytes) -> bytes:
        async with self._session.post(self._url, data=request, allow_redirects=False) as response:
            body = b""
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise _too_large()
            if response.status in (401, 403):
                raise SignerError(
                    "the external signer does not take this program's credentials",
                    code="signer-refused",
                    hint="check the token file, or the certificate",
                )
            # Some signers give an error status to JSON-RPC errors: their bodies say more.
            if response.status != 200 and not body.lstrip().startswith(b"{"):
                if response.status >= 500:
                    raise SignerError("the external signer is out of order", code="signer-unreachable")
                raise answer_invalid(f"HTTP status {response.status}")
            return body


class _SocketLink:
    """One connection for each request: cheap on a local socket, and nothing to keep in step."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_ANSWER_BYTES)
        try:
            writer.write(request + b"\n")
            await writer.drain()
            return await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            raise _too_large() from None
        finally:
            writer.transport.abort()


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _tls(endpoint: SignerEndpoint) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
        if endpoint.certificate_file is not None:
            context.load_cert_chain(endpoint.certificate_file, endpoint.certificate_key_file)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"a certificate of the external signer cannot be used: {error}",
            code="signer-file-unusable",
            hint="certificates and keys are PEM files",
        ) from error
    return context


def _too_large() -> SignerError:
    return SignerError(
        f"the external signer answered with more than {MAX_ANSWER_BYTES} bytes",
        code="signer-answer-too-large",
    )
