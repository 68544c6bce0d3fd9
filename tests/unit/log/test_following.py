"""A log is followed entry by entry and tile by tile; one altered file is noticed."""

import pytest

from aioum.core.errors import AioumError
from aioum.core.merkle import Frontier
from aioum.log.checkpoint import Checkpoint
from aioum.log.compare import Prefix
from aioum.log.errors import ResourceMissing
from aioum.log.following import checked_entries, prefix_between
from aioum.log.paths import TilePath
from aioum.log.static import new_paths, tile_bytes
from aioum.log.tile_check import TileCheck, begun_tiles
from aioum.log.tiles import TileReader, pack_entries
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash
from tests.unit.log.samples import ORIGIN, entries

LARGE = 66_000
"""Three levels of tiles."""


class Log(LogTree):
    """The tree over entries, with its nodes."""

    def __init__(self, size: int) -> None:
        self.nodes = MemoryNodes()
        super().__init__(self.nodes)
        self.extend([leaf_hash(entry) for entry in entries(0, size)])


def frontier(size: int) -> Frontier:
    """Of the first entries."""
    peaks, first = [], 0
    for level in reversed(range(size.bit_length())):
        if size >> level & 1:
            part = LogTree(MemoryNodes())
            part.extend([leaf_hash(entry) for entry in entries(first, first + (1 << level))])
            peaks.append(part.root())
            first += 1 << level
    return Frontier(size, tuple(peaks))


def hosted(log: Log, size: int, altered: str = "") -> TileReader:
    """The log as a static host has it, with one file altered."""

    async def fetch(path: str) -> bytes:
        tile = TilePath.parse(path)
        if path not in {known.text() for known in new_paths(0, size) if known.level == tile.level}:
            raise ResourceMissing(path)
        if tile.level is None:
            first = tile.index * 256
            data = pack_entries(entries(first, first + tile.width))
        else:
            data = tile_bytes(log.nodes, tile.level, tile.index, tile.width)
        return data[:-1] + bytes([data[-1] ^ 1]) if path == altered else data

    return TileReader(fetch)


async def followed(log: Log, known: int, size: int, altered: str = "") -> list[bytes]:
    checkpoint = Checkpoint(ORIGIN, size, log.root(size))
    reader = hosted(log, size, altered)
    return [entry async for entry, _ in checked_entries(reader, frontier(known), checkpoint)]


@pytest.mark.parametrize(
    ("known", "size"),
    [
        (0, 1),
        (0, 255),
        (0, 256),
        (0, 257),
        (1, 2),
        (200, 300),
        (256, 512),
        (256, 256),
        (511, 513),
        (300, 700),
    ],
)
async def test_all_entries_behind_a_state_come_where_all_tiles_are_of_one_tree(known: int, size: int) -> None:
    assert await followed(Log(size), known, size) == entries(known, size)


async def test_every_altered_file_of_the_growth_is_noticed() -> None:
    log, known, size = Log(700), 300, 700
    paths = [path.text() for path in new_paths(known, size)]
    assert len(paths) == 2 + 2 + 1
    for path in paths:
        with pytest.raises(AioumError) as caught:
            await followed(log, known, size, altered=path)
        assert caught.value.code in {"tile-altered", "proof-root-mismatch"}, path


def test_tiles_of_three_levels_are_those_of_the_log() -> None:
    log = Log(LARGE)
    known = 65_400
    begun = {
        path.level or 0: tile_bytes(log.nodes, path.level or 0, path.index, width)
        for path, width in begun_tiles(known, LARGE)
    }
    check = TileCheck(frontier(known), begun)
    made = [tile for entry in entries(known, LARGE) for tile in check.add(leaf_hash(entry))]
    made += check.rest()
    expected = {path for path in new_paths(known, LARGE) if path.level is not None}
    assert {path for path, _ in made} == expected
    assert {path.level for path in expected} == {0, 1, 2}
    for path, hashes in made:
        assert hashes == tile_bytes(log.nodes, path.level or 0, path.index, path.width), path


def test_tiles_that_were_begun_otherwise_do_not_lead_to_the_known_state() -> None:
    known = frontier(300)
    for begun in ({}, {0: bytes(44 * 32), 1: bytes(32)}):
        with pytest.raises(AioumError) as caught:
            TileCheck(known, begun)
        assert caught.value.code == "proof-root-mismatch"


async def test_a_prefix_is_read_whichever_checkpoint_is_the_larger_one() -> None:
    log = Log(300)
    reader = hosted(log, 300)
    small, large = (Checkpoint(ORIGIN, size, log.root(size)) for size in (7, 300))
    expected = Prefix(log.root(7), tuple(log.consistency(7, 300)))
    assert await prefix_between(reader, large, small) == expected
    assert await prefix_between(reader, small, large) == expected


async def test_a_log_without_the_files_of_a_checkpoint_has_no_prefix_of_it() -> None:
    log = Log(300)
    small, large = (Checkpoint(ORIGIN, size, log.root(size)) for size in (7, 300))
    assert await prefix_between(hosted(log, 200), small, large) is None
