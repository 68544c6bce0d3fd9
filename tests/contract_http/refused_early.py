"""What limits answer in the place of an operation, and what a node answers that cannot read its own files."""

from __future__ import annotations

import asyncio
import secrets
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from structlog.testing import capture_logs
from yarl import URL

from aioum.core.types import ChannelId
from aioum_node.app import RunningNode
from aioum_node.store.sqlite import STORE_FILE
from tests.contract_http.live import World
from tests.contract_http.watched import Watched, each_operation
from tests.integration.node.edge_client import Opened, Reply

MAX_CONNECTIONS = 32
MAX_HEADER_BYTES = 2_048
ONE_CLIENT = {"X-Forwarded-For": "198.51.100.7"}


async def limits_answer_for_every_operation(node: RunningNode, buyer: Watched) -> None:
    """Each way to be refused before an operation begins; the node's limits are those of this module."""
    wanted = list(each_operation(buyer.document, node.url))
    large = {"X-Large": "x" * MAX_HEADER_BYTES}
    assert (await buyer.get(f"{node.url}/healthz", **ONE_CLIENT)).status == 200
    often = [await buyer.ask_for(method, url, **ONE_CLIENT) for method, url in wanted]
    too_large = [await buyer.ask_for(method, url, **large) for method, url in wanted]
    late = await asyncio.gather(*(buyer.begin(method, url) for method, url in wanted))
    assert said(often) == {(429, "rate-limited")}
    assert said(too_large) == {(431, "headers-too-large")}
    assert said(late) == {(408, "request-timeout")}
    assert await said_beside(MAX_CONNECTIONS, node, buyer) == {(503, "too-many-connections")}


async def said_beside(connections: int, node: RunningNode, buyer: Watched) -> set[tuple[int, str]]:
    """What every operation is answered while so many connections are open."""
    target = URL(node.url)
    with ExitStack() as held:
        for _ in range(connections):
            held.enter_context(socket.create_connection((target.host, target.port)))
        return said([await buyer.begin(*wanted) for wanted in each_operation(buyer.document, node.url)])


def said(replies: list[Reply]) -> set[tuple[int, str]]:
    """Statuses and reason codes."""
    return {(reply.status, reply.code) for reply in replies}


async def paths_of_a_damaged_node(world: World, buyer: Watched, session: Opened) -> None:
    """Answers of a node that cannot read its own files, and then of one that is asked for too much."""
    folder = world.folder / "node"
    async with world.node(
        address_requests_per_second=0.001,
        address_request_burst=1,
        header_timeout_seconds=0.2,
        max_connections=MAX_CONNECTIONS,
        max_header_bytes=MAX_HEADER_BYTES,
    ) as node:
        # A node does not start with such a store.
        damaged_card = damage_store(folder / STORE_FILE, session.channel_id)
        # Writing out a traceback would take a second.
        with capture_logs() as logged:
            replies = [await buyer.get(f"{node.url}/cards/0x{damaged_card.hex()}")]
            replies += [await buyer.read(node, session, path) for path in ("", "/calls", "/statement")]
            replies.append(await buyer.close(node, session, 0))
            public = folder / "log" / "public"
            entries = next((public / "tile" / "entries" / "000.p").iterdir())
            with unreadable(public / "checkpoint"), unreadable(entries):
                proof, tile = f"proof/0x{session.channel_id.hex()}", f"tile/entries/000.p/{entries.name}"
                replies += [await buyer.get(f"{node.url}/log/{path}") for path in ("checkpoint", proof, tile)]
        assert said(replies) == {(500, "internal-error")}
        codes = [entry["code"] for entry in logged if entry["event"] == "request-failed"]
        assert codes == ["card-damaged", "log-unreadable"]
        await limits_answer_for_every_operation(node, buyer)


def damage_store(path: Path, channel_id: ChannelId) -> bytes:
    """Give a session a phase that there is not, and put a card under another hash, which is returned."""
    foreign_hash = secrets.token_bytes(32)
    with closing(sqlite3.connect(path)) as store, store:
        changed = store.execute(
            "UPDATE accounts SET phase = 9 WHERE id = (SELECT id FROM sessions WHERE channel_id = ?)",
            (channel_id,),
        )
        assert changed.rowcount == 1
        store.execute("INSERT INTO cards SELECT ?, card FROM cards LIMIT 1", (foreign_hash,))
    return foreign_hash


@contextmanager
def unreadable(file: Path) -> Iterator[None]:
    """A folder in a file's place: whoever reads the file fails."""
    kept = file.rename(file.with_name(f"{file.name}.kept"))
    file.mkdir()
    try:
        yield
    finally:
        file.rmdir()
        kept.rename(file)
