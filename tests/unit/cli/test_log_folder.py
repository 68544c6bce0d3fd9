"""`aioum log fsck`."""

import base64
import json
from pathlib import Path

import pytest

from aioum.cli.main import main
from aioum.core.hextext import to_hex
from aioum.log.publish import FileRegister, publish
from tests.unit.log.samples import KEY, ORIGIN, OTHER_KEY, entries, opened

Capture = pytest.CaptureFixture[str]


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """Of 300 entries, 256 published."""
    with opened(tmp_path / "log") as log:
        log.append(entries(0, 256))
        await publish(log, FileRegister(tmp_path / "register"), KEY)
        log.append(entries(256, 300))
    return tmp_path / "log"


def fsck(*arguments: object) -> int:
    return main(["log", "fsck", *map(str, arguments)])


def text(key: bytes) -> str:
    return base64.b64encode(key).decode()


async def test_a_sound_log_is_named_with_its_size_and_root(log: Path, capsys: Capture) -> None:
    with opened(log) as folder:
        root = to_hex(folder.tree.root())
    assert fsck(log, "--public-key", text(KEY.public_key)) == 0
    assert capsys.readouterr().out == f"✓ {ORIGIN}: 300 entries, 256 published\n  root {root}\n"
    assert fsck(log, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["ok"], shown["size"], shown["root"], shown["findings"]) == (True, 300, root, [])
    # Without a key nothing is said of the signature.
    assert (shown["publishedSize"], shown["signatureChecked"]) == (256, False)


async def test_an_altered_entry_is_found_and_ends_with_1(log: Path, capsys: Capture) -> None:
    bundle = log / "entries" / "000"
    data = bytearray(bundle.read_bytes())
    data[20] ^= 1
    bundle.unlink()
    bundle.write_bytes(data)
    assert fsck(log) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"✗ {ORIGIN}")
    assert "[log-nodes-altered]" in out


async def test_a_checkpoint_of_another_key_is_found(log: Path, capsys: Capture) -> None:
    assert fsck(log, "--public-key", text(OTHER_KEY.public_key), "--json") == 1
    assert [found["code"] for found in json.loads(capsys.readouterr().out)["findings"]] == [
        "checkpoint-key-mismatch"
    ]


def test_what_is_no_log_and_no_key_is_said(tmp_path: Path, capsys: Capture) -> None:
    assert fsck(tmp_path / "nothing") == 1
    shown = capsys.readouterr().err
    assert "log-folder-missing" in shown
    assert "hint: " in shown
    assert fsck(tmp_path, "--public-key", "AAAA") == 2
    assert "is no key of 32 bytes" in capsys.readouterr().err
