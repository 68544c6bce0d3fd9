"""The watermark: a small file outside the store that says how far the store has been answered from.

It names the store's incarnation and the number of the newest transaction that clients were told of. It is
written before they are told, so a store that stands below it lacks something that was answered. A crash
between the store's commit and this file leaves the store above it, which is right.
"""

from __future__ import annotations

import hashlib
import os
import struct
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.core.errors import AioumError, ConfigError, OutcomeUnknown
from aioum_node.keys.identity import write_private
from aioum_node.store.incarnations import INCARNATION_BYTES

_MAGIC: Final = b"aioum-watermark1"
_FORMAT: Final = struct.Struct(f">{len(_MAGIC)}s{INCARNATION_BYTES}sQ")
_DIGEST_BYTES: Final = 32
_SLOT_BYTES: Final = _FORMAT.size + _DIGEST_BYTES
# Two slots that no write shares, written in turns: one that is torn leaves the other.
_SLOT_STRIDE_BYTES: Final = 4_096
_SLOTS: Final = 2


@dataclass(frozen=True, slots=True)
class Mark:
    """What the file says: an incarnation, and a transaction number of the store in it."""

    incarnation: bytes
    sequence: int


class Watermark:
    """The file; one process writes it. `cover` may run on another thread than the rest.

    Args:
        path: its folder exists. On another disk than the store, it also outlives that one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        # Nothing may be written to what is closed meanwhile: its number may be another file's by then.
        self._using = threading.Lock()
        self._incarnation = b""
        self._slot = 0

    def read(self) -> Mark | None:
        """What it says, or None where there is no such file.

        Raises:
            AioumError: `watermark-damaged`, it holds something else.
            ConfigError: `watermark-unusable`, there is no such folder, or the file cannot be read.
        """
        if not self._path.parent.is_dir():
            # A disk that is not mounted must not look like a watermark that is lost.
            raise self._unusable("its folder does not exist")
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error.strerror) from error
        starts = range(0, _SLOTS * _SLOT_STRIDE_BYTES, _SLOT_STRIDE_BYTES)
        found = [mark for start in starts if (mark := _unpacked(data[start : start + _SLOT_BYTES]))]
        if not found:
            raise AioumError(f"{self._path} is no watermark", code="watermark-damaged")
        return max(found, key=lambda mark: mark.sequence)

    def replace(self, mark: Mark) -> None:
        """Begin the file anew, whole or not at all; returns once it is durable. `cover` goes on from it.

        Raises:
            ConfigError: `watermark-unusable`.
        """
        empty = bytes(_SLOT_STRIDE_BYTES)
        first = _packed(mark).ljust(_SLOT_STRIDE_BYTES, b"\0")
        try:
            self.close()
            write_private(self._path, first + empty * (_SLOTS - 1))
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unusable(error.strerror) from error
        self._incarnation = mark.incarnation
        self._slot = 0

    def cover(self, sequence: int) -> None:
        """Raise the transaction number, durably. Nothing happens before `replace`.

        Raises:
            OutcomeUnknown: `watermark-failed`. The store's transaction stands all the same.
        """
        try:
            with self._using:
                self._write(sequence)
        except OSError as error:
            raise OutcomeUnknown(
                f"the watermark {self._path} cannot be written: {error.strerror}",
                code="watermark-failed",
                hint="nothing is answered without it; check the disk of watermark_file",
            ) from error

    def close(self) -> None:
        """Stop covering."""
        with self._using:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _write(self, sequence: int) -> None:
        if self._descriptor is None:
            return
        # The one that does not hold the newest mark; again the same one after a write that failed.
        slot = (self._slot + 1) % _SLOTS
        data = _packed(Mark(self._incarnation, sequence))
        # In place and in the file's size: one write and one flush of the disk, no journal of the folder.
        written = os.pwrite(self._descriptor, data, slot * _SLOT_STRIDE_BYTES)
        if written != len(data):
            raise OSError(0, f"only {written} of {len(data)} bytes were written")
        os.fdatasync(self._descriptor)
        self._slot = slot

    def _unusable(self, reason: str | None) -> ConfigError:
        return ConfigError(
            f"the watermark {self._path} cannot be used: {reason}",
            code="watermark-unusable",
            hint="mount its disk, or correct watermark_file",
        )


def _packed(mark: Mark) -> bytes:
    data = _FORMAT.pack(_MAGIC, mark.incarnation, mark.sequence)
    return data + hashlib.sha256(data).digest()


def _unpacked(data: bytes) -> Mark | None:
    content, digest = data[: _FORMAT.size], data[_FORMAT.size :]
    if len(data) != _SLOT_BYTES or hashlib.sha256(content).digest() != digest:
        return None
    magic, incarnation, sequence = _FORMAT.unpack(content)
    return Mark(incarnation, sequence) if magic == _MAGIC else None
