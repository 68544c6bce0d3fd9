from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aioum.core.ledger import Limits, Phase, finalize
from aioum.core.merkle import root_of
from aioum.core.problem import PROBLEM_CONTENT_TYPE, problem_code
from aioum.core.transcript import frontier_root, node_hash
from aioum.core.types import ChannelId
from aioum_node.interrupted_calls import interrupt_session, recover_interrupted
from aioum_node.retention import RetentionLoop, remove_old
from aioum_node.store.port import StoredSession
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.pens import Pen
from tests.unit.node.store.conformance import admitted
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, signed_facts

RETENTION_MS = 1_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / STORE_FILE, Limits(max_in_flight=200)) as opened_store:
        yield opened_store


async def admitted_signed(store: SqliteStore, number: int, count: int) -> None:
    await store.open(signed_facts(number), opened(number, signed=True), NOW_MS)
    pen = Pen(channel(number))
    for cursor in range(count):
        await admitted(store, number, 100 * PRICE, envelope=pen.sign(b"{}", cursor))


async def test_interrupted_calls_are_recorded_as_failed_and_cost_nothing(store: SqliteStore) -> None:
    for number in (1, 2):
        await admitted_signed(store, number, 100)
        await store.record(channel(number), 50, answer(), NOW_MS)
    assert await recover_interrupted(store, NOW_MS) == 198
    assert await recover_interrupted(store, NOW_MS) == 0
    for number in (1, 2):
        stored = await store.session(channel(number))
        assert stored is not None
        assert (stored.state.drained, stored.state.spent, stored.state.reserved) == (True, PRICE, 0)
        calls = await store.calls(channel(number), 0, 100)
        for call in calls[:50] + calls[51:]:
            assert call.answer is not None
            assert problem_code(call.answer.response) == "interrupted"
            assert (call.answer.status, call.answer.content_type) == (500, PROBLEM_CONTENT_TYPE)
            assert (call.answer.failed, call.charge) == (True, 0)


async def test_interrupting_one_session_leaves_the_others_calls_alone(store: SqliteStore) -> None:
    for number in (1, 2):
        await admitted_signed(store, number, 70)
    stored = await store.session(channel(1))
    assert stored is not None
    await interrupt_session(store, stored, NOW_MS)
    assert {channel_id for channel_id, _ in await store.unrecorded()} == {channel(2)}
    late = await store.record(channel(1), 69, answer("late"), NOW_MS)
    assert (late.won, late.call.charge) == (False, 0)


async def test_calls_that_ended_before_the_interrupted_ones_keep_answer_charge_and_place(
    store: SqliteStore,
) -> None:
    await admitted_signed(store, 1, 100)
    ended = {index for index in range(100) if index % 7 == 3 or 60 < index < 70}
    for index in sorted(ended):
        await store.record(channel(1), index, answer(f"r{index}"), NOW_MS)
    stored = await store.session(channel(1))
    assert stored is not None
    await interrupt_session(store, stored, NOW_MS)
    after = await store.session(channel(1))
    assert after is not None
    calls = await store.calls(channel(1), 0, 100)
    assert {call.index for call in calls if call.charge} == ended
    assert (after.state.drained, after.state.ahead, after.state.reserved) == (True, (), 0)
    assert after.state.spent == len(ended) * PRICE
    leaves = [call.leaf for call in calls if call.leaf is not None]
    assert frontier_root(after.state.frontier) == root_of(leaves, node_hash)


async def test_only_final_sessions_older_than_the_limit_are_removed(store: SqliteStore) -> None:
    for number in (1, 2, 3):
        await store.open(facts(number), opened(number), NOW_MS - 10 * RETENTION_MS)
        await admitted(store, number, PRICE)
    await store.update(channel(1), finalize, NOW_MS - RETENTION_MS - 1)
    await store.update(channel(2), finalize, NOW_MS - RETENTION_MS)
    for number in (1, 2):
        await store.released(channel(number))
    removed = await remove_old(store, now_ms=NOW_MS, retention_ms=RETENTION_MS)
    assert removed == [channel(1)]
    left = await store.sessions(tuple(Phase))
    assert [stored.facts.channel_id for stored in left] == [channel(2), channel(3)]
    assert await store.calls(channel(1), 0, 9) == []


async def test_a_transcript_is_kept_for_as_long_as_money_of_its_session_is_held(store: SqliteStore) -> None:
    for number in range(1, 251):
        await store.open(facts(number), opened(number), NOW_MS)
        await store.update(channel(number), finalize, NOW_MS)
    await store.released(channel(250))
    later = NOW_MS + 1_000 * RETENTION_MS
    assert await remove_old(store, now_ms=later, retention_ms=RETENTION_MS) == [channel(250)]
    assert await remove_old(store, now_ms=later, retention_ms=RETENTION_MS) == []
    assert len(await store.held()) == 249


async def test_old_sessions_that_the_log_still_needs_stay_and_the_others_go(store: SqliteStore) -> None:
    for number in range(1, 6):
        await store.open(facts(number), opened(number), NOW_MS)
        await store.update(channel(number), finalize, NOW_MS)
        await store.released(channel(number))
    logged = {channel(2), channel(4)}

    async def is_logged(stored: StoredSession) -> bool:
        return stored.facts.channel_id in logged

    loop = RetentionLoop(
        store=store,
        retention_ms=RETENTION_MS,
        interval_seconds=60,
        now_ms=lambda: NOW_MS + RETENTION_MS + 1,
        may_forget=is_logged,
    )
    with capture_logs() as entries:
        assert await loop.run_once() == 2
    assert [entry["sessions"] for entry in entries if entry["event"] == "transcripts-wait-for-log"] == [3]
    left = await store.sessions(tuple(Phase))
    assert [stored.facts.channel_id for stored in left] == [channel(1), channel(3), channel(5)]
    logged.update(channel(number) for number in range(1, 6))
    assert await loop.run_once() == 3


async def test_one_round_removes_everything_that_is_old_enough_and_tells_each(store: SqliteStore) -> None:
    for number in range(1, 251):
        await store.open(facts(number), opened(number), NOW_MS)
        await store.update(channel(number), finalize, NOW_MS)
        await store.released(channel(number))
    told: list[ChannelId] = []
    loop = RetentionLoop(
        store=store,
        retention_ms=RETENTION_MS,
        interval_seconds=60,
        now_ms=lambda: NOW_MS + RETENTION_MS + 1,
        on_removed=told.append,
    )
    assert await loop.run_once() == 250
    assert told == [channel(number) for number in range(1, 251)]
    assert await store.sessions(tuple(Phase)) == []
    assert await loop.run_once() == 0
