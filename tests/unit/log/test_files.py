import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aioum.core.errors import AioumError
from aioum.core.merkle import verify_consistency, verify_inclusion
from aioum.log.entry import MAX_ENTRY_BYTES
from aioum.log.files import MAX_BATCH, LogFolder
from aioum.log.heads import HEAD_BYTES
from aioum.log.publish import FileRegister, publish
from aioum.log.tree import EMPTY_ROOT, leaf_hash, node_hash
from tests.unit.log.losing_disk import LosingDisk
from tests.unit.log.samples import KEY, ORIGIN, entries, opened, reader


def refusal(act: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(AioumError) as caught:
        act(*arguments)
    return caught.value.code


def test_entries_come_back_and_are_proven_after_the_folder_is_opened_again(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        assert (log.size, log.tree.root()) == (0, EMPTY_ROOT)
        assert log.append(entries(0, 300)) == 0
        assert log.append([]) == 300
        assert log.append(entries(300, 301)) == 300
        before = log.tree.root()
    with opened(tmp_path) as log:
        assert (log.size, log.tree.root()) == (301, before)
        assert log.append(entries(301, 700)) == 301
        assert list(log.entries()) == entries(0, 700)
        assert list(log.entries(250, 260)) == entries(250, 260)
        assert log.entry(699) == entries(699, 700)[0]
        for index in (0, 255, 256, 699):
            leaf = leaf_hash(log.entry(index))
            verify_inclusion(leaf, index, 700, log.tree.inclusion(index), log.tree.root(), node_hash)
        verify_consistency(301, 700, before, log.tree.root(), log.tree.consistency(301), node_hash)


def test_a_batch_of_any_size_is_one_round_of_syncs(tmp_path: Path) -> None:
    def syncs(batch: int) -> list[str]:
        class Counting(LosingDisk):
            def sync(self, path: Path) -> None:
                super().sync(path)
                synced.append(path.name)

        synced: list[str] = []
        root = tmp_path / str(batch)
        root.mkdir()
        with LogFolder.open(root / "log", ORIGIN, disk=Counting(root)) as log:
            log.append(entries(0, 1))
            synced.clear()
            log.append(entries(1, 1 + batch))
        return synced

    assert syncs(1) == syncs(200) == ["000", "nodes", "heads"]
    # Then one more for each file of 256 entries, and one for the folder that names them.
    assert syncs(600) == ["000", "001", "002", "nodes", "entries", "heads"]


def test_files_only_grow(tmp_path: Path) -> None:
    def contents() -> dict[str, bytes]:
        return {
            str(file.relative_to(tmp_path)): file.read_bytes()
            for file in tmp_path.rglob("*")
            if file.is_file()
        }

    with opened(tmp_path) as log:
        before = contents()
        for start in range(0, 1_000, 125):
            log.append(entries(start, start + 125))
            after = contents()
            assert all(after[name].startswith(data) for name, data in before.items())
            before = after


def test_a_refused_batch_changes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.append(entries(0, 3))
        for wrong in (b"", b"x" * (MAX_ENTRY_BYTES + 1)):
            assert refusal(log.append, [b"good", wrong]) == "bundle-entry-size-invalid"
        assert refusal(lambda: log.append([b"x"] * (MAX_BATCH + 1))) == "log-batch-too-large"
        assert log.append(entries(3, 5)) == 3
        assert list(log.entries()) == entries(0, 5)
        assert refusal(lambda: log.entry(5)) == "log-index-out-of-range"
        assert refusal(lambda: list(log.entries(-1))) == "log-index-out-of-range"


def test_two_writers_cannot_append_at_once(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from aioum.log.files import LogFolder\n"
        "from aioum.core.errors import AioumError\n"
        "try: LogFolder.open(Path(sys.argv[1]), sys.argv[2]).append([b'x'])\n"
        "except AioumError as error: print(error.code)\n"
    )
    with opened(tmp_path) as log:
        log.append(entries(0, 3))
        other = subprocess.run(
            [sys.executable, "-c", program, tmp_path, ORIGIN], capture_output=True, text=True, check=True
        )
        assert other.stdout == "log-locked\n"
        assert refusal(lambda: opened(tmp_path)) == "log-locked"
    with opened(tmp_path) as log:
        assert log.size == 3


def test_a_folder_is_one_logs_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.append(entries(0, 3))
    assert refusal(lambda: LogFolder.open(tmp_path, "example.com/other")) == "log-origin-mismatch"
    assert refusal(lambda: LogFolder.open(tmp_path / "new", "a b")) == "checkpoint-origin-invalid"
    (tmp_path / "origin").unlink()
    assert refusal(lambda: opened(tmp_path)) == "log-origin-mismatch"


def _cut(file: Path, size_bytes: int) -> None:
    file.write_bytes(file.read_bytes()[:size_bytes])


def _flip(file: Path, *positions: int) -> None:
    data = bytearray(file.read_bytes())
    for position in positions:
        data[position] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    "damage, code",
    [
        (lambda log: (log / "heads").unlink(), "log-heads-malformed"),
        (lambda log: _cut(log / "heads", HEAD_BYTES - 1), "log-rolled-back"),
        (lambda log: _flip(log / "heads", 3, HEAD_BYTES), "log-heads-malformed"),
        (lambda log: (log / "nodes").unlink(), "log-nodes-missing"),
        (lambda log: _cut(log / "nodes", 32 * 500), "log-nodes-missing"),
        (lambda log: _flip(log / "nodes", 32 * 510), "log-nodes-altered"),
        (lambda log: (log / "entries" / "001").unlink(), "log-entries-missing"),
        (lambda log: _cut(log / "entries" / "001", 600), "log-entries-missing"),
        (lambda log: _flip(log / "public" / "checkpoint", 15), "checkpoint-encoding-invalid"),
    ],
)
async def test_a_damaged_folder_is_not_opened_and_not_mended(
    tmp_path: Path, damage: Callable[[Path], object], code: str
) -> None:
    with opened(tmp_path / "log") as log:
        log.append(entries(0, 100))
        log.append(entries(100, 300))
        await publish(log, FileRegister(tmp_path / "register"), KEY)
    damage(tmp_path / "log")
    if code == "log-nodes-altered":
        # The root of all peaks: 300 = 256 + 32 + 8 + 4.
        assert (tmp_path / "log" / "nodes").stat().st_size == 32 * (600 - 4)
    before = {file: file.read_bytes() for file in (tmp_path / "log").rglob("*") if file.is_file()}
    assert refusal(lambda: opened(tmp_path / "log")) == code
    assert {file: file.read_bytes() for file in (tmp_path / "log").rglob("*") if file.is_file()} == before


async def test_a_log_is_served_from_a_file_system_without_hard_links_too(tmp_path: Path) -> None:
    class Unlinking(LosingDisk):
        def link(self, source: Path, target: Path) -> None:
            raise OSError(95, "Operation not supported")

    root = tmp_path / "disk"
    root.mkdir()
    with LogFolder.open(root / "log", ORIGIN, disk=Unlinking(root)) as log:
        log.append(entries(0, 600))
        await publish(log, FileRegister(tmp_path / "register"), KEY)
    tiles = reader(root / "log")
    assert [entry async for entry in tiles.entries(0, 600)] == entries(0, 600)


async def test_the_public_part_is_all_that_a_reader_needs_and_can_be_copied_anywhere(tmp_path: Path) -> None:
    with opened(tmp_path / "log") as log:
        log.append(entries(0, 600))
        await publish(log, FileRegister(tmp_path / "register"), KEY)
        root = log.tree.root()
    (tmp_path / "elsewhere").mkdir()
    shutil.move(tmp_path / "log" / "public", tmp_path / "elsewhere" / "public")
    tiles = reader(tmp_path / "elsewhere")
    assert await tiles.root(600) == root
    assert [entry async for entry in tiles.entries(0, 600)] == entries(0, 600)
