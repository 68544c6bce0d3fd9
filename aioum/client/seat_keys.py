"""Secret keys of seats at rest: one file per session, readable by the user alone.

They lie beside the journal and not in it: a record can be copied, shown or restored from a backup without the
power to sign. A restored record without its keys cannot sign a second call on a head that it forgot.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aioum.client.sqlite_writer import JournalError
from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.errors import AioumError, ConfigError, InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.core.submission.keys import KEY_SIZE_BYTES, SubmissionKey
from aioum.core.types import ChannelId

SEAT_KEYS_FOLDER: Final = "seat-keys"
_MAX_FILE_BYTES: Final = 65_536
_WITHOUT_KEYS: Final = "close the session, which needs no seat's key, and open another"


class SeatKeyFiles:
    """The folder of a client's seat keys."""

    def __init__(self, folder: Path) -> None:
        """Args: folder: made when the first keys are kept."""
        self._folder = folder

    def path(self, channel_id: ChannelId) -> Path:
        """The file of a session's keys."""
        return self._folder / f"{to_hex(channel_id)}.json"

    async def keep(self, channel_id: ChannelId, keys: Mapping[str, SubmissionKey]) -> None:
        """Write a session's keys by seat; durable on return. An existing file is never replaced.

        Raises:
            JournalError: `seat-keys-failed`.
        """
        content = canonical_bytes({seat: encode_base64(key.seed()) for seat, key in keys.items()})
        try:
            await asyncio.to_thread(_write_durably, self.path(channel_id), content)
        except OSError as error:
            raise JournalError(
                f"cannot keep seat keys in {self._folder}: {error.strerror}",
                code="seat-keys-failed",
                hint="check the data directory",
            ) from error

    async def load(self, channel_id: ChannelId) -> dict[str, SubmissionKey]:
        """A session's keys by seat; none where there is no file.

        Raises:
            ConfigError: `seat-keys-exposed`, others can read the file; `seat-keys-damaged`.
        """
        path = self.path(channel_id)
        try:
            mode, content = await asyncio.to_thread(_read, path)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read: {error.strerror}", code="seat-keys-damaged", hint=_WITHOUT_KEYS
            ) from error
        if os.name == "posix" and mode & 0o077:
            raise ConfigError(
                f"the seat keys in {path} can be read by others",
                code="seat-keys-exposed",
                hint=f"chmod 600 {path}, if nobody read them; else close the session",
            )
        try:
            seeds = parse_json(content, max_bytes=_MAX_FILE_BYTES)
            if not isinstance(seeds, dict):
                raise InvalidInput("expected an object")
            return {seat: SubmissionKey(decode_base64(seed, KEY_SIZE_BYTES)) for seat, seed in seeds.items()}
        except AioumError:
            # What stands there is secret: neither the text nor the error about it may be shown.
            raise ConfigError(
                f"{path} does not hold seat keys", code="seat-keys-damaged", hint=_WITHOUT_KEYS
            ) from None


def _write_durably(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".partial")
    # A crash while an earlier program wrote leaves it behind: its session was never begun.
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(partial, path)
    finally:
        partial.unlink()
    if os.name == "posix":
        for folder in (path.parent, path.parent.parent):
            _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> tuple[int, bytes]:
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_mode, file.read(_MAX_FILE_BYTES + 1)
