"""A load balancer of few lines: connections go round, and past a node that does not take them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

_CHUNK_BYTES = 65_536


class Balancer:
    """Forwards TCP connections to the first of some ports that accepts, beginning with another each time."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._turn = count()
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listen on loopback; returns the port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def go_round(self) -> None:
        """End all connections: clients keep theirs, and a node that came back would be left without calls."""
        for pipe in self._pipes:
            pipe.cancel()

    async def close(self) -> None:
        """Take no more connections and end those there are."""
        assert self._server is not None
        self._server.close()
        self.go_round()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        try:
            behind = await self._connect()
            if behind is None:
                return
            try:
                await _both(reader, writer, *behind)
            finally:
                behind[1].close()
        except asyncio.CancelledError:
            # The stream server takes a handler's cancellation for a failure.
            return
        finally:
            self._pipes.discard(task)
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        first = next(self._turn)
        for step in range(len(self._ports)):
            with suppress(OSError):
                return await asyncio.open_connection(
                    "127.0.0.1", self._ports[(first + step) % len(self._ports)]
                )
        return None


async def _both(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    behind_reader: asyncio.StreamReader,
    behind_writer: asyncio.StreamWriter,
) -> None:
    ways = [
        asyncio.create_task(_pipe(reader, behind_writer)),
        asyncio.create_task(_pipe(behind_reader, writer)),
    ]
    # Where one way ends the whole connection does: HTTP needs no half of one.
    _, rest = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in rest:
        way.cancel()
    await asyncio.gather(*ways, return_exceptions=True)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
