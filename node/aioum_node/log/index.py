"""Where in the log each session is: a table that follows from the log, and is made again where it does not.

It lies in the log's folder, so that a folder which is restored from a copy brings the table that fits it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from aioum.core.types import Bytes32, ChannelId

INDEX_FILE: Final = "sessions.sqlite3"

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    channel_id BLOB PRIMARY KEY,
    place INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    entries INTEGER NOT NULL,
    block_number INTEGER,
    block_hash BLOB
) STRICT;
INSERT OR IGNORE INTO progress VALUES (1, 0, NULL, NULL);
"""


class SessionIndex:
    """The table, opened by the one who writes the log. Any thread may use it.

    A crash may lose its last rows, never what came before them: it is behind the log then, and follows.
    """

    def __init__(self, folder: Path) -> None:
        """Args: folder: of the log; it exists."""
        self._path = folder / INDEX_FILE
        self._using = threading.Lock()
        try:
            self._connection = self._opened()
        except sqlite3.DatabaseError:
            # Nothing is in it that the log does not say.
            for name in (INDEX_FILE, f"{INDEX_FILE}-wal", f"{INDEX_FILE}-shm"):
                (folder / name).unlink(missing_ok=True)
            self._connection = self._opened()

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    @property
    def entries(self) -> int:
        """Entries of the log that are taken in, from the first."""
        with self._using:
            (count,) = self._connection.execute("SELECT entries FROM progress").fetchone()
        return int(count)

    def add(self, first: int, sessions: Iterable[ChannelId | None]) -> None:
        """Take in entries from place `first` on; None stands for one that is of no session."""
        with self._using, self._connection:
            self._connection.execute("BEGIN")
            place = first
            for channel_id in sessions:
                if channel_id is not None:
                    # Of an entry that somebody wrote twice, the first counts.
                    self._connection.execute(
                        "INSERT OR IGNORE INTO sessions VALUES (?, ?)", (channel_id, place)
                    )
                place += 1
            self._connection.execute("UPDATE progress SET entries = ?", (place,))

    def find(self, channel_id: ChannelId) -> int | None:
        """The session's place in the log, or None."""
        with self._using:
            return _find(self._connection, channel_id)

    def without(self, channels: Iterable[ChannelId]) -> set[ChannelId]:
        """Those of some sessions that have no place in the log."""
        with self._using:
            return {channel_id for channel_id in channels if _find(self._connection, channel_id) is None}

    def position(self) -> tuple[int, Bytes32] | None:
        """The block that the chain was searched up to, and its hash; None before the first."""
        with self._using:
            number, block_hash = self._connection.execute(
                "SELECT block_number, block_hash FROM progress"
            ).fetchone()
        return None if number is None else (number, Bytes32(block_hash))

    def put_position(self, number: int, block_hash: Bytes32) -> None:
        """Remember how far the chain was searched; everything up to there is in the log."""
        with self._using:
            self._connection.execute(
                "UPDATE progress SET block_number = ?, block_hash = ?", (number, bytes(block_hash))
            )

    def forget(self) -> None:
        """Empty it."""
        with self._using, self._connection:
            self._connection.execute("BEGIN")
            self._connection.execute("DELETE FROM sessions")
            self._connection.execute(
                "UPDATE progress SET entries = 0, block_number = NULL, block_hash = NULL"
            )

    def close(self) -> None:
        """Close it; who uses it afterwards gets sqlite3.ProgrammingError."""
        with self._using:
            self._connection.close()


def find_place(folder: Path, channel_id: ChannelId) -> int | None:
    """A session's place in the log of a folder, beside whoever writes it; None also where there is no table.

    Raises:
        sqlite3.Error: it cannot be read.
    """
    path = folder / INDEX_FILE
    if not path.is_file():
        return None
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        # Whoever writes may be about to make it.
        if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sessions'").fetchone() is None:
            return None
        return _find(connection, channel_id)
    finally:
        connection.close()


def _find(connection: sqlite3.Connection, channel_id: ChannelId) -> int | None:
    row = connection.execute(
        "SELECT place FROM sessions WHERE channel_id = ?", (bytes(channel_id),)
    ).fetchone()
    return None if row is None else int(row[0])
