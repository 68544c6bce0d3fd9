"""Writes `postgresql-N.sql`, a store as version N of the schema leaves it; run once, when N is new.

python -m tests.unit.node.store.dumps.make_postgresql N
"""

import asyncio
import re
import sys
from pathlib import Path

import asyncpg

from aioum.core.ledger import finalize
from aioum.core.submission.envelope import Envelope
from aioum_node.store.postgres.group import Group
from aioum_node.store.postgres.schema import migrate
from aioum_node.store.postgres.steps import Admit, Open, Record, Step, Update
from tests.pens import Pen
from tests.postgres import running_server, server_programs
from tests.unit.node.store.conformance import LIMITS
from tests.unit.node.store.samples import (
    NOW_MS,
    PRICE,
    answer,
    channel,
    facts,
    opened,
    request,
    signed_facts,
)

SCHEMA = "aioum"
NODE = b"\x01" * 16
DEAD_PROCESS = 7


def steps(envelopes: list[Envelope]) -> list[Step]:
    """An unsigned session with a call under way, a signed one with a contradiction, and one that is over."""
    return [
        Open(channel(1), facts(1), opened(1), NOW_MS),
        Admit(channel(1), request(PRICE), NOW_MS),
        Record(channel(1), 0, answer(), NOW_MS),
        Admit(channel(1), request(2 * PRICE), NOW_MS),
        Open(channel(2), signed_facts(2), opened(2, signed=True), NOW_MS),
        Admit(channel(2), request(PRICE, envelope=envelopes[0]), NOW_MS),
        Record(channel(2), 0, answer(failed=True), NOW_MS),
        Admit(channel(2), request(PRICE, text="[]", envelope=envelopes[1]), NOW_MS),
        Open(channel(3), facts(3, terms=None), opened(3), NOW_MS),
        Update(channel(3), finalize, NOW_MS + 3, None),
    ]


async def fill(url: str, version: int) -> None:
    connection = await asyncpg.connect(url, server_settings={"search_path": SCHEMA})
    await migrate(connection, SCHEMA, NODE, up_to=version)
    pen = Pen(channel(2))
    genesis = pen.head
    envelopes = [
        pen.sign(b"{}", 0, submission_id="first"),
        pen.draft(b"[]", 0, submission_id="other", prev_head=genesis),
    ]
    async with connection.transaction():
        await Group(connection, LIMITS, DEAD_PROCESS).perform(steps(envelopes))
    await connection.execute("INSERT INTO cards VALUES ($1, $2)", b"\x02" * 32, b"{}")
    await connection.execute("INSERT INTO positions VALUES ('scan', 9, $1)", b"\x09" * 32)
    await connection.close()


def main(version: int) -> None:
    programs = server_programs()
    assert programs is not None
    with running_server(programs) as server:
        asyncio.run(fill(server.url, version))
        text = server.dump(SCHEMA)
    # What only psql understands, and what differs from one server to the next.
    kept = [
        line for line in text.splitlines() if line and not re.match(r"--|\\|SET |SELECT pg_catalog.set", line)
    ]
    target = Path(__file__).with_name(f"postgresql-{version}.sql")
    target.write_text("\n".join(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]))
