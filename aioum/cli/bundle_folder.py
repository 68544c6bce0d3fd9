"""The files of a submission on disk: read whole and within limits, written once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from aioum.core.errors import InvalidInput
from aioum.trust.manifest import EpisodePlan
from aioum.trust.package import (
    EPISODES,
    MAX_FILES,
    MAX_PACKAGE_BYTES,
    MAX_REPLAY_BYTES,
    episode_path,
)

_FILE_SET: Final = "bundle-file-set"
_TOO_LARGE: Final = "bundle-too-large"


def read_folder(folder: Path) -> dict[str, bytes]:
    """Every file of a folder and of its `episodes`, by path. Nothing is followed out of it.

    Raises:
        InvalidInput: `bundle-file-set`, for a link, a device or another folder; `bundle-too-large`.
        OSError: the folder cannot be read.
    """
    files: dict[str, bytes] = {}
    left = MAX_PACKAGE_BYTES
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for path, parent, name in _paths(root):
            if len(files) == MAX_FILES:
                raise InvalidInput(f"over {MAX_FILES} files", code=_TOO_LARGE)
            files[path] = _read(parent, name, path, left)
            left -= len(files[path])
    finally:
        os.close(root)
    return files


def read_replays(folder: Path, plan: Iterable[EpisodePlan]) -> dict[str, bytes]:
    """The replays of planned episodes, by id: `ID.gaos-replay.jsonl`, the id in percent encoding.

    Raises:
        InvalidInput: `bundle-file-set` or `bundle-too-large`.
        OSError: a file is missing or cannot be read.
    """
    parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        names = {each.id: episode_path(each.id).removeprefix(f"{EPISODES}/") for each in plan}
        return {episode_id: _read(parent, name, name, MAX_REPLAY_BYTES) for episode_id, name in names.items()}
    finally:
        os.close(parent)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a new folder.

    Raises:
        OSError: it exists already, or cannot be written.
    """
    folder.mkdir()
    (folder / EPISODES).mkdir()
    for path, content in files.items():
        (folder / path).write_bytes(content)


def _paths(root: int) -> Iterable[tuple[str, int, str]]:
    for name in _names(root):
        if name != EPISODES:
            yield name, root, name
            continue
        try:
            episodes = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
        except NotADirectoryError as error:
            raise InvalidInput(f"{name} is no folder", code=_FILE_SET) from error
        try:
            for child in _names(episodes):
                yield f"{EPISODES}/{child}", episodes, child
        finally:
            os.close(episodes)


def _names(folder: int) -> list[str]:
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if len(names) == MAX_FILES:
                raise InvalidInput(f"over {MAX_FILES} files", code=_TOO_LARGE)
            names.append(entry.name)
    return sorted(names)


def _read(parent: int, name: str, path: str, most: int) -> bytes:
    # Looked at before it is opened, for opening a device can have effects; and again once it is open.
    if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        raise InvalidInput(f"{path!r:.300} is no file but a link, a folder or a device", code=_FILE_SET)
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidInput(f"{path!r:.300} was replaced while it was read", code=_FILE_SET)
        data = stream.read(most + 1)
    if len(data) > most:
        raise InvalidInput(f"{path!r:.300} is longer than {most} bytes", code=_TOO_LARGE)
    return data
