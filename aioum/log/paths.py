"""Where a log's static files lie below its address (C2SP tlog-tiles)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aioum.log.errors import TileInvalid
from aioum.log.proofs import MAX_SIZE

CHECKPOINT_PATH: Final = "checkpoint"

TILE_HEIGHT: Final = 8
TILE_WIDTH: Final = 1 << TILE_HEIGHT
"""Hashes of a full tile, entries of a full bundle."""

MAX_LEVEL: Final = 63 // TILE_HEIGHT
"""The highest level that a log of MAX_SIZE entries has."""

_PATH: Final = re.compile(
    r"tile/(?P<level>entries|0|[1-9][0-9]?)/(?P<index>(?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/(?P<width>[1-9][0-9]{0,2}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TilePath:
    """A tile of hashes, or a bundle of entries.

    Attributes:
        level: 0 to 7 of a tile, None of a bundle.
        index: within the level, from 0.
        width: hashes or entries, 1 to 256; below that it is partial.

    Raises:
        TileInvalid: `tile-path-malformed`.
    """

    level: int | None
    index: int
    width: int = TILE_WIDTH

    def __post_init__(self) -> None:
        if (
            (self.level is not None and not 0 <= self.level <= MAX_LEVEL)
            or not 0 <= self.index <= MAX_SIZE >> TILE_HEIGHT
            or not 1 <= self.width <= TILE_WIDTH
        ):
            raise TileInvalid(f"no tile can be {self}", code="tile-path-malformed")

    def text(self) -> str:
        """The path below the log's address."""
        level = "entries" if self.level is None else str(self.level)
        partial = "" if self.width == TILE_WIDTH else f".p/{self.width}"
        return f"tile/{level}/{index_path(self.index)}{partial}"

    @classmethod
    def parse(cls, text: str) -> TilePath:
        """Read what `text` gives, in that spelling only; so it leads nowhere else in a file system.

        Raises:
            TileInvalid: `tile-path-malformed`.
        """
        match = _PATH.fullmatch(text)
        if match is not None:
            level = None if match["level"] == "entries" else int(match["level"])
            index = int(match["index"].replace("x", "").replace("/", ""))
            path = cls(level, index, int(match["width"] or TILE_WIDTH))
            if path.text() == text:
                return path
        raise TileInvalid(f"not the path of a tile: {text!r:.100}", code="tile-path-malformed")


def index_path(index: int) -> str:
    """Three digits for each step, all but the last behind an `x`: 1234067 is `x001/x234/067`."""
    steps = [f"{index % 1000:03}"]
    while index := index // 1000:
        steps.append(f"x{index % 1000:03}")
    return "/".join(reversed(steps))


def tile_path(level: int, index: int, size: int) -> TilePath:
    """The tile at that place in a log of `size` entries, partial where the log ends in it.

    Raises:
        TileInvalid: `tile-path-malformed`, the log has no such tile.
    """
    return TilePath(level, index, min((size >> TILE_HEIGHT * level) - index * TILE_WIDTH, TILE_WIDTH))


def bundle_path(index: int, size: int) -> TilePath:
    """The bundle of entries at that place in a log of `size` entries. Raises as `tile_path`."""
    return TilePath(None, index, min(size - index * TILE_WIDTH, TILE_WIDTH))
