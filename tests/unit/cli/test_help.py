"""The help is complete, quick to import, and docs/cli.md is what it says."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from aioum.cli.help_page import help_page
from aioum.cli.lazy import LazyGroup
from aioum.cli.main import cli, main


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with the words that start it."""
    pending: list[tuple[str, click.Command]] = [("aioum", cli)]
    while pending:
        name, command = pending.pop(0)
        yield name, command
        if isinstance(command, click.Group):
            ctx = click.Context(command, info_name=name)
            for child in command.list_commands(ctx):
                found = command.get_command(ctx, child)
                assert found is not None
                pending.append((f"{name} {child}", found))


ALL = dict(commands())


def test_the_page_of_the_commands_is_current(repository: Path) -> None:
    page = (repository / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == help_page(), "run: .venv/bin/python -m aioum.cli.help_page > docs/cli.md"


def test_the_commands_of_the_issue_exist() -> None:
    assert set(ALL) >= {
        *(f"aioum devnet {name}" for name in ("up", "down", "status", "reset")),
        *(f"aioum services {name}" for name in ("list", "show")),
        *(f"aioum session {name}" for name in ("list", "show", "close", "exit", "export", "top-up")),
        *(f"aioum evidence {name}" for name in ("build", "show")),
        "aioum call",
        "aioum doctor",
    }


@pytest.mark.parametrize(
    "name", [name for name, command in ALL.items() if not isinstance(command, click.Group)]
)
def test_every_command_explains_itself_with_an_example_and_every_option(name: str) -> None:
    command = ALL[name]
    assert command.help
    assert f"\n  {name} " in f"{command.epilog}\n".replace("\n", " \n"), "an example starts with the command"
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_the_summaries_of_the_lazy_group_are_those_of_the_commands() -> None:
    assert isinstance(cli, LazyGroup)
    for name, (_, summary) in cli.lazy.items():
        assert ALL[f"aioum {name}"].get_short_help_str(200) == summary


def test_help_loads_no_slow_library() -> None:
    program = (
        "import sys; from aioum.cli.main import main; code = main(['--help']); "
        "slow = {'web3', 'aiohttp', 'asyncio', 'pydantic', 'rich', 'coincurve'} & set(sys.modules); "
        "sys.exit(' '.join(sorted(slow)) or code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "services" in done.stdout


def test_help_of_a_command_does_not_load_web3() -> None:
    for name in ("devnet", "services", "call", "session", "evidence", "doctor"):
        program = (
            f"import sys; from aioum.cli.main import main; code = main(['{name}', '--help']); "
            "sys.exit(' '.join({'web3', 'aiohttp'} & set(sys.modules)) or code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), name


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    from aioum import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"aioum, version {__version__}\n"
