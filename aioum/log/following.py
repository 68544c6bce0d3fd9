"""Following a log from its files: that it grew, by what, and that all its tiles are of one tree."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aioum.core.merkle import HASH_BYTES, Frontier
from aioum.log.checkpoint import Checkpoint
from aioum.log.compare import Prefix
from aioum.log.errors import ResourceMissing, TileInvalid
from aioum.log.paths import TilePath
from aioum.log.tile_check import TileCheck, begun_tiles
from aioum.log.tiles import TileReader
from aioum.log.tree import leaf_hash


async def prefix_between(reader: TileReader, one: Checkpoint, other: Checkpoint) -> Prefix | None:
    """What the log's files say of the smaller one below the larger one; None: nothing.

    Raises:
        AioumError: whatever else fetching raises.
    """
    small, large = sorted((one.size, other.size))
    if small in (0, large):
        return None
    try:
        root = await reader.root(small, large)
        return Prefix(root, tuple(await reader.consistency(small, large)))
    except (ResourceMissing, TileInvalid):
        return None


async def checked_entries(
    reader: TileReader, known: Frontier, checkpoint: Checkpoint
) -> AsyncIterator[tuple[bytes, Frontier]]:
    """Entries behind a known state, each with the state that includes it; and every tile of hashes over them
    is read, too.

    As of `TileReader.entries_after`, only the end says that all of it is authentic.

    Args:
        reader: of the log.
        known: of the entries known already.
        checkpoint: one that was verified, and is known to continue these.

    Raises:
        ProofInvalid, TileInvalid, ResourceMissing: as `TileReader.entries_after`; `tile-altered`, a tile is
            not what the entries hash to.
    """
    if known.size == checkpoint.size:
        return
    begun = {}
    for path, width in begun_tiles(known.size, checkpoint.size):
        begun[path.level or 0] = (await reader.tile(path))[: width * HASH_BYTES]
    check = TileCheck(known, begun)
    async for entry, frontier in reader.entries_after(known, checkpoint):
        for expected in check.add(leaf_hash(entry)):
            await _compare_tile(reader, *expected)
        yield entry, frontier
    for expected in check.rest():
        await _compare_tile(reader, *expected)


async def _compare_tile(reader: TileReader, path: TilePath, hashes: bytes) -> None:
    if await reader.tile(path) != hashes:
        raise TileInvalid(f"{path.text()} is not what the entries hash to", code="tile-altered")
