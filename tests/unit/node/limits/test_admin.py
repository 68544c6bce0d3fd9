"""Who may use the admin port."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aioum.core.errors import ConfigError
from aioum_node.app import running_node
from aioum_node.limits.admin import MIN_TOKEN_CHARACTERS, admin_token
from aioum_node.settings import Settings

TOKEN = "0123456789abcdef-Z"


def settings(folder: Path, token: str | None = TOKEN, mode: int = 0o600, **changes: object) -> Settings:
    if token is not None:
        path = folder / "admin.token"
        path.write_text(token + "\n")
        path.chmod(mode)
        changes["admin_token_file"] = Path("admin.token")
    return Settings(**{"node_dir": folder, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "10.0.0.1", "node.example", ""])
async def test_port_that_others_reach_needs_a_token(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with running_node(settings(tmp_path, None, admin_host=host)):
            pytest.fail("it started")

    assert caught.value.code == "admin-token-required"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_port_of_this_machine_alone_may_do_without_and_that_is_said(tmp_path: Path, host: str) -> None:
    with capture_logs() as logs:
        assert admin_token(settings(tmp_path, None, admin_host=host)) is None

    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("admin-port-open", "warning")]


def test_token_comes_from_its_file_also_on_this_machine(tmp_path: Path) -> None:
    with capture_logs() as logs:
        assert admin_token(settings(tmp_path)) == TOKEN
        assert admin_token(settings(tmp_path, admin_host="0.0.0.0")) == TOKEN

    assert logs == []


@pytest.mark.parametrize(
    "token, mode, code",
    [
        ("x" * (MIN_TOKEN_CHARACTERS - 1), 0o600, "admin-token-too-short"),
        ("", 0o600, "secret-file-malformed"),
        (TOKEN, 0o644, "secret-file-exposed"),
        (TOKEN, 0o620, "secret-file-exposed"),
    ],
)
def test_token_that_can_be_guessed_or_read_is_refused(
    tmp_path: Path, token: str, mode: int, code: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        admin_token(settings(tmp_path, token, mode))

    assert caught.value.code == code
