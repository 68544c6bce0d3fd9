import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aioum.core.errors import AioumError
from aioum.log.checkpoint import Checkpoint, sign_checkpoint
from aioum.log.fsck import MAX_FINDINGS, fsck
from aioum.log.heads import HEAD_BYTES, Head
from aioum.log.publish import FileRegister, publish
from tests.unit.log.samples import KEY, ORIGIN, OTHER_KEY, entries, opened


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """A log of 700 entries in five batches, of which 600 are published."""
    with opened(tmp_path / "log") as log:
        for start, stop in ((0, 1), (1, 300), (300, 512), (512, 600)):
            log.append(entries(start, stop))
        await publish(log, FileRegister(tmp_path / "register"), KEY)
        log.append(entries(600, 700))
    return tmp_path / "log"


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    # A new file: bundles share theirs with the public part.
    file.unlink()
    file.write_bytes(data)


def codes(log: Path, public_key: bytes | None = KEY.public_key) -> set[str]:
    return {finding.code for finding in fsck(log, public_key).findings}


def test_a_sound_log_is_found_sound(log: Path) -> None:
    report = fsck(log, KEY.public_key)
    report.require_sound()
    assert (report.origin, report.size, report.entry_bytes) == (ORIGIN, 700, sum(map(len, entries(0, 700))))
    assert report.checkpoint is not None
    assert report.checkpoint.size == 600
    with opened(log) as opened_log:
        # Reading beside the writer is allowed.
        assert fsck(log).root == report.root == opened_log.tree.root()


def test_a_new_log_is_sound(tmp_path: Path) -> None:
    with opened(tmp_path):
        assert fsck(tmp_path).findings == []


@pytest.mark.parametrize(
    "damage, expected",
    [
        (
            lambda log: flip(log / "entries" / "001", 40),
            {"log-nodes-altered", "log-head-altered", "log-tile-altered"},
        ),
        (lambda log: flip(log / "nodes", 32 * 700 + 5), {"log-nodes-altered"}),
        (lambda log: flip(log / "entries" / "000", 0), {"log-entries-missing"}),
        (lambda log: (log / "entries" / "000").unlink(), {"log-entries-missing"}),
        (lambda log: (log / "nodes").unlink(), {"log-nodes-missing"}),
        (lambda log: (log / "heads").unlink(), {"log-heads-malformed"}),
        (lambda log: flip(log / "heads", HEAD_BYTES + 20), {"log-heads-malformed"}),
        (lambda log: flip(log / "public" / "tile" / "0" / "000", 40), {"log-tile-altered"}),
        (lambda log: flip(log / "public" / "tile" / "entries" / "000", 40), {"log-tile-altered"}),
        (lambda log: (log / "public" / "tile" / "0" / "000").unlink(), {"log-tile-missing"}),
        (lambda log: shutil.rmtree(log / "public" / "tile" / "entries" / "002.p"), {"log-tile-missing"}),
        (lambda log: (log / "public" / "tile" / "0" / "009").write_bytes(b""), {"log-file-unexpected"}),
        (lambda log: (log / "public" / "index.html").write_bytes(b""), {"log-file-unexpected"}),
        (lambda log: flip(log / "public" / "checkpoint", -8), {"checkpoint-signature-invalid"}),
    ],
)
def test_damage_is_named(log: Path, damage: Callable[[Path], object], expected: set[str]) -> None:
    damage(log)
    assert codes(log) == expected
    with pytest.raises(AioumError) as caught:
        fsck(log, KEY.public_key).require_sound()
    assert caught.value.code in expected


def test_a_state_that_the_log_never_had_is_named(log: Path) -> None:
    heads = log / "heads"
    data = heads.read_bytes()
    heads.write_bytes(data[:HEAD_BYTES] + Head(300, bytes(32)).to_bytes() + data[2 * HEAD_BYTES :])
    assert codes(log) == {"log-head-altered"}


def test_states_out_of_order_are_named(log: Path) -> None:
    heads = log / "heads"
    data = heads.read_bytes()
    heads.write_bytes(data[HEAD_BYTES : 2 * HEAD_BYTES] + data[:HEAD_BYTES] + data[2 * HEAD_BYTES :])
    assert codes(log) == {"log-heads-malformed"}


def test_a_signed_checkpoint_that_is_not_one_of_the_log_is_named(log: Path) -> None:
    shown = log / "public" / "checkpoint"
    shown.write_bytes(sign_checkpoint(Checkpoint(ORIGIN, 600, bytes(32)), KEY))
    assert codes(log) == {"log-checkpoint-altered"}
    assert codes(log, None) == {"log-checkpoint-altered"}
    assert codes(log, OTHER_KEY.public_key) == {"checkpoint-key-mismatch"}
    shown.write_bytes(sign_checkpoint(Checkpoint(ORIGIN, 701, bytes(32)), KEY))
    assert codes(log) == {"log-rolled-back"}


def test_a_history_that_was_rewritten_with_all_its_hashes_is_left_to_the_checkpoint(
    log: Path, tmp_path: Path
) -> None:
    with opened(tmp_path / "other") as other:
        other.append([*entries(0, 599), b"another one", *entries(600, 700)])
    for name in ("entries", "nodes", "heads"):
        if (log / name).is_dir():
            shutil.rmtree(log / name)
        else:
            (log / name).unlink()
        shutil.move(tmp_path / "other" / name, log / name)
    assert "log-checkpoint-altered" in codes(log)


def test_a_log_that_grows_meanwhile_is_sound(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walk = os.walk

    def grown(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        with opened(log) as growing:
            growing.append(entries(700, 1_100))
            asyncio.run(publish(growing, FileRegister(log.with_name("register")), KEY))
        return walk(folder)

    monkeypatch.setattr(os, "walk", grown)
    report = fsck(log, KEY.public_key)
    report.require_sound()
    assert report.size == 700


def test_findings_are_counted_up_to_a_limit(log: Path) -> None:
    for number in range(MAX_FINDINGS + 5):
        (log / "public" / f"{number}.html").write_bytes(b"")
    assert len(fsck(log).findings) == MAX_FINDINGS


def test_what_is_no_log_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(AioumError) as caught:
        fsck(tmp_path)
    assert caught.value.code == "log-folder-missing"
