import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import ConfigError
from aioum.core.transcript import Entry, canonical_request
from aioum.verify.command import CommandReExecutor
from aioum.verify.ports import ReExecutionFailed
from aioum.verify.report import Check, Status
from tests.unit.verify.honest import COMMAND, Honest, card_json, edited, judge

HONEST = Honest()


def python(program: str, timeout_seconds: float = 60.0) -> CommandReExecutor:
    return CommandReExecutor((sys.executable, "-c", program), timeout_seconds)


def leaves_mark(path: Path) -> CommandReExecutor:
    """A command whose start can be seen."""
    return python(f"open({str(path)!r}, 'w').close()")


async def re_execution(
    honest: Honest, re_executor: CommandReExecutor, package: dict[str, Any] | None = None
) -> Check:
    report = await judge(package or honest.package(), honest.chain(), re_executor=re_executor)
    return next(check for check in report.checks if check.name == "re-execution")


async def test_deterministic_calls_are_reproduced_and_skipped_ones_counted() -> None:
    check = await re_execution(HONEST, CommandReExecutor(COMMAND))

    assert check.status is Status.PASS
    assert check.details == {"toRun": 4, "reproduced": 4, "skippedFailed": 1, "skippedExempted": 1}


async def test_one_trailing_newline_is_tolerated_and_a_second_one_is_not() -> None:
    upper = "import json, sys; text = json.load(sys.stdin)['arguments']['text'].upper(); "

    one = await re_execution(HONEST, python(upper + "print(text)"))
    two = await re_execution(HONEST, python(upper + "print(text + '\\n')"))

    assert one.status is Status.PASS
    assert (two.status, two.codes) == (Status.FAIL, ("re-execution-diverged",))


async def test_the_command_gets_the_canonical_request_to_the_byte(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    program = f"import sys; data = sys.stdin.buffer.read(); open({str(seen)!r}, 'ab').write(data + b'\\n')"

    await re_execution(replace(HONEST, calls=HONEST.calls[:1]), python(program), None)

    assert seen.read_text(encoding="utf-8") == HONEST.calls[0].request + "\n"


async def test_a_divergence_names_the_first_call_that_diverged() -> None:
    program = (
        "import json, sys; text = json.load(sys.stdin)['arguments']['text']; "
        "sys.stdout.write(text.upper() if 'zero' in text else text)"
    )

    check = await re_execution(HONEST, python(program))

    assert check.codes == ("re-execution-diverged",)
    findings: Any = check.details["findings"]
    assert findings[0]["index"] == 1
    assert "Call 1" in check.summary


async def test_a_service_that_is_not_deterministic_is_never_judged_and_the_command_not_started(
    tmp_path: Path,
) -> None:
    honest = Honest(card=card_json(deterministic=False))

    check = await re_execution(honest, leaves_mark(tmp_path / "started"))

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("not-deterministic",))
    assert not (tmp_path / "started").exists()


async def test_a_card_that_the_terms_do_not_name_declares_nothing(tmp_path: Path) -> None:
    honest = Honest(card=card_json(deterministic=False))
    package = edited(honest.package(), lambda package: package.update(card=card_json()))

    check = await re_execution(honest, leaves_mark(tmp_path / "started"), package)

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("card-hash-mismatch",))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    "change, code",
    [
        (lambda package: package.pop("card"), "card-absent"),
        (lambda package: package["calls"][0].update(index=5), "transcript-invalid"),
    ],
)
async def test_without_a_card_or_well_formed_calls_nothing_is_started(
    tmp_path: Path, change: Any, code: str
) -> None:
    check = await re_execution(HONEST, leaves_mark(tmp_path / "started"), edited(HONEST.package(), change))

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, (code,))
    assert not (tmp_path / "started").exists()


async def test_a_card_that_cannot_be_read_declares_nothing() -> None:
    honest = Honest(card={"name": "Text service", "deterministic": {"kind": "command"}})

    assert (await re_execution(honest, CommandReExecutor(COMMAND))).codes == ("card-invalid",)


async def test_where_every_call_failed_or_is_exempted_nothing_is_run() -> None:
    only_skipped = tuple(
        replace(call, index=index) for index, call in enumerate((HONEST.calls[2], HONEST.calls[3]))
    )

    check = await re_execution(
        Honest(calls=only_skipped),
        CommandReExecutor(COMMAND),
        None,
    )

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("re-execution-nothing-to-run",))


async def test_a_command_that_fails_leaves_the_calls_unverified() -> None:
    check = await re_execution(HONEST, python("import sys; sys.exit('no model file')"))

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("re-execution-command-failed",))
    assert "no model file" in check.summary


async def test_a_command_that_hangs_leaves_the_calls_unverified() -> None:
    check = await re_execution(
        replace(HONEST, calls=HONEST.calls[:1]), python("import time; time.sleep(600)", timeout_seconds=0.3)
    )

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("re-execution-timeout",))


async def test_endless_output_is_a_divergence_and_ends_the_command() -> None:
    check = await re_execution(
        replace(HONEST, calls=HONEST.calls[:1]), python("while True: print('x' * 100000)")
    )

    assert check.codes == ("re-execution-diverged",)


@pytest.mark.parametrize("command", ["", "   ", "'unclosed", "/no/such/program --flag"])
async def test_a_command_that_cannot_be_started_is_an_error_of_the_caller(command: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        await re_execution(HONEST, CommandReExecutor.from_text(command))

    assert refusal.value.code == "re-execution-not-started"


def test_a_command_line_is_split_as_a_shell_does_and_not_run_by_one() -> None:
    command = CommandReExecutor.from_text("python 'my tool.py' $HOME; rm")

    assert command.arguments == ("python", "my tool.py", "$HOME;", "rm")


async def test_a_command_may_answer_without_reading_its_input() -> None:
    output = await python("print('answer')").run(b"x" * 1_000_000, max_output_bytes=100)

    assert output == b"answer\n"


async def test_output_is_kept_up_to_one_byte_above_the_limit() -> None:
    output = await python("import sys; sys.stdout.write('y' * 5000)").run(b"", max_output_bytes=10)

    assert output == b"y" * 11


async def test_much_output_on_stderr_does_not_block_the_command() -> None:
    program = "import sys; sys.stderr.write('z' * 1_000_000); print('done')"

    assert await python(program).run(b"", max_output_bytes=10) == b"done\n"


async def test_what_the_command_started_ends_with_it_at_the_timeout(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    program = (
        "import subprocess, sys; "
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        f"open({str(pid_file)!r}, 'w').write(str(child.pid)); child.wait()"
    )

    with pytest.raises(ReExecutionFailed) as failure:
        await python(program, timeout_seconds=3).run(b"", max_output_bytes=10)

    assert failure.value.code == "re-execution-timeout"
    deadline = time.monotonic() + 30
    while is_running(int(pid_file.read_text())):
        assert time.monotonic() < deadline


def is_running(pid: int) -> bool:
    """A killed process stays in the table, as a zombie, until its new parent reaps it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def test_many_calls_run_again_and_a_late_divergence_is_found() -> None:
    calls = tuple(
        Entry(index, "uppercase", canonical_request("uppercase", {"text": f"n{index}"}), f"N{index}")
        for index in range(11)
    )
    late = (*calls[:10], replace(calls[10], response="n10"))
    executor = CommandReExecutor(COMMAND)

    async def judged(entries: tuple[Entry, ...]) -> Check:
        honest = Honest(calls=entries)
        return await re_execution(honest, executor, honest.package())

    assert (await judged(calls)).details["reproduced"] == 11
    assert (await judged(late)).codes == ("re-execution-diverged",)
