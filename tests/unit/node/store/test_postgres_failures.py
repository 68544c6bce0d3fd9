import asyncio
import re
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from aioum.core.errors import AioumError, ConfigError, OutcomeUnknown
from aioum.core.ledger import Admitted, Limits, Phase, seal
from aioum.core.types import Bytes32
from aioum_node.store.postgres.driver import Connection, Connections, store_failed
from aioum_node.store.postgres.reader import PostgresReader
from aioum_node.store.postgres.steps import Record, Result, Step
from aioum_node.store.postgres.store import PostgresStore
from aioum_node.store.postgres.writer import GroupWriter
from tests.postgres import PostgresServer, schema_of
from tests.unit.node.store.conformance import admitted
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request
from tests.unit.node.store.test_crash import Acknowledged, check

# Ends the connection in the middle of the commit, when everything was written.
_CUT_THE_COMMIT = """
    CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON calls DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION cut()
"""


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return schema_of(tmp_path)


@pytest_asyncio.fixture
async def sql(postgres: PostgresServer, schema: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(postgres.url, server_settings={"search_path": schema})
    yield connection
    await connection.close()


@pytest.fixture
def stoppable(postgres: PostgresServer) -> Iterator[PostgresServer]:
    yield postgres
    if not postgres.running:
        postgres.start()


async def test_a_url_that_is_none_is_refused_and_its_password_not_repeated(schema: str) -> None:
    store = PostgresStore("postgresql://me:s3cret@host:port/x", Limits(), schema=schema)
    with pytest.raises(ConfigError) as caught:
        await store.connect()
    await store.close()
    assert caught.value.code == "database-url-invalid"
    assert "s3cret" not in f"{caught.value}{caught.value.hint}"


async def test_a_password_that_breaks_the_url_is_in_no_log_that_shows_where_an_error_came_from(
    schema: str,
) -> None:
    store = PostgresStore("postgresql://me:pa/s3cret@host/x", Limits(), schema=schema)
    with pytest.raises(ConfigError) as caught:
        await store.connect()
    await store.close()
    assert "pa" not in "".join(re.findall(r"'(.*?)'", "".join(traceback.format_exception(caught.value))))


async def test_a_schema_name_that_is_none_is_refused(postgres: PostgresServer) -> None:
    with pytest.raises(ConfigError) as caught:
        PostgresStore(postgres.url, Limits(), schema='a"; DROP SCHEMA public')
    assert caught.value.code == "config-invalid"


async def test_a_database_that_forgets_is_refused(postgres: PostgresServer, schema: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with PostgresStore(f"{postgres.url}&synchronous_commit=off", Limits(), schema=schema):
            pass
    assert caught.value.code == "store-not-durable"


async def test_another_programs_schema_is_left_alone(
    postgres: PostgresServer, schema: str, sql: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await sql.execute(f"CREATE SCHEMA {schema}; CREATE TABLE theirs (id integer)")
    with pytest.raises(ConfigError) as caught:
        async with PostgresStore(postgres.url, Limits(), schema=schema):
            pass
    reader = PostgresReader.at(postgres.url, schema)
    with pytest.raises(ConfigError) as reading:
        await reader.find(1)
    await reader.close()
    tables = await sql.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'", schema
    )
    assert (caught.value.code, reading.value.code) == ("store-foreign", "store-foreign")
    assert [row[0] for row in tables] == ["theirs"]


async def test_a_schema_of_newer_software_is_refused(
    postgres: PostgresServer, schema: str, sql: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async with PostgresStore(postgres.url, Limits(), schema=schema):
        await sql.execute("INSERT INTO schema_versions VALUES (999, now())")
    with pytest.raises(ConfigError) as caught:
        async with PostgresStore(postgres.url, Limits(), schema=schema):
            pass
    reader = PostgresReader.at(postgres.url, schema)
    with pytest.raises(ConfigError) as reading:
        await reader.find(1)
    await reader.close()
    assert (caught.value.code, reading.value.code) == ("store-too-new", "store-too-new")


async def test_a_reader_of_a_database_without_a_store_says_so(postgres: PostgresServer, schema: str) -> None:
    reader = PostgresReader.at(postgres.url, schema)
    with pytest.raises(ConfigError) as caught:
        await reader.find(1)
    await reader.close()
    assert caught.value.code == "store-missing"


async def test_a_reader_sees_what_a_running_store_committed(postgres: PostgresServer, schema: str) -> None:
    async with PostgresStore(postgres.url, Limits(), schema=schema) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        await store.put_card(Bytes32(b"\x01" * 32), b"{}")
        reader = PostgresReader.at(postgres.url, schema)
        await admitted(store, 1, PRICE)
        await store.record(channel(1), 0, answer(), NOW_MS)
        stored, calls = await reader.session(channel(1)), await reader.calls(channel(1), 0, 9)
        card, position = await reader.card(Bytes32(b"\x01" * 32)), await reader.position("none")
        await reader.close()
        assert stored == await store.session(channel(1))
    assert (len(calls), card, position) == (1, b"{}", None)


async def test_a_commit_that_is_cut_off_is_an_unknown_outcome_and_the_store_recovers(
    postgres: PostgresServer, schema: str, sql: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    async with PostgresStore(postgres.url, Limits(), schema=schema) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        await sql.execute(_CUT_THE_COMMIT)
        with pytest.raises(OutcomeUnknown) as caught:
            await store.admit(channel(1), request(PRICE), NOW_MS)
        await sql.execute("DROP TRIGGER cut ON calls")
        # The same step again finds out: here nothing had happened.
        call = await admitted(store, 1, PRICE)
    assert (caught.value.code, caught.value.details) == ("store-failed", {"outcome": "unknown"})
    assert call.index == 0


async def test_a_database_that_is_away_fails_with_what_is_known_and_is_used_again_when_it_is_back(
    stoppable: PostgresServer, schema: str
) -> None:
    async with PostgresStore(stoppable.url, Limits(), schema=schema) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        stoppable.stop(mode="immediate")
        with pytest.raises(AioumError) as writing:
            await store.admit(channel(1), request(PRICE), NOW_MS)
        with pytest.raises(AioumError) as reading:
            await store.session(channel(1))
        with pytest.raises(AioumError) as putting:
            await store.put_position("scan", 1, b"\x01" * 32)
        stoppable.start()
        call = await admitted(store, 1, PRICE)
    assert (writing.value.code, writing.value.details) == ("store-failed", {"outcome": "not-done"})
    assert (reading.value.code, reading.value.details) == ("store-failed", {"outcome": "nothing-read"})
    assert (putting.value.code, putting.value.details) == ("store-failed", {"outcome": "not-done"})
    assert call.index == 0


async def test_more_waiting_steps_than_allowed_are_refused(postgres: PostgresServer, schema: str) -> None:
    async with PostgresStore(postgres.url, Limits(), schema=schema, max_queued_steps=5) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        steps = await asyncio.gather(
            *(store.admit(channel(1), request(PRICE), NOW_MS) for _ in range(8)), return_exceptions=True
        )
        refused = [step.code for step in steps if isinstance(step, AioumError)]
        assert refused == ["store-busy"] * 3
        assert (await store.admit(channel(1), request(PRICE), NOW_MS)).call.index == 0


async def test_a_caller_that_stops_waiting_disturbs_nobody(postgres: PostgresServer, schema: str) -> None:
    async with PostgresStore(postgres.url, Limits(), schema=schema) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        step = asyncio.ensure_future(store.admit(channel(1), request(PRICE), NOW_MS))
        await asyncio.sleep(0)
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        # The step happened all the same, as a retry finds.
        assert (await store.admit(channel(1), request(PRICE), NOW_MS)).call.index == 0


async def test_steps_of_one_session_happen_in_the_order_they_came(
    postgres: PostgresServer, schema: str
) -> None:
    async with PostgresStore(
        postgres.url, Limits(max_unpaid_calls=99), schema=schema, max_steps_per_group=3, max_groups=4
    ) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        steps: list[asyncio.Future[object]] = []
        for index in range(10):
            wanted = request((index + 1) * PRICE, text=f"{index}")
            steps.append(asyncio.ensure_future(store.admit(channel(1), wanted, NOW_MS)))
            steps.append(asyncio.ensure_future(store.record(channel(1), index, answer(), NOW_MS)))
        await asyncio.gather(*steps)
        stored = await store.session(channel(1))
    assert stored is not None
    assert (stored.state.frontier.size, stored.state.spent) == (10, 10 * PRICE)


async def _write(store: PostgresStore, number: int, acknowledged: Acknowledged) -> None:
    stored = await store.open(facts(number), opened(number), NOW_MS)
    acknowledged["opened", number] = 1
    amount = stored.state.accepted
    while True:
        amount += PRICE
        step = await store.admit(channel(number), request(amount, text=f"{number}:{amount}"), NOW_MS)
        assert isinstance(step, Admitted)
        acknowledged["admitted", number] = step.call.index + 1
        await store.record(channel(number), step.call.index, answer(f"{amount}" * 50), NOW_MS)
        acknowledged["recorded", number] = step.call.index + 1
        if step.call.index == 40:
            return


async def test_a_server_that_crashes_loses_nothing_it_acknowledged_and_leaves_nothing_half(
    stoppable: PostgresServer, schema: str
) -> None:
    acknowledged: Acknowledged = {}
    numbers = range(1, 9)
    async with PostgresStore(stoppable.url, Limits(), schema=schema) as store:
        writers = [asyncio.ensure_future(_write(store, number, acknowledged)) for number in numbers]
        while acknowledged.get(("recorded", 1), 0) < 5:
            await asyncio.wait(writers, timeout=0.01)
        await asyncio.to_thread(stoppable.stop, mode="immediate")
        outcomes = await asyncio.gather(*writers, return_exceptions=True)
        assert {outcome.code for outcome in outcomes if isinstance(outcome, AioumError)} == {"store-failed"}
        stoppable.start()
        sessions = await store.sessions(tuple(Phase))
        assert len(sessions) == len(numbers)
        for stored in sessions:
            await check(store, stored, acknowledged)
        await store.update(channel(1), partial(seal, reason="test"), NOW_MS)


async def test_steps_that_are_tried_one_by_one_are_given_up_together_when_the_server_goes_away() -> None:
    tried = []

    async def perform(steps: Sequence[Step]) -> list[Result | Exception]:
        tried.append(len(steps))
        away = len(steps) == 1 and len(tried) > 2
        cause: Exception = OSError("nobody there") if away else asyncpg.DataError("no such value")
        raise store_failed(cause, "not-done") from cause

    writer = GroupWriter(perform, max_queued_steps=9, max_steps_per_group=9, max_groups=1)
    steps = await asyncio.gather(
        *(writer.submit(Record(channel(number), 0, answer(), NOW_MS)) for number in range(5)),
        return_exceptions=True,
    )
    await writer.close()
    assert tried == [5, 1, 1]
    assert [step.code for step in steps if isinstance(step, AioumError)] == ["store-failed"] * 5


async def test_a_process_that_stands_still_in_a_transaction_does_not_fail_those_who_wait_for_it(
    postgres: PostgresServer, schema: str
) -> None:
    async with PostgresStore(postgres.url, Limits(), schema=schema) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        still = Connections(
            postgres.url, schema, _nothing, max_writers=1, max_readers=0, idle_timeout_seconds=0.1
        )
        with pytest.raises(OutcomeUnknown):
            async with still.transaction() as connection:
                await connection.execute("SELECT FROM accounts FOR UPDATE")
                sealed = await store.update(channel(1), partial(seal, reason="test"), NOW_MS)
        await still.close()
    assert sealed.state.phase is Phase.SEALED


async def _nothing(connection: Connection) -> None:
    return


async def test_the_server_undoes_a_transaction_that_stands_still_before_others_give_up_waiting(
    postgres: PostgresServer, schema: str
) -> None:
    connections = Connections(postgres.url, schema, _nothing, max_writers=0, max_readers=1)
    found = await connections.read(
        lambda connection: connection.fetchrow(
            "SELECT current_setting('idle_in_transaction_session_timeout')::interval, "
            "current_setting('lock_timeout')::interval"
        )
    )
    await connections.close()
    assert found is not None
    assert 0 < found[0].total_seconds() < found[1].total_seconds()
