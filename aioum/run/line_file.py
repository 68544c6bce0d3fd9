"""A file of checked lines that only grows: a crash leaves whole lines behind, and at most one torn.

Line: CRC-32 of the payload as eight hex digits, a space, the payload, a newline. A payload holds no newline.
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from aioum.core.errors import AioumError, InvalidInput

MAX_BUFFERED_BYTES: Final = 65_536
"""Bytes that lie in memory before they are written, in the mode `buffered`."""

MAX_LINE_BYTES: Final = 128 * 1024 * 1024
"""Longest line that is read, its newline included."""

_CHECK_BYTES: Final = 9


class RunJournalError(AioumError):
    """A run's journal cannot be written or read."""

    default_code = "run-journal-failed"


class Durability(StrEnum):
    """What has happened to an event when recording it returns.

    Attributes:
        BUFFERED: it is in memory, and written with many others. A crash of the program loses it.
        WRITTEN: the operating system has it. A crash of the program does not lose it, a loss of power may.
        SYNCED: the disk has it.
    """

    BUFFERED = "buffered"
    WRITTEN = "written"
    SYNCED = "synced"


def durability_named(name: Durability | str) -> Durability:
    """The mode of this name. Raises InvalidInput `run-durability-unknown`."""
    try:
        return Durability(name)
    except ValueError as error:
        raise InvalidInput(
            f"the durability {name!r:.40} is none of {', '.join(Durability)}", code="run-durability-unknown"
        ) from error


class LineFile:
    """Appends lines for one writer process. `append` and `flush` are for one thread at a time; any number of
    threads may wait in `sync` together, and share its work.
    """

    def __init__(self, path: Path, descriptor: int, size_bytes: int) -> None:
        """Made by `create` and `reopen`."""
        self.path = path
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._written = size_bytes
        self._synced = 0
        self._sync_lock = threading.Lock()
        self._failure: RunJournalError | None = None

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make an empty file that its owner alone can read. Its name is durable after `sync_folder`.

        Raises:
            RunJournalError: `run-journal-exists`, `run-journal-failed`.
        """
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise RunJournalError(
                f"{path} exists already",
                code="run-journal-exists",
                hint="record into another folder, or resume this run",
            ) from error
        except OSError as error:
            raise _failed(path, error) from error
        _lock(path, descriptor)
        return cls(path, descriptor, 0)

    @classmethod
    def reopen(cls, path: Path, on_line: Callable[[bytes], None], *, accept_loss: bool = False) -> Self:
        """Read what is there, cut a torn last line, and go on behind it.

        Args:
            path: the file.
            on_line: is given each payload in order.
            accept_loss: where a line in the middle is damaged, cut it off with all that follows it.

        Raises:
            RunJournalError: `run-journal-missing`, `run-journal-in-use`, `run-journal-damaged`,
                `run-journal-failed`.
        """
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError as error:
            raise RunJournalError(
                f"{path} is not there", code="run-journal-missing", hint="name the folder of a recorded run"
            ) from error
        except OSError as error:
            raise _failed(path, error) from error
        _lock(path, descriptor)
        try:
            size_bytes = read_lines(path, on_line, accept_loss=accept_loss)
            # What was acknowledged was whole; a torn line never was.
            os.ftruncate(descriptor, size_bytes)
        except OSError as error:
            os.close(descriptor)
            raise _failed(path, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, size_bytes)

    def append(self, payload: bytes, *, buffered: bool) -> int:
        """Add a line, written to the operating system unless `buffered`.

        Returns:
            Where it ends, bytes: what `sync` has to reach.

        Raises:
            RunJournalError: `run-journal-failed`. The line was not added.
        """
        self.require_working()
        line = b"%08x %b\n" % (zlib.crc32(payload), payload)
        self._buffer += line
        if not buffered or len(self._buffer) >= MAX_BUFFERED_BYTES:
            try:
                self.flush()
            except RunJournalError:
                del self._buffer[-len(line) :]
                raise
        return self._written + len(self._buffer)

    def flush(self) -> None:
        """Hand what is buffered to the operating system.

        Raises:
            RunJournalError: `run-journal-failed`; the lines stay buffered.
        """
        self.require_working()
        if not self._buffer:
            return
        start = self._written
        data = bytes(self._buffer)
        done = 0
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:])
        except OSError as error:
            self._take_back(start, done)
            raise _failed(self.path, error) from error
        self._written = start + done
        self._buffer.clear()

    def sync(self, position: int) -> None:
        """Return when everything up to `position` (already flushed) is on the disk.

        Raises:
            RunJournalError: `run-journal-failed`. What the disk has is unknown from then on, so nothing more
                is added.
        """
        with self._sync_lock:
            if self._synced >= position:
                # Another thread's sync came after our line.
                return
            self.require_working()
            # Read before the sync: what is written while it runs may not be part of it.
            reached = self._written
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise self._fail(error) from error
            self._synced = reached

    @property
    def flushed_bytes(self) -> int:
        """How much the operating system has."""
        return self._written

    def require_working(self) -> None:
        """Raise RunJournalError `run-journal-failed` if an earlier failure left the file in doubt."""
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Give the file back to other processes. What is buffered is written first."""
        with self._sync_lock:
            try:
                if self._failure is None:
                    self.flush()
            finally:
                os.close(self._descriptor)

    def _take_back(self, start: int, done: int) -> None:
        if not done:
            return
        try:
            # Half a line must not stand in front of the next one.
            os.ftruncate(self._descriptor, start)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> RunJournalError:
        self._failure = _failed(self.path, error)
        return self._failure


def read_lines(path: Path, on_line: Callable[[bytes], None], *, accept_loss: bool = False) -> int:
    """Give the whole lines of a file to `on_line`, in order.

    Returns:
        Where the last one ends, bytes; a torn last line lies behind it.

    Raises:
        RunJournalError: `run-journal-damaged`, unless `accept_loss`.
        OSError: the file cannot be read.
    """
    end = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            payload = _payload(line)
            if payload is None:
                if accept_loss or not file.read(1):
                    break
                raise RunJournalError(
                    f"{path} is damaged at byte {end}, and more follows",
                    code="run-journal-damaged",
                    hint="restore it from a copy, or accept the loss of everything from there on",
                    details={"byte_position": end},
                )
            on_line(payload)
            end += len(line)
    return end


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in place of an older one: all of it, or after a crash the older one.

    Raises:
        OSError: it cannot be written; an older one is unchanged.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _payload(line: bytes) -> bytes | None:
    if not line.endswith(b"\n") or line[_CHECK_BYTES - 1 : _CHECK_BYTES] != b" ":
        return None
    payload = line[_CHECK_BYTES:-1]
    return payload if line[: _CHECK_BYTES - 1] == b"%08x" % zlib.crc32(payload) else None


def _lock(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise RunJournalError(
            f"{path} is written by another recorder", code="run-journal-in-use", hint="end that one first"
        ) from error


def _failed(path: Path, error: OSError) -> RunJournalError:
    return RunJournalError(
        f"{path}: {error.strerror or error}", hint="is the disk full? what was recorded before is kept"
    )
