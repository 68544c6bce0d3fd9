"""Which tiles of hashes must lie over entries, as the entries come: nothing here reads any."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aioum.core.errors import ProofInvalid
from aioum.core.merkle import HASH_BYTES, Frontier, root_of
from aioum.log.paths import TILE_HEIGHT, TILE_WIDTH, TilePath, tile_path
from aioum.log.tree import node_hash

ExpectedTile = tuple[TilePath, bytes]
"""A tile and its content."""


def begun_tiles(known: int, size: int) -> list[tuple[TilePath, int]]:
    """The tiles of a log of `size` entries that were begun when it had `known`, each with how many of its
    hashes there were then; the lowest level first.
    """
    begun = []
    for level in range(known.bit_length() // TILE_HEIGHT + 1):
        index, width = divmod(known >> TILE_HEIGHT * level, TILE_WIDTH)
        if width:
            begun.append((tile_path(level, index, size), width))
    return begun


class TileCheck:
    """Makes the tiles over entries, keeping one tile a level in memory."""

    def __init__(self, known: Frontier, begun: Mapping[int, bytes]) -> None:
        """Go on from a state.

        Args:
            known: of the entries before.
            begun: by level, the hashes of the tile that these entries end in.

        Raises:
            ProofInvalid: `proof-root-mismatch`, the hashes are not those of this state.
        """
        self._hashes = {level: _split(tile) for level, tile in begun.items()}
        self._size = known.size
        peaks: tuple[bytes, ...] = ()
        for level in sorted(self._hashes, reverse=True):
            peaks += _frontier(self._hashes[level]).peaks
        if peaks != known.peaks:
            raise ProofInvalid(
                f"the tiles do not lead to the state of {known.size} entries", code="proof-root-mismatch"
            )

    def add(self, leaf: bytes) -> Iterator[ExpectedTile]:
        """Take the leaf hash of the next entry (32 bytes); the tiles that it completes."""
        self._size += 1
        level, value = 0, leaf
        while True:
            hashes = self._hashes.setdefault(level, [])
            hashes.append(value)
            if len(hashes) < TILE_WIDTH:
                return
            yield self._expected(level)
            value = root_of(hashes, node_hash) or b""
            hashes.clear()
            level += 1

    def rest(self) -> Iterator[ExpectedTile]:
        """The tiles that the log ends in, and that it may yet complete."""
        for level, hashes in self._hashes.items():
            if hashes:
                yield self._expected(level)

    def _expected(self, level: int) -> ExpectedTile:
        hashes = self._hashes[level]
        last = (self._size >> TILE_HEIGHT * level) - 1
        return TilePath(level, last // TILE_WIDTH, len(hashes)), b"".join(hashes)


def _split(tile: bytes) -> list[bytes]:
    return [tile[at : at + HASH_BYTES] for at in range(0, len(tile), HASH_BYTES)]


def _frontier(hashes: list[bytes]) -> Frontier:
    frontier = Frontier()
    for value in hashes:
        frontier = frontier.append(value, node_hash)
    return frontier
