"""What stands between the listening socket and aiohttp: connections are counted, slow and long ones are cut.

aiohttp limits each header and their number, the body, and how many requests may be sent ahead. Not limited by
it are the connections, the headers of a request together, the time they take, and the time that a client
takes to read. All of that would be memory that strangers hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from aioum.core.canonical import canonical_bytes
from aioum.core.problem import PROBLEM_BASE, PROBLEM_CONTENT_TYPE
from aioum_node.limits.addresses import IpAddress, counted_as, parsed_address
from aioum_node.limits.rates import Shares

_HEADERS_END: Final = b"\r\n\r\n"
_MAX_PARTING: Final = 64
_PARTING_SECONDS: Final = 1.0
_REASONS: Final = {
    408: "Request Timeout",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of the public port; see the settings of these names."""

    max_connections: int
    max_connections_per_address: int
    max_header_bytes: int
    header_timeout_seconds: float
    write_timeout_seconds: float


class Gate:
    """Makes the protocol of each connection, with aiohttp's inside.

    Args:
        trusts: whether an address is a proxy's, whose clients share its connections.
        refused: told the reason code of each connection that was turned away or cut.
        retry_after_seconds: advice for those that were turned away.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        *,
        trusts: Callable[[IpAddress], bool],
        refused: Callable[[str], None],
        retry_after_seconds: int,
    ) -> None:
        self.limits = limits
        self.trusts = trusts
        self.refused = refused
        self.retry_after_seconds = retry_after_seconds
        self.shares = Shares(limits.max_connections_per_address)
        self.parting = 0
        self._open: dict[asyncio.Protocol, Connection] = {}

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._open)

    def protocol(self, server: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """The protocol of a new connection. Args: server: makes aiohttp's."""
        return Connection(self, server)

    def opened(self, inner: asyncio.Protocol, connection: Connection) -> None:
        """A connection was let in."""
        self._open[inner] = connection

    def closed(self, inner: asyncio.Protocol) -> None:
        """A connection that was let in has ended."""
        del self._open[inner]

    def begun(self, request: web.Request) -> None:
        """A request's headers are there, and its handler starts."""
        if (connection := self._open.get(request.protocol)) is not None:
            connection.reading_headers(False)

    def handled(self, request: web.Request) -> None:
        """Its handler has ended; once its body is through, the next headers may come."""
        if (connection := self._open.get(request.protocol)) is not None:
            request.content.on_eof(lambda: connection.reading_headers(True))


class Connection(asyncio.Protocol):
    """One connection: hands everything on, unless a limit is met."""

    def __init__(self, gate: Gate, server: Callable[[], asyncio.Protocol]) -> None:
        self._gate = gate
        self._server = server
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._share: str | None = None
        self._parts = False
        self._reads_headers = True
        self._header_bytes = 0
        self._tail = b""
        self._header_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the connection in, or answer it at once."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError(f"a connection over {type(transport).__name__}")
        self._transport = transport
        if self._gate.connections >= self._gate.limits.max_connections:
            self._turn_away(503, "the node holds as many connections as it can", code="too-many-connections")
            return
        share = self._share_of(transport.get_extra_info("peername"))
        if share is not None and not self._gate.shares.take(share):
            self._turn_away(429, "this address holds its share of connections", code="too-many-connections")
            return
        self._share = share
        self._inner = self._server()
        self._gate.opened(self._inner, self)
        self._inner.connection_made(transport)

    def _share_of(self, peer: Any) -> str | None:
        address = parsed_address(peer[0]) if isinstance(peer, tuple) else None
        return None if address is None or self._gate.trusts(address) else counted_as(address)

    def data_received(self, data: bytes) -> None:
        """Count headers, and hand on."""
        if self._inner is None or self._parts:
            return
        if self._reads_headers and not self._may_read(data):
            return
        self._inner.data_received(data)

    def _may_read(self, data: bytes) -> bool:
        limits = self._gate.limits
        end = (self._tail + data).find(_HEADERS_END)
        self._header_bytes += len(data) if end < 0 else max(0, end - len(self._tail))
        if self._header_bytes > limits.max_header_bytes:
            detail = f"over {limits.max_header_bytes} bytes of headers"
            self._turn_away(431, detail, code="headers-too-large")
            return False
        if end >= 0:
            # What follows is the body, or requests that were sent ahead: aiohttp limits both.
            self.reading_headers(False)
        else:
            self._tail = (self._tail + data)[1 - len(_HEADERS_END) :]
            if self._header_timer is None:
                loop = asyncio.get_running_loop()
                self._header_timer = loop.call_later(limits.header_timeout_seconds, self._headers_late)
        return True

    def _headers_late(self) -> None:
        seconds = self._gate.limits.header_timeout_seconds
        self._turn_away(408, f"the headers did not come within {seconds:g} s", code="request-timeout")

    def reading_headers(self, reads: bool) -> None:
        """Headers come next, or something else does."""
        self._reads_headers = reads
        self._header_bytes, self._tail = 0, b""
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _turn_away(self, status: int, detail: str, *, code: str) -> None:
        self._gate.refused(code)
        if self._transport is None or self._parts or self._transport.is_closing():
            return
        if self._gate.parting >= _MAX_PARTING:
            self._transport.abort()
            return
        body = canonical_bytes(
            {
                "type": PROBLEM_BASE + code,
                "title": code.replace("-", " ").capitalize(),
                "status": status,
                "detail": detail,
            }
        )
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {PROBLEM_CONTENT_TYPE}\r\n"
            f"Retry-After: {self._gate.retry_after_seconds}\r\nCache-Control: no-store\r\n"
            f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        # Closed at once, what the client is still sending would be answered with a reset, which can overtake
        # this answer. So it may go first, for a moment.
        self._transport.write_eof()
        self._parts = True
        self._gate.parting += 1
        asyncio.get_running_loop().call_later(_PARTING_SECONDS, self._transport.abort)

    def eof_received(self) -> bool | None:
        """Hand on; with None the transport closes."""
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        """The client does not read: it has some time to begin."""
        if self._inner is not None:
            self._inner.pause_writing()
        loop = asyncio.get_running_loop()
        self._write_timer = loop.call_later(self._gate.limits.write_timeout_seconds, self._unread)

    def _unread(self) -> None:
        self._gate.refused("response-unread")
        if self._transport is not None:
            self._transport.abort()

    def resume_writing(self) -> None:
        """The client has read on."""
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the connection."""
        self.reading_headers(False)
        if self._parts:
            self._gate.parting -= 1
        if self._write_timer is not None:
            self._write_timer.cancel()
        if self._share is not None:
            self._gate.shares.give_back(self._share)
        if self._inner is not None:
            self._gate.closed(self._inner)
            self._inner.connection_lost(error)
