"""Programs as tools."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from aioum.core.problem import problem_code
from aioum_node.upstream.command import CommandUpstream

REQUEST = b'{"arguments":{},"tool":"tested"}'


def command(
    *argv: str, directory: Path, environment: dict[str, str] | None = None, limit: int = 1_000
) -> CommandUpstream:
    return CommandUpstream(
        argv,
        tool_id="tested",
        environment=environment or {"PATH": os.environ["PATH"]},
        directory=directory,
        content_type="application/json",
        max_response_bytes=limit,
    )


async def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return
        if state == "Z":
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"process {pid} still runs")


async def test_command_reads_the_canonical_request_and_its_output_is_the_response(tmp_path: Path) -> None:
    answer = await command("cat", directory=tmp_path).run({}, REQUEST, 30)

    assert (answer.response, answer.status, answer.content_type) == (REQUEST, 200, "application/json")


async def test_command_that_ignores_a_large_request_still_answers(tmp_path: Path) -> None:
    answer = await command("echo", "hi", directory=tmp_path).run({}, b"x" * 1_000_000, 30)

    assert answer.response == b"hi\n"


async def test_command_sees_only_the_environment_that_is_handed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOUM_SECRET_OF_THE_NODE", "x")

    answer = await command("/usr/bin/env", directory=tmp_path, environment={"A": "1"}).run({}, REQUEST, 30)

    assert answer.response == b"A=1\n"


async def test_command_runs_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("here")

    assert (await command("cat", "data.txt", directory=tmp_path).run({}, REQUEST, 30)).response == b"here"


async def test_exit_code_other_than_zero_is_a_failed_call(tmp_path: Path) -> None:
    answer = await command("sh", "-c", "echo out; echo secret >&2; exit 3", directory=tmp_path).run(
        {}, REQUEST, 30
    )

    assert problem_code(answer.response) == "tool-failed"
    assert b"secret" not in answer.response


async def test_program_that_does_not_exist_is_unreachable(tmp_path: Path) -> None:
    answer = await command("/no/such/program", directory=tmp_path).run({}, REQUEST, 30)

    assert problem_code(answer.response) == "upstream-unreachable"


async def test_output_over_the_limit_ends_the_command(tmp_path: Path) -> None:
    answer = await command("yes", directory=tmp_path).run({}, REQUEST, 30)

    assert problem_code(answer.response) == "response-too-large"


async def test_output_that_is_not_text_is_a_failed_call(tmp_path: Path) -> None:
    answer = await command("printf", r"\377", directory=tmp_path).run({}, REQUEST, 30)

    assert problem_code(answer.response) == "response-not-text"


async def test_timeout_kills_the_command_and_its_children(tmp_path: Path) -> None:
    script = "sleep 600 & echo $! > child; echo $$ > leader; wait"

    answer = await command("sh", "-c", script, directory=tmp_path).run({}, REQUEST, 1)

    assert problem_code(answer.response) == "tool-timeout"
    await wait_until_gone(int((tmp_path / "child").read_text()))
    await wait_until_gone(int((tmp_path / "leader").read_text()))


async def test_cancellation_kills_the_command(tmp_path: Path) -> None:
    task = asyncio.create_task(
        command("sh", "-c", "echo $$ > leader; exec sleep 600", directory=tmp_path).run({}, REQUEST, 300)
    )
    leader = tmp_path / "leader"
    deadline = time.monotonic() + 10
    while not (leader.exists() and leader.read_text().endswith("\n")) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await wait_until_gone(int(leader.read_text()))


async def test_child_that_left_the_group_and_holds_the_output_open_only_costs_the_timeout(
    tmp_path: Path,
) -> None:
    program = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    open('child', 'w').write(str(os.getpid()) + '\\n')\n"
        "    time.sleep(600)\n"
        "print('done')\n"
    )

    answer = await command(sys.executable, "-c", program, directory=tmp_path).run({}, REQUEST, 1)

    assert problem_code(answer.response) == "tool-timeout"
    os.kill(int((tmp_path / "child").read_text()), 9)
