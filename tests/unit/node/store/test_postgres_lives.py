"""What a start of a node concludes from its watermark and a PostgreSQL store that it shares with others."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from aioum.chain.model import BlockRef
from aioum.core.errors import AioumError, OutcomeUnknown, Refused
from aioum.core.ledger import Limits, Phase, finalize
from aioum.core.types import Bytes32
from aioum_node.interrupted_calls import recover_interrupted
from aioum_node.restored.start import Life, begin_life, doubt_about
from aioum_node.restored.watermark import Watermark
from aioum_node.store.incarnations import chain_instant
from aioum_node.store.postgres.store import PostgresStore
from tests.postgres import PostgresServer
from tests.unit.node.store.conformance import admitted
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened

NOTICED_AT = chain_instant(1_900_000_000, 7)


async def head() -> BlockRef:
    return BlockRef(7, Bytes32(b"\x07" * 32), 1_900_000_000)


async def chain_is_away() -> BlockRef:
    raise AssertionError("without doubt the chain is not asked")


class Node:
    """A node of the operator: its watermark, whatever database it is pointed at."""

    def __init__(self, folder: Path, name: str) -> None:
        self.watermark = Watermark(folder / f"{name}.watermark")

    def store(self, url: str) -> PostgresStore:
        kept = self.watermark.read()
        former = None if kept is None else kept.incarnation
        return PostgresStore(url, Limits(), former=former, cover=self.watermark.cover)

    async def live(self, url: str, *, calls: int = 0, number: int = 1) -> Life:
        """A life: it opens a session, where it has not, and answers some calls of it."""
        async with self.store(url) as store:
            life = await begin_life(store, self.watermark, head)
            stored = await store.open(facts(number), opened(number), NOW_MS)
            first = stored.state.admitted
            for index in range(first, first + calls):
                await admitted(store, number, (index + 1) * PRICE)
                await store.record(channel(number), index, answer(), NOW_MS)
        self.watermark.close()
        return life


@pytest_asyncio.fixture
async def database(postgres: PostgresServer) -> AsyncIterator[str]:
    name = "lives"
    await postgres.execute(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    yield postgres.url_of(name)
    await postgres.execute(f"DROP DATABASE {name}")


@pytest_asyncio.fixture
async def backup(postgres: PostgresServer, database: str) -> AsyncIterator[str]:
    """The URL of a copy that `take` makes."""
    yield postgres.url_of("lives_backup")
    await postgres.execute("DROP DATABASE IF EXISTS lives_backup")


async def take(postgres: PostgresServer) -> None:
    await postgres.execute("CREATE DATABASE lives_backup TEMPLATE lives")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, "one")


async def test_honest_restarts_and_nodes_that_join_one_that_lives_raise_no_doubt(
    database: str, node: Node, tmp_path: Path
) -> None:
    other = Node(tmp_path, "two")
    assert await node.live(database, calls=2) == Life(None, 0, None)
    async with node.store(database) as store:
        assert await begin_life(store, node.watermark, chain_is_away) == Life(None, 0, None)
        assert await other.live(database, calls=2, number=2) == Life(None, 0, None)
    node.watermark.close()
    assert await other.live(database, calls=1, number=2) == Life(None, 0, None)
    kept = node.watermark.read()
    assert kept is not None
    async with node.store(database) as store:
        mark = await store.mark()
        assert (mark.incarnation, mark.sequence, mark.starts) == (kept.incarnation, kept.sequence, 2)


async def test_an_older_database_makes_what_is_not_over_suspect_for_every_node(
    postgres: PostgresServer, database: str, backup: str, node: Node, tmp_path: Path
) -> None:
    other = Node(tmp_path, "two")
    await node.live(database, calls=1)
    async with node.store(database) as store:
        await begin_life(store, node.watermark, chain_is_away)
        await store.open(facts(4), opened(4), NOW_MS)
        await store.update(channel(4), finalize, NOW_MS)
        await other.live(database, calls=1, number=2)
    node.watermark.close()
    await take(postgres)
    await node.live(database, calls=1)
    # The other node answered nothing since: it has no doubt, and finds what the first one noticed.
    assert await node.live(backup) == Life("store-older", 2, NOTICED_AT)
    async with other.store(backup) as store:
        assert await begin_life(store, other.watermark, chain_is_away) == Life(None, 0, NOTICED_AT)
        phases = {found.facts.session_id: found.state.phase for found in await store.sessions(tuple(Phase))}
        assert await store.unrecorded() == []
        with pytest.raises(Refused) as caught:
            await admitted(store, 2, 2 * PRICE)
    assert phases == {1: Phase.SUSPECT, 2: Phase.SUSPECT, 4: Phase.FINAL}
    assert caught.value.code == "session-suspect"


@pytest.mark.parametrize("lived", [True, False])
async def test_a_database_that_never_met_the_node_is_noticed(
    postgres: PostgresServer, database: str, backup: str, node: Node, tmp_path: Path, lived: bool
) -> None:
    if lived:
        await Node(tmp_path, "two").live(database, number=2)
    await take(postgres)
    await node.live(database, calls=1)
    doubt = "store-older" if lived else "store-replaced"
    assert await node.live(backup, number=3) == Life(doubt, int(lived), NOTICED_AT)


async def test_a_restored_database_is_noticed_also_where_the_watermark_was_lost_with_the_newer_one(
    postgres: PostgresServer, database: str, backup: str, node: Node, tmp_path: Path
) -> None:
    await node.live(database, calls=1)
    await take(postgres)
    await node.live(database, calls=1)
    hosts = [Node(tmp_path, name) for name in ("two", "three")]
    async with hosts[0].store(backup) as first, hosts[1].store(backup) as second:
        # Started at once, neither may take the other for a witness: each only has the store open yet.
        marks = [await store.mark() for store in (first, second)]
        assert await begin_life(first, hosts[0].watermark, head) == Life("watermark-missing", 1, NOTICED_AT)
        # Now the first one has noticed, and the second one finds that.
        assert await begin_life(second, hosts[1].watermark, chain_is_away) == Life(None, 0, NOTICED_AT)
        with pytest.raises(Refused) as caught:
            await admitted(second, 1, 2 * PRICE)
    for host in hosts:
        host.watermark.close()
        assert await host.live(backup, number=2) == Life(None, 0, NOTICED_AT)
    assert [doubt_about(mark, None) for mark in marks] == ["watermark-missing"] * 2
    assert caught.value.code == "session-suspect"


async def test_a_node_that_found_the_database_older_is_no_witness_for_those_that_join(
    database: str, node: Node, tmp_path: Path
) -> None:
    sql = await asyncpg.connect(database, server_settings={"search_path": "aioum"})
    async with node.store(database) as store:
        await begin_life(store, node.watermark, chain_is_away)
        await store.open(facts(1), opened(1), NOW_MS)
        # Restored under it, and so long ago that nobody's word of then counts.
        await sql.execute("UPDATE lives SET sequence = 0, alive_until = '-infinity'")
        with pytest.raises(AioumError) as caught:
            await store.renew()
        joined = await Node(tmp_path, "two").live(database, number=2)
    await sql.close()
    assert caught.value.code == "store-older"
    assert joined == Life("watermark-missing", 1, NOTICED_AT)


async def test_a_crash_between_the_new_life_of_the_store_and_the_watermarks_raises_no_doubt(
    database: str, node: Node
) -> None:
    await node.live(database, calls=1)
    kept = node.watermark.read()
    assert kept is not None
    for _ in range(2):
        await node.live(database)
        # As if the new life had not come to the watermark.
        node.watermark.replace(kept)
        node.watermark.close()
    assert await node.live(database) == Life(None, 0, None)


@pytest.mark.parametrize("restored", ["UPDATE lives SET sequence = 0", "DELETE FROM lives"])
async def test_a_database_that_is_replaced_under_a_running_node_is_written_no_more(
    database: str, node: Node, restored: str
) -> None:
    sql = await asyncpg.connect(database, server_settings={"search_path": "aioum"})
    async with node.store(database) as store:
        await begin_life(store, node.watermark, chain_is_away)
        await store.open(facts(1), opened(1), NOW_MS)
        await admitted(store, 1, PRICE)
        await sql.execute(restored)
        with pytest.raises(AioumError) as caught:
            await store.record(channel(1), 0, answer(), NOW_MS)
        (call,) = await store.calls(channel(1), 0, 9)
    await sql.close()
    assert (caught.value.code, call.recorded) == ("store-older", False)


async def test_a_node_that_answers_nobody_notices_too_that_the_database_is_older(
    database: str, node: Node, tmp_path: Path
) -> None:
    sql = await asyncpg.connect(database, server_settings={"search_path": "aioum"})
    idle = Node(tmp_path, "idle")
    async with node.store(database) as dying, idle.store(database) as store:
        await begin_life(store, idle.watermark, chain_is_away)
        before = list(map(tuple, await sql.fetch("SELECT sequence, incarnation FROM lives")))
        await begin_life(dying, node.watermark, chain_is_away)
        await dying.open(facts(1), opened(1), NOW_MS)
        await admitted(dying, 1, PRICE)
        await store.renew()
        # Restored as it was then: with the call open, and whoever answered it since gone.
        await sql.executemany("UPDATE lives SET sequence = $1 WHERE incarnation = $2", before)
        await dying.close()
        with pytest.raises(AioumError) as renewing:
            await store.renew()
        # So it is not recorded as interrupted, and the node does not seem to be ready.
        with pytest.raises(AioumError) as looking:
            await recover_interrupted(store, NOW_MS)
        (call,) = await store.calls(channel(1), 0, 9)
    await sql.close()
    assert (renewing.value.code, looking.value.code, call.recorded) == ("store-older", "store-older", False)


async def test_where_the_watermark_cannot_be_written_nobody_is_answered_neither_at_once_nor_by_a_retry(
    database: str, node: Node
) -> None:
    failing = True

    def cover(number: int) -> None:
        if failing:
            raise OutcomeUnknown("no space", code="watermark-failed")
        node.watermark.cover(number)

    async with PostgresStore(database, Limits(), cover=cover) as store:
        await begin_life(store, node.watermark, chain_is_away)
        await store.open(facts(1), opened(1), NOW_MS)
        await admitted(store, 1, PRICE)
        for _ in range(2):
            with pytest.raises(OutcomeUnknown) as caught:
                await store.record(channel(1), 0, answer(), NOW_MS)
            assert caught.value.code == "watermark-failed"
        failures = [store.failure]
        failing = False
        await store.check()
        failures.append(store.failure)
        recorded = await store.record(channel(1), 0, answer("late"), NOW_MS)
        mark = await store.mark()
    kept = node.watermark.read()
    assert kept is not None
    assert failures == [caught.value, None]
    assert recorded.call.answer == answer()
    assert kept.sequence == mark.sequence


async def test_calls_of_a_suspect_session_are_taken_over_all_or_none(
    postgres: PostgresServer, database: str, backup: str, node: Node
) -> None:
    await node.live(database, calls=1)
    await take(postgres)
    await node.live(database, calls=2)
    async with node.store(database) as store:
        signed = await store.calls(channel(1), 0, 9)
        whole = await store.session(channel(1))
    assert (await node.live(backup)).doubt == "store-older"
    async with node.store(backup) as store:
        with pytest.raises(Refused) as caught:
            await store.reimport(channel(1), [signed[0], signed[2]], NOW_MS)
        assert len(await store.calls(channel(1), 0, 9)) == 1
        restored = await store.reimport(channel(1), signed, NOW_MS)
        assert await store.calls(channel(1), 0, 9) == signed
    assert caught.value.code == "recovery-conflict"
    assert whole is not None
    assert (restored.state.frontier, restored.state.spent) == (whole.state.frontier, whole.state.spent)
    assert restored.state.phase is Phase.SUSPECT
