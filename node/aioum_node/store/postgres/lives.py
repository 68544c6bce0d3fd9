"""What tells a restored database from the one that this node answered from; see `store.incarnations`.

Every node that shares the store has a life of its own in it, with a number that rises with each transaction
that its clients are told of, and with each sign of life. A node whose life is gone, or whose number is below
its watermark, was answered from a newer store. The number is raised and looked at inside the transaction, so
a running node notices, too, also one that answers nobody: others may have.

A node that has found its number to be right says with it that it lives: the store is the newest one. Without
such a word nobody without a watermark may take it for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from aioum.core.errors import AioumError
from aioum.core.ledger import ABANDONED, Phase
from aioum_node.store.incarnations import Beginning, StoreMark
from aioum_node.store.postgres.driver import Connection
from aioum_node.store.rows import PHASE_NUMBERS

_SELECT_LIFE = """
    SELECT incarnation, previous, starts, sequence FROM lives WHERE incarnation = $1 OR previous = $1
    ORDER BY starts DESC LIMIT 1
"""
_LIVED = "SELECT EXISTS (SELECT FROM lives)"
_LIVED_AND_NOBODY_LIVES = f"{_LIVED} AND NOT EXISTS (SELECT FROM lives WHERE alive_until > clock_timestamp())"
# In the order of the rows, as groups of steps lock them.
_LOCK_LIVING = "SELECT id FROM accounts WHERE phase = ANY($1::smallint[]) ORDER BY id FOR UPDATE"
_SUSPECT = """
    UPDATE accounts SET phase = $1
    WHERE phase = ANY($2::smallint[]) AND seal_reason IS DISTINCT FROM $3
"""


class Lives:
    """This node's life in the store.

    Args:
        former: the incarnation that the node's watermark has, or None.
        cover: see `writer.Cover` of the SQLite store; called on a thread.
        silence_seconds: how long a sign of life counts.

    Attributes:
        failure: why nobody can be told of anything, as `cover` found last; None once it succeeded.
    """

    def __init__(self, former: bytes | None, cover: Callable[[int], None], silence_seconds: float) -> None:
        self._silence = timedelta(seconds=silence_seconds)
        self._incarnation = former
        self._cover = cover
        self._covering = asyncio.Lock()
        self.failure: AioumError | None = None
        self._begun = False
        self._sequence = 0
        self._covered = 0
        self._is_older = False

    async def mark(self, connection: Connection) -> StoreMark:
        """Where the store stands for this node."""
        node_incarnation, suspect_until = await _row(
            connection, "SELECT incarnation, suspect_until FROM node"
        )
        life = await connection.fetchrow(_SELECT_LIFE, self._incarnation)
        if life is None:
            # One that has a watermark is not known to a store of before its life; where nobody lived, the
            # store is another one. One that has none joins those that live, or lost it with the newer store.
            lived = await connection.fetchval(
                _LIVED_AND_NOBODY_LIVES if self._incarnation is None else _LIVED
            )
            return StoreMark(node_incarnation, None, int(lived), 0, suspect_until)
        incarnation, previous, starts, sequence = life
        return StoreMark(incarnation, previous, starts, sequence, suspect_until)

    async def begin(self, connection: Connection, beginning: Beginning) -> int:
        """`IncarnationStore.begin` inside a transaction; `begun` follows its commit."""
        life = await connection.fetchrow(_SELECT_LIFE, self._incarnation)
        if life is not None:
            # The one before it: a start that crashes from here on looks for this one.
            await connection.execute("DELETE FROM lives WHERE incarnation = $1", life["previous"])
        await connection.execute(
            "INSERT INTO lives (incarnation, previous, starts, sequence, alive_until) "
            "VALUES ($1, $2, $3, $4, clock_timestamp() + $5)",
            beginning.incarnation,
            beginning.previous,
            1 if life is None else life["starts"] + 1,
            beginning.sequence if life is None else max(life["sequence"], beginning.sequence),
            self._silence,
        )
        if beginning.suspect_until is None:
            return 0
        await connection.execute(
            "UPDATE node SET suspect_until = greatest(suspect_until, $1)", beginning.suspect_until
        )
        living = [PHASE_NUMBERS[Phase.OPEN], PHASE_NUMBERS[Phase.SEALED]]
        await connection.fetch(_LOCK_LIVING, living)
        status = await connection.execute(_SUSPECT, PHASE_NUMBERS[Phase.SUSPECT], living, ABANDONED)
        return int(status.removeprefix("UPDATE "))

    def begun(self, beginning: Beginning) -> None:
        """The new life is durable."""
        self._incarnation = beginning.incarnation
        self._begun = True
        self._sequence = self._covered = beginning.sequence

    async def advance(self, connection: Connection) -> int:
        """Raise the number, last in a transaction that clients will be told of; 0 before the first life.

        Raises:
            AioumError: `store-older`.
        """
        if not self._begun:
            return 0
        number: int | None = await connection.fetchval(
            "UPDATE lives SET sequence = sequence + 1, alive_until = clock_timestamp() + $2 "
            "WHERE incarnation = $1 RETURNING sequence",
            self._incarnation,
            self._silence,
        )
        self._is_older = number is None or number <= self._sequence
        self.require_newest()
        return number or 0

    def require_newest(self) -> None:
        """Whether the database was not older than this node when it was written last.

        Raises:
            AioumError: `store-older`.
        """
        if self._is_older:
            raise AioumError(
                "the database is older than what this node answered from it",
                code="store-older",
                hint="it was restored while the node ran: restart the node",
                details={"outcome": "not-done"},
            )

    async def end(self, connection: Connection) -> None:
        """Vouch for the store no more."""
        await connection.execute(
            "UPDATE lives SET alive_until = '-infinity' WHERE incarnation = $1", self._incarnation
        )

    async def told(self, number: int) -> None:
        """A transaction is durable and its clients are to be told: make that known outside the store first.

        Raises:
            AioumError: what `cover` raises.
        """
        async with self._covering:
            self._sequence = max(self._sequence, number)
            # Also who repeats a step whose covering failed comes by here before anybody is told.
            if self._sequence > self._covered:
                try:
                    await asyncio.to_thread(self._cover, self._sequence)
                except AioumError as error:
                    self.failure = error
                    raise
                self._covered = self._sequence
            self.failure = None


async def _row(connection: Connection, query: str) -> tuple[bytes, int | None]:
    row = await connection.fetchrow(query)
    if row is None:
        raise AioumError("the store names no incarnation", code="store-failed")
    return row[0], row[1]
