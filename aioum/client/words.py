"""The operator's signed words that stand nowhere else in the record: every statement, and receipts that were
no answer.

Facts, not state: a word is kept before anybody judges it, whatever becomes of the session, and none is ever
thrown away. Two words that contradict each other are worth all the money that is held (PROTOCOL 4.3).
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from sqlite_utils import Database, Migrations

from aioum.client.sqlite_writer import SqliteWriter
from aioum.core.canonical import canonical_text, parse_json
from aioum.core.types import ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement

WORDS_FILE: Final = "words.sqlite3"
_MAX_WORD_BYTES: Final = 4_096

Word = SignedReceipt | SignedStatement

_migrations = Migrations("aioum.client.words")


@dataclass(frozen=True, slots=True)
class OperatorWords:
    """Words of one session whose signatures were checked, in the order in which they came."""

    receipts: tuple[SignedReceipt, ...] = ()
    statements: tuple[SignedStatement, ...] = ()


class Words(Protocol):
    """Where a client keeps what operators signed."""

    async def keep(self, word: Word) -> None:
        """Keep a word whose signature was checked; durable when it returns. One that says the same is kept
        once.

        Raises:
            JournalError: `journal-failed`.
        """
        ...

    async def kept(self, channel_id: ChannelId) -> OperatorWords:
        """All kept words of a session."""
        ...


@_migrations()
def m001_words(db: Database) -> None:
    """First schema. `content` is what was signed, without the signature: there can be many of those."""
    db.execute(
        """CREATE TABLE words (
            id INTEGER PRIMARY KEY, channel_id BLOB NOT NULL, content BLOB NOT NULL, kind TEXT NOT NULL,
            word TEXT NOT NULL, UNIQUE (channel_id, content)
        ) STRICT"""
    )


class SqliteWords:
    """Kept words on SQLite."""

    def __init__(self, path: Path) -> None:
        """Open or create the file at `path`. Raises JournalError `journal-failed`."""
        self._writer = SqliteWriter(path, _prepare)

    async def keep(self, word: Word) -> None:
        """See `Words.keep`."""
        if isinstance(word, SignedReceipt):
            kind, text = "receipt", word.header()
        else:
            kind, text = "statement", canonical_text(word.to_json())
        message = word.receipt if isinstance(word, SignedReceipt) else word.statement
        row = (message.channel_id, message.TYPE_HASH + message.words(), kind, text)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO words (channel_id, content, kind, word) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (channel_id, content) DO NOTHING",
                row,
            )

        await self._writer.run(work)

    async def kept(self, channel_id: ChannelId) -> OperatorWords:
        """See `Words.kept`."""

        def work(connection: sqlite3.Connection) -> list[tuple[str, str]]:
            rows = connection.execute(
                "SELECT kind, word FROM words WHERE channel_id = ? ORDER BY id", (channel_id,)
            )
            return rows.fetchall()

        rows = await self._writer.run(work)
        return OperatorWords(
            tuple(SignedReceipt.from_header(word) for kind, word in rows if kind == "receipt"),
            tuple(
                SignedStatement.from_json(parse_json(word, max_bytes=_MAX_WORD_BYTES), channel_id)
                for kind, word in rows
                if kind == "statement"
            ),
        )

    async def aclose(self) -> None:
        """Finish and close."""
        await self._writer.aclose()


def _prepare(connection: sqlite3.Connection) -> None:
    _migrations.apply(Database(connection, execute_plugins=False))
