"""HTTP/1.1 as a load generator needs it: one kept connection, one request at a time, bodies of known length.

A full client library would cost as much per call as the node does, and hide what is to be measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, cast
from urllib.parse import urlsplit

_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection(asyncio.Protocol):
    """A connection to a server that answers with Content-Length and keeps the connection."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._received = bytearray()
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect to a base URL. Raises OSError."""
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: cls(parts.netloc), parts.hostname or "", parts.port or 80
        )
        return connection

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """Send a request and wait for the answer. Raises ConnectionError."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionError("the connection is closed")
        self._answer = asyncio.get_running_loop().create_future()
        named = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(body)}\r\n{named}\r\n"
        self._transport.write(head.encode() + body)
        return await self._answer

    def close(self) -> None:
        """Close it."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._received += data
        end = self._received.find(_END)
        if end < 0:
            return
        status_line, *lines = self._received[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        last = end + len(_END) + int(headers["content-length"])
        if len(self._received) < last or self._answer is None:
            return
        body = bytes(self._received[end + len(_END) : last])
        del self._received[:last]
        self._answer.set_result(Answer(int(status_line.split(" ", 2)[1]), headers, body))
        self._answer = None

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("the node closed the connection"))
