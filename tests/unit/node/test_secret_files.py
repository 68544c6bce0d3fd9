"""Secrets come from private files, and from nowhere else."""

import json
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click import Option
from click.testing import CliRunner

from aioum.core.errors import ConfigError
from aioum_node.cli import main
from aioum_node.secret_files import MAX_SECRET_BYTES, read_secret
from aioum_node.service import load_tools
from aioum_node.settings import Settings, ToolSettings


def private(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_secret_is_the_line_of_its_file(tmp_path: Path) -> None:
    assert read_secret(private(tmp_path / "a", b"top secret\r\n"), "it") == "top secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_secret_that_others_may_read_is_none(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError) as caught:
        read_secret(private(tmp_path / "a", b"x", mode), "it")

    assert caught.value.code == "secret-file-exposed"


def test_credential_that_systemd_hands_over_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = private(tmp_path / "a", b"x", 0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))

    assert read_secret(path, "it") == "x"


@pytest.mark.parametrize(
    "content", [b"", b" \n", b"a\nb", "ä".encode(), b"a\0", b"x" * (MAX_SECRET_BYTES + 1)]
)
def test_file_without_one_line_of_text_holds_no_secret(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConfigError) as caught:
        read_secret(private(tmp_path / "a", content), "it")

    assert caught.value.code == "secret-file-malformed"


def test_secret_without_a_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_secret(tmp_path / "none", "it")

    assert caught.value.code == "secret-file-missing"


async def test_secrets_of_tools_reach_them_from_files(tmp_path: Path) -> None:
    async def key(request: web.Request) -> web.Response:
        return web.Response(text=request.headers["X-Key"])

    application = web.Application()
    application.router.add_post("/", key)
    private(tmp_path / "key", b"from a file\n")
    async with TestServer(application) as server:
        web_tool = ToolSettings(
            id="web",
            price=1,
            http=str(server.make_url("/")),
            trusted_host="127.0.0.1",
            headers_from_files={"X-Key": Path("key")},
        )
        command = ToolSettings(
            id="command",
            price=1,
            command=("sh", "-c", 'printf %s "$KEY"'),
            environment_from_files={"KEY": Path("key")},
        )
        async with load_tools(Settings(node_dir=tmp_path, tools=(web_tool, command))) as box:
            answers = [await box.tools[name].upstream.run({}, b"{}", 30) for name in ("web", "command")]

    assert [answer.response for answer in answers] == [b"from a file"] * 2


def test_no_option_and_no_variable_of_the_command_is_a_secret() -> None:
    words = ("password", "secret", "token", "key")
    named = {
        parameter.name
        for command in main.commands.values()
        for parameter in command.params
        if isinstance(parameter, Option) and any(word in (parameter.name or "") for word in words)
    }

    # A file, or `token`, which is the currency.
    assert {name for name in named if not str(name).endswith("_file")} <= {"token", "key_source"}


def test_settings_that_are_shown_name_the_files_alone(tmp_path: Path) -> None:
    private(tmp_path / "key", b"hidden-value\n")
    (tmp_path / "node.toml").write_text(
        'rpc_url_file = "key"\nadmin_token_file = "key"\n[[tools]]\nid = "a"\nprice = 1\ncommand = ["cat"]\n'
        'environment_from_files = {KEY = "key"}\n'
    )

    shown = CliRunner().invoke(main, ["settings", "--dir", str(tmp_path)])

    assert shown.exit_code == 0
    assert json.loads(shown.stdout)["rpc_url_file"] == "key"
    assert "hidden-value" not in shown.output
