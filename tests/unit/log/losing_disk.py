"""A disk that loses power at a chosen step, and then has what was synced and perhaps some of the rest."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from aioum.log.disk import Disk

Survival = Callable[[], bool]
"""Decides whether something that was not synced is on the disk nevertheless."""


class PowerLost(BaseException):
    """The machine went off. No OSError, and nothing that a program could handle."""


class _File:
    def __init__(self, data: bytes = b"") -> None:
        self.data = data
        self.durable = b""


_Names = dict[str, "_File | _Folder"]


class _Folder:
    def __init__(self) -> None:
        self.names: _Names = {}
        self.durable: _Names = {}


class LosingDisk(Disk):
    """Does everything in a real folder, for readers, and keeps account of what is durable.

    Attributes:
        steps: how many were begun.
    """

    def __init__(self, root: Path, lose_at: int | None = None) -> None:
        """Args: root: an empty folder, under which everything happens. lose_at: the step, from 0."""
        self.steps = 0
        self._root = root
        self._lose_at = lose_at
        self._top = _Folder()

    def write(self, path: Path, position: int, data: bytes) -> None:
        half = data[: len(data) // 2]
        if self._stops():
            self._write(path, position, half)
            raise PowerLost
        self._write(path, position, data)

    def truncate(self, path: Path, size_bytes: int) -> None:
        self._step()
        super().truncate(path, size_bytes)
        self._file(path).data = path.read_bytes()

    def sync(self, path: Path) -> None:
        self._step()
        found = self._find(path)
        if isinstance(found, _File):
            found.durable = found.data
        else:
            found.durable = dict(found.names)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)
        names = self._folder(source.parent).names
        names[target.name] = names.pop(source.name)

    def link(self, source: Path, target: Path) -> None:
        self._step()
        super().link(source, target)
        self._folder(target.parent).names[target.name] = self._file(source)

    def make_folder(self, path: Path) -> None:
        self._step()
        super().make_folder(path)
        self._folder(path.parent).names[path.name] = _Folder()

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)
        del self._folder(path.parent).names[path.name]

    def lose(self, survives: Survival) -> None:
        """Leave in the folder what is on the disk after the power comes back; all of it is durable then."""
        shutil.rmtree(self._root)
        self._leave(self._root, self._top, survives, {})
        self.steps = 0
        self._lose_at = None

    def lose_at(self, step: int) -> None:
        """Lose power at a step from now on."""
        self.steps, self._lose_at = 0, step

    def _leave(self, path: Path, folder: _Folder, survives: Survival, placed: dict[int, Path]) -> None:
        path.mkdir()
        left: _Names = {}
        for name in sorted(folder.names.keys() | folder.durable.keys()):
            now, durable = folder.names.get(name), folder.durable.get(name)
            kept = now if now is durable or survives() else durable
            if kept is None:
                continue
            left[name] = kept
            if isinstance(kept, _Folder):
                self._leave(path / name, kept, survives, placed)
            elif id(kept) in placed:
                (path / name).hardlink_to(placed[id(kept)])
            else:
                self._leave_file(path / name, kept, survives)
                placed[id(kept)] = path / name
        folder.names, folder.durable = left, dict(left)

    def _leave_file(self, path: Path, file: _File, survives: Survival) -> None:
        if file.data != file.durable:
            if not survives():
                file.data = file.durable
            elif len(file.data) > len(file.durable) and survives():
                # The length came through, the content did not.
                file.data = file.durable.ljust(len(file.data), b"\0")
        file.durable = file.data
        path.write_bytes(file.data)

    def _write(self, path: Path, position: int, data: bytes) -> None:
        super().write(path, position, data)
        names = self._folder(path.parent).names
        file = names.setdefault(path.name, _File())
        assert isinstance(file, _File)
        kept = file.data.ljust(position, b"\0")
        file.data = kept[:position] + data + kept[position + len(data) :]

    def _stops(self) -> bool:
        self.steps += 1
        return self.steps - 1 == self._lose_at

    def _step(self) -> None:
        if self._stops():
            raise PowerLost

    def _find(self, path: Path) -> _File | _Folder:
        found: _File | _Folder = self._top
        for name in path.relative_to(self._root).parts:
            assert isinstance(found, _Folder)
            found = found.names[name]
        return found

    def _folder(self, path: Path) -> _Folder:
        found = self._find(path)
        assert isinstance(found, _Folder)
        return found

    def _file(self, path: Path) -> _File:
        found = self._find(path)
        assert isinstance(found, _File)
        return found


def nothing_survives() -> bool:
    return False


def everything_survives() -> bool:
    return True


def chance(seed: int) -> Survival:
    """Each thing by itself, by chance."""
    generator = random.Random(seed)
    return lambda: generator.random() < 0.5
