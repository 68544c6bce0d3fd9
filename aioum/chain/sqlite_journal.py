"""Making a journal's SQLite file ready, also where several programs start on it at the same moment."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

import stamina

BUSY_TIMEOUT_SECONDS: Final = 10.0
"""Longest wait for another program."""

_BUSY_WAIT_SECONDS: Final = 0.01


def make_ready(connection: sqlite3.Connection, prepare: Callable[[sqlite3.Connection], None]) -> None:
    """Turn on the write-ahead log and full durability, and bring the schema up to date.

    Args:
        connection: in autocommit mode, with BUSY_TIMEOUT_SECONDS as its timeout.
        prepare: brings the schema up to date; it runs in one transaction, one program after the other.

    Raises:
        sqlite3.Error: the file cannot be used.
    """
    for attempt in stamina.retry_context(
        on=_is_busy,
        attempts=None,
        timeout=BUSY_TIMEOUT_SECONDS,
        wait_initial=_BUSY_WAIT_SECONDS,
        wait_jitter=_BUSY_WAIT_SECONDS,
    ):
        with attempt:
            # The one statement for which SQLite does not wait while another program does the same.
            connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("BEGIN IMMEDIATE")
    prepare(connection)
    connection.execute("COMMIT")


def _is_busy(error: Exception) -> bool:
    # The low byte is the primary code; the rest tells apart why.
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
