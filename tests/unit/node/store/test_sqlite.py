import asyncio
import multiprocessing
import resource
import sqlite3
import stat
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlite_utils import Database

from aioum.core.errors import AioumError, ConfigError, OutcomeUnknown
from aioum.core.ledger import Call, Limits, Phase, seal
from aioum.core.seats import NO_SEATS
from aioum.core.types import Bytes32
from aioum_node.store import rows
from aioum_node.store.port import Store
from aioum_node.store.reader import SqliteReader
from aioum_node.store.schema import APPLICATION_ID, migrations
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.unit.node.store.conformance import LIMITS, admitted
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request
from tests.unit.node.store.signed_conformance import SignedSessionConformance, asked, opened_signed


class TestSqliteStore(SignedSessionConformance):
    def make(self, folder: Path) -> Store:
        return SqliteStore(folder / STORE_FILE, LIMITS)


class TestSqliteStoreThatKeepsOneSessionInMemory(SignedSessionConformance):
    def make(self, folder: Path) -> Store:
        return SqliteStore(folder / STORE_FILE, LIMITS, max_cached_sessions=1)


def _hold(
    path: Path, ready: "multiprocessing.synchronize.Event", done: "multiprocessing.synchronize.Event"
) -> None:
    store = SqliteStore(path, Limits())
    ready.set()
    done.wait(30)
    asyncio.run(store.close())


def test_a_second_process_on_the_same_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(path, ready, done))
    holder.start()
    try:
        assert ready.wait(30)
        with pytest.raises(ConfigError) as caught:
            SqliteStore(path, Limits())
    finally:
        done.set()
        holder.join(30)
    assert caught.value.code == "store-locked"


async def test_the_lock_goes_with_the_store(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / STORE_FILE, Limits()) as first:
        incarnation = first.incarnation
    async with SqliteStore(tmp_path / STORE_FILE, Limits()) as second:
        assert second.incarnation == incarnation


async def test_a_store_keeps_its_incarnation_and_another_has_another(tmp_path: Path) -> None:
    incarnations = []
    for name in ("a", "a", "b"):
        async with SqliteStore(tmp_path / name / STORE_FILE, Limits()) as store:
            incarnations.append(store.incarnation)
    assert incarnations[0] == incarnations[1] != incarnations[2]
    assert {len(incarnation) for incarnation in incarnations} == {16}


async def test_files_of_a_store_are_its_owners_alone(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / STORE_FILE, Limits()) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o600}


async def test_another_programs_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (id)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        SqliteStore(path, Limits())
    assert caught.value.code == "store-foreign"
    assert path.read_bytes() == before
    reader = SqliteReader(path)
    with pytest.raises(ConfigError) as reading:
        await reader.find(1)
    await reader.close()
    assert reading.value.code == "store-foreign"


def _store_of_unsigned_sessions(path: Path) -> None:
    """A store as the version before signed sessions left it, with one call under way."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    migrations.apply(Database(connection, execute_plugins=False), stop_before="m002_submissions")
    connection.execute("INSERT INTO node VALUES (1, ?, 0)", (b"\x01" * 16,))
    connection.execute(rows.INSERT_SESSION, rows.session_row(1, facts(1), NOW_MS))
    state = replace(opened(1), admitted=1, accepted=PRICE, accepted_signature=b"v", reserved=PRICE)
    columns = rows.account_row(1, state, NOW_MS, None, None)[:-1]
    connection.execute(f"INSERT INTO accounts VALUES ({', '.join('?' * len(columns))})", columns)
    call = Call(0, "echo", b"{}", PRICE, PRICE, PRICE.to_bytes(65, "big"))
    columns = rows.call_row(1, 1 << rows.CALL_BITS, call, NOW_MS)
    connection.execute(f"INSERT INTO calls VALUES ({', '.join('?' * len(columns))})", columns)
    connection.close()


async def test_a_store_from_before_signed_sessions_is_brought_up_to_date_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    _store_of_unsigned_sessions(path)
    reader = SqliteReader(path)
    with pytest.raises(ConfigError) as outdated:
        await reader.session(channel(1))
    await reader.close()
    async with SqliteStore(path, LIMITS) as store:
        repeat = await store.admit(channel(1), request(PRICE), NOW_MS)
        await store.record(channel(1), 0, answer(), NOW_MS)
        following = await admitted(store, 1, 2 * PRICE)
        stored = await store.session(channel(1))
        pen = await opened_signed(store)
        await asked(store, pen, 0)
    assert outdated.value.code == "store-outdated"
    assert (repeat.call.index, repeat.call.envelope, following.index) == (0, None, 1)
    assert stored is not None
    assert (stored.facts, stored.state.spent, stored.state.seats) == (facts(1), PRICE, NO_SEATS)


async def test_a_file_of_newer_software_is_refused(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    async with SqliteStore(path, Limits()):
        pass
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, 'm999_future', '')",
        (migrations.name,),
    )
    connection.commit()
    connection.close()
    with pytest.raises(ConfigError) as caught:
        SqliteStore(path, Limits())
    assert caught.value.code == "store-too-new"
    reader = SqliteReader(path)
    with pytest.raises(ConfigError) as reading:
        await reader.find(1)
    await reader.close()
    assert reading.value.code == "store-too-new"


def test_a_file_that_is_no_database_fails_with_the_stores_code(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    path.write_bytes(b"not a database at all, but long enough to be read as one" * 100)
    with pytest.raises(AioumError) as caught:
        SqliteStore(path, Limits())
    assert caught.value.code == "store-failed"


def test_a_reader_of_a_folder_without_a_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        SqliteReader(tmp_path / STORE_FILE)
    assert caught.value.code == "store-missing"


async def test_a_reader_sees_what_a_running_store_committed(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    async with SqliteStore(path, Limits()) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        await store.put_card(Bytes32(b"\x01" * 32), b"{}")
        reader = SqliteReader(path)
        await admitted(store, 1, PRICE)
        await store.record(channel(1), 0, answer(), NOW_MS)
        stored, calls = await reader.session(channel(1)), await reader.calls(channel(1), 0, 9)
        card, position = await reader.card(Bytes32(b"\x01" * 32)), await reader.position("none")
        await reader.close()
        assert stored == await store.session(channel(1))
    assert (len(calls), card, position) == (1, b"{}", None)


async def test_beyond_its_size_the_store_refuses_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    big = "x" * 100_000
    kept = 0
    async with SqliteStore(path, Limits(), max_size_bytes=1_000_000) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        with pytest.raises(AioumError) as caught:
            for index in range(100):
                await admitted(store, 1, (index + 1) * PRICE, text=big)
                await store.record(channel(1), index, answer(), NOW_MS)
                kept += 1
        assert caught.value.code == "store-failed"
        assert not isinstance(caught.value, OutcomeUnknown)
        assert caught.value.details == {"outcome": "not-done"}
        stored = await store.session(channel(1))
        assert stored is not None
        assert stored.state.admitted == kept > 0
        # What fits is still written.
        await store.update(channel(1), partial(seal, reason="full"), NOW_MS)
    async with SqliteStore(path, Limits()) as store:
        assert len(await store.calls(channel(1), 0, 1_000)) == kept
        assert [found.state.phase for found in await store.sessions(tuple(Phase))] == [Phase.SEALED]


async def test_a_commit_that_the_disk_refuses_is_an_unknown_outcome_and_the_store_recovers(
    tmp_path: Path,
) -> None:
    path = tmp_path / STORE_FILE
    store = SqliteStore(path, Limits())
    await store.open(facts(1), opened(1), NOW_MS)
    log_size_bytes = path.with_name(STORE_FILE + "-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (log_size_bytes + 50_000, hard))
    try:
        with pytest.raises(OutcomeUnknown) as caught:
            await store.admit(channel(1), request(PRICE, text="x" * 200_000), NOW_MS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (caught.value.code, caught.value.details) == ("store-failed", {"outcome": "unknown"})
    failures = [store.failure]
    await store.check()
    failures.append(store.failure)
    # The same step again finds out: here nothing had happened.
    call = await admitted(store, 1, PRICE, text="x" * 200_000)
    assert call.index == 0
    # What one step cannot store says nothing of the disk.
    with pytest.raises(AioumError):
        await store.update(channel(1), lambda state: replace(state, deposit=2**200), NOW_MS)
    failures.append(store.failure)
    assert failures == [caught.value, None, None]
    await store.close()


async def test_more_waiting_steps_than_allowed_are_refused(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / STORE_FILE, Limits(), max_queued_steps=5) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        steps = await asyncio.gather(
            *(store.admit(channel(1), request(PRICE), NOW_MS) for _ in range(8)), return_exceptions=True
        )
        refused = [step.code for step in steps if isinstance(step, AioumError)]
        assert refused == ["store-busy"] * 3
        assert (await store.admit(channel(1), request(PRICE), NOW_MS)).call.index == 0


async def test_a_caller_that_stops_waiting_disturbs_nobody(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / STORE_FILE, Limits()) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        step = asyncio.ensure_future(store.admit(channel(1), request(PRICE), NOW_MS))
        await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        # The step happened all the same, as a retry finds.
        assert (await store.admit(channel(1), request(PRICE), NOW_MS)).call.index == 0


async def test_a_damaged_table_fails_reads_with_the_stores_code(tmp_path: Path) -> None:
    path = tmp_path / STORE_FILE
    async with SqliteStore(path, Limits()) as store:
        connection = sqlite3.connect(path)
        connection.execute("DROP TABLE positions")
        connection.close()
        with pytest.raises(AioumError) as caught:
            await store.position("scan")
    assert (caught.value.code, caught.value.details) == ("store-failed", {"outcome": "nothing-read"})
