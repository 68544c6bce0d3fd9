"""A log as a folder of append-only files, whose `public` part any static host can serve.

    origin      the log's name
    entries/…   entries by bundles of 256, in the format of bundles
    nodes       the tree's nodes, 32 bytes each, in the order in which they were made
    heads       the states that the log went through
    public/     `checkpoint` and `tile/…` (C2SP tlog-tiles)

Appending writes entries and nodes, syncs them, and only then adds the head that counts them. After a crash,
what lies behind the last whole head was never acknowledged and is cut off. Nothing else is ever cut or
rewritten.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aioum.core.merkle import HASH_BYTES
from aioum.log.checkpoint import Checkpoint, parse_checkpoint, require_origin
from aioum.log.disk import Disk, make_folders, replace_file
from aioum.log.errors import LogFolderError, ResourceMissing
from aioum.log.heads import HEAD_BYTES, Head, last_head
from aioum.log.paths import CHECKPOINT_PATH, TILE_WIDTH, TilePath, index_path
from aioum.log.tiles import Fetch, pack_entries, unpack_entries
from aioum.log.tree import LogTree, leaf_hash, node_count

MAX_BATCH: Final = 65_536
"""Most entries of one append."""


class FileNodes:
    """Tree nodes in one file; durable after the folder synced it."""

    def __init__(self, path: Path, disk: Disk, count: int) -> None:
        self._path = path
        self._disk = disk
        self._count = count
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise LogFolderError(f"{path} is not there", code="log-nodes-missing") from error

    def __len__(self) -> int:
        return self._count

    def get(self, position: int) -> bytes:
        """The hash at a position below the length."""
        return self.read(position, 1)

    def read(self, position: int, count: int) -> bytes:
        """Hashes that lie beside each other.

        Raises:
            LogFolderError: `log-nodes-missing`.
        """
        data = os.pread(self._descriptor, count * HASH_BYTES, position * HASH_BYTES)
        if len(data) != count * HASH_BYTES or position + count > self._count:
            raise LogFolderError(f"{self._path.name} lacks node {position}", code="log-nodes-missing")
        return data

    def extend(self, hashes: Sequence[bytes]) -> None:
        """Append hashes."""
        self._disk.write(self._path, self._count * HASH_BYTES, b"".join(hashes))
        self._count += len(hashes)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class LogFolder:
    """A log folder, opened for writing by this process alone.

    Attributes:
        path: the folder.
        origin: the log's name.
        tree: with roots and proofs of all sizes up to `size`; ahead of it while entries are written.
        nodes: what the tree is stored in.
        public: the folder to serve.
        disk: its steps.
    """

    def __init__(self, path: Path, origin: str, disk: Disk) -> None:
        """Use `open`."""
        self.path = path
        self.origin = origin
        self.disk = disk
        self.public = path / "public"
        self.publishing = threading.Lock()
        self._heads = path / "heads"
        self._mutex = threading.Lock()
        self._failed = False
        self._lock = _locked(path / "lock")
        try:
            self._create(origin)
            head, self._heads_bytes = last_head(self._heads)
            self._tail_bytes = self._recovered(head)
            self.nodes = FileNodes(path / "nodes", disk, node_count(head.size))
        except BaseException:
            os.close(self._lock)
            raise
        try:
            self._size = head.size
            self.tree = LogTree(self.nodes, head.size)
            if self.tree.root() != head.root:
                raise LogFolderError(
                    f"the nodes of {path} do not lead to the root of its last state",
                    code="log-nodes-altered",
                    hint="run `aioum log fsck`, and restore the folder from a copy",
                )
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: Path, origin: str, *, disk: Disk | None = None) -> LogFolder:
        """Open a log folder, or make one where nothing is; cut off what a crash left unacknowledged.

        Args:
            path: the folder.
            origin: the log's name (see `Checkpoint`).
            disk: how to write, other than plainly.

        Raises:
            CheckpointInvalid: `checkpoint-origin-invalid`.
            LogFolderError: `log-locked`, another process writes it; `log-origin-mismatch`, it is another
                log's; `log-rolled-back`, it has published more than it holds; `log-heads-malformed`,
                `log-entries-missing`, `log-nodes-missing`, `log-nodes-altered`, it is damaged.
        """
        require_origin(origin)
        real = disk or Disk()
        make_folders(real, path)
        return cls(path, origin, real)

    @property
    def size(self) -> int:
        """Number of entries, all of them durable."""
        return self._size

    def append(self, entries: Sequence[bytes]) -> int:
        """Append entries and give the index of the first; when it returns, they are durable.

        All or none are in the log, after a crash too. However many they are, each file is synced once.

        Args:
            entries: at most MAX_BATCH, each of 1 to MAX_ENTRY_BYTES.

        Raises:
            TileInvalid: `bundle-entry-size-invalid`; nothing was changed.
            LogFolderError: `log-batch-too-large`; `log-append-failed`, the disk refused: whether the entries
                are in is known after opening the folder again.
        """
        with self._mutex:
            first = self._size
            if not entries:
                return first
            if len(entries) > MAX_BATCH:
                raise LogFolderError(
                    f"{len(entries)} entries at once, at most {MAX_BATCH}", code="log-batch-too-large"
                )
            if self._failed:
                raise _append_failed("an earlier append failed")
            bundles = list(_by_bundle(first, entries))
            # Set until all is done: a disk that failed once cannot be trusted about what it has.
            self._failed = True
            try:
                self._write(bundles, [leaf_hash(entry) for entry in entries])
            except OSError as error:
                raise _append_failed(str(error)) from error
            self._failed = False
            return first

    def entry(self, index: int) -> bytes:
        """The entry at index. Raises as `entries`."""
        return next(self.entries(index, index + 1))

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Entries from `start` up to `stop` (None: all), one bundle in memory.

        Raises:
            LogFolderError: `log-index-out-of-range`; `log-entries-missing`.
            TileInvalid: as `unpack_entries`.
        """
        size = self.size
        end = size if stop is None else stop
        if not 0 <= start <= end <= size:
            raise LogFolderError(
                f"entries {start} to {end} of a log of {size}", code="log-index-out-of-range"
            )
        while start < end:
            bundle, skipped = divmod(start, TILE_WIDTH)
            stop_here = min(end, (bundle + 1) * TILE_WIDTH)
            data = read_bundle(self.path, bundle, stop_here - bundle * TILE_WIDTH)
            yield from unpack_entries(data, stop_here - bundle * TILE_WIDTH)[skipped:]
            start = stop_here

    def close(self) -> None:
        """Give the folder up for others."""
        self.nodes.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, bundles: Sequence[tuple[int, int, bytes]], leaves: Sequence[bytes]) -> None:
        touched = []
        folders = set()
        tail_bytes = self._tail_bytes
        for bundle, position, data in bundles:
            path = entries_file(self.path, bundle)
            if position == 0:
                make_folders(self.disk, path.parent)
                folders.add(path.parent)
                tail_bytes = 0
            self.disk.write(path, tail_bytes, data)
            tail_bytes += len(data)
            touched.append(path)
        self.tree.extend(leaves)
        for path in (*touched, self.path / "nodes", *folders):
            self.disk.sync(path)
        # Durable here: entries and nodes, which nothing counts yet. A crash cuts them off.
        head = Head(self.tree.size, self.tree.root())
        self.disk.write(self._heads, self._heads_bytes, head.to_bytes())
        self.disk.sync(self._heads)
        # Durable here: the entries are in the log.
        self._heads_bytes += HEAD_BYTES
        self._tail_bytes = tail_bytes
        self._size = head.size

    def _create(self, origin: str) -> None:
        named = self.path / "origin"
        if named.exists():
            found = named.read_bytes()
            if found != origin.encode() + b"\n":
                raise LogFolderError(
                    f"{self.path} is the log {found!r:.100}, not {origin}", code="log-origin-mismatch"
                )
            return
        if self._heads.exists() and self._heads.stat().st_size:
            raise LogFolderError(f"{self.path} lacks the log's name", code="log-origin-mismatch")
        for name in ("heads", "nodes"):
            if not (self.path / name).exists():
                self.disk.write(self.path / name, 0, b"")
        for folder in (self.path / "entries", self.public / "tile" / "entries"):
            make_folders(self.disk, folder)
        # The name comes last: with it the folder is complete.
        replace_file(self.disk, named, origin.encode() + b"\n")
        self.disk.sync(self.path)

    def _recovered(self, head: Head) -> int:
        checkpoint = published(self.path)
        if checkpoint is not None and checkpoint.size > head.size:
            # Before anything is cut: a restored part of the folder, not a crash, leads here.
            raise LogFolderError(
                f"{self.path} holds {head.size} entries and has published {checkpoint.size}",
                code="log-rolled-back",
                hint="restore the newest copy of the whole folder; publish nothing from this one",
            )
        self._cut(self._heads, self._heads_bytes)
        self._cut(self.path / "nodes", node_count(head.size) * HASH_BYTES)
        bundle, kept = divmod(head.size, TILE_WIDTH)
        tail_bytes = len(read_bundle(self.path, bundle, kept)) if kept else 0
        tail = entries_file(self.path, bundle)
        if kept:
            self._cut(tail, tail_bytes)
            bundle += 1
        # A crashed batch reached no further than this, and its files may have gaps between them.
        last = bundle + MAX_BATCH // TILE_WIDTH
        for folder in {entries_file(self.path, index).parent for index in (bundle, last)}:
            for leftover in folder.iterdir() if folder.is_dir() else ():
                if leftover.is_file() and _bundle_of(self.path, leftover) >= bundle:
                    self.disk.remove(leftover)
        return tail_bytes

    def _cut(self, path: Path, size_bytes: int) -> None:
        found = path.stat().st_size if path.exists() else -1
        if found < size_bytes:
            raise LogFolderError(
                f"{path} has {found} bytes, expected {size_bytes}",
                code="log-nodes-missing",
                hint="restore the folder from a copy",
            )
        if found > size_bytes:
            self.disk.truncate(path, size_bytes)
            self.disk.sync(path)


def entries_file(folder: Path, bundle: int) -> Path:
    """Where a log folder keeps the entries of a bundle, full or not."""
    return folder / "entries" / index_path(bundle)


def _bundle_of(folder: Path, file: Path) -> int:
    return TilePath.parse(f"tile/{file.relative_to(folder).as_posix()}").index


def read_bundle(folder: Path, bundle: int, count: int) -> bytes:
    """The first `count` entries of a bundle in a log folder, in the format of bundles.

    Raises:
        LogFolderError: `log-entries-missing`.
    """
    try:
        data = entries_file(folder, bundle).read_bytes()
    except FileNotFoundError:
        data = b""
    position = 0
    for _ in range(count):
        start = position + 2
        position = start + int.from_bytes(data[position:start], "big")
        if position > len(data):
            raise LogFolderError(
                f"{folder} lacks entries of bundle {bundle}",
                code="log-entries-missing",
                hint="restore the folder from a copy",
            )
    return data[:position]


def published(folder: Path) -> Checkpoint | None:
    """The checkpoint in a log folder's public part, not verified; None where there is none.

    Raises:
        CheckpointInvalid: as `parse_checkpoint`.
    """
    note = published_note(folder)
    return None if note is None else parse_checkpoint(note)


def published_note(folder: Path) -> bytes | None:
    """The signed note in a log folder's public part, or None."""
    try:
        return (folder / "public" / CHECKPOINT_PATH).read_bytes()
    except FileNotFoundError:
        return None


def static_files(public: Path) -> Fetch:
    """What a `TileReader` fetches with, from a folder of static files."""

    async def fetch(path: str) -> bytes:
        try:
            return (public / TilePath.parse(path).text()).read_bytes()
        except FileNotFoundError as error:
            raise ResourceMissing(f"{path} is not there") from error

    return fetch


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise LogFolderError(
            f"{path.parent} is written by another process",
            code="log-locked",
            hint="one process writes a log",
        ) from error
    return descriptor


def _by_bundle(first: int, entries: Sequence[bytes]) -> Iterator[tuple[int, int, bytes]]:
    taken = 0
    while taken < len(entries):
        bundle, position = divmod(first + taken, TILE_WIDTH)
        part = entries[taken : taken + TILE_WIDTH - position]
        yield bundle, position, pack_entries(part)
        taken += len(part)


def _append_failed(why: str) -> LogFolderError:
    return LogFolderError(
        f"the log cannot be appended to: {why}",
        code="log-append-failed",
        hint="see to the disk, then open the log again",
    )
