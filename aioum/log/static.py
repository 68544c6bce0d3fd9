"""The public part of a log folder: its files, and how they appear there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aioum.log.disk import make_folders, replace_file
from aioum.log.errors import LogFolderError
from aioum.log.files import LogFolder, entries_file, published, read_bundle
from aioum.log.paths import CHECKPOINT_PATH, MAX_LEVEL, TILE_HEIGHT, TILE_WIDTH, TilePath
from aioum.log.proofs import Node
from aioum.log.tree import NodeStore, node_position


def new_paths(before: int, size: int) -> Iterator[TilePath]:
    """The tiles and bundles that a log of `size` entries has and one of `before` entries has not."""
    for level in (None, *range(MAX_LEVEL + 1)):
        shift = TILE_HEIGHT * (level or 0)
        old, count = before >> shift, size >> shift
        if old == count:
            continue
        full, rest = divmod(count, TILE_WIDTH)
        for index in range(old // TILE_WIDTH, full):
            yield TilePath(level, index)
        if rest:
            yield TilePath(level, full, rest)


def tile_bytes(nodes: NodeStore, level: int, index: int, width: int) -> bytes:
    """The first `width` hashes of a tile."""
    first = index * TILE_WIDTH
    return b"".join(
        nodes.get(node_position(Node(level * TILE_HEIGHT, number))) for number in range(first, first + width)
    )


def show(folder: LogFolder, size: int, note: bytes) -> None:
    """Make a committed checkpoint visible, with all tiles and bundles that it speaks of.

    Files that are there already stay as they are; partial ones go when the full one is there. Nothing
    happens where a longer log is visible.

    Args:
        folder: the log.
        size: entries that the checkpoint counts.
        note: the checkpoint.

    Raises:
        LogFolderError: `log-public-altered`, a file is there and has another content.
    """
    with folder.publishing:
        checkpoint = published(folder.path)
        before = checkpoint.size if checkpoint else 0
        if before > size:
            return
        paths = list(new_paths(before, size))
        for place in {_put(folder, path) for path in paths}:
            folder.disk.sync(place)
        for path in paths:
            if path.width == TILE_WIDTH:
                _drop_partial(folder, path)
        # Durable here: every file that the checkpoint speaks of. Only now it may be seen.
        replace_file(folder.disk, folder.public / CHECKPOINT_PATH, note)
        folder.disk.sync(folder.public)


def _put(folder: LogFolder, path: TilePath) -> Path:
    target = folder.public / path.text()
    make_folders(folder.disk, target.parent)
    if path.level is None:
        data = read_bundle(folder.path, path.index, path.width)
    else:
        data = tile_bytes(folder.nodes, path.level, path.index, path.width)
    if target.exists():
        # Put there before a crash.
        if target.read_bytes() != data:
            raise LogFolderError(
                f"{target} is not what was written there",
                code="log-public-altered",
                hint="find out who wrote it; `aioum log fsck` compares all files",
            )
    elif path.level is not None or path.width < TILE_WIDTH or not _linked(folder, path.index, target):
        replace_file(folder.disk, target, data)
    return target.parent


def _linked(folder: LogFolder, bundle: int, target: Path) -> bool:
    # A full bundle has its final bytes: one copy of them is enough, where the file system lets us.
    try:
        folder.disk.link(entries_file(folder.path, bundle), target)
    except OSError:
        return False
    return True


def _drop_partial(folder: LogFolder, path: TilePath) -> None:
    full = folder.public / path.text()
    partial = full.with_name(f"{full.name}.p")
    if partial.is_dir():
        for file in partial.iterdir():
            folder.disk.remove(file)
        folder.disk.remove(partial)
