"""A node that served from its SQLite file is moved to PostgreSQL by its operator, and goes on there."""

import asyncio
import json
from pathlib import Path
from typing import Any

from aioum.chain.client import Chain
from aioum.core.hextext import to_hex
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer
from tests.integration.node.test_node_command import run, succeeded
from tests.postgres import PostgresServer, schema_of


async def test_moved_node_repeats_its_answers_goes_on_and_settles_with_the_same_root(
    start_node: StartNode,
    buyer: Buyer,
    chain: Chain,
    operator: FundedAccount,
    postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    folder, url_file = str(tmp_path / "node"), tmp_path / "database.url"
    url_file.touch(mode=0o600)
    url_file.write_text(postgres.url)
    shared: dict[str, Any] = {
        "store": "postgresql",
        "database_url_file": url_file,
        "database_schema": schema_of(tmp_path),
    }
    copy = ("store", "copy", "--dir", folder, "--database-schema", schema_of(tmp_path))
    async with start_node(public_url="http://node.example") as node:
        session = await buyer.open(node)
        first = await buyer.pay(node, session, PRICE, action="open")
        second = await buyer.pay(node, session, 2 * PRICE)
        running = await asyncio.to_thread(run, *copy, "--to", str(url_file))
    moved = json.loads(await asyncio.to_thread(succeeded, *copy, "--to", str(url_file), "--json"))
    again = await asyncio.to_thread(run, *copy, "--to", str(url_file))
    left = await asyncio.to_thread(run, "fsck", "--dir", folder)
    checked = json.loads(
        await asyncio.to_thread(
            succeeded, "fsck", "--json", "--dir", folder, "--store", "postgresql",
            "--database-url-file", str(url_file), "--database-schema", schema_of(tmp_path),
        )
    )  # fmt: skip
    async with start_node(public_url="http://node.example", **shared) as node:
        retry = await buyer.pay(node, session, 2 * PRICE)
        third = await buyer.pay(node, session, 3 * PRICE)
        transcript = await buyer.read(node, session, "/calls")
        closed = await buyer.close_until_settled(node, session, 3)
    assert "[store-locked]" in running.stderr
    assert moved == {"sessions": 1, "calls": 2}
    assert "[store-moved]" in again.stderr
    assert "[store-moved]" in left.stderr
    assert (checked["sessions"], checked["calls"], checked["findings"]) == (1, 2, [])
    assert (first.status, third.status) == (200, 200)
    assert (retry.body, retry.headers["Aioum-Receipt"]) == (second.body, second.headers["Aioum-Receipt"])
    assert [item["index"] for item in transcript.json["calls"]] == [0, 1, 2]
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (3 * PRICE, 3)
    assert closed.json["statement"]["root"] == to_hex(anchored.root)
