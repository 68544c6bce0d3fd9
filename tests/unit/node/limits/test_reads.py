"""How many reads of sessions are answered at once."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aioum.core.payment import ReadAccess
from aioum.core.types import ChannelId
from aioum.core.wire import read_access_header
from aioum_node.tools import tool
from tests.unit.node.api.shop import CLIENT, DOMAIN, STRANGER, Shop, running_shop, until

PRICE = 10
# More than the sockets buffer for a client that does not read.
LARGE_BYTES = 5_000_000
DEADLINE_SECONDS = 20


@tool(price=PRICE)
def spell() -> str:
    return "a" * LARGE_BYTES


@asynccontextmanager
async def unread(shop: Shop, channel: ChannelId) -> AsyncIterator[asyncio.StreamReader]:
    """The body of a session's transcript, of which nothing more is read."""
    access = ReadAccess(channel, int(shop.now_seconds[0]) + 60)
    header = read_access_header(access, CLIENT.sign_digest(access.digest(DOMAIN)))
    asking = socket.socket()
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    asking.connect(("127.0.0.1", shop.http.port))
    reader, writer = await asyncio.open_connection(sock=asking)
    writer.write(f"GET /sessions/0x{channel.hex()}/calls HTTP/1.1\r\nHost: a\r\n".encode())
    writer.write(f"Authorization: {header}\r\n\r\n".encode())
    async with asyncio.timeout(DEADLINE_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    try:
        yield reader
    finally:
        writer.transport.abort()


async def test_reads_take_a_place_until_they_are_read_in_all_and_of_each_session(tmp_path: Path) -> None:
    async with running_shop(
        tmp_path, (spell,), max_concurrent_reads=2, max_reads_per_session=1, max_response_bytes=LARGE_BYTES
    ) as shop:
        channels = [await shop.open_session() for _ in range(3)]
        for channel in channels[:2]:
            assert (await shop.pay(channel, PRICE, "spell", {})).status == 200
        async with unread(shop, channels[0]) as reader:
            same_session = await shop.read(channels[0])
            other_session = await shop.read(channels[2])
            async with unread(shop, channels[1]):
                full = await shop.read(channels[2])
                stranger = await shop.read(channels[2], key=STRANGER)
                closed = await shop.close(channels[1], 1)
            # The client of the second has gone, that of the first reads on.
            await until(lambda: shop.edge.reads.taken == 1)
            async with asyncio.timeout(DEADLINE_SECONDS):
                await reader.readexactly(LARGE_BYTES)
            await until(lambda: shop.edge.reads.taken == 0)
        later = await shop.read(channels[0])

    assert [(reply.status, reply.code) for reply in (same_session, full)] == [(503, "too-many-reads")] * 2
    assert full.headers["Retry-After"] == "2"
    assert [reply.status for reply in (other_session, stranger, closed, later)] == [200, 401, 202, 200]
