"""Several processes on one PostgreSQL store: each is a store of its own here, with its own connections."""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import asyncpg
import pytest
import pytest_asyncio

from aioum.core.errors import AioumError, ConfigError, Refused
from aioum.core.ledger import Admitted, Limits, SessionState, observe_chain
from aioum.core.problem import problem_code
from aioum_node.failures import failed
from aioum_node.interrupted_calls import recover_interrupted
from aioum_node.store.postgres.leases import require
from aioum_node.store.postgres.reader import STRAYS
from aioum_node.store.postgres.schema import CURRENT_VERSION
from aioum_node.store.postgres.store import PostgresStore
from tests.pens import Pen
from tests.postgres import PostgresServer, schema_of
from tests.unit.node.store.conformance import admitted
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

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Processes = tuple[PostgresStore, PostgresStore, PostgresStore]
LIMITS = Limits(max_in_flight=16, max_unpaid_calls=1_000)


@pytest_asyncio.fixture
async def processes(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Processes]:
    made = [
        PostgresStore(postgres.url, LIMITS, schema=schema_of(tmp_path), lock_timeout_seconds=0.2)
        for _ in range(3)
    ]
    # At once, so that they migrate at once.
    await asyncio.gather(*(store.connect() for store in made))
    await made[0].open(facts(1), opened(1), NOW_MS)
    yield made[0], made[1], made[2]
    for store in made:
        await store.close()


@pytest_asyncio.fixture
async def sql(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Sql]:
    connection = await asyncpg.connect(postgres.url, server_settings={"search_path": schema_of(tmp_path)})
    yield connection
    await connection.close()


async def fall_silent(sql: Sql, store: PostgresStore) -> None:
    """As if the process had not renewed for too long."""
    await sql.execute("UPDATE processes SET alive_until = '-infinity' WHERE id = $1", store.process)


async def test_processes_that_start_together_make_one_store_and_are_told_apart(
    processes: Processes, sql: Sql
) -> None:
    applied = [row["version"] for row in await sql.fetch("SELECT version FROM schema_versions ORDER BY 1")]
    assert applied == list(range(1, CURRENT_VERSION + 1))
    assert len({store.process for store in processes}) == 3


async def test_two_hundred_replays_of_one_voucher_over_three_processes_are_one_call(
    processes: Processes,
) -> None:
    steps = await asyncio.gather(
        *(processes[number % 3].admit(channel(1), request(PRICE), NOW_MS) for number in range(200))
    )
    assert sum(isinstance(step, Admitted) for step in steps) == 1
    assert {step.call.index for step in steps} == {0}
    records = await asyncio.gather(
        *(processes[n % 3].record(channel(1), 0, answer(f"r{n}"), NOW_MS) for n in range(200))
    )
    assert sum(recorded.won for recorded in records) == 1
    assert len({recorded.call for recorded in records}) == 1
    stored = await processes[2].session(channel(1))
    assert stored is not None
    assert (stored.state.admitted, stored.state.spent, stored.state.frontier.size) == (1, PRICE, 1)


async def test_of_two_envelopes_on_one_head_in_two_processes_one_is_admitted_and_the_other_kept(
    processes: Processes,
) -> None:
    await processes[0].open(signed_facts(2), opened(2, signed=True), NOW_MS)
    pen = Pen(channel(2))
    drafts = [pen.draft(b"%d" % number, 0) for number in range(2)]
    steps = await asyncio.gather(
        *(
            processes[number].admit(channel(2), request(PRICE, text=f"{number}", envelope=draft), NOW_MS)
            for number, draft in enumerate(drafts)
        ),
        return_exceptions=True,
    )
    (loser,) = [number for number, step in enumerate(steps) if isinstance(step, Refused)]
    assert isinstance(steps[1 - loser], Admitted)
    kept = await processes[2].equivocations(channel(2))
    assert [item.envelope for item in kept] == [drafts[loser]]


async def test_processes_that_open_the_same_sessions_in_other_orders_agree_and_never_stand_still(
    processes: Processes,
) -> None:
    randomness = random.Random(4)
    numbers = [number for number in range(10, 60) for _ in processes]
    randomness.shuffle(numbers)
    stored = await asyncio.gather(
        *(
            processes[place % 3].open(facts(number), opened(number, deposit=place), NOW_MS)
            for place, number in enumerate(numbers)
        )
    )
    deposits: dict[bytes, int] = {}
    for item in stored:
        first = deposits.setdefault(item.facts.channel_id, item.state.deposit)
        assert item.state.deposit == first
    assert len(deposits) == 50


async def test_groups_of_the_same_sessions_in_other_orders_never_stand_still(processes: Processes) -> None:
    numbers = list(range(10, 40))
    await asyncio.gather(*(processes[0].open(facts(n), opened(n), NOW_MS) for n in numbers))
    randomness = random.Random(5)

    async def raise_deposits(store: PostgresStore) -> None:
        for _ in range(10):
            randomness.shuffle(numbers)
            await asyncio.gather(
                *(store.update(channel(number), _one_more, NOW_MS) for number in list(numbers))
            )

    await asyncio.gather(*map(raise_deposits, processes))
    for number in numbers:
        stored = await processes[1].session(channel(number))
        assert stored is not None
        assert stored.state.deposit == opened(number).deposit + 30


def _one_more(state: SessionState) -> SessionState:
    return replace(state, deposit=state.deposit + 1)


async def test_a_living_process_keeps_its_open_calls(processes: Processes) -> None:
    await admitted(processes[0], 1, PRICE)
    assert await processes[1].unrecorded() == []
    assert await recover_interrupted(processes[1], NOW_MS) == 0


async def test_open_calls_of_a_process_that_left_are_taken_over(processes: Processes) -> None:
    call = await admitted(processes[0], 1, PRICE)
    await processes[0].close()
    assert await processes[1].unrecorded() == [(channel(1), call)]
    taken = await asyncio.gather(*(recover_interrupted(store, NOW_MS) for store in processes[1:]))
    assert sum(taken) == 1
    (after,) = await processes[2].calls(channel(1), 0, 9)
    assert after.answer is not None
    assert (problem_code(after.answer.response), after.charge) == ("interrupted", 0)


async def test_a_process_that_was_only_silent_loses_to_what_was_taken_over_from_it(
    processes: Processes, sql: Sql
) -> None:
    silent, other, _ = processes
    await admitted(silent, 1, PRICE)
    await fall_silent(sql, silent)
    assert await recover_interrupted(other, NOW_MS) == 1
    late = await silent.record(channel(1), 0, answer("late"), NOW_MS)
    assert (late.won, late.call.charge) == (False, 0)
    assert late.call.answer == failed("interrupted")
    stored = await other.session(channel(1))
    assert stored is not None
    assert (stored.state.spent, stored.state.failures, stored.state.frontier.size) == (0, 1, 1)


async def test_a_process_that_speaks_again_is_another_and_its_new_calls_are_its_own(
    processes: Processes, sql: Sql
) -> None:
    silent, other, _ = processes
    former = silent.process
    await fall_silent(sql, silent)
    await silent.renew()
    assert silent.process != former
    await admitted(silent, 1, PRICE)
    assert await other.unrecorded() == []


async def test_a_call_that_another_process_runs_is_answered_when_it_is_recorded(processes: Processes) -> None:
    await admitted(processes[0], 1, PRICE)
    waiting = asyncio.ensure_future(processes[1].answered(channel(1), 0, 60))
    await asyncio.sleep(0)
    recorded = await processes[0].record(channel(1), 0, answer("done"), NOW_MS)
    assert await waiting == recorded.call


@pytest.mark.parametrize("why", ["its-own", "left", "silent", "too-late"])
async def test_a_call_that_nobody_runs_any_more_has_no_answer_to_wait_for(
    processes: Processes, sql: Sql, why: str
) -> None:
    await admitted(processes[0], 1, PRICE)
    if why == "left":
        await processes[0].close()
    if why == "silent":
        await fall_silent(sql, processes[0])
    asked = processes[0] if why == "its-own" else processes[1]
    assert await asked.answered(channel(1), 0, 0 if why == "too-late" else 60) is None


# --- leases ---


async def test_a_store_that_others_use_is_nobodys_alone_and_who_starts_meanwhile_waits(
    processes: Processes, sql: Sql, postgres: PostgresServer, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with processes[0].alone():
            pass
    for other in processes[1:]:
        await other.close()
    late = PostgresStore(postgres.url, LIMITS, schema=schema_of(tmp_path))
    async with processes[0].alone():
        starting = asyncio.create_task(late.connect())
        async with asyncio.timeout(30):
            while not await sql.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)
        await processes[0].open(facts(2), opened(2), NOW_MS)
        joined_meanwhile = late.process
    await starting
    found = await late.session(channel(2))
    await late.close()
    assert caught.value.code == "store-in-use"
    assert joined_meanwhile == 0
    assert found is not None


async def test_rows_that_belong_to_nothing_are_found_by_joins_and_not_one_by_one(
    processes: Processes, sql: Sql
) -> None:
    plans = ["\n".join(row[0] for row in await sql.fetch(f"EXPLAIN {query}")) for _, query in STRAYS]
    assert ["Anti Join" in plan for plan in plans] == [True] * len(STRAYS)


async def test_processes_bind_challenges_with_the_secret_of_the_first_of_them(
    processes: Processes, postgres: PostgresServer, tmp_path: Path
) -> None:
    own = [bytes([number]) * 32 for number in range(3)]

    agreed = await asyncio.gather(
        *(store.agreed_secret(secret) for store, secret in zip(processes, own, strict=True))
    )
    async with PostgresStore(postgres.url, LIMITS, schema=schema_of(tmp_path)) as later:
        kept = await later.agreed_secret(bytes(32))

    assert len({*agreed, kept}) == 1
    assert kept in own


async def test_one_process_at_a_time_holds_a_lease(processes: Processes) -> None:
    taken = await asyncio.gather(*(store.leases.take("settling") for store in processes))
    (holder,) = [number for number, lease in enumerate(taken) if lease is not None]
    again = await processes[holder].leases.take("settling")
    assert again == taken[holder]
    assert await processes[holder - 1].leases.take("something else") is not None


@pytest.mark.parametrize("how", ["released", "left", "lapsed"])
async def test_a_lease_that_is_free_again_is_taken_with_a_higher_token(
    processes: Processes, sql: Sql, how: str
) -> None:
    first = await processes[0].leases.take("settling")
    assert first is not None
    if how == "released":
        await processes[0].leases.release(first)
    elif how == "left":
        await processes[0].close()
    else:
        await sql.execute("UPDATE leases SET held_until = clock_timestamp() - interval '1 s'")
    second = await processes[1].leases.take("settling")
    assert second is not None
    assert (second.name, second.process) == ("settling", processes[1].process)
    assert second.token > first.token


async def test_a_holder_that_was_overtaken_writes_nothing(processes: Processes, sql: Sql) -> None:
    stale = await processes[0].leases.take("settling")
    await sql.execute("UPDATE leases SET held_until = clock_timestamp() - interval '1 s'")
    current = await processes[1].leases.take("settling")
    assert stale is not None
    assert current is not None
    async with sql.transaction():
        await require(sql, current)
        with pytest.raises(Refused) as caught:
            await require(sql, stale)
    # A holder that gives back what it lost takes nothing from the next one.
    await processes[0].leases.release(stale)
    assert await processes[0].leases.take("settling") is None
    assert caught.value.code == "lease-lost"


async def test_a_lease_that_lapsed_unnoticed_has_a_new_token_for_its_holder_too(
    processes: Processes, sql: Sql
) -> None:
    first = await processes[0].leases.take("settling")
    await sql.execute("UPDATE leases SET held_until = clock_timestamp() - interval '1 s'")
    second = await processes[0].leases.take("settling")
    assert first is not None
    assert second is not None
    assert second.token == first.token + 1


async def test_a_session_that_is_locked_for_too_long_fails_its_steps_and_they_can_be_repeated(
    processes: Processes, sql: Sql
) -> None:
    await processes[0].open(facts(2), opened(2), NOW_MS)
    watch = partial(observe_chain, deposit=5, close_pending=False)
    async with sql.transaction():
        await sql.execute(
            "SELECT FROM accounts JOIN sessions USING (id) WHERE channel_id = $1 FOR UPDATE OF accounts",
            channel(1),
        )
        impatient = processes[0]
        steps = await asyncio.gather(
            impatient.update(channel(1), watch, NOW_MS),
            impatient.update(channel(2), watch, NOW_MS),
            return_exceptions=True,
        )
    assert isinstance(steps[0], AioumError)
    assert (steps[0].code, steps[0].details) == ("store-failed", {"outcome": "not-done"})
    assert not isinstance(steps[1], BaseException)
    assert (await impatient.update(channel(1), watch, NOW_MS)).state.deposit == 5
