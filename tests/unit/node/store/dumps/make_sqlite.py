"""Writes `sqlite-N.sql`, a store as the present version N of the schema leaves it; run once, when N is new.

python -m tests.unit.node.store.dumps.make_sqlite
"""

import asyncio
import contextlib
import sqlite3
import tempfile
from pathlib import Path

from aioum.core.errors import Refused
from aioum.core.ledger import finalize
from aioum.core.types import Bytes32
from aioum_node.store.schema import APPLICATION_ID, migrations
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.pens import Pen
from tests.unit.node.store.conformance import LIMITS
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request, signed_facts

NODE = b"\x01" * 16


async def fill(path: Path) -> None:
    """An unsigned session with a call under way, a signed one with a contradiction, and one that is over."""
    store = SqliteStore(path, LIMITS, random_bytes=lambda size: NODE)
    await store.open(facts(1), opened(1), NOW_MS)
    await store.admit(channel(1), request(PRICE), NOW_MS)
    await store.record(channel(1), 0, answer(), NOW_MS)
    await store.admit(channel(1), request(2 * PRICE), NOW_MS)
    await store.open(signed_facts(2), opened(2, signed=True), NOW_MS)
    pen = Pen(channel(2))
    genesis = pen.head
    first = pen.sign(b"{}", 0, submission_id="first")
    other = pen.draft(b"[]", 0, submission_id="other", prev_head=genesis)
    await store.admit(channel(2), request(PRICE, envelope=first), NOW_MS)
    await store.record(channel(2), 0, answer(failed=True), NOW_MS)
    with contextlib.suppress(Refused):
        await store.admit(channel(2), request(PRICE, text="[]", envelope=other), NOW_MS)
    await store.open(facts(3, terms=None), opened(3), NOW_MS)
    await store.update(channel(3), finalize, NOW_MS + 3)
    await store.put_card(Bytes32(b"\x02" * 32), b"{}")
    await store.put_position("scan", 9, b"\x09" * 32)
    await store.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / STORE_FILE
        asyncio.run(fill(path))
        with contextlib.closing(sqlite3.connect(path)) as connection:
            (version,) = connection.execute(
                "SELECT count(*) FROM _sqlite_migrations WHERE migration_set = ?", (migrations.name,)
            ).fetchone()
            lines = [f"PRAGMA application_id = {APPLICATION_ID};", *connection.iterdump()]
    target = Path(__file__).with_name(f"sqlite-{version}.sql")
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
