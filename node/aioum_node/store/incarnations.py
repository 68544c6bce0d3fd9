"""Lives of a store: what tells a restored or copied one from the one that the node answered from.

Every start begins a new incarnation, and every transaction that changes something raises the store's sequence
number. What the node answered with last is kept outside the store, in the watermark
(`aioum_node.restored.watermark`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from aioum.core.errors import ConfigError
from aioum.core.ledger import ABANDONED, Call, Phase
from aioum.core.types import ChannelId
from aioum_node.store.port import StoredSession
from aioum_node.store.rows import PHASE_NUMBERS

INCARNATION_BYTES: Final = 16
_SECOND_BITS: Final = 20


@dataclass(frozen=True, slots=True)
class StoreMark:
    """Where a store stands.

    Attributes:
        incarnation: 16 bytes that name the life that it is in.
        previous: the incarnation that the watermark had when this one began, or None at the first.
        starts: how many lives it had; 0 where it never met a watermark.
        sequence: of its newest transaction.
        suspect_until: an instant of the chain (`chain_instant`), or None: what was opened until then and is
            not in the store may have been served all the same.
    """

    incarnation: bytes
    previous: bytes | None
    starts: int
    sequence: int
    suspect_until: int | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """A new life.

    Attributes:
        incarnation: 16 fresh random bytes.
        previous: the watermark's incarnation, or None.
        sequence: the store's goes on from here at least.
        suspect_until: where the store may lack something, the instant of the chain's newest block: every
            session that is not final becomes suspect. None where all is well.
    """

    incarnation: bytes
    previous: bytes | None
    sequence: int
    suspect_until: int | None = None


class IncarnationStore(Protocol):
    """What a store offers beside the port so that lives are told apart. Each write is one transaction."""

    async def mark(self) -> StoreMark:
        """Where the store stands."""
        ...

    async def begin(self, beginning: Beginning) -> int:
        """Begin a new life; returns how many sessions became suspect by it."""
        ...

    async def suspects(self) -> int:
        """How many sessions are suspect."""
        ...

    async def reimport(self, channel_id: ChannelId, calls: Sequence[Call], now_ms: int) -> StoredSession:
        """Take over calls of a suspect session by `suspicion.reimport`: all of them or none.

        Raises:
            Refused: `channel-not-found`, and those of `suspicion.reimport`.
        """
        ...


def chain_instant(timestamp: int, block_number: int) -> int:
    """When a block was, as one number: by its time, and by its number among blocks of the same second.

    A chain that was begun anew counts its blocks from zero, but its times go on.

    Args:
        timestamp: unix seconds.
        block_number: its last 20 bits tell apart the blocks of one second.
    """
    return timestamp << _SECOND_BITS | block_number % (1 << _SECOND_BITS)


def read_mark(connection: sqlite3.Connection) -> StoreMark:
    """The mark of a migrated store."""
    incarnation, previous, starts, sequence, until = connection.execute(
        "SELECT incarnation, previous, starts, sequence, suspect_until FROM node"
    ).fetchone()
    kept = None if previous is None else bytes(previous)
    return StoreMark(bytes(incarnation), kept, starts, sequence, until)


def require_whole(path: Path) -> None:
    """Whether the database file and its log belong together; what they give never was, where they do not.

    Nobody may have the store open. Looking changes nothing, and opening for writing would: whoever closes
    the store last folds the log into the file, and then nothing tells any more.

    Raises:
        ConfigError: `store-parts-differ`.
        sqlite3.Error: they cannot even be read together.
    """
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        # Without its log, and as if nothing could change it.
        in_file = _numbers(path, "immutable=1")
    except sqlite3.DatabaseError:
        # So it is left by a crash while the log went into it: what is missing there, the log still has.
        _require_healed(path)
        return
    numbers = None if in_file is None else _numbers(path, "cache=private")
    if in_file is None or numbers is None:
        # Of an older version, or new and not folded once.
        return
    (file_sequence, _), (sequence, folded) = in_file, numbers
    # The log goes over a file that holds everything up to `folded`, and nothing that is not in the log, too.
    if not folded <= file_sequence <= sequence:
        raise _parts_differ(path)


def _require_healed(path: Path) -> None:
    connection = _looking(path, "cache=private")
    try:
        (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    finally:
        connection.close()
    if verdict != "ok":
        raise _parts_differ(path)


def _parts_differ(path: Path) -> ConfigError:
    return ConfigError(
        f"the store {path} and its log (-wal) are of different times",
        code="store-parts-differ",
        hint="restore both from one backup; where that has no log, remove the one beside the file",
    )


def _looking(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&{how}", uri=True)


def _numbers(path: Path, how: str) -> tuple[int, int] | None:
    connection = _looking(path, how)
    try:
        row = connection.execute("SELECT sequence, folded FROM node").fetchone()
    except sqlite3.OperationalError:
        # There is no such table or column.
        return None
    finally:
        connection.close()
    return None if row is None else (row[0], row[1])


def begin(connection: sqlite3.Connection, beginning: Beginning) -> int:
    """`IncarnationStore.begin` inside a transaction."""
    connection.execute(
        "UPDATE node SET incarnation = ?, previous = ?, starts = starts + 1, sequence = max(sequence, ?), "
        "suspect_until = coalesce(max(suspect_until, ?), ?, suspect_until)",
        (
            beginning.incarnation,
            beginning.previous,
            beginning.sequence,
            beginning.suspect_until,
            beginning.suspect_until,
        ),
    )
    if beginning.suspect_until is None:
        return 0
    return connection.execute(
        "UPDATE accounts SET phase = ? WHERE phase IN (?, ?) AND seal_reason IS NOT ?",
        (
            PHASE_NUMBERS[Phase.SUSPECT],
            PHASE_NUMBERS[Phase.OPEN],
            PHASE_NUMBERS[Phase.SEALED],
            ABANDONED,
        ),
    ).rowcount
