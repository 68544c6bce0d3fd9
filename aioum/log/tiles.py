"""Proofs and entries from a log's static files, wherever they are served, with bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from aioum.core.errors import ProofInvalid
from aioum.core.merkle import HASH_BYTES, Frontier, root_of
from aioum.log.checkpoint import Checkpoint
from aioum.log.entry import MAX_ENTRY_BYTES
from aioum.log.errors import ResourceMissing, TileInvalid
from aioum.log.paths import TILE_HEIGHT, TILE_WIDTH, TilePath, bundle_path, tile_path
from aioum.log.proofs import (
    MAX_SIZE,
    Node,
    Peaks,
    consistency_plan,
    fill,
    inclusion_plan,
    nodes_of,
    root_plan,
)
from aioum.log.tree import EMPTY_ROOT, leaf_hash, node_hash

Fetch = Callable[[str], Awaitable[bytes]]
"""Gets the file at a path such as `tile/0/x001/234`; raises ResourceMissing where there is none."""

MAX_TILE_BYTES: Final = TILE_WIDTH * HASH_BYTES
"""Most bytes of a tile."""

_LENGTH_BYTES: Final = 2
MAX_BUNDLE_BYTES: Final = TILE_WIDTH * (_LENGTH_BYTES + MAX_ENTRY_BYTES)
"""Most bytes of a bundle of this project's entries: what a fetcher needs to accept."""

_KEPT_TILES: Final = 64


def pack_entries(entries: Sequence[bytes]) -> bytes:
    """Entries, each behind its length in two bytes, big-endian.

    Raises:
        TileInvalid: `bundle-entry-size-invalid`, an entry is empty or has over MAX_ENTRY_BYTES.
    """
    for entry in entries:
        if not 0 < len(entry) <= MAX_ENTRY_BYTES:
            raise TileInvalid(
                f"an entry of {len(entry)} bytes, expected 1 to {MAX_ENTRY_BYTES}",
                code="bundle-entry-size-invalid",
            )
    return b"".join(len(entry).to_bytes(_LENGTH_BYTES, "big") + entry for entry in entries)


def unpack_entries(data: bytes, count: int) -> list[bytes]:
    """The entries of a bundle that has exactly `count`.

    Raises:
        TileInvalid: `bundle-malformed`; `bundle-entry-size-invalid`.
    """
    entries = []
    position = 0
    for _ in range(count):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data) or start > len(data):
            raise TileInvalid(f"a bundle ends before its {count} entries", code="bundle-malformed")
        if not 0 < position - start <= MAX_ENTRY_BYTES:
            raise TileInvalid(
                f"an entry of {position - start} bytes, expected 1 to {MAX_ENTRY_BYTES}",
                code="bundle-entry-size-invalid",
            )
        entries.append(data[start:position])
    if position != len(data):
        raise TileInvalid(f"a bundle goes on after its {count} entries", code="bundle-malformed")
    return entries


class TileReader:
    """Reads a log from its static files.

    Holds at most 64 tiles (half a megabyte), and bundles only while they are read. Nothing that it returns
    is authentic by itself: proofs are to be checked against the root of a signed checkpoint, and `size`
    comes from there too.
    """

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._tiles: OrderedDict[TilePath, bytes] = OrderedDict()

    async def root(self, size: int, within: int | None = None) -> bytes:
        """The root over the first `size` entries, 32 bytes. Arguments and errors as of `inclusion`."""
        _require_within(size, within)
        return (await self._fill([root_plan(size)], within or size))[0] if size else EMPTY_ROOT

    async def inclusion(self, index: int, size: int, within: int | None = None) -> list[bytes]:
        """The proof that the entry at index is in the log of `size` entries.

        Args:
            index: 0 to size-1.
            size: of a checkpoint.
            within: of a later checkpoint, whose tiles are read; None where `size` is that of the last one. A
                log need not keep partial tiles of former checkpoints.

        Raises:
            ProofInvalid: `proof-index-out-of-range`, `proof-size-out-of-range`.
            TileInvalid: `tile-malformed`, a tile is not as long as it must be.
            ResourceMissing: `log-resource-missing`, and whatever else `fetch` raises.
        """
        _require_within(size, within)
        return await self._fill(inclusion_plan(index, size), within or size)

    async def consistency(self, first: int, second: int) -> list[bytes]:
        """The proof that the log of `second` entries begins with that of `first`. Raises as `inclusion`."""
        return await self._fill(consistency_plan(first, second), second)

    async def leaf(self, index: int, size: int) -> bytes:
        """The leaf hash at index, as the tiles have it, 32 bytes. Raises as `inclusion`."""
        _require_index(index, size)
        return await self._node(Node(0, index), size)

    async def tile(self, path: TilePath) -> bytes:
        """The hashes of a tile, 32 bytes each. Raises TileInvalid and ResourceMissing, as `inclusion`."""
        return await self._tile(path)

    async def entry(self, index: int, size: int) -> bytes:
        """The entry at index in the log of `size` entries.

        Raises:
            ProofInvalid: `proof-index-out-of-range`, `proof-size-out-of-range`.
            TileInvalid: as `unpack_entries`.
            ResourceMissing: `log-resource-missing`.
        """
        _require_index(index, size)
        bundle = await self._bundle(index // TILE_WIDTH, size)
        return bundle[index % TILE_WIDTH]

    async def entries(self, start: int, size: int) -> AsyncIterator[bytes]:
        """Entries from `start` to `size`-1 in order, one bundle in memory; not checked. Raises as `entry`."""
        _require_size(size)
        for index in range(start // TILE_WIDTH, -(-size // TILE_WIDTH)):
            bundle = await self._bundle(index, size)
            for entry in bundle[max(0, start - index * TILE_WIDTH) :]:
                yield entry

    async def entries_after(
        self, frontier: Frontier, checkpoint: Checkpoint
    ) -> AsyncIterator[tuple[bytes, Frontier]]:
        """Entries behind a known state, each with the state that includes it.

        The last step checks that they lead to the checkpoint: only then is any of them authentic, and is the
        log known to continue what the frontier stands for.

        Args:
            frontier: of the entries known already; `Frontier()` for none.
            checkpoint: one that was verified.

        Raises:
            ProofInvalid: `proof-size-out-of-range`, the checkpoint is the smaller one;
                `proof-root-mismatch`, at the end.
            TileInvalid: as `unpack_entries`.
            ResourceMissing: `log-resource-missing`.
        """
        if frontier.size > checkpoint.size:
            raise ProofInvalid(
                f"the checkpoint has {checkpoint.size} entries, {frontier.size} are known",
                code="proof-size-out-of-range",
            )
        async for entry in self.entries(frontier.size, checkpoint.size):
            frontier = frontier.append(leaf_hash(entry), node_hash)
            yield entry, frontier
        if (frontier.root(node_hash) or EMPTY_ROOT) != checkpoint.root:
            raise ProofInvalid(
                f"the entries up to {checkpoint.size} do not lead to the checkpoint's root",
                code="proof-root-mismatch",
            )

    async def _fill(self, plan: list[Peaks], size: int) -> list[bytes]:
        hashes = {node: await self._node(node, size) for node in nodes_of(plan)}
        return fill(plan, hashes, node_hash)

    async def _node(self, node: Node, size: int) -> bytes:
        height = node.level % TILE_HEIGHT
        index, first = divmod(node.number << height, TILE_WIDTH)
        tile = await self._tile(tile_path(node.level // TILE_HEIGHT, index, size))
        count = 1 << height
        hashes = [
            tile[at : at + HASH_BYTES]
            for at in range(first * HASH_BYTES, (first + count) * HASH_BYTES, HASH_BYTES)
        ]
        return hashes[0] if count == 1 else root_of(hashes, node_hash) or EMPTY_ROOT

    async def _tile(self, path: TilePath) -> bytes:
        kept = self._tiles.get(path)
        if kept is not None:
            self._tiles.move_to_end(path)
            return kept
        data, served = await self._fetched(path)
        if len(data) != served.width * HASH_BYTES:
            raise TileInvalid(
                f"{served.text()} has {len(data)} bytes, expected {served.width * HASH_BYTES}",
                code="tile-malformed",
            )
        tile = data[: path.width * HASH_BYTES]
        self._tiles[path] = tile
        if len(self._tiles) > _KEPT_TILES:
            self._tiles.popitem(last=False)
        return tile

    async def _bundle(self, index: int, size: int) -> list[bytes]:
        path = bundle_path(index, size)
        data, served = await self._fetched(path)
        return unpack_entries(data, served.width)[: path.width]

    async def _fetched(self, path: TilePath) -> tuple[bytes, TilePath]:
        try:
            return await self._fetch(path.text()), path
        except ResourceMissing:
            if path.width == TILE_WIDTH:
                raise
            # A log may drop a partial file once the full one is there, which begins with the same bytes.
            full = TilePath(path.level, path.index)
            return await self._fetch(full.text()), full


def _require_size(size: int) -> None:
    if not 0 <= size <= MAX_SIZE:
        raise ProofInvalid(f"a log cannot have {size} entries", code="proof-size-out-of-range")


def _require_within(size: int, within: int | None) -> None:
    _require_size(size)
    if within is not None and not size <= within <= MAX_SIZE:
        raise ProofInvalid(f"a log of {within} entries has no {size}", code="proof-size-out-of-range")


def _require_index(index: int, size: int) -> None:
    _require_size(size)
    if not 0 <= index < size:
        raise ProofInvalid(f"index {index} is not in a log of {size}", code="proof-index-out-of-range")
