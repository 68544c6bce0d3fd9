"""Re-hashing everything that a log folder holds, and comparing what it shows with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aioum.core.errors import AioumError
from aioum.core.merkle import HASH_BYTES
from aioum.log.checkpoint import Checkpoint, parse_checkpoint, read_checkpoint
from aioum.log.disk import Disk, is_draft
from aioum.log.errors import LogFolderError, TileInvalid
from aioum.log.files import FileNodes, published_note, read_bundle
from aioum.log.heads import Head, last_head, read_heads
from aioum.log.paths import CHECKPOINT_PATH, TILE_HEIGHT, TILE_WIDTH, TilePath
from aioum.log.static import new_paths, tile_bytes
from aioum.log.tiles import unpack_entries
from aioum.log.tree import EMPTY_ROOT, LogTree, leaf_hash, node_count

MAX_FINDINGS: Final = 100
"""Most findings that are kept; more say nothing new."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was written.

    Attributes:
        code: stable reason code.
        where: the file, below the log folder.
        message: for a person.
    """

    code: str
    where: str
    message: str


@dataclass(slots=True)
class FsckReport:
    """What re-hashing found.

    Attributes:
        origin: the log's name.
        size: entries in the log.
        root: over them, computed from their bytes; 32 bytes.
        entry_bytes: bytes of all entries.
        checkpoint: what the public part shows, or None.
        findings: at most MAX_FINDINGS.
    """

    origin: str = ""
    size: int = 0
    root: bytes = EMPTY_ROOT
    entry_bytes: int = 0
    checkpoint: Checkpoint | None = None
    findings: list[Finding] = field(default_factory=list)

    def require_sound(self) -> None:
        """Return if nothing was found.

        Raises:
            LogFolderError: the first finding's code; `details` has all of them.
        """
        if self.findings:
            first = self.findings[0]
            raise LogFolderError(
                f"{first.where}: {first.message}",
                code=first.code,
                hint="restore the folder from a copy; publish and anchor nothing from this one",
                details={"findings": [[found.code, found.where, found.message] for found in self.findings]},
            )

    def add(self, code: str, where: str, message: str) -> None:
        """Note something."""
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(code, where, message))


def fsck(path: Path, public_key: bytes | None = None) -> FsckReport:
    """Read and hash all entries of a log folder again, and compare nodes, states, tiles and checkpoint.

    Changes nothing and takes no lock: of a log that grows meanwhile it sees what was there at the start.
    Memory is bounded; time grows with the log (a million entries: under a minute).

    Args:
        path: the log folder.
        public_key: the log's Ed25519 key, to check the signature of what is published; 32 bytes.

    Returns:
        The report. Its findings have the codes `log-heads-malformed`; `log-entries-missing` and what
        `unpack_entries` raises; `log-nodes-missing`; `log-nodes-altered`, a node is not the hash of what is
        below it (also: an entry was altered); `log-head-altered`, the log has not had that state;
        `log-tile-altered`, `log-tile-missing`, `log-file-unexpected` in the public part;
        `log-rolled-back` and `log-checkpoint-altered`, the published checkpoint is not one of this log; and
        what `read_checkpoint` raises.

    Raises:
        LogFolderError: `log-folder-missing`, there is none.
    """
    if not (path / "origin").is_file():
        raise LogFolderError(
            f"{path} is no log folder",
            code="log-folder-missing",
            hint="name the folder that the log's writer keeps, with its heads and entries in it",
        )
    report = FsckReport(origin=(path / "origin").read_text(encoding="utf-8").removesuffix("\n"))
    # What is published first, so that the states read after it are not older.
    note = published_note(path)
    try:
        _check_inside(path, report)
        _check_public(path, report, note, public_key)
    except AioumError as error:
        report.add(error.code, path.name, str(error))
    return report


class _Compared:
    """A node store that holds what it is given against the nodes in a file."""

    def __init__(self, nodes: FileNodes, report: FsckReport) -> None:
        self._nodes = nodes
        self._report = report
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, position: int) -> bytes:
        return self._nodes.get(position)

    def extend(self, hashes: Sequence[bytes]) -> None:
        stored = self._nodes.read(self._count, len(hashes))
        if stored != b"".join(hashes):
            wrong = next(
                at
                for at, computed in enumerate(hashes)
                if stored[at * HASH_BYTES : (at + 1) * HASH_BYTES] != computed
            )
            self._report.add(
                "log-nodes-altered", "nodes", f"node {self._count + wrong} is not what it hashes"
            )
        self._count += len(hashes)


def _check_inside(path: Path, report: FsckReport) -> None:
    end, _ = last_head(path / "heads")
    nodes = FileNodes(path / "nodes", Disk(), node_count(end.size))
    try:
        tree = LogTree(_Compared(nodes, report), 0)
        states = iter(read_heads(path / "heads"))
        awaited = next(states, None)
        for entries in _bundles(path, end.size):
            report.entry_bytes += sum(map(len, entries))
            leaves = [leaf_hash(entry) for entry in entries]
            while awaited is not None and awaited.size <= tree.size + len(leaves):
                known = awaited.size - tree.size
                tree.extend(leaves[:known])
                leaves = leaves[known:]
                _check_state(awaited, tree, report)
                awaited = next(states, None)
            tree.extend(leaves)
        report.size, report.root = tree.size, tree.root()
    finally:
        nodes.close()


def _bundles(path: Path, size: int) -> Iterator[list[bytes]]:
    for bundle in range(-(-size // TILE_WIDTH)):
        count = min(TILE_WIDTH, size - bundle * TILE_WIDTH)
        yield unpack_entries(read_bundle(path, bundle, count), count)


def _check_state(head: Head, tree: LogTree, report: FsckReport) -> None:
    if head.root != tree.root():
        report.add("log-head-altered", "heads", f"its root over {head.size} entries is another one")


def _check_public(path: Path, report: FsckReport, note: bytes | None, public_key: bytes | None) -> None:
    nodes = FileNodes(path / "nodes", Disk(), node_count(report.size))
    try:
        for file in _files_below(path / "public"):
            _check_file(path, file, nodes, report)
        if note is not None:
            _check_checkpoint(path, note, public_key, nodes, report)
    finally:
        nodes.close()


def _files_below(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield Path(place, name)


def _check_file(path: Path, file: Path, nodes: FileNodes, report: FsckReport) -> None:
    name = file.relative_to(path / "public").as_posix()
    if name == CHECKPOINT_PATH or is_draft(file):
        return
    try:
        tile = TilePath.parse(name)
    except TileInvalid:
        tile = None
    if tile is None or not _completed(tile, report.size):
        # What came meanwhile was counted before it was shown.
        if tile is None or not _completed(tile, last_head(path / "heads")[0].size):
            report.add("log-file-unexpected", f"public/{name}", "the log has no such file")
        return
    try:
        found = file.read_bytes()
    except FileNotFoundError:
        # A partial file whose full one has come meanwhile; the checkpoint's own are looked for below.
        return
    if tile.level is None:
        expected = read_bundle(path, tile.index, tile.width)
    else:
        expected = tile_bytes(nodes, tile.level, tile.index, tile.width)
    if found != expected:
        report.add("log-tile-altered", f"public/{name}", "it is not what the log holds")


def _completed(tile: TilePath, size: int) -> bool:
    return tile.index * TILE_WIDTH + tile.width <= size >> TILE_HEIGHT * (tile.level or 0)


def _check_checkpoint(
    path: Path, note: bytes, public_key: bytes | None, nodes: FileNodes, report: FsckReport
) -> None:
    checkpoint = (
        parse_checkpoint(note) if public_key is None else read_checkpoint(note, report.origin, public_key)
    )
    report.checkpoint = checkpoint
    if checkpoint.size > report.size:
        report.add(
            "log-rolled-back",
            "public/checkpoint",
            f"it counts {checkpoint.size} entries, the log has {report.size}",
        )
        return
    if checkpoint.origin != report.origin or LogTree(nodes, report.size).root(checkpoint.size) != (
        checkpoint.root
    ):
        report.add("log-checkpoint-altered", "public/checkpoint", "the log has not had that state")
    for tile in new_paths(0, checkpoint.size):
        full = TilePath(tile.level, tile.index)
        if not any((path / "public" / served.text()).is_file() for served in (tile, full)):
            report.add("log-tile-missing", f"public/{tile.text()}", "the checkpoint speaks of it")
