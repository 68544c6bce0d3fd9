"""Serving an application on a socket that listens already."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from aioum.core.errors import ConfigError
from aioum_node.api.service import MAX_HEADER_BYTES
from aioum_node.limits.connections import Gate

LISTEN_BACKLOG: Final = 1_024
# To aiohttp, 0 is no limit.
_LEAST_SHUTDOWN_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class ServingTimes:
    """How long a connection may be idle, and how long the end waits for requests that are being answered."""

    idle_seconds: float
    shutdown_seconds: float


@asynccontextmanager
async def serving(
    application: web.Application, listener: socket.socket, times: ServingTimes, gate: Gate | None = None
) -> AsyncIterator[None]:
    """Serve for as long as the block lasts; then nobody is let in, and who is being answered may finish.

    Args:
        application: what answers.
        listener: is closed in the end.
        times: limits of idleness and of the end.
        gate: what connections go through first; None lets them in as they come.
    """
    runner = web.AppRunner(
        application,
        access_log=None,
        shutdown_timeout=max(times.shutdown_seconds, _LEAST_SHUTDOWN_SECONDS),
        max_field_size=MAX_HEADER_BYTES,
        keepalive_timeout=times.idle_seconds,
    )
    await runner.setup()
    try:
        inner = runner.server
        if inner is None:
            raise RuntimeError("the runner was set up without a server")
        protocols = inner if gate is None else partial(gate.protocol, inner)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(protocols, sock=listener, backlog=LISTEN_BACKLOG)
        try:
            yield
        finally:
            server.close()
    finally:
        await runner.cleanup()


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises ConfigError `address-unusable`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=LISTEN_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            code="address-unusable",
            hint="another program may use it; choose another listen_port or admin_port",
        ) from error


def local_url(host: str, listening_socket: socket.socket) -> str:
    """How this machine reaches what listens there."""
    port = listening_socket.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"
