import random
import subprocess
import sys
from pathlib import Path

from aioum.core.ledger import Limits, Phase
from aioum.core.merkle import root_of
from aioum.core.problem import problem_code
from aioum.core.transcript import EMPTY_ROOT, frontier_root, leaf_hash, node_hash
from aioum_node.interrupted_calls import recover_interrupted
from aioum_node.store.port import Store, StoredSession
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.unit.node.store.samples import NOW_MS

CLIENTS = 16
ROUNDS = 6

Acknowledged = dict[tuple[str, int], int]
"""(step, session) -> how many calls it was acknowledged for, by the highest index."""


def write_until_killed(repository: Path, path: Path, lines: int, acknowledged: Acknowledged) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.node.store.writing_process", str(path), str(CLIENTS)],
        cwd=repository,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        for number, line in enumerate(process.stdout):
            step, session, *index = line.split()
            # A last line may be cut short by the kill; what it said in full was acknowledged.
            if line.endswith("\n"):
                acknowledged[(step, int(session))] = int(index[0]) + 1 if index else 1
            if number == lines:
                process.kill()


async def check(store: Store, stored: StoredSession, acknowledged: Acknowledged) -> None:
    state, session = stored.state, stored.facts.session_id
    calls = await store.calls(state.channel_id, 0, 1 << 24)
    assert [call.index for call in calls] == list(range(state.admitted))
    recorded = [call for call in calls if call.recorded]
    assert state.spent == sum(call.charge for call in recorded)
    assert state.reserved == sum(call.price for call in calls if not call.recorded)
    assert state.failures == sum(call.answer is not None and call.answer.failed for call in recorded)
    assert state.accepted == max((call.amount for call in calls), default=0)
    assert state.admitted >= acknowledged.get(("admitted", session), 0)
    assert len(recorded) >= acknowledged.get(("recorded", session), 0)
    leaves = [
        leaf_hash(call.index, call.request, call.answer.response, call.tool_id.encode())
        for call in recorded
        if call.answer is not None
    ]
    assert [call.leaf for call in recorded] == leaves
    # One call at a time: whatever is recorded is the prefix.
    assert frontier_root(state.frontier) == (root_of(leaves, node_hash) or EMPTY_ROOT)


async def test_a_killed_writer_loses_nothing_it_acknowledged_and_leaves_nothing_half(
    tmp_path: Path, repository: Path
) -> None:
    path = tmp_path / STORE_FILE
    randomness = random.Random(20_261_202)
    acknowledged: Acknowledged = {}
    interrupted = 0
    for _ in range(ROUNDS):
        write_until_killed(repository, path, randomness.randrange(CLIENTS, 1_500), acknowledged)
        async with SqliteStore(path, Limits(max_unpaid_calls=1_000_000)) as store:
            sessions = await store.sessions(tuple(Phase))
            assert len(sessions) >= sum(step == "opened" for step, _ in acknowledged)
            for stored in sessions:
                await check(store, stored, acknowledged)
            unrecorded = await store.unrecorded()
            interrupted += len(unrecorded)
            assert await recover_interrupted(store, NOW_MS) == len(unrecorded)
            assert await store.unrecorded() == []
            for channel_id, call in unrecorded:
                (after,) = await store.calls(channel_id, call.index, 1)
                assert after.answer is not None
                assert (problem_code(after.answer.response), after.charge) == ("interrupted", 0)
                assert after.answer.status == 500
            for stored in await store.sessions(tuple(Phase)):
                assert stored.state.drained
                await check(store, stored, acknowledged)
    assert interrupted > 0
