"""A whole node keeps a log without being asked, serves it, and proves its sessions to their clients."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from aioum.chain import anchors
from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.card import MAX_CARD_BYTES, Card, parse_card
from aioum.core.hextext import to_hex
from aioum.devnet.running import RunningDevnet
from aioum.log.checkpoint import read_checkpoint
from aioum.log.entry import SessionEntry
from aioum.log.errors import ResourceMissing
from aioum.log.membership import read_membership
from aioum.log.tiles import TileReader
from aioum_node.app import RunningNode
from aioum_node.edge import Clock
from aioum_node.export import export_package
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.disputing import until
from tests.integration.node.edge_client import Buyer, Opened
from tests.integration.node.logging_operator import log_anchor_of

NOBODY = "0x" + "11" * 32


async def get(buyer: Buyer, url: str) -> tuple[int, bytes]:
    async with buyer.http.get(url) as answer:
        return answer.status, await answer.read()


async def metrics(buyer: Buyer, node: RunningNode) -> bytes:
    return (await get(buyer, f"{node.admin_url}/metrics"))[1]


def card_of(node: RunningNode) -> Card:
    return parse_card(parse_json(node.offering.offer.canonical, max_bytes=MAX_CARD_BYTES))


async def refused(buyer: Buyer, url: str) -> tuple[int, str]:
    async with buyer.http.get(url) as answer:
        problem = await answer.json(content_type=None)
    return answer.status, problem["type"].removeprefix("https://aioum.org/problems/")


async def sold(buyer: Buyer, node: RunningNode) -> Opened:
    session = await buyer.open(node)
    await buyer.pay(node, session, PRICE, action="open")
    await buyer.close_until_settled(node, session, 1)
    return session


async def proof(buyer: Buyer, node: RunningNode, session: Opened) -> Any:
    """The session's proof, as soon as there is one."""
    url = f"{node.url}/log/proof/{to_hex(session.channel_id)}"

    async def given() -> bool:
        return (await get(buyer, url))[0] == 200

    await until(given, "the session is in the log")
    async with buyer.http.get(url) as answer:
        return await answer.json()


async def test_a_client_gets_the_proof_of_its_session_and_a_stranger_the_whole_log(
    start_node: StartNode, buyer: Buyer, devnet: RunningDevnet, tmp_path: Path
) -> None:
    settings = {"transparency_log_interval_seconds": 0.1, "anchor_interval_seconds": 1}
    async with start_node(**settings) as node:
        card = card_of(node)
        assert card.log is not None
        origin, key = card.log.origin, card.log.public_key
        assert card.max_log_delay_seconds == 3_600
        assert await refused(buyer, f"{node.url}/log/proof/{NOBODY}") == (404, "session-not-logged")
        session = await sold(buyer, node)
        given = await proof(buyer, node, session)
        checkpoint, entry = read_membership(given).verify(origin, key)
        assert isinstance(entry, SessionEntry)
        assert (entry.channel_id, entry.captured, entry.call_count) == (session.channel_id, PRICE, 1)

        async def fetched(path: str) -> bytes:
            status, body = await get(buyer, f"{node.url}/log/{path}")
            if status == 404:
                raise ResourceMissing(path)
            return body

        note = await fetched("checkpoint")
        shown = read_checkpoint(note, origin, key)
        reader = TileReader(fetched)
        assert await reader.root(shown.size) == shown.root == checkpoint.root
        assert [entry async for entry in reader.entries(0, shown.size)] == [entry.to_bytes()]
        log = f"{node.url}/log"
        assert await refused(buyer, f"{log}/tile/0/001") == (404, "log-resource-missing")
        assert await refused(buyer, f"{log}/tile/0/1") == (400, "tile-path-malformed")
        assert await refused(buyer, f"{log}/tile/entries/..%2F..%2F..%2Fheads") == (
            400,
            "tile-path-malformed",
        )
        assert await refused(buyer, f"{log}/proof/0x12") == (400, "hex-invalid")
        exported = await asyncio.to_thread(
            export_package,
            session=to_hex(session.channel_id),
            node_dir=tmp_path / "node",
            claim="quality",
            narrative="",
        )
        assert canonical_bytes(exported["log"]) == canonical_bytes(given)

        async def anchored() -> bool:
            operator = node.offering.sender.signer.address
            found = await anchors.anchored(buyer.chain.rpc, log_anchor_of(buyer.chain), operator, origin)
            return found is not None and (found.size, bytes(found.root)) == (shown.size, shown.root)

        # An anchor is due by the chain's clock.
        await devnet.increase_time(2)
        await until(anchored, "the log is anchored")
        assert b"aioum_log_published_entries 1.0" in await metrics(buyer, node)
        assert node.readiness.missing() == []
    (tmp_path / "node" / "log" / "origin").write_text("another.example/log\n")
    passed = 0.0
    clock = Clock(time.time, lambda: time.monotonic() + passed)
    async with start_node(clock=clock, **settings) as node:
        assert node.readiness.missing() == []
        passed = 61.0

        async def is_unready() -> bool:
            return node.readiness.missing() == ["log"]

        await until(is_unready, "a log that does not go on within a minute takes the node out of service")

        async def is_told() -> bool:
            return b'aioum_log_alerts_total{code="log-origin-mismatch"} 1.0' in await metrics(buyer, node)

        await until(is_told, "the operator is told why")
    async with start_node(transparency_log=False) as node:
        assert card_of(node).log is None
        for path in ("checkpoint", "tile/0/000.p/1", f"proof/{to_hex(session.channel_id)}"):
            assert await refused(buyer, f"{node.url}/log/{path}") == (404, "log-not-kept")
