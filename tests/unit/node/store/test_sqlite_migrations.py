"""Stores of every version of the schema, as dumps made by that version keep them, are brought up to date."""

import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

from aioum.core.errors import ConfigError
from aioum.core.ledger import Phase, Repeat
from aioum.core.types import Bytes32
from aioum_node.store.reader import SqliteReader
from aioum_node.store.schema import migrations
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.pens import Pen
from tests.unit.node.store.conformance import LIMITS, admitted
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request, signed_facts

DUMPS = Path(__file__).parent / "dumps"
with closing(sqlite3.connect(":memory:")) as _empty:
    CURRENT_VERSION = len(migrations.pending(Database(_empty)))
VERSIONS = range(1, CURRENT_VERSION + 1)
FIRST_WITH_SIGNED_SESSIONS = 2
FIRST_WITH_HOLDS = 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / STORE_FILE


def load(path: Path, version: int) -> None:
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((DUMPS / f"sqlite-{version}.sql").read_text(encoding="utf-8"))


def shape(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master ORDER BY name")]
        return [
            (name, sorted(tuple(column)[1:] for column in connection.execute(f"PRAGMA table_info({name})")))
            for name in names
        ]


def test_there_is_a_dump_of_every_version() -> None:
    found = [re.fullmatch(r"sqlite-(\d+)\.sql", path.name) for path in DUMPS.iterdir()]
    assert sorted(int(match[1]) for match in found if match) == list(VERSIONS)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_of_any_version_keeps_what_it_has_and_goes_on(path: Path, version: int) -> None:
    load(path, version)
    async with SqliteStore(path, LIMITS) as store:
        unrecorded = await store.unrecorded()
        repeat = await store.admit(channel(1), request(2 * PRICE), NOW_MS)
        first = await store.admit(channel(1), request(PRICE), NOW_MS)
        await store.record(channel(1), 1, answer(), NOW_MS)
        following = await admitted(store, 1, 3 * PRICE)
        unsigned, final = [await store.session(channel(number)) for number in (1, 3)]
        card, position = await store.card(Bytes32(b"\x02" * 32)), await store.position("scan")
    assert [(channel_id, call.index) for channel_id, call in unrecorded] == [(channel(1), 1)]
    assert isinstance(repeat, Repeat)
    assert isinstance(first, Repeat)
    assert (repeat.call.index, first.call.answer, following.index) == (1, answer(), 2)
    assert unsigned is not None
    assert final is not None
    assert (unsigned.facts, unsigned.state.spent) == (facts(1), 2 * PRICE)
    assert (final.facts, final.finalized_at_ms) == (facts(3, terms=None), NOW_MS + 3)
    assert final.state == replace(opened(3), phase=Phase.FINAL, seal_reason="finalized-on-chain")
    assert (card, position) == (b"{}", (9, b"\x09" * 32))


@pytest.mark.parametrize("version", range(1, FIRST_WITH_HOLDS))
async def test_what_may_be_held_of_sessions_that_were_over_before_is_taken_for_held(
    path: Path, version: int
) -> None:
    load(path, version)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE accounts SET phase = 2 WHERE id = 1")
        connection.commit()
    async with SqliteStore(path, LIMITS) as store:
        assert await store.held() == [channel(1)]


@pytest.mark.parametrize("version", VERSIONS[FIRST_WITH_SIGNED_SESSIONS - 1 :])
async def test_signed_sessions_of_any_version_keep_heads_and_contradictions(path: Path, version: int) -> None:
    load(path, version)
    async with SqliteStore(path, LIMITS) as store:
        signed = await store.session(channel(2))
        pen = Pen(channel(2))
        pen.sign(b"{}", 0, submission_id="first")
        following = await admitted(store, 2, PRICE, envelope=pen.sign(b"{}", 1))
        contradictions = await store.equivocations(channel(2))
    assert signed is not None
    assert (signed.facts, signed.state.failures) == (signed_facts(2), 1)
    assert [(item.index, item.request) for item in contradictions] == [(0, b"[]")]
    assert following.index == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_store_that_was_brought_up_to_date_has_the_shape_of_a_new_one(
    path: Path, tmp_path: Path, version: int
) -> None:
    load(path, version)
    new = tmp_path / "new" / STORE_FILE
    for each in (path, new):
        async with SqliteStore(each, LIMITS):
            pass
    assert shape(path) == shape(new)


@pytest.mark.parametrize("version", VERSIONS[:-1])
async def test_a_reader_leaves_an_older_store_as_it_is(path: Path, version: int) -> None:
    load(path, version)
    before = shape(path)
    reader = SqliteReader(path)
    with pytest.raises(ConfigError) as caught:
        await reader.find(1)
    await reader.close()
    assert caught.value.code == "store-outdated"
    assert shape(path) == before
