"""docs/deploying-contracts.md says what `scripts/deploy --help` says."""

from pathlib import Path

import click
import pytest

from aioum.cli.deploy import deploy, main
from aioum.cli.help_page import WIDTH_CHARACTERS


def test_the_page_has_the_options_as_the_command_tells_them(repository: Path) -> None:
    ctx = click.Context(deploy, info_name="scripts/deploy", terminal_width=WIDTH_CHARACTERS)
    ctx.help_option_names = ["-h", "--help"]
    page = (repository / "docs" / "deploying-contracts.md").read_text(encoding="utf-8")
    assert f"```text\n{deploy.get_help(ctx)}\n```\n" in page


def test_an_account_has_to_be_named_exactly_once(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--rpc-url", "http://127.0.0.1:1", "--grace-seconds", "900"]
    for more in ([], ["--keystore", "key.json", "--devnet-account", "0"]):
        assert main([*arguments, *more]) == 2
        assert "--keystore or --devnet-account" in capsys.readouterr().err


def test_no_option_takes_a_secret() -> None:
    names = {name for parameter in deploy.params for name in parameter.opts}
    assert {name for name in names if "key" in name or "password" in name} == {
        "--keystore",
        "--password-file",
    }
