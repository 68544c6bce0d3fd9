import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from aioum.cli.failures import FAILED, INTERRUPTED, WRONG_USAGE, report
from aioum.cli.main import main
from aioum.core.errors import PolicyRefused


def test_a_refusal_is_one_error_line_with_its_code_and_one_hint_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = PolicyRefused("the deposit is used up", code="deposit-exhausted", hint="top up")
    assert report(error, verbose=False) == FAILED
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "error: the deposit is used up [deposit-exhausted]\nhint: top up\n"


def test_the_only_error_of_a_group_speaks_for_the_group(capsys: pytest.CaptureFixture[str]) -> None:
    group = ExceptionGroup("tasks", [PolicyRefused("no", code="deposit-exhausted")])
    assert report(group, verbose=False) == FAILED
    assert capsys.readouterr().err == "error: no [deposit-exhausted]\n"


def test_a_message_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    report(PolicyRefused("a\x1b[2Jb\u202ec", code="deposit-exhausted"), verbose=False)
    assert capsys.readouterr().err == "error: a\\x1b[2Jb\\u202ec [deposit-exhausted]\n"


def test_a_traceback_is_shown_only_when_it_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError) as caught:
        raise KeyError("bug")
    for verbose in (False, True):
        assert report(caught.value, verbose=verbose) == FAILED
        printed = capsys.readouterr().err
        assert ("Traceback" in printed) is verbose
        assert "[internal-error]" in printed


def test_a_file_that_cannot_be_used_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:
        (tmp_path / "absent").read_text()
    assert report(caught.value, verbose=False) == FAILED
    assert (
        capsys.readouterr().err
        == f"error: {tmp_path / 'absent'}: No such file or directory [file-unusable]\n"
    )


def test_an_interrupt_has_the_shells_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(click.Abort(), verbose=False) == INTERRUPTED
    assert capsys.readouterr().err == "error: interrupted [interrupted]\n"


def test_a_request_to_leave_is_not_an_error() -> None:
    with pytest.raises(SystemExit):
        report(SystemExit(3), verbose=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["services", "list", "--no-such-option"],
        ["services", "list", "--rpc", "localhost:8545"],
        ["services", "show"],
        ["session", "show", "not-a-session"],
        ["call", "1", "wordcount", "--devnet-account", "17"],
        ["call", "1", "wordcount", "--key-file", "a", "--key-store", "b"],
        ["evidence", "build", "1", "--claim", "boredom"],
        ["evidence", "build", "1", "--claim", "quality", "--disclose", "1,x"],
    ],
)
def test_wrong_usage_is_exit_code_two_and_says_where_help_is(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == WRONG_USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    first, second = printed.err.splitlines()
    assert first.startswith("error: ")
    assert first.endswith("[usage]")
    assert second.startswith("hint: aioum")
    assert second.endswith("--help")


@pytest.mark.parametrize("arguments", [[], ["session"]])
def test_a_group_without_a_command_prints_its_help_on_standard_error(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == WRONG_USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Usage: aioum")


def test_a_reader_that_goes_away_leaves_no_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from aioum.cli.main import main; sys.exit(main())", "--help"],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (FAILED, b"")
