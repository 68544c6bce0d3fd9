"""Keys and folders of a new node."""

import re
import stat
import sys
from pathlib import Path

import click
import pytest

from aioum.core.errors import AioumError, ConfigError
from aioum.core.signing import LocalKey
from aioum.core.transcript import canonical_request
from aioum_node.cli import main
from aioum_node.init import devnet_key, init_node, read_key
from aioum_node.keys.identity import challenge_secret, create_operator, load_identity
from aioum_node.limits.admin import admin_token
from aioum_node.service import load_tools
from aioum_node.settings import Settings, load_settings

KEY = LocalKey(b"\x11" * 32)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(node_dir=tmp_path / "node")


@pytest.fixture(autouse=True)
def _own_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_created_operator_is_the_one_that_is_loaded_and_signs_receipts_too(settings: Settings) -> None:
    create_operator(settings, KEY)

    identity = load_identity(settings)

    assert identity.operator.address == identity.receipt_signer.address == KEY.address
    assert mode(settings.node_dir / "operator.key.json") == 0o600
    assert mode(settings.node_dir / "operator.password") == 0o600


def test_receipts_can_have_a_key_of_their_own(settings: Settings) -> None:
    create_operator(settings, KEY)
    other = Settings(
        node_dir=settings.node_dir,
        operator_key_file=Path("receipt.key.json"),
        operator_password_file=Path("receipt.password"),
    )
    receipt_key = create_operator(other, None)

    identity = load_identity(
        Settings(
            node_dir=settings.node_dir,
            receipt_key_file=Path("receipt.key.json"),
            receipt_password_file=Path("receipt.password"),
        )
    )

    assert (identity.operator.address, identity.receipt_signer.address) == (KEY.address, receipt_key.address)


def test_receipt_key_without_its_password_is_refused(settings: Settings) -> None:
    create_operator(settings, KEY)

    with pytest.raises(ConfigError) as caught:
        load_identity(Settings(node_dir=settings.node_dir, receipt_key_file=Path("receipt.key.json")))

    assert caught.value.code == "password-missing"


def test_existing_key_is_never_replaced_and_keeps_its_password(settings: Settings) -> None:
    create_operator(settings, KEY)

    with pytest.raises(ConfigError) as caught:
        create_operator(settings, None)

    assert caught.value.code == "keystore-exists"
    assert load_identity(settings).operator.address == KEY.address


def test_node_without_keys_says_so(settings: Settings) -> None:
    with pytest.raises(ConfigError) as caught:
        load_identity(settings)

    assert caught.value.code == "password-missing"


def test_password_that_others_may_read_is_refused(settings: Settings) -> None:
    create_operator(settings, KEY)
    (settings.node_dir / "operator.password").chmod(0o644)

    with pytest.raises(ConfigError) as caught:
        load_identity(settings)

    assert caught.value.code == "password-exposed"


@pytest.mark.parametrize(("rights", "opens"), [(0o400, True), (0o440, True), (0o444, False)])
def test_password_of_systemd_may_be_open_to_the_group_alone(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rights: int, opens: bool
) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    create_operator(settings, KEY)
    password = (settings.node_dir / "operator.password").rename(credentials / "operator.password")
    password.chmod(rights)
    moved = Settings(node_dir=settings.node_dir, operator_password_file=password)

    if opens:
        assert load_identity(moved).operator.address == KEY.address
        return
    with pytest.raises(ConfigError) as caught:
        load_identity(moved)
    assert caught.value.code == "password-exposed"


def test_challenge_secret_outlives_a_restart_and_is_private(settings: Settings) -> None:
    first = challenge_secret(settings)

    assert challenge_secret(settings) == first
    assert len(first) == 32
    assert mode(settings.node_dir / "challenge.secret") == 0o600


def test_damaged_challenge_secret_is_refused(settings: Settings) -> None:
    challenge_secret(settings)
    (settings.node_dir / "challenge.secret").write_bytes(b"short")

    with pytest.raises(ConfigError) as caught:
        challenge_secret(settings)

    assert caught.value.code == "config-invalid"


async def test_new_node_has_a_configuration_that_loads_and_tools_that_run(tmp_path: Path) -> None:
    deployment = tmp_path / "deployment.json"
    deployment.write_text("{}")
    made = init_node(
        Settings(node_dir=tmp_path / "node", service_name='A "shop"'), key=KEY, deployment_file=deployment
    )

    settings = load_settings(made.config_file)
    async with load_tools(settings) as box:
        request = canonical_request("wordcount", {"text": "a b"}).encode()
        answer = await box.tools["wordcount"].upstream.run({"text": "a b"}, request, 5)

    assert made.operator == KEY.address
    assert settings.service_name == 'A "shop"'
    assert settings.deployment_file == deployment
    assert sorted(box.tools) == ["longest_words", "wordcount"]
    assert answer.response == b'{"characters":3,"lines":1,"words":2}'
    assert mode(made.node_dir / "admin.token") == 0o600
    token = admin_token(settings)
    assert token is not None
    assert len(token) > 40


def test_folder_that_is_a_node_already_is_left_alone(tmp_path: Path) -> None:
    settings = Settings(node_dir=tmp_path / "node")
    init_node(settings, key=KEY)

    with pytest.raises(ConfigError) as caught:
        init_node(settings)

    assert caught.value.code == "node-exists"


@pytest.mark.parametrize("config", [None, "service_name = "])
def test_template_needs_a_configuration(tmp_path: Path, config: str | None) -> None:
    template = tmp_path / "template"
    template.mkdir()
    if config is not None:
        (template / "node.toml").write_text(config)

    with pytest.raises(ConfigError) as caught:
        init_node(Settings(node_dir=tmp_path / "node"), template=template)

    assert caught.value.code == "template-invalid"
    assert not (tmp_path / "node").exists()


def test_token_that_the_settings_or_a_template_name_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "mine.token"
    mine.write_text("0123456789abcdef-Z\n")
    mine.chmod(0o600)
    template = tmp_path / "template"
    template.mkdir()
    for number, (config, named) in enumerate(
        (('service_name = "copied"', mine), (f'admin_token_file = "{mine}"', None))
    ):
        (template / "node.toml").write_text(config + "\n")
        settings = Settings(node_dir=tmp_path / str(number), admin_token_file=named)
        made = init_node(settings, key=KEY, template=template)

        assert admin_token(load_settings(made.config_file)) == "0123456789abcdef-Z"
        assert not (made.node_dir / "admin.token").exists()


def test_key_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("0x" + "11" * 32 + "\n")

    assert read_key(str(file)).address == KEY.address


@pytest.mark.parametrize(("content", "code"), [(None, "key-unreadable"), ("0x12", "key-invalid")])
def test_file_without_a_key_is_refused(tmp_path: Path, content: str | None, code: str) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)

    with pytest.raises(AioumError) as caught:
        read_key(str(file))

    assert caught.value.code == code


def test_devnet_accounts_are_known_by_number() -> None:
    assert devnet_key(1).address.hex() == "70997970c51812dc3a010c7d01b50e0d17dc79c8"
    with pytest.raises(AioumError) as caught:
        devnet_key(10_000)
    assert caught.value.code == "account-unknown"


def test_no_option_of_the_command_takes_a_secret() -> None:
    """A command line is read by every user of the machine. `--token` is a contract."""
    secret = re.compile("password|secret|key|token|credential")
    options = [
        option
        for command in main.commands.values()
        for option in command.params
        if isinstance(option, click.Option) and secret.search(str(option.name)) and option.name != "token"
    ]

    assert options
    assert [str(option.name) for option in options if not _names_a_file(option)] == []


def _names_a_file(option: click.Option) -> bool:
    return str(option.name).endswith("_file") or "FILE" in str(option.metavar)
