"""A client killed at every single step, then started again: one deposit, no call twice, both records the
same.

Steps are the durable writes, of keys as well, the signatures of calls, the paid requests and the broadcasts
of transactions; each is crashed just before and just after it happened. No crash makes a client sign a second
call on one head.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.client import Chain
from aioum.core.hextext import channel_id, to_hex
from aioum.core.signing import LocalKey
from aioum.core.submission.framing import encode_base64
from aioum.devnet.running import RunningDevnet
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.conftest import FundAccount
from tests.many import strides

CALLS, DEPOSIT, TOP_UP = 4, 1_000, 500
SIDE_BY_SIDE = 4

Check = Callable[["Program", LocalKey, int], Awaitable[None]]


class Program:
    """One process that runs jobs, one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def run(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        return json.loads(await asyncio.wait_for(self._process.stdout.readline(), 60))

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.wait(), 30)


@pytest.fixture
async def programs(repository: Path) -> AsyncIterator[list[Program]]:
    """As many as wait for blocks side by side."""
    started = [
        Program(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.integration.client.crash_program",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=repository,
                limit=2**24,
            )
        )
        for _ in range(SIDE_BY_SIDE)
    ]
    yield started
    for program in started:
        await program.end()


async def spread(programs: list[Program], accounts: list[LocalKey], numbers: range, check: Check) -> None:
    """Check every number, each program with an account of its own."""
    left = iter(numbers)

    async def work(program: Program, key: LocalKey) -> None:
        for number in left:
            await check(program, key, number)

    async with asyncio.TaskGroup() as group:
        for program, key in zip(programs, accounts, strict=True):
            group.create_task(work(program, key))


def make_job(
    data_dir: Path, devnet: RunningDevnet, key: LocalKey, operator: ScriptedOperator, what: str
) -> dict[str, Any]:
    data_dir.mkdir()
    return {
        "what": what,
        "data_dir": str(data_dir),
        "deployment": str(devnet.deployment_file),
        "key": "0x" + key.secret_bytes().hex(),
        "service": operator.url,
        "deposit": DEPOSIT,
        "calls": CALLS,
        "top_up": TOP_UP,
        "kill_at": None,
    }


async def opened_sessions(chain: Chain, payer: LocalKey) -> int:
    events = await chain.events(0, (await chain.head()).number)
    return sum(event.name == "SessionOpened" and event.args["payer"] == payer.address for event in events)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("what", "scripted"),
    [
        pytest.param("buy", {}, id="one-after-the-other", marks=pytest.mark.long),
        pytest.param("together", {"limits": {"maxInFlight": 8}}, id="together"),
    ],
    indirect=["scripted"],
)
@pytest.mark.parametrize("stride", strides(4))
async def test_killed_at_any_step_a_client_buys_each_call_once_and_settles(
    what: str,
    stride: int,
    programs: list[Program],
    scripted: ScriptedOperator,
    fund_account: FundAccount,
    devnet: RunningDevnet,
    chain: Chain,
    tmp_path: Path,
) -> None:
    accounts = [(await fund_account()).key for _ in programs]
    whole = await programs[0].run(make_job(tmp_path / "whole", devnet, accounts[0], scripted, what))
    steps = whole["result"]["steps"]
    assert {"before keys", "after keys", "before create", "after create"} <= set(steps)
    assert {"before sign", "after sign", "before save", "before request", "after broadcast"} <= set(steps)

    async def check(program: Program, key: LocalKey, number: int) -> None:
        name = f"step {number}, {steps[number - 1]}"
        job = make_job(tmp_path / str(number), devnet, key, scripted, what)
        before = await opened_sessions(chain, key)
        killed = await program.run(job | {"kill_at": number})
        # Calls under way together do not always take the same number of requests.
        assert killed["killed"] or (what == "together" and killed["result"]), name
        result = (await program.run(job))["result"]
        assert result is not None, name
        assert (result["sessions"], await opened_sessions(chain, key) - before) == (1, 1), name
        channel = channel_id(result["channel"])
        assert result["responses"] == [str(call) for call in range(CALLS)], name
        ran = [text for at, text in scripted.runs if at == channel]
        assert ran == [str(call) for call in range(CALLS)], name
        assert [len(sent) for sent in scripted.envelopes_of(channel)] == [1] * CALLS, name
        last = {call.envelope.seat: call for call in scripted.calls[channel] if call.envelope}
        assert result["heads"] == {
            seat: encode_base64(call.envelope.submission(channel, call.request).head())
            for seat, call in last.items()
            if call.envelope
        }, name
        assert (result["spent"], result["deposit"]) == (100 * CALLS, DEPOSIT + TOP_UP), name
        on_chain = await chain.session(channel)
        assert on_chain is not None
        assert (to_hex(on_chain.root), on_chain.settled) == (result["root"], result["spent"]), name
        assert json.loads(result["package"])["resultsRoot"] == result["root"]

    await spread(programs, accounts, range(1, len(steps) + 1, stride), check)


@pytest.mark.slow
@pytest.mark.parametrize("stride", strides(3))
async def test_killed_at_any_step_of_a_withdrawal_a_client_gets_its_deposit_back(
    stride: int,
    programs: list[Program],
    scripted: ScriptedOperator,
    fund_account: FundAccount,
    devnet: RunningDevnet,
    chain: Chain,
    tmp_path: Path,
) -> None:
    accounts = [(await fund_account()).key for _ in programs]
    grace = await chain.grace_period_seconds()

    async def let_time_pass() -> None:
        while True:
            await asyncio.sleep(0.2)
            await devnet.increase_time(grace)

    async def check(program: Program, key: LocalKey, number: int) -> None:
        job = make_job(tmp_path / str(number), devnet, key, scripted, "exit")
        before = await chain.token_balance(devnet.token, key.address)
        await program.run(job | {"kill_at": number})
        result = (await program.run(job))["result"]
        assert result is not None, f"step {number}, {steps[number - 1]}"
        on_chain = await chain.session(channel_id(result["channel"]))
        assert on_chain is not None
        assert (on_chain.settled, on_chain.refunded) == (0, DEPOSIT)
        assert await chain.token_balance(devnet.token, key.address) == before

    passing = asyncio.create_task(let_time_pass())
    try:
        whole = await programs[0].run(make_job(tmp_path / "whole", devnet, accounts[0], scripted, "exit"))
        steps = whole["result"]["steps"]
        first = steps.index("before save") + 1
        await spread(programs, accounts, range(first, len(steps) + 1, stride), check)
    finally:
        passing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await passing
