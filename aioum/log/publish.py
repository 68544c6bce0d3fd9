"""Publishing: the checkpoint is agreed on before anything of it can be seen.

The register is what makes two histories impossible: it lives apart from the log folder (in the node's store,
on another disk), holds the one newest checkpoint, and gives it up only for one that the same writer read it
before. A folder that was restored from a copy, or a second writer, does not contain what the register holds,
and publishes nothing.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from aioum.log.checkpoint import Checkpoint, NoteSigner, read_checkpoint, sign_checkpoint
from aioum.log.disk import Disk, make_folders, replace_file
from aioum.log.errors import CheckpointInvalid, PublishRefused
from aioum.log.files import LogFolder, published_note
from aioum.log.static import show


class CheckpointRegister(Protocol):
    """Holds a log's newest checkpoint. What it gave out once, it never forgets."""

    async def latest(self) -> bytes | None:
        """The signed note, or None before the first."""
        ...

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        """Put `new` in the place of `expected`, durably; where another is there, do nothing and say False."""
        ...


class FileRegister:
    """A register in a file of its own, outside of the log folder and of what is restored with it."""

    def __init__(self, path: Path, *, disk: Disk | None = None) -> None:
        self._path = path
        self._disk = disk or Disk()

    async def latest(self) -> bytes | None:
        """The signed note, or None before the first."""
        return await asyncio.to_thread(self._read)

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        """Exchange the note, durably."""
        return await asyncio.to_thread(self._swap, expected, new)

    def _read(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def _swap(self, expected: bytes | None, new: bytes) -> bool:
        make_folders(self._disk, self._path.parent)
        lock = os.open(self._path.with_name(f"{self._path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._read() != expected:
                return False
            replace_file(self._disk, self._path, new)
            self._disk.sync(self._path.parent)
            return True
        finally:
            os.close(lock)


async def publish(
    folder: LogFolder,
    register: CheckpointRegister,
    key: NoteSigner,
    *,
    former_keys: Sequence[bytes] = (),
    known: Sequence[Checkpoint] = (),
) -> bytes:
    """Sign the log's state, commit to it, and make it visible; give the signed note.

    Safe to repeat: after a crash it finishes what was begun, with the same note.

    Args:
        folder: the log.
        register: the log's.
        key: the log's Ed25519 key.
        former_keys: public keys of before a rotation, 32 bytes each.
        known: states of this log that others have, such as the one anchored on-chain.

    Raises:
        PublishRefused: `log-rolled-back`, the register, the public part or `known` has more entries than the
            folder; `log-forked`, one of them has another history; `register-rolled-back`, the public part
            has more than the register; `checkpoint-conflict`, another writer was faster.
        CheckpointInvalid: as `read_checkpoint`, what the register or the public part has is not the log's.
        LogFolderError: `log-public-altered`, a public file is not what was written there.
    """
    visible, held, committed = await _states(folder, register, (key.public_key, *former_keys))
    for state in (committed, visible, *known):
        if state is not None:
            require_continues(folder, state)
    size = folder.size
    note = sign_checkpoint(Checkpoint(folder.origin, size, folder.tree.root(size)), key)
    if note != held and not await register.swap(held, note):
        raise PublishRefused(
            "another writer has published meanwhile",
            code="checkpoint-conflict",
            hint="one process publishes a log; find the other one",
        )
    # Durable here: the register's note, and all that it counts in the folder. Nobody has seen it yet; a crash
    # leaves it to the next call, which signs the same or a longer state.
    await asyncio.to_thread(show, folder, size, note)
    return note


async def follow(folder: LogFolder, register: CheckpointRegister, keys: Sequence[bytes]) -> Checkpoint | None:
    """Make visible what another writer of the same log committed to, as far as this folder has the same.

    Args:
        folder: a copy of the log.
        register: the log's.
        keys: public keys that may have signed, 32 bytes each, the one in use first.

    Returns:
        What the folder shows now; None where nothing was published, or more than the folder has yet.

    Raises:
        PublishRefused: `log-forked`, the folder has another history; `register-rolled-back`.
        CheckpointInvalid, LogFolderError: as `publish`.
    """
    _, held, committed = await _states(folder, register, keys)
    if held is None or committed is None or committed.size > folder.size:
        return None
    require_continues(folder, committed)
    if held != published_note(folder.path):
        await asyncio.to_thread(show, folder, committed.size, held)
    return committed


def require_continues(folder: LogFolder, state: Checkpoint) -> None:
    """Return if the log begins with a state that was seen of it.

    Raises:
        PublishRefused: `log-rolled-back`, the folder has fewer entries; `log-forked`, it has others.
    """
    if state.size > folder.size:
        raise PublishRefused(
            f"the folder has {folder.size} entries, {state.size} were committed to",
            code="log-rolled-back",
            hint="restore the newest copy of the folder; publish nothing from this one",
        )
    if folder.tree.root(state.size) != state.root:
        raise PublishRefused(
            f"the folder's first {state.size} entries are not those that were committed to",
            code="log-forked",
            hint="find out who wrote them; publish nothing from this folder",
        )


async def _states(
    folder: LogFolder, register: CheckpointRegister, keys: Sequence[bytes]
) -> tuple[Checkpoint | None, bytes | None, Checkpoint | None]:
    """What is visible, and what the register holds: as it is written there, and read."""
    # In this order: a faster call in between makes the register longer than what is visible, never shorter.
    shown = published_note(folder.path)
    visible = None if shown is None else _own(shown, folder.origin, keys)
    held = await register.latest()
    committed = None if held is None else _own(held, folder.origin, keys)
    if visible is not None and (committed is None or visible.size > committed.size):
        raise PublishRefused(
            f"the log shows {visible.size} entries, the register knows of "
            f"{0 if committed is None else committed.size}",
            code="register-rolled-back",
            hint="restore the register's newest state",
        )
    return visible, held, committed


def _own(note: bytes, origin: str, keys: Sequence[bytes]) -> Checkpoint:
    for key in keys[:-1]:
        try:
            return read_checkpoint(note, origin, key)
        except CheckpointInvalid as error:
            if error.code != "checkpoint-key-mismatch":
                raise
    return read_checkpoint(note, origin, keys[-1])
