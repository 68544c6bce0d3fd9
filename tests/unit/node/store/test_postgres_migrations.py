"""Stores of every version of the schema, as dumps made by that version keep them, are brought up to date."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from aioum.core.errors import ConfigError
from aioum.core.ledger import Phase, Repeat
from aioum.core.types import Bytes32
from aioum_node.store.postgres.reader import PostgresReader
from aioum_node.store.postgres.schema import CURRENT_VERSION
from aioum_node.store.postgres.store import PostgresStore
from tests.pens import Pen
from tests.postgres import PostgresServer
from tests.unit.node.store.conformance import LIMITS, admitted
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request, signed_facts

DUMPS = Path(__file__).parent / "dumps"
VERSIONS = range(1, CURRENT_VERSION + 1)
FIRST_WITH_HOLDS = 4
_COLUMNS = """
    SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = 'aioum' ORDER BY table_name, column_name
"""
_INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'aioum' ORDER BY indexdef"
_CHECKS = """
    SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'aioum'::regnamespace ORDER BY 1, 2
"""


@pytest_asyncio.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[str]:
    name = "migrations"
    await postgres.execute(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    yield postgres.url_of(name)
    await postgres.execute(f"DROP DATABASE {name}")


async def load(database: str, version: int) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute((DUMPS / f"postgresql-{version}.sql").read_text(encoding="utf-8"))
    await connection.close()


async def shape(database: str) -> list[list[Any]]:
    connection = await asyncpg.connect(database)
    shape = [[tuple(row) for row in await connection.fetch(query)] for query in (_COLUMNS, _INDEXES, _CHECKS)]
    await connection.close()
    return shape


def test_there_is_a_dump_of_every_version() -> None:
    found = [re.fullmatch(r"postgresql-(\d+)\.sql", path.name) for path in DUMPS.iterdir()]
    assert sorted(int(match[1]) for match in found if match) == list(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_of_any_version_keeps_what_it_has_and_goes_on(database: str, version: int) -> None:
    await load(database, version)
    async with PostgresStore(database, LIMITS) as store:
        unrecorded = await store.unrecorded()
        repeat = await store.admit(channel(1), request(2 * PRICE), NOW_MS)
        first = await store.admit(channel(1), request(PRICE), NOW_MS)
        await store.record(channel(1), 1, answer(), NOW_MS)
        following = await admitted(store, 1, 3 * PRICE)
        unsigned, signed, final = [await store.session(channel(number)) for number in (1, 2, 3)]
        pen = Pen(channel(2))
        pen.sign(b"{}", 0, submission_id="first")
        await admitted(store, 2, PRICE, envelope=pen.sign(b"{}", 1))
        contradictions = await store.equivocations(channel(2))
        card, position = await store.card(Bytes32(b"\x02" * 32)), await store.position("scan")
    assert [(channel_id, call.index) for channel_id, call in unrecorded] == [(channel(1), 1)]
    assert isinstance(repeat, Repeat)
    assert isinstance(first, Repeat)
    assert (repeat.call.index, first.call.answer, following.index) == (1, answer(), 2)
    assert unsigned is not None
    assert signed is not None
    assert final is not None
    assert (unsigned.facts, unsigned.state.spent) == (facts(1), 2 * PRICE)
    assert (signed.facts, signed.state.failures) == (signed_facts(2), 1)
    assert (final.facts, final.finalized_at_ms) == (facts(3, terms=None), NOW_MS + 3)
    assert final.state == replace(opened(3), phase=Phase.FINAL, seal_reason="finalized-on-chain")
    assert [(item.index, item.request) for item in contradictions] == [(0, b"[]")]
    assert (card, position) == (b"{}", (9, b"\x09" * 32))


@pytest.mark.parametrize("version", range(1, FIRST_WITH_HOLDS))
async def test_what_may_be_held_of_sessions_that_were_over_before_is_taken_for_held(
    database: str, version: int
) -> None:
    await load(database, version)
    connection = await asyncpg.connect(database)
    await connection.execute("UPDATE aioum.accounts SET phase = 2 WHERE id = 1")
    await connection.close()
    async with PostgresStore(database, LIMITS) as store:
        assert await store.held() == [channel(1)]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_that_was_brought_up_to_date_has_the_shape_of_a_new_one(
    postgres: PostgresServer, database: str, version: int
) -> None:
    await load(database, version)
    async with PostgresStore(database, LIMITS):
        migrated = await shape(database)
    await postgres.execute("DROP DATABASE migrations", "CREATE DATABASE migrations")
    async with PostgresStore(database, LIMITS):
        assert await shape(database) == migrated


@pytest.mark.parametrize("version", VERSIONS[:-1])
async def test_a_reader_leaves_an_older_store_as_it_is(database: str, version: int) -> None:
    await load(database, version)
    before = await shape(database)
    reader = PostgresReader.at(database, "aioum")
    with pytest.raises(ConfigError) as caught:
        await reader.find(1)
    await reader.close()
    assert caught.value.code == "store-outdated"
    assert await shape(database) == before


@pytest.mark.parametrize("version", VERSIONS[:-1])
async def test_a_store_is_not_changed_under_processes_of_an_older_version(
    database: str, version: int
) -> None:
    await load(database, version)
    before = await shape(database)
    connection = await asyncpg.connect(database, server_settings={"search_path": "aioum"})
    await connection.execute("INSERT INTO processes (alive_until) VALUES (now() + interval '1 hour')")
    with pytest.raises(ConfigError) as caught:
        async with PostgresStore(database, LIMITS):
            pass
    assert await shape(database) == before
    await connection.execute("UPDATE processes SET alive_until = now() - interval '1 s'")
    async with PostgresStore(database, LIMITS):
        assert await shape(database) != before
    await connection.close()
    assert caught.value.code == "store-in-use"


async def test_a_process_joins_before_anybody_else_can_bring_the_store_further(database: str) -> None:
    await load(database, CURRENT_VERSION)
    connection = await asyncpg.connect(database)
    # Else a process of this version could join what a newer one has just found unused, and changed.
    await connection.execute(
        """
        CREATE FUNCTION aioum.locked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
            THEN RAISE 'joins unprotected'; END IF; RETURN NEW; END $$;
        CREATE TRIGGER locked BEFORE INSERT ON aioum.processes
            FOR EACH ROW EXECUTE FUNCTION aioum.locked()
        """
    )
    await connection.close()
    async with PostgresStore(database, LIMITS) as store:
        assert store.process
