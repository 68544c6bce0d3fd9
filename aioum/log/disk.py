"""The steps that a log folder takes on its disk, one method each, so that tests can stop between any two."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_DRAFT: Final = ".draft"


class Disk:
    """The real one.

    Nothing is durable before `sync`: of a file for its content, of a folder for the names in it.
    """

    def write(self, path: Path, position: int, data: bytes) -> None:
        """Put data at a position of a file, which appears if it is not there."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, position)
                view = view[written:]
                position += written
        finally:
            os.close(descriptor)

    def truncate(self, path: Path, size_bytes: int) -> None:
        """Cut a file."""
        os.truncate(path, size_bytes)

    def sync(self, path: Path) -> None:
        """Make a file's content, or a folder's names, durable."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name in the same folder, in place of what had it."""
        os.replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a further name. Raises OSError where the file system cannot."""
        os.link(source, target)

    def make_folder(self, path: Path) -> None:
        """Make a folder whose parent is there."""
        path.mkdir()

    def remove(self, path: Path) -> None:
        """Remove a file or an empty folder."""
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()


def make_folders(disk: Disk, path: Path) -> None:
    """Make a folder with its parents, durably."""
    if path.is_dir():
        return
    make_folders(disk, path.parent)
    disk.make_folder(path)
    disk.sync(path.parent)


def replace_file(disk: Disk, path: Path, data: bytes) -> None:
    """Give a file this content: all of it or, after a crash, none. Durable after its folder is synced."""
    draft = path.with_name(f".{path.name}{_DRAFT}")
    if draft.exists():
        disk.remove(draft)
    disk.write(draft, 0, data)
    disk.sync(draft)
    disk.rename(draft, path)


def is_draft(path: Path) -> bool:
    """Whether a crash left this file, before `replace_file` gave it its name."""
    return path.name.startswith(".") and path.name.endswith(_DRAFT)
