"""The states that a log folder went through: what is below the last one is in the log, the rest is not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aioum.core.merkle import HASH_BYTES
from aioum.log.errors import LogFolderError
from aioum.log.tree import EMPTY_ROOT

_SIZE_BYTES: Final = 8
_CHECK_BYTES: Final = 8
HEAD_BYTES: Final = _SIZE_BYTES + HASH_BYTES + _CHECK_BYTES
"""Length of a record: size, root, and a check that tells a whole record from a torn one."""

_READ_AT_ONCE: Final = 4_096


@dataclass(frozen=True, slots=True)
class Head:
    """Entries, and the root over them (32 bytes)."""

    size: int = 0
    root: bytes = EMPTY_ROOT

    def to_bytes(self) -> bytes:
        """The record."""
        body = self.size.to_bytes(_SIZE_BYTES, "big") + self.root
        return body + _check(body)


def read_head(record: bytes) -> Head | None:
    """Read a record; None where it is not whole."""
    body = record[:-_CHECK_BYTES]
    if len(record) != HEAD_BYTES or record[-_CHECK_BYTES:] != _check(body):
        return None
    return Head(int.from_bytes(body[:_SIZE_BYTES], "big"), body[_SIZE_BYTES:])


def read_heads(path: Path) -> Iterator[Head]:
    """All states in order, of a file that may end in a torn record.

    Raises:
        LogFolderError: `log-heads-malformed`, a record before the last is not whole, or the sizes do not
            grow.
    """
    size = 0
    torn = False
    with path.open("rb") as file:
        while records := file.read(HEAD_BYTES * _READ_AT_ONCE):
            for start in range(0, len(records), HEAD_BYTES):
                head = read_head(records[start : start + HEAD_BYTES])
                if torn or (head is not None and head.size <= size):
                    raise _damaged(f"{path.name} is damaged behind the state of {size} entries")
                if head is None:
                    torn = True
                else:
                    size = head.size
                    yield head


def last_head(path: Path) -> tuple[Head, int]:
    """The last state and the length in bytes of the records up to it.

    Looks at the last two records alone: only the last one can be torn. Raises as `read_heads`.
    """
    if not path.is_file():
        raise _damaged(f"{path} is not there")
    length = path.stat().st_size
    whole = length - length % HEAD_BYTES
    with path.open("rb") as file:
        for end in (whole, whole - HEAD_BYTES) if length == whole else (whole,):
            if end <= 0:
                return Head(), 0
            file.seek(end - HEAD_BYTES)
            head = read_head(file.read(HEAD_BYTES))
            if head is not None:
                return head, end
    raise _damaged(f"the last states in {path.name} are damaged")


def _check(body: bytes) -> bytes:
    return hashlib.sha256(b"aioum.log.head\n" + body).digest()[:_CHECK_BYTES]


def _damaged(message: str) -> LogFolderError:
    return LogFolderError(message, code="log-heads-malformed", hint="restore the folder from a copy")
