"""Reading and writing the files of a folder without ever following a link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from aioum.core.errors import ConfigError, InvalidInput
from aioum.kits.archive import MAX_ARCHIVE_BYTES, MAX_FILES, require_safe_path


def read_folder(
    folder: Path, *, max_files: int = MAX_FILES, max_bytes: int = MAX_ARCHIVE_BYTES
) -> dict[str, bytes]:
    """The files below a folder, by path with `/`. Empty folders leave no trace.

    Args:
        folder: the folder; it may itself be reached through links.
        max_files: most files to read.
        max_bytes: most bytes of all files together.

    Raises:
        InvalidInput: `folder-entry-not-regular` (a link, a device, a socket), `folder-too-many-files`,
            `folder-too-large`, `kit-path-unsafe`.
        ConfigError: `folder-unreadable`.
    """
    files: dict[str, bytes] = {}
    room = max_bytes
    try:
        for path in _paths(folder, "", max_files):
            require_safe_path(path)
            files[path] = _content(folder / path, path, room)
            room -= len(files[path])
    except OSError as error:
        raise ConfigError(
            f"cannot read {folder}: {error.strerror or error}", code="folder-unreadable"
        ) from error
    return files


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files that anybody may read and nobody may change.

    Args:
        folder: is made, and must not exist.
        files: content by path, as `read_archive` gives them.

    Raises:
        OSError: a file cannot be written.
    """
    _make(folder)
    for path, content in files.items():
        require_safe_path(path)
        place = folder / path
        for parent in reversed(place.relative_to(folder).parents[:-1]):
            if not (folder / parent).is_dir():
                _make(folder / parent)
        place.write_bytes(content)
        place.chmod(0o444)


def _make(folder: Path) -> None:
    folder.mkdir()
    # Said once more: the process's mask takes from what mkdir is told, and another user is to read this.
    folder.chmod(0o755)


def _paths(folder: Path, prefix: str, max_files: int) -> list[str]:
    found: list[str] = []
    folders = [prefix]
    seen = 0
    while folders:
        inner = folders.pop()
        with os.scandir(folder / inner) as entries:
            for entry in entries:
                seen += 1
                if seen > 2 * max_files:
                    raise _too_many(max_files)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{inner}{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    found.append(f"{inner}{entry.name}")
                else:
                    raise _not_regular(f"{inner}{entry.name}")
    if len(found) > max_files:
        raise _too_many(max_files)
    return sorted(found)


def _content(place: Path, path: str, room: int) -> bytes:
    content = read_regular(place, room)
    if content is None:
        raise _not_regular(path)
    if len(content) > room:
        raise InvalidInput("the files of the folder are too large together", code="folder-too-large")
    return content


def read_regular(place: Path, max_bytes: int) -> bytes | None:
    """At most `max_bytes` + 1 bytes of a regular file, or None for anything else, links included.

    Raises:
        OSError: it cannot be opened or read; a FileNotFoundError where there is nothing.
    """
    try:
        # Not blocking, or opening a named pipe would wait for a writer.
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return None
        raise
    # Looked at on what was opened: the entry may have been swapped since it was listed.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(max_bytes + 1)


def _not_regular(path: str) -> InvalidInput:
    return InvalidInput(f"{path!r} is neither a regular file nor a folder", code="folder-entry-not-regular")


def _too_many(max_files: int) -> InvalidInput:
    return InvalidInput(f"the folder holds more than {max_files} files", code="folder-too-many-files")
