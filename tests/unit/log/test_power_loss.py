"""The log loses power at every single step of a life, and comes back with what it acknowledged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from aioum.core.errors import AioumError
from aioum.core.merkle import verify_consistency
from aioum.log.files import LogFolder, published_note
from aioum.log.fsck import fsck
from aioum.log.publish import FileRegister, publish
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash, node_hash
from tests.many import strides
from tests.unit.log.losing_disk import (
    LosingDisk,
    PowerLost,
    Survival,
    chance,
    everything_survives,
    nothing_survives,
)
from tests.unit.log.samples import KEY, ORIGIN, entries, reader, verified

BATCHES = ((0, 3), (3, 255), (255, 256), (256, 600), (600, 601))
"""Up to a bundle's edge, onto it, and over two."""

ALL = entries(0, 700)
TREE = LogTree(MemoryNodes())
TREE.extend([leaf_hash(entry) for entry in ALL])


class Life:
    """What others know of a log: entries that it acknowledged, checkpoints that could be seen."""

    def __init__(self, root: Path) -> None:
        root.mkdir()
        self.disk = LosingDisk(root)
        self.folder = root / "log"
        self.register = FileRegister(root / "register" / "checkpoint", disk=self.disk)
        self.acknowledged = 0
        self.promised: list[bytes] = []
        self.shown = 0

    def open(self) -> LogFolder:
        return LogFolder.open(self.folder, ORIGIN, disk=self.disk)

    async def live(self) -> None:
        with self.open() as log:
            for start, stop in BATCHES:
                if log.size > start:
                    continue
                assert log.append(ALL[start:stop]) == start
                self.acknowledged = stop
                await self.publish(log)
            await self.publish(log)

    async def publish(self, log: LogFolder) -> None:
        self.promised.append(await publish(log, self.register, KEY))
        self.shown = log.size

    async def look(self) -> None:
        """A stranger reads what is served: the checkpoint is covered by tiles and entries."""
        note = published_note(self.folder)
        assert (verified(note).size if note else 0) >= self.shown
        if note is not None:
            checkpoint = verified(note)
            self.promised.append(note)
            tiles = reader(self.folder)
            assert await tiles.root(checkpoint.size) == checkpoint.root
            assert [entry async for entry in tiles.entries(0, checkpoint.size)] == ALL[: checkpoint.size]

    def require_one_history(self) -> None:
        for note in self.promised:
            checkpoint = verified(note)
            assert checkpoint.root == TREE.root(checkpoint.size)
            proof = TREE.consistency(checkpoint.size, 700)
            verify_consistency(checkpoint.size, 700, checkpoint.root, TREE.root(), proof, node_hash)


async def steps_of_a_life(root: Path) -> int:
    life = Life(root)
    await life.live()
    return life.disk.steps


async def lost_and_resumed(root: Path, step: int, survives: Survival) -> None:
    life = Life(root)
    life.disk.lose_at(step)
    with pytest.raises(PowerLost):
        await life.live()
    life.disk.lose(survives)
    await life.look()

    with life.open() as log:
        # All or none of the batch that was under way.
        assert log.size in {
            life.acknowledged,
            *(stop for start, stop in BATCHES if start == life.acknowledged),
        }
        assert list(log.entries()) == ALL[: log.size]
    assert fsck(life.folder, KEY.public_key).findings == []

    await life.live()
    await life.look()
    assert verified(life.promised[-1]).size == 601
    life.require_one_history()
    assert fsck(life.folder, KEY.public_key).findings == []


SURVIVALS: list[Callable[[int], Survival]] = [
    lambda step: nothing_survives,
    lambda step: everything_survives,
    chance,
]


@pytest.mark.slow
@pytest.mark.parametrize("stride", strides(4))
async def test_power_lost_at_any_step_loses_nothing_acknowledged_and_shows_one_history(
    tmp_path: Path, stride: int
) -> None:
    steps = await steps_of_a_life(tmp_path / "whole")
    assert steps > 100
    for step in range(0, steps, stride):
        await lost_and_resumed(tmp_path / str(step), step, SURVIVALS[step % 3](step))


@pytest.mark.long
@pytest.mark.parametrize("further", [1, 2])
async def test_whatever_survives_of_what_was_not_synced(tmp_path: Path, further: int) -> None:
    for step in range(await steps_of_a_life(tmp_path / "whole")):
        await lost_and_resumed(tmp_path / str(step), step, SURVIVALS[(step + further) % 3](step))


async def test_power_lost_while_recovering_from_a_loss_is_recovered_from_too(tmp_path: Path) -> None:
    for step in range(6):
        life = Life(tmp_path / str(step))
        with life.open() as log:
            log.append(ALL[:250])
        # Behind the entries, before the head: there is something to cut off.
        life.disk.lose_at(4)
        with pytest.raises(PowerLost), life.open() as log:
            log.append(ALL[250:800])
        life.disk.lose(everything_survives)
        life.disk.lose_at(step)
        try:
            with life.open() as log:
                assert log.size == 250
        except PowerLost:
            life.disk.lose(chance(step))
        with life.open() as log:
            assert list(log.entries()) == ALL[:250]
        assert fsck(life.folder).findings == []


async def test_nothing_of_a_lost_batch_is_left_behind_shorter_entries(tmp_path: Path) -> None:
    life = Life(tmp_path / "disk")
    with life.open() as log:
        log.append(ALL[:250])
        life.disk.lose_at(4)
        with pytest.raises(PowerLost):
            log.append([b"x" * 900] * 600)
    assert {file.name for file in (life.folder / "entries").iterdir()} == {"000", "001", "002", "003"}
    life.disk.lose(everything_survives)
    with life.open() as log:
        assert {file.name for file in (life.folder / "entries").iterdir()} == {"000"}
        log.append(ALL[250:])
        await publish(log, life.register, KEY)
    assert [entry async for entry in reader(life.folder).entries(0, 700)] == ALL
    assert fsck(life.folder).findings == []


async def test_a_disk_that_refuses_once_is_not_written_to_until_the_log_is_opened_again(
    tmp_path: Path,
) -> None:
    class FullDisk(LosingDisk):
        full = False

        def sync(self, path: Path) -> None:
            if self.full and path.name == "nodes":
                raise OSError(28, "No space left on device")
            super().sync(path)

    root = tmp_path / "disk"
    root.mkdir()
    disk = FullDisk(root)
    with LogFolder.open(root / "log", ORIGIN, disk=disk) as log:
        log.append(ALL[:5])
        disk.full = True
        for _ in range(2):
            with pytest.raises(AioumError) as caught:
                log.append(ALL[5:9])
            assert caught.value.code == "log-append-failed"
            # A sync that failed once may say yes the next time without having written anything.
            disk.full = False
        assert log.size == 5
    with LogFolder.open(root / "log", ORIGIN, disk=disk) as log:
        assert log.append(ALL[5:9]) == 5
        assert list(log.entries()) == ALL[:9]
    assert fsck(root / "log").findings == []
