"""Where settings come from, and which wins."""

from pathlib import Path

import pytest

from aioum.core.errors import ConfigError
from aioum_node.settings import Settings, load_settings, settings_table


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOUM_NODE_DIR", str(tmp_path))


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "node.toml").write_text(text)


def test_defaults_hold_without_a_file(tmp_path: Path) -> None:
    settings = load_settings()

    assert settings.node_dir == tmp_path
    assert settings.transcript_retention_ms == 604_800_000
    assert settings.commit_required
    assert not settings.accept_plain_channels


def test_flag_wins_over_environment_wins_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "listen_port = 1\nadmin_port = 1\nmax_unpaid_calls = 1\n")
    monkeypatch.setenv("AIOUM_LISTEN_PORT", "2")
    monkeypatch.setenv("AIOUM_ADMIN_PORT", "2")

    settings = load_settings(flags={"listen_port": "3", "realm": None})

    assert (settings.listen_port, settings.admin_port, settings.max_unpaid_calls) == (3, 2, 1)


def test_retention_comes_from_its_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOUM_TRANSCRIPT_RETENTION_MS", "1000")

    assert load_settings().transcript_retention_ms == 1_000


def test_named_file_gives_the_folder_where_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIOUM_NODE_DIR")
    write(tmp_path, "listen_port = 1\n")

    settings = load_settings(tmp_path / "node.toml")

    assert (settings.node_dir, settings.listen_port) == (tmp_path, 1)


def test_relative_paths_begin_at_the_nodes_folder(tmp_path: Path) -> None:
    settings = load_settings()

    assert settings.path(Path("a/b")) == tmp_path / "a/b"
    assert settings.path(Path("/a/b")) == Path("/a/b")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no_such_setting = 1", "config-invalid"),
        ("listen_port = 70000", "config-invalid"),
        ("[[tools]]\nprice = 1", "config-invalid"),
        ('[[tools]]\npython = "a"\nhttp = "http://b"', "config-invalid"),
        ('[[tools]]\ncommand = ["cat"]\nid = "a"', "config-invalid"),
        ('[[tools]]\nhttp = "ftp://b"\nid = "a"\nprice = 1', "config-invalid"),
        ("= 1", "config-malformed"),
    ],
)
def test_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, code: str) -> None:
    write(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        load_settings()

    assert caught.value.code == code


def test_file_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path / "other.toml")

    assert caught.value.code == "config-missing"


def test_list_in_the_environment_that_is_no_json_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOUM_TOOLS", "nonsense")

    with pytest.raises(ConfigError) as caught:
        load_settings()

    assert caught.value.code == "config-invalid"


def test_table_names_every_setting_with_its_variable() -> None:
    table = settings_table()

    for name, field in Settings.model_fields.items():
        assert f"| `{name}` | `AIOUM_{name.upper()}` |" in table
        assert field.description
