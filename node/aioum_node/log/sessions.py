"""The log folder with its table of sessions: no session is in it twice, after whatever crash."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from aioum.core.types import ChannelId
from aioum.log.entry import SessionEntry, read_entry
from aioum.log.files import MAX_BATCH, LogFolder
from aioum_node.log.index import SessionIndex

_ENTRIES_AT_ONCE: Final = 4_096


class SessionLog:
    """An opened log. Blocking; used by one thread at a time.

    Attributes:
        folder: the log itself.
        index: which sessions it holds, and how far the chain was searched for them.
    """

    def __init__(self, folder: LogFolder) -> None:
        """Use `open`."""
        self.folder = folder
        self.index = SessionIndex(folder.path)
        self._catch_up()

    @classmethod
    def open(cls, path: Path, origin: str) -> Self:
        """Open a log, or make one where nothing is.

        Raises:
            CheckpointInvalid, LogFolderError: as `LogFolder.open`.
            InvalidInput, CanonicalError: an entry is none; as `read_entry`.
        """
        folder = LogFolder.open(path, origin)
        try:
            return cls(folder)
        except BaseException:
            folder.close()
            raise

    def append(self, entries: Sequence[SessionEntry]) -> int:
        """Append those sessions that are not in the log; how many these were. Durable when it returns.

        Raises:
            LogFolderError: as `LogFolder.append`; the log has to be opened again.
        """
        unlogged = self.index.without(entry.channel_id for entry in entries)
        new: dict[ChannelId, SessionEntry] = {}
        for entry in entries:
            if entry.channel_id in unlogged:
                new.setdefault(entry.channel_id, entry)
        found = [entry.to_bytes() for entry in new.values()]
        for start in range(0, len(found), MAX_BATCH):
            self.append_as_they_are(found[start : start + MAX_BATCH])
        return len(found)

    def append_as_they_are(self, entries: Sequence[bytes]) -> None:
        """Append entries of a log that this one is a copy of, at most MAX_BATCH. Durable when it returns.

        Raises:
            LogFolderError: as `append`.
            InvalidInput, CanonicalError: one is no entry; nothing was appended.
        """
        channels = [_channel_of(data) for data in entries]
        first = self.folder.append(entries)
        # Durable here: the entries. A crash leaves the table behind them, and opening takes them in.
        self.index.add(first, channels)

    def entries(self, start: int, stop: int) -> list[bytes]:
        """Entries from `start` on, before `stop`. Raises as `LogFolder.entries`."""
        return list(self.folder.entries(start, stop))

    def close(self) -> None:
        """Give it up for others."""
        self.index.close()
        self.folder.close()

    def _catch_up(self) -> None:
        known = self.index.entries
        if known > self.folder.size or (known and not self._fits(known - 1)):
            # Of another folder, or of what a copy of this one was before.
            self.index.forget()
            known = 0
        for start in range(known, self.folder.size, _ENTRIES_AT_ONCE):
            stop = min(start + _ENTRIES_AT_ONCE, self.folder.size)
            self.index.add(start, [_channel_of(data) for data in self.folder.entries(start, stop)])

    def _fits(self, last: int) -> bool:
        channel_id = _channel_of(self.folder.entry(last))
        return channel_id is None or self.index.find(channel_id) is not None


def _channel_of(data: bytes) -> ChannelId | None:
    entry = read_entry(data)
    return entry.channel_id if isinstance(entry, SessionEntry) else None
