from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from aioum.core.errors import AioumError
from aioum.core.merkle import Frontier, verify_consistency, verify_inclusion
from aioum.log.checkpoint import Checkpoint
from aioum.log.entry import MAX_ENTRY_BYTES
from aioum.log.errors import ResourceMissing
from aioum.log.paths import TilePath, bundle_path, index_path, tile_path
from aioum.log.proofs import MAX_SIZE
from aioum.log.publish import FileRegister, publish
from aioum.log.static import new_paths, tile_bytes
from aioum.log.tiles import TileReader, pack_entries, unpack_entries
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash, node_hash
from tests.unit.log.samples import KEY, ORIGIN, entries, opened, reader

SIZE = 70_000
"""The example of tlog-tiles: three levels, of which all have partial tiles."""


@pytest.fixture(scope="module")
def nodes() -> MemoryNodes:
    store = MemoryNodes()
    LogTree(store).extend([leaf_hash(b"%d" % number) for number in range(SIZE)])
    return store


class Served:
    """Static files in memory, counted."""

    def __init__(self, nodes: MemoryNodes, size: int) -> None:
        self.files = {
            path.text(): tile_bytes(nodes, path.level, path.index, path.width)
            for path in new_paths(0, size)
            if path.level is not None
        }
        self.asked: list[str] = []

    async def fetch(self, path: str) -> bytes:
        self.asked.append(path)
        if path not in self.files:
            raise ResourceMissing(path)
        return self.files[path]


async def refusal(awaited: Awaitable[object]) -> str:
    with pytest.raises(AioumError) as caught:
        await awaited
    return caught.value.code


def path_refusal(make: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(AioumError) as caught:
        make(*arguments)
    return caught.value.code


def test_the_tiles_of_a_log_are_those_of_the_specifications_example() -> None:
    paths = [path for path in new_paths(0, SIZE) if path.level is not None]
    by_level = [[path for path in paths if path.level == level] for level in range(3)]
    assert [len(level) for level in by_level] == [274, 2, 1]
    assert len(paths) == 277
    assert [level[-1].text() for level in by_level] == [
        "tile/0/273.p/112",
        "tile/1/001.p/17",
        "tile/2/000.p/1",
    ]
    assert [path.text() for path in new_paths(0, 256)] == ["tile/entries/000", "tile/0/000", "tile/1/000.p/1"]


def test_only_what_grew_is_written_anew() -> None:
    assert [path.text() for path in new_paths(255, 257)] == [
        "tile/entries/000",
        "tile/entries/001.p/1",
        "tile/0/000",
        "tile/0/001.p/1",
        "tile/1/000.p/1",
    ]
    assert [path.text() for path in new_paths(257, 258)] == ["tile/entries/001.p/2", "tile/0/001.p/2"]
    assert list(new_paths(258, 258)) == []


def test_paths_are_those_of_the_specification_and_no_others() -> None:
    assert index_path(1_234_067) == "x001/x234/067"
    assert index_path(1_000) == "x001/000"
    for path in (
        TilePath(0, 0),
        TilePath(7, 1_234_067, 255),
        TilePath(None, 999),
        TilePath(None, 1_000, 1),
        TilePath(0, MAX_SIZE >> 8),
    ):
        assert TilePath.parse(path.text()) == path
    assert TilePath.parse("tile/entries/x001/x234/067.p/12") == TilePath(None, 1_234_067, 12)
    for text in (
        "tile/0/0",
        "tile/0/0000",
        "tile/00/000",
        "tile/8/000",
        "tile/-1/000",
        "tile/0/000.p/0",
        "tile/0/000.p/01",
        "tile/0/000.p/256",
        "tile/0/x000/001",
        "tile/0/001/002",
        "tile/0/x001",
        "tile/0/..",
        "tile/entries/../../origin",
        "tile/0/000\n",
        "tile/0/٠٠٠",
        "/tile/0/000",
        "tile/0/x009/x999/x999/x999/x999/x999/999",
    ):
        assert path_refusal(TilePath.parse, text) == "tile-path-malformed"
    assert path_refusal(tile_path, 0, 1, 256) == "tile-path-malformed"
    assert path_refusal(bundle_path, 2, 300) == "tile-path-malformed"


def test_bundles_hold_each_entry_behind_its_length() -> None:
    assert pack_entries([b"ab", b"c"]) == b"\x00\x02ab\x00\x01c"
    largest = [b"x" * MAX_ENTRY_BYTES]
    assert unpack_entries(pack_entries(largest), 1) == largest
    for data, count, code in (
        (b"\x00\x02ab", 2, "bundle-malformed"),
        (b"\x00\x02a", 1, "bundle-malformed"),
        (b"\x00", 1, "bundle-malformed"),
        (b"\x00\x02ab\x00", 1, "bundle-malformed"),
        (b"\x00\x00", 1, "bundle-entry-size-invalid"),
        (b"\xff\xff" + b"x" * 65_535, 1, "bundle-entry-size-invalid"),
    ):
        assert path_refusal(unpack_entries, data, count) == code
    for entry in (b"", b"x" * (MAX_ENTRY_BYTES + 1)):
        assert path_refusal(pack_entries, [entry]) == "bundle-entry-size-invalid"


async def test_proofs_from_tiles_are_those_of_the_tree(nodes: MemoryNodes) -> None:
    tree = LogTree(nodes)
    tiles = TileReader(Served(nodes, SIZE).fetch)
    assert await tiles.root(SIZE) == tree.root()
    for index in (0, 1, 255, 256, 65_535, 65_536, 69_887, 69_888, 69_999):
        proof = await tiles.inclusion(index, SIZE)
        assert proof == tree.inclusion(index)
        verify_inclusion(await tiles.leaf(index, SIZE), index, SIZE, proof, tree.root(), node_hash)
    for first in (1, 255, 256, 257, 65_535, 65_536, 65_537, 69_999, SIZE):
        proof = await tiles.consistency(first, SIZE)
        assert proof == tree.consistency(first)
        verify_consistency(first, SIZE, tree.root(first), tree.root(), proof, node_hash)


async def test_a_proof_takes_few_tiles_and_many_proofs_keep_few_in_memory(nodes: MemoryNodes) -> None:
    served = Served(nodes, SIZE)
    await TileReader(served.fetch).inclusion(12_345, SIZE)
    assert len(served.asked) == len(set(served.asked)) <= 6

    tiles = TileReader(served.fetch)
    for index in range(0, SIZE, 256):
        await tiles.leaf(index, SIZE)
    served.asked.clear()
    await tiles.leaf(SIZE - 1, SIZE)
    assert served.asked == []
    await tiles.leaf(0, SIZE)
    assert served.asked == ["tile/0/000"]


async def test_a_former_size_is_proven_from_the_full_tiles_that_came_after_it(nodes: MemoryNodes) -> None:
    tree = LogTree(nodes)
    served = Served(nodes, SIZE)
    tiles = TileReader(served.fetch)
    assert await tiles.root(300) == tree.root(300)
    assert await tiles.inclusion(299, 300) == tree.inclusion(299, 300)
    assert {"tile/0/001.p/44", "tile/0/001"} <= set(served.asked)


async def test_a_former_size_is_proven_from_the_tiles_of_the_last_checkpoint(nodes: MemoryNodes) -> None:
    tree = LogTree(nodes)
    tiles = TileReader(Served(nodes, 699).fetch)
    assert await refusal(tiles.root(600)) == "log-resource-missing"
    assert await tiles.root(600, 699) == tree.root(600)
    assert await tiles.inclusion(598, 600, 699) == tree.inclusion(598, 600)
    assert await refusal(tiles.inclusion(598, 600, 599)) == "proof-size-out-of-range"


async def test_a_tile_of_another_length_is_refused_and_an_altered_one_proves_nothing(
    nodes: MemoryNodes,
) -> None:
    served = Served(nodes, 300)
    genuine = served.files["tile/0/000"]
    for wrong in (genuine[:-1], genuine + b"\0", b""):
        served.files["tile/0/000"] = wrong
        assert await refusal(TileReader(served.fetch).inclusion(3, 300)) == "tile-malformed"
    served.files["tile/0/000"] = bytes(32) + genuine[32:]
    tree = LogTree(nodes)
    proof = await TileReader(served.fetch).inclusion(3, 300)
    with pytest.raises(AioumError) as caught:
        verify_inclusion(leaf_hash(b"3"), 3, 300, proof, tree.root(300), node_hash)
    assert caught.value.code == "proof-root-mismatch"


async def test_what_the_log_cannot_have_is_not_asked_for(nodes: MemoryNodes) -> None:
    served = Served(nodes, 300)
    tiles = TileReader(served.fetch)
    assert await refusal(tiles.inclusion(300, 300)) == "proof-index-out-of-range"
    assert await refusal(tiles.leaf(-1, 300)) == "proof-index-out-of-range"
    assert await refusal(tiles.entry(300, 300)) == "proof-index-out-of-range"
    assert await refusal(tiles.consistency(301, 300)) == "proof-size-out-of-range"
    assert await refusal(tiles.root(MAX_SIZE + 1)) == "proof-size-out-of-range"
    assert served.asked == []
    assert await refusal(tiles.root(40_000)) == "log-resource-missing"


async def collected(steps: AsyncIterator[tuple[bytes, Frontier]]) -> tuple[list[bytes], Frontier]:
    got = [step async for step in steps]
    return [entry for entry, _ in got], got[-1][1]


async def test_entries_are_followed_from_a_known_state_to_a_checkpoint(tmp_path: Path) -> None:
    with opened(tmp_path / "log") as log:
        log.append(entries(0, 600))
        await publish(log, FileRegister(tmp_path / "register"), KEY)
        checkpoints = {size: Checkpoint(ORIGIN, size, log.tree.root(size)) for size in (0, 300, 600)}
    tiles = reader(tmp_path / "log")
    assert [entry async for entry in tiles.entries(255, 600)] == entries(255, 600)
    assert await tiles.entry(599, 600) == entries(599, 600)[0]

    first, known = await collected(tiles.entries_after(Frontier(), checkpoints[300]))
    rest, whole = await collected(tiles.entries_after(known, checkpoints[600]))
    assert first + rest == entries(0, 600)
    assert whole.root(node_hash) == checkpoints[600].root
    assert [step async for step in tiles.entries_after(Frontier(), checkpoints[0])] == []
    assert [step async for step in tiles.entries_after(whole, checkpoints[600])] == []

    # Another log's state is not continued by this one; nor is a state of the future.
    other = known.append(bytes(32), node_hash)
    assert await refusal(collected(tiles.entries_after(other, checkpoints[600]))) == "proof-root-mismatch"
    assert await refusal(collected(tiles.entries_after(whole, checkpoints[300]))) == "proof-size-out-of-range"
