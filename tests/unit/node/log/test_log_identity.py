"""Whether a node keeps a log, under which name and with which key."""

from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import ConfigError
from aioum.core.submission.framing import encode_base64
from aioum.core.types import Address
from aioum.run.keys import Ed25519Key
from aioum_node.log.identity import LogIdentity, keeps_log, log_identity
from aioum_node.settings import Settings

OPERATOR = Address(b"\x0a" * 20)
SEED = b"\x05" * 32


def settings(folder: Path, **changes: Any) -> Settings:
    return Settings(node_dir=folder, **changes)


def identity(folder: Path, **changes: Any) -> LogIdentity:
    found = log_identity(settings(folder, **changes), OPERATOR, random_bytes=lambda count: SEED[:count])
    assert found is not None
    return found


def refused(folder: Path, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        identity(folder, **changes)
    return caught.value.code


def put_key(folder: Path, text: str, *, mode: int = 0o600) -> None:
    file = folder / "log.key"
    file.touch(mode=mode)
    file.write_text(text)


@pytest.mark.parametrize(
    ("store", "wanted", "keeps"),
    [
        ("sqlite", None, True),
        ("postgresql", None, False),
        ("postgresql", True, True),
        ("sqlite", False, False),
    ],
)
def test_a_node_of_its_own_keeps_a_log_unasked_and_one_of_many_when_told_to(
    tmp_path: Path, store: str, wanted: bool | None, keeps: bool
) -> None:
    assert keeps_log(settings(tmp_path, store=store, transparency_log=wanted)) is keeps


def test_no_key_is_made_where_no_log_is_kept(tmp_path: Path) -> None:
    assert log_identity(settings(tmp_path, transparency_log=False), OPERATOR) is None
    assert list(tmp_path.iterdir()) == []


def test_the_first_start_makes_the_key_that_later_ones_use(tmp_path: Path) -> None:
    first = identity(tmp_path)
    assert first.key.public_key == Ed25519Key(SEED).public_key
    assert first.origin == "aioum-log/0x" + "0a" * 20
    assert (tmp_path / "log.key").stat().st_mode & 0o777 == 0o600
    again = log_identity(settings(tmp_path), OPERATOR)
    assert again is not None
    assert again.key.public_key == first.key.public_key


def test_a_log_whose_key_is_gone_gets_no_other_one(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "origin").touch()
    assert refused(tmp_path) == "log-key-missing"
    assert not (tmp_path / "log.key").exists()


def test_nodes_that_share_a_store_make_no_key_each(tmp_path: Path) -> None:
    assert refused(tmp_path, store="postgresql", transparency_log=True) == "log-key-missing"


def test_former_keys_stay_known_behind_the_one_in_use(tmp_path: Path) -> None:
    former = Ed25519Key(b"\x06" * 32).public_key
    found = identity(tmp_path, transparency_log_former_keys=(encode_base64(former),))
    assert found.public_keys == (Ed25519Key(SEED).public_key, former)


@pytest.mark.parametrize("text", ["AAAA", "not_base64!", encode_base64(SEED + b"\x00")])
def test_a_key_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    put_key(tmp_path, text)
    assert refused(tmp_path) == "log-key-malformed"


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    put_key(tmp_path, encode_base64(SEED), mode=0o644)
    assert refused(tmp_path) == "secret-file-exposed"


def test_a_former_key_that_is_none_and_a_name_that_is_none_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, transparency_log_former_keys=("AAAA",)) == "log-key-malformed"
    assert refused(tmp_path, transparency_log_origin="two words\n") == "log-origin-invalid"
