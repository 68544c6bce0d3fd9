"""Keys at rest: readable by other tools, by the owner alone, and never overwritten."""

import json
import stat
from pathlib import Path

import pytest
from eth_account import Account

from aioum.chain.keystore import MAX_KEYSTORE_SIZE_BYTES, create_keystore, load_keystore
from aioum.core.errors import AioumError
from aioum.core.signing import LocalKey

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def keystore(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LocalKey]:
    path = tmp_path_factory.mktemp("keystore") / "keys" / "operator.json"
    return path, create_keystore(path, PASSWORD)


def code_of(path: Path, password: str = PASSWORD) -> str:
    with pytest.raises(AioumError) as caught:
        load_keystore(path, password)
    return caught.value.code


def private(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_a_created_key_comes_back_with_its_password(keystore: tuple[Path, LocalKey]) -> None:
    path, key = keystore
    assert load_keystore(path, PASSWORD).secret_bytes() == key.secret_bytes()


def test_the_file_is_the_owners_alone_and_nothing_else_is_left_beside_it(
    keystore: tuple[Path, LocalKey],
) -> None:
    path, _ = keystore
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_other_tools_read_it(keystore: tuple[Path, LocalKey]) -> None:
    path, key = keystore
    stored = json.loads(path.read_text())
    assert (stored["version"], stored["crypto"]["kdf"]) == (3, "scrypt")
    assert bytes(Account.decrypt(stored, PASSWORD)) == key.secret_bytes()


def test_a_wrong_password_is_told_from_a_damaged_file(
    keystore: tuple[Path, LocalKey], tmp_path: Path
) -> None:
    path, _ = keystore
    assert code_of(path, "wrong") == "keystore-password-wrong"
    stored = json.loads(path.read_text())
    del stored["crypto"]["mac"]
    assert code_of(private(tmp_path / "no-mac", json.dumps(stored).encode())) == "keystore-invalid"


def test_a_file_that_names_another_address_than_its_keys_is_invalid(
    keystore: tuple[Path, LocalKey], tmp_path: Path
) -> None:
    stored = json.loads(keystore[0].read_text()) | {"address": "00" * 20}
    assert code_of(private(tmp_path / "other", json.dumps(stored).encode())) == "keystore-invalid"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[3]", b'{"version": 1}', b" " * (MAX_KEYSTORE_SIZE_BYTES + 1)]
)
def test_what_is_no_keystore_is_invalid(tmp_path: Path, content: bytes) -> None:
    assert code_of(private(tmp_path / "file", content)) == "keystore-invalid"


def test_an_absent_file_is_missing_and_a_readable_one_exposed(tmp_path: Path) -> None:
    assert code_of(tmp_path / "absent") == "keystore-missing"
    exposed = private(tmp_path / "exposed", b"{}")
    exposed.chmod(0o640)
    assert code_of(exposed) == "keystore-exposed"


def test_a_keystore_is_never_overwritten_and_never_without_a_password(
    keystore: tuple[Path, LocalKey], tmp_path: Path
) -> None:
    cases = [
        (keystore[0], PASSWORD, "keystore-exists"),
        (tmp_path / "new", "", "keystore-password-empty"),
        (keystore[0] / "below-a-file", PASSWORD, "keystore-unwritable"),
    ]
    for path, password, code in cases:
        with pytest.raises(AioumError) as caught:
            create_keystore(path, password)
        assert caught.value.code == code


def test_a_key_that_is_there_already_can_be_kept(tmp_path: Path) -> None:
    key = LocalKey(b"\5" * 32)
    create_keystore(tmp_path / "keystore", PASSWORD, key)
    assert load_keystore(tmp_path / "keystore", PASSWORD).address == key.address
