import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from aioum.chain.keystore import create_keystore
from aioum.cli.keys import KeySource, key_options
from aioum.cli.main import cli, main
from aioum.core.errors import AioumError
from aioum.core.hextext import address_text, to_hex
from aioum.core.signing import LocalKey

DEVNET = 31_337
SECRET = bytes(31) + b"\x07"
KEY = LocalKey(SECRET)


@pytest.fixture(scope="module")
def key_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "key.json"
    create_keystore(path, "open sesame", KEY)
    return path


@click.command()
@key_options
def show(key_source: KeySource) -> None:
    """Print what was understood."""
    click.echo(json.dumps([str(key_source.key_store), str(key_source.key_file), key_source.devnet_account]))


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_key_store_opens_with_the_password_in_a_file(key_store: Path, tmp_path: Path) -> None:
    source = KeySource(key_store=key_store, password_file=private(tmp_path / "password", "open sesame\n"))
    assert source.load(1).address == KEY.address


def test_a_key_file_holds_hex_digits(tmp_path: Path) -> None:
    source = KeySource(key_file=private(tmp_path / "key", to_hex(SECRET) + "\n"))
    assert source.load(1).address == KEY.address


def test_a_devnet_account_is_the_one_that_everybody_knows() -> None:
    key = KeySource(devnet_account=1).load(DEVNET)
    assert address_text(key.address) == "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"


def test_each_way_to_have_no_usable_key_has_its_code(key_store: Path, tmp_path: Path) -> None:
    exposed = private(tmp_path / "exposed", to_hex(SECRET))
    exposed.chmod(0o644)
    absent = tmp_path / "absent"
    long = private(tmp_path / "long", "0" * 5_000)
    cases = [
        (KeySource(), "key-missing"),
        (KeySource(devnet_account=1), "devnet-account-refused"),
        (KeySource(key_file=exposed), "key-file-exposed"),
        (KeySource(key_file=absent), "key-file-unusable"),
        (KeySource(key_file=long), "key-file-unusable"),
        (KeySource(key_file=private(tmp_path / "text", "my key")), "key-invalid"),
        (KeySource(key_store=key_store, password_file=absent), "password-file-unusable"),
        (
            KeySource(key_store=key_store, password_file=private(tmp_path / "wrong", "open barley")),
            "keystore-password-wrong",
        ),
    ]
    for source, code in cases:
        with pytest.raises(AioumError) as caught:
            source.load(1)
        assert caught.value.code == code
        assert SECRET.hex() not in str(caught.value)


def test_without_a_terminal_and_without_a_file_the_password_is_missing(key_store: Path) -> None:
    @click.command()
    def load() -> None:
        KeySource(key_store=key_store).load(1)

    result = CliRunner().invoke(load, input="")
    assert isinstance(result.exception, AioumError)
    assert result.exception.code == "password-missing"


def test_the_password_is_asked_for_and_not_shown(key_store: Path) -> None:
    @click.command()
    def load() -> None:
        click.echo(address_text(KeySource(key_store=key_store).load(1).address))

    result = CliRunner().invoke(load, input="open sesame\n")
    assert result.exit_code == 0
    assert result.stdout == address_text(KEY.address) + "\n"
    assert "sesame" not in result.output


def test_an_option_outranks_the_environment() -> None:
    environment = {"AIOUM_KEY_STORE": "store.json", "AIOUM_DEVNET_ACCOUNT": "2"}
    result = CliRunner().invoke(show, ["--key-file", "typed"], env=environment)
    assert json.loads(result.stdout) == ["None", "typed", None]


def test_two_keys_in_the_environment_are_wrong_usage() -> None:
    environment = {"AIOUM_KEY_STORE": "store.json", "AIOUM_DEVNET_ACCOUNT": "2"}
    assert CliRunner().invoke(show, [], env=environment).exit_code == 2


def test_no_option_takes_a_secret_itself() -> None:
    names = {name for parameter in show.params for name in parameter.opts}
    assert names == {"--key-store", "--password-file", "--key-file", "--devnet-account", "--help"} - {
        "--help"
    }


def test_a_new_key_store_is_for_this_user_alone_and_pays_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, password = tmp_path / "new" / "key.json", private(tmp_path / "password", "open sesame\n")
    create = ["key", "create", str(store), "--password-file", str(password), "--json"]
    assert main(create) == 0
    made = json.loads(capsys.readouterr().out)
    assert store.stat().st_mode & 0o077 == 0
    opened = KeySource(key_store=store, password_file=password).load(1)
    assert made == {"address": address_text(opened.address), "file": str(store)}
    assert main(create) == 1
    assert "[keystore-exists]" in capsys.readouterr().err


def test_a_key_that_exists_moves_into_a_key_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known, password = private(tmp_path / "key", to_hex(SECRET)), private(tmp_path / "password", "x")
    create = ["key", "create", str(tmp_path / "key.json"), "--password-file", str(password)]
    assert main([*create, "--from-key-file", str(known)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"address  {address_text(KEY.address)}"


def test_a_new_password_is_asked_for_twice(tmp_path: Path) -> None:
    store = tmp_path / "key.json"
    result = CliRunner().invoke(cli, ["key", "create", str(store)], input="one\ntwo\none\none\n")
    assert result.exit_code == 0
    assert store.exists()
    assert "one" not in result.output
