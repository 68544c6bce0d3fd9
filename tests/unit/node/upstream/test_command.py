"""Programs as tools."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from aioum.core.problem import problem_code
from aioum_node.upstream.command import CommandLimits, CommandUpstream

REQUEST = b'{"arguments":{},"tool":"tested"}'


def command(
    *argv: str,
    directory: Path,
    environment: dict[str, str] | None = None,
    limit: int = 1_000,
    limits: CommandLimits | None = None,
    processes: asyncio.Semaphore | None = None,
) -> CommandUpstream:
    return CommandUpstream(
        argv,
        tool_id="tested",
        environment=environment or {"PATH": os.environ["PATH"]},
        directory=directory,
        content_type="application/json",
        max_response_bytes=limit,
        limits=limits,
        processes=processes,
    )


def python(program: str, directory: Path, limits: CommandLimits | None = None) -> CommandUpstream:
    return command(sys.executable, "-c", program, directory=directory, limits=limits)


async def written_pid(path: Path) -> int:
    """The pid in a file, once a whole line is there."""
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{path} was not written"
        await asyncio.sleep(0.01)
    return int(path.read_text())


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
    leader = await written_pid(tmp_path / "leader")

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await wait_until_gone(leader)


RUNAWAY = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for number in range(1, 60):
            try:
                import signal
                signal.signal(number, signal.SIG_IGN)
            except OSError:
                pass
        open("child", "w").write(str(os.getpid()) + "\\n")
        time.sleep(600)
    os._exit(0)
while not os.path.exists("child"):
    time.sleep(0.01)
"""


async def test_child_that_left_into_another_session_ends_with_the_program_and_the_answer_counts(
    tmp_path: Path,
) -> None:
    answer = await python(RUNAWAY + "print('done')", tmp_path).run({}, REQUEST, 30)

    assert answer.response == b"done\n"
    await wait_until_gone(await written_pid(tmp_path / "child"))


async def test_child_that_left_into_another_session_is_killed_at_the_timeout(tmp_path: Path) -> None:
    answer = await python(RUNAWAY + "time.sleep(600)", tmp_path).run({}, REQUEST, 2)

    assert problem_code(answer.response) == "tool-timeout"
    await wait_until_gone(await written_pid(tmp_path / "child"))


async def test_everything_a_command_started_dies_with_the_node(tmp_path: Path) -> None:
    node = tmp_path / "node.py"
    node.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.unit.node.upstream.test_command import REQUEST, RUNAWAY, python\n"
        "asyncio.run(python(RUNAWAY + 'time.sleep(600)', Path(sys.argv[1])).run({}, REQUEST, 300))\n"
    )
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, str(node), str(tmp_path)), env={**os.environ, "PYTHONPATH": os.getcwd()}
    )
    child = await written_pid(tmp_path / "child")

    running.kill()
    await running.wait()

    await wait_until_gone(child)


async def test_processes_over_the_limit_end_the_command(tmp_path: Path) -> None:
    bomb = (
        "import os, time\n"
        "while True:\n"
        "    try:\n"
        "        if os.fork() == 0: time.sleep(600)\n"
        "    except OSError: pass\n"
        "    time.sleep(0.005)\n"
    )

    answer = await python(bomb, tmp_path, CommandLimits(processes=8)).run({}, REQUEST, 60)

    assert problem_code(answer.response) == "tool-failed"


async def test_memory_over_the_limit_is_not_given(tmp_path: Path) -> None:
    limits = CommandLimits(memory_bytes=64_000_000)

    greedy = await python("x = bytearray(500_000_000); print('had it')", tmp_path, limits).run(
        {}, REQUEST, 30
    )
    modest = await python("x = bytearray(5_000_000); print('had it')", tmp_path, limits).run({}, REQUEST, 30)

    assert problem_code(greedy.response) == "tool-failed"
    assert modest.response == b"had it\n"


async def test_memory_that_no_process_limit_counts_ends_the_command_too(tmp_path: Path) -> None:
    shared = (
        "import mmap, time\n"
        "memory = mmap.mmap(-1, 200_000_000)\n"
        "for start in range(0, 200_000_000, 4096): memory[start] = 1\n"
        "time.sleep(600)\n"
    )

    answer = await python(shared, tmp_path, CommandLimits(memory_bytes=100_000_000)).run({}, REQUEST, 60)

    assert problem_code(answer.response) == "tool-failed"


async def test_processor_time_over_the_limit_is_a_timeout(tmp_path: Path) -> None:
    answer = await python("while True: pass", tmp_path, CommandLimits(cpu_seconds=1)).run({}, REQUEST, 60)

    assert problem_code(answer.response) == "tool-timeout"


async def test_file_over_the_limit_ends_the_program(tmp_path: Path) -> None:
    program = "head -c 1000000 /dev/zero > big && echo written"
    limits = CommandLimits(file_bytes=10_000)

    answer = await command("sh", "-c", program, directory=tmp_path, limits=limits).run({}, REQUEST, 30)

    assert problem_code(answer.response) == "tool-failed"
    assert (tmp_path / "big").stat().st_size == 10_000


async def test_limits_of_descriptors_and_cores_hold_in_the_program(tmp_path: Path) -> None:
    limits = CommandLimits(open_files=20)

    answer = await command("sh", "-c", "ulimit -n; ulimit -c", directory=tmp_path, limits=limits).run(
        {}, REQUEST, 30
    )

    assert answer.response == b"20\n0\n"


async def test_program_holds_no_descriptor_of_the_node_and_cannot_gain_rights(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    with secret.open() as held:
        os.set_inheritable(held.fileno(), True)
        answer = await command(
            "sh", "-c", "ls /proc/self/fd | wc -l; grep NoNewPrivs /proc/self/status", directory=tmp_path
        ).run({}, REQUEST, 30)

    # The three standard streams, and the folder that `ls` reads.
    assert answer.response.split() == [b"4", b"NoNewPrivs:", b"1"]


async def test_environment_of_the_node_is_not_in_the_processes_above_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOUM_SECRET_OF_THE_NODE", "x")
    program = (
        "cat /proc/$PPID/environ /proc/self/environ | tr '\\0' '\\n'; cat /proc/$PPID/cmdline | tr '\\0' ' '"
    )

    answer = await command(
        "sh", "-c", program, directory=tmp_path, environment={"PATH": "/bin:/usr/bin", "S": "t"}
    ).run({}, REQUEST, 30)

    assert b"AIOUM_SECRET" not in answer.response
    warden = answer.response.splitlines()[-1]
    assert b"command_process.py" in warden
    assert b"S=t" not in warden


async def test_endless_error_output_costs_no_more_than_the_timeout(tmp_path: Path) -> None:
    answer = await command("sh", "-c", "exec yes >&2", directory=tmp_path).run({}, REQUEST, 1)

    assert problem_code(answer.response) == "tool-timeout"


async def test_commands_over_the_number_that_may_run_wait_within_their_time(tmp_path: Path) -> None:
    processes = asyncio.Semaphore(1)
    first = asyncio.create_task(
        command("sh", "-c", "echo $$ > leader; exec sleep 600", directory=tmp_path, processes=processes).run(
            {}, REQUEST, 300
        )
    )
    await written_pid(tmp_path / "leader")

    late = await command("echo", directory=tmp_path, processes=processes).run({}, REQUEST, 0.2)
    first.cancel()
    await asyncio.wait({first})
    after = await command("echo", directory=tmp_path, processes=processes).run({}, REQUEST, 30)

    assert problem_code(late.response) == "tool-timeout"
    assert after.response == b"\n"


async def test_program_that_kills_what_watches_it_dies_with_it(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "open('child', 'w').write(f'{os.getpid()}\\n')\n"
        "os.kill(os.getppid(), 9)\n"
        "time.sleep(600)\n"
    )

    answer = await python(program, tmp_path).run({}, REQUEST, 30)

    assert problem_code(answer.response) == "tool-failed"
    await wait_until_gone(await written_pid(tmp_path / "child"))
