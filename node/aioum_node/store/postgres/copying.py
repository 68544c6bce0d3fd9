"""Moving a node from its SQLite file to PostgreSQL: copied, proven, and only then visible.

Rows are copied into a schema of another name, a batch in each transaction, so that a copy that was
interrupted goes on where it stopped. When everything is there, every session is read back and computed again
from its calls. Then the file is marked as moved, and after that the schema gets its name: at no time can both
be served from.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioum.core.errors import AioumError, ConfigError
from aioum.core.ledger import Phase
from aioum_node.fsck import check_session
from aioum_node.keys.kept_signatures import SIGNATURES_FILE
from aioum_node.store.incarnations import require_whole
from aioum_node.store.port import SessionReader, StoredSession, SubmissionReader
from aioum_node.store.postgres.driver import Connection, Connections
from aioum_node.store.postgres.journal import COLUMNS as JOURNAL_COLUMNS
from aioum_node.store.postgres.reader import store_snapshot
from aioum_node.store.postgres.schema import migrate, require_schema_name
from aioum_node.store.postgres.signatures import copy_signatures
from aioum_node.store.reader import SqliteReader
from aioum_node.store.source import Rows, StoreSource, mark_moved, opened_source
from aioum_node.store.sqlite import store_lock
from aioum_node.store.writer import store_failed

STAGING_SUFFIX: Final = "_copying"
_SESSIONS_PER_BATCH: Final = 500
_CALLS_PER_BATCH: Final = 2_000
_CALLS_PER_READ: Final = 64
_CALL_COLUMNS: Final = (
    "key", "tool_id", "request", "price", "amount", "signature", "admitted_at_ms", "process"
)  # fmt: skip
_EQUIVOCATION_COLUMNS: Final = (
    "id", "session", "call_index", "tool_id", "request", "seen_at_ms", "cursor", "seat", "submission_id",
    "client_time", "prev_head", "signature",
)  # fmt: skip
_TRANSACTION_COLUMNS: Final = (*JOURNAL_COLUMNS, "state", "block_number")
_STEPS: Final = """
    CREATE TABLE IF NOT EXISTS copies (
        incarnation bytea NOT NULL,
        sequence bigint NOT NULL,
        last_session bigint NOT NULL DEFAULT 0,
        last_seq bigint NOT NULL DEFAULT 0,
        rest boolean NOT NULL DEFAULT false,
        proven boolean NOT NULL DEFAULT false
    )
"""
_NO_PROCESS: Final = 0
# What is computed again. Whether what a client gave was right says nothing of the copy: it is the same.
_ROOT_AND_MONEY: Final = frozenset(
    {
        "call-out-of-place",
        "leaf-mismatch",
        "charge-mismatch",
        "admitted-mismatch",
        "frontier-mismatch",
        "ahead-mismatch",
        "spent-mismatch",
        "reserved-mismatch",
        "failures-mismatch",
    }
)
Note = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Copied:
    """What was moved."""

    sessions: int
    calls: int


async def _silent(step: str) -> None:
    return


async def copy_store(source: Path, journal: Path, url: str, schema: str, note: Note = _silent) -> Copied:
    """Move a node that does not run; one that was interrupted is taken up again.

    Args:
        source: the SQLite store's file; kept signatures lie beside it.
        journal: the transaction journal's file; it need not exist.
        url: of the PostgreSQL database.
        schema: where the store is to lie; there is nothing there yet.
        note: told of each durable step when it is done.

    Raises:
        ConfigError: `store-missing`, `store-locked`, `store-parts-differ`, `store-foreign`, `store-outdated`,
            `store-too-new`; `store-moved`, it was copied before; `copy-target-exists`; as `PostgresStore`.
        AioumError: `store-corrupt`, a session contradicts itself; `copy-mismatch`, what was read back is not
            what was written. Nothing was moved then. `store-failed`, `signature-book-failed`.
    """
    if not source.is_file():
        raise ConfigError(
            f"there is no store at {source}", code="store-missing", hint="name the node's folder"
        )
    staging = require_schema_name(schema + STAGING_SUFFIX)
    with store_lock(source):
        try:
            require_whole(source)
        except sqlite3.Error as error:
            raise store_failed(error, "nothing-read") from error
        with opened_source(source) as rows:

            async def prepare(connection: Connection) -> None:
                await _prepare(connection, rows, schema, staging)

            connections = Connections(url, staging, prepare, max_writers=1, max_readers=1)
            try:
                copy = _Copy(connections, rows, source, journal, note)
                if not await copy.proven():
                    await copy.run()
                    await note("copied")
                    async with store_snapshot(url, staging) as target:
                        await _prove(source, target)
                        await _prove_rest(rows, connections, target)
                    await copy.mark_proven()
                    await note("proven")
                await copy.give_name(schema)
                await note("named")
            finally:
                await connections.close()
            counts = await asyncio.to_thread(rows.counts)
    return Copied(counts["sessions"], counts["calls"])


async def _prepare(connection: Connection, rows: StoreSource, schema: str, staging: str) -> None:
    """Make the schema, or find the copy that was begun there."""
    begun = await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{staging}.copies")
    if await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema):
        if rows.moved and not begun:
            raise ConfigError(
                "the sessions of this store were moved to a PostgreSQL database",
                code="store-moved",
                hint='set store = "postgresql" in the settings',
            )
        raise _target_exists(schema)
    mark = await asyncio.to_thread(rows.mark)
    if begun:
        same = await connection.fetchval(
            "SELECT true FROM copies WHERE incarnation = $1 AND sequence = $2",
            mark.incarnation,
            mark.sequence,
        )
        if same:
            return
    if rows.moved:
        raise ConfigError(
            "the sessions of this store were moved, and this database does not have them",
            code="store-moved",
            hint="name the database that they were moved to",
        )
    # Of another store, or from before the node ran once more.
    async with connection.transaction():
        await connection.execute(f"DROP SCHEMA IF EXISTS {staging} CASCADE")
        await migrate(connection, staging, mark.incarnation)
        await connection.execute(_STEPS)
        await connection.execute(
            "INSERT INTO copies (incarnation, sequence) VALUES ($1, $2)", mark.incarnation, mark.sequence
        )


def _target_exists(schema: str) -> ConfigError:
    return ConfigError(
        f"the database has a schema {schema} already",
        code="copy-target-exists",
        hint="drop it, if nothing was served from it, or name another one in database_schema",
    )


class _Copy:
    """Rows on their way, a batch in each transaction."""

    def __init__(
        self, connections: Connections, rows: StoreSource, source: Path, journal: Path, note: Note
    ) -> None:
        self._connections = connections
        self._rows = rows
        self._source = source
        self._journal = journal
        self._note = note

    async def proven(self) -> bool:
        return bool(await self._step("proven"))

    async def mark_proven(self) -> None:
        async with self._connections.transaction() as connection:
            await connection.execute("UPDATE copies SET proven = true")

    async def run(self) -> None:
        while await self._sessions(await self._step("last_session")):
            await self._note("sessions")
        while await self._calls(await self._step("last_seq")):
            await self._note("calls")
        if not await self._step("rest"):
            await self._rest()
            await self._note("rest")

    async def _step(self, column: str) -> Any:
        async def read(connection: Connection) -> Any:
            # The text is put together from names of our own.
            return await connection.fetchval(f"SELECT {column} FROM copies")  # noqa: S608

        return await self._connections.read(read)

    async def _sessions(self, last: int) -> bool:
        batch = await asyncio.to_thread(self._rows.sessions_after, last, _SESSIONS_PER_BATCH)
        if batch is None:
            return False
        async with self._connections.transaction() as connection:
            await _insert(connection, "sessions", batch.sessions)
            await _insert(connection, "accounts", batch.accounts)
            await _insert(connection, "rosters", batch.rosters)
            await _insert(connection, "holds", batch.holds)
            await _insert(connection, "equivocations", batch.equivocations, _EQUIVOCATION_COLUMNS)
            await connection.execute("UPDATE copies SET last_session = $1", batch.last_id)
        return True

    async def _calls(self, last: int) -> bool:
        batch = await asyncio.to_thread(self._rows.calls_after, last, _CALLS_PER_BATCH)
        if batch is None:
            return False
        async with self._connections.transaction() as connection:
            calls = [(*row, _NO_PROCESS) for row in batch.calls]
            await _insert(connection, "calls", calls, _CALL_COLUMNS)
            await _insert(connection, "answers", batch.answers)
            await _insert(connection, "submissions", batch.submissions)
            await _insert(connection, "submission_names", batch.names)
            await connection.execute("UPDATE copies SET last_seq = $1", batch.last_seq)
        return True

    async def _rest(self) -> None:
        mark = await asyncio.to_thread(self._rows.mark)
        cards, positions = await asyncio.to_thread(self._read_rest)
        async with self._connections.transaction() as connection:
            await _insert(connection, "cards", cards)
            await _insert(connection, "positions", positions)
            await connection.execute("UPDATE node SET suspect_until = $1", mark.suspect_until)
            if mark.starts:
                # The node goes on as who it was: its watermark tells what it answered from this store.
                await connection.execute(
                    "INSERT INTO lives (incarnation, previous, starts, sequence) VALUES ($1, $2, $3, $4)",
                    mark.incarnation,
                    mark.previous,
                    mark.starts,
                    mark.sequence,
                )
            for table in ("sessions", "equivocations"):
                await connection.execute(
                    # Ids were copied: the next one comes after them.
                    f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), "  # noqa: S608
                    f"(SELECT coalesce(max(id), 0) + 1 FROM {table}), false)"
                )
            await connection.execute("UPDATE copies SET rest = true")

    def _read_rest(self) -> tuple[Rows, Rows]:
        return self._rows.cards(), self._rows.positions()

    async def give_name(self, schema: str) -> None:
        """Let the copy be found, with what journal and kept signatures are now, and the file no more."""
        async with self._connections.transaction() as connection:
            transactions = await asyncio.to_thread(_read_journal, self._journal)
            await _insert(connection, "transactions", transactions, _TRANSACTION_COLUMNS)
            copied = await connection.fetch(
                # The text is put together from names of our own.
                f"SELECT {', '.join(_TRANSACTION_COLUMNS)} FROM transactions ORDER BY id"  # noqa: S608
            )
            _require([tuple(row) for row in copied] == transactions, "the transaction journal")
            await copy_signatures(self._source.with_name(SIGNATURES_FILE), connection)
            await connection.execute("DROP TABLE copies")
            if await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema):
                raise _target_exists(schema)
            staging = require_schema_name(schema + STAGING_SUFFIX)
            # From here on nobody else can make a schema of this name.
            await connection.execute(f"ALTER SCHEMA {staging} RENAME TO {require_schema_name(schema)}")
            await asyncio.to_thread(mark_moved, self._source)
            # Durable: the file is nobody's store any more. A crash here leaves the schema to be named.
            await self._note("marked")


async def _insert(
    connection: Connection, table: str, rows: Rows, columns: tuple[str, ...] | None = None
) -> None:
    if rows:
        await connection.copy_records_to_table(table, records=rows, columns=columns)


def _read_journal(path: Path) -> Rows:
    if not path.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(
                f"SELECT {', '.join(_TRANSACTION_COLUMNS)} FROM transactions ORDER BY id"  # noqa: S608
            ).fetchall()
    except sqlite3.Error as error:
        raise store_failed(error, "nothing-read") from error


# --- proof ---


async def _prove(source: Path, target: SessionReader) -> None:
    """Whether every session was read back as it was, and follows from its calls."""
    reader = SqliteReader(source)
    try:
        kept = await reader.sessions(tuple(Phase))
        _require(await target.sessions(tuple(Phase)) == kept, "the sessions")
        for stored in kept:
            await _prove_calls(reader, target, stored)
            findings = [
                finding
                for finding in await check_session(target, stored, signatures=False)
                if finding.code in _ROOT_AND_MONEY
            ]
            if findings:
                raise AioumError(
                    f"a session of the store contradicts itself: {findings[0]}",
                    code="store-corrupt",
                    hint="nothing was moved; run aioum-node fsck",
                    details={"findings": [finding.to_json() for finding in findings]},
                )
    finally:
        await reader.close()


async def _prove_calls(source: SqliteReader, target: Any, stored: StoredSession) -> None:
    channel_id, first = stored.facts.channel_id, 0
    while page := await source.calls(channel_id, first, _CALLS_PER_READ):
        _require(await target.calls(channel_id, first, _CALLS_PER_READ) == page, "the calls of a session")
        first += len(page)
    both: tuple[SubmissionReader, SubmissionReader] = (source, target)
    kept, copied = [await reader.equivocations(channel_id) for reader in both]
    _require(copied == kept, "what contradicts a session's calls")


async def _prove_rest(rows: StoreSource, connections: Connections, target: Any) -> None:
    for descriptor_hash, card in await asyncio.to_thread(rows.cards):
        _require(await target.card(descriptor_hash) == card, "a card")
    for name, number, block_hash in await asyncio.to_thread(rows.positions):
        _require(await target.position(name) == (number, block_hash), "a scan position")
    counts = await asyncio.to_thread(rows.counts)

    async def count(connection: Connection) -> dict[str, int]:
        # The text is put together from names of our own.
        return {
            table: await connection.fetchval(f"SELECT count(*) FROM {table}")  # noqa: S608
            for table in counts
        }

    _require(await connections.read(count) == counts, "the number of rows")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AioumError(
            f"{what} did not come back as they were written",
            code="copy-mismatch",
            hint="nothing was moved; check the database server, and copy again into another schema",
        )
