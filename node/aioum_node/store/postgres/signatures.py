"""Kept signatures in the database that nodes share: whichever answers a retry, the bytes are the same."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import structlog

from aioum.core.errors import AioumError
from aioum.core.types import Address, ChannelId
from aioum_node.keys.kept_signatures import KeptSignature, SignatureBookError
from aioum_node.store.postgres.driver import Connection, Connections
from aioum_node.store.postgres.schema import require_schema_name

_COLUMNS: Final = ("digest", "signer", "channel_id", "signature")
_SIGNATURES_PER_BATCH: Final = 5_000
_MAX_CONNECTIONS: Final = 4
# Nodes that start together make the table one after the other; the number names this use of the lock.
_MAKING_LOCK: Final = 0x5369676E
_TABLE: Final = """
    CREATE TABLE signatures (
        digest bytea NOT NULL CHECK (length(digest) = 32),
        signer bytea NOT NULL CHECK (length(signer) = 20),
        channel_id bytea NOT NULL CHECK (length(channel_id) = 32),
        signature bytea NOT NULL CHECK (length(signature) = 65),
        PRIMARY KEY (digest, signer)
    )
"""

_log = structlog.get_logger(__name__)


class PostgresSignatureBook:
    """`SignatureBook` beside a shared store. It is no part of the store: losing it loses no money.

    Args:
        url: `postgresql://…` of the database; it may hold a password.
        schema: the store's, which exists.
    """

    def __init__(self, url: str, schema: str) -> None:
        self._connections = Connections(
            url,
            require_schema_name(schema),
            _make_table,
            max_writers=_MAX_CONNECTIONS,
            max_readers=_MAX_CONNECTIONS,
        )
        self._forgetting: set[asyncio.Task[None]] = set()

    async def kept(self, digest: bytes, signer: Address) -> bytes | None:
        """See `SignatureBook.kept`. Raises SignatureBookError."""
        try:
            found = await self._connections.read(lambda connection: _signature(connection, digest, signer))
        except AioumError as error:
            raise _failed() from error
        return found

    async def keep(self, signed: KeptSignature, *, replace: bool = False) -> bytes:
        """See `SignatureBook.keep`. Raises SignatureBookError."""
        # A second one waits for the first one's commit, and then finds it.
        conflict = "DO UPDATE SET signature = excluded.signature" if replace else "DO NOTHING"
        try:
            async with self._connections.transaction() as connection:
                await connection.execute(
                    # One of two clauses of our own.
                    f"INSERT INTO signatures ({', '.join(_COLUMNS)}) "  # noqa: S608
                    f"VALUES ($1, $2, $3, $4) ON CONFLICT (digest, signer) {conflict}",
                    signed.digest,
                    signed.signer,
                    signed.channel_id,
                    signed.signature,
                )
                counts = await _signature(connection, signed.digest, signed.signer)
        except AioumError as error:
            raise _failed() from error
        if counts is None:
            raise _failed()
        return counts

    def forget(self, channel_id: ChannelId) -> None:
        """See `SignatureBook.forget`."""
        task = asyncio.create_task(self._forget(channel_id))
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    async def close(self) -> None:
        """Finish what was begun, then disconnect."""
        if self._forgetting:
            await asyncio.wait(self._forgetting)
        await self._connections.close()

    async def _forget(self, channel_id: ChannelId) -> None:
        try:
            async with self._connections.transaction() as connection:
                await connection.execute("DELETE FROM signatures WHERE channel_id = $1", channel_id)
        except AioumError as error:
            _log.error("signature-book-failed", error=str(error))


async def copy_signatures(path: Path, connection: Connection) -> None:
    """Take over what a node kept in a file of its own, in the transaction of the connection.

    Args:
        path: of the file; it need not exist.
        connection: its search path is the store's schema, which has no signatures yet.

    Raises:
        SignatureBookError: the file cannot be read.
    """
    if not path.is_file():
        return
    await _create(connection)
    try:
        with closing(
            sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        ) as kept:
            # The text is put together from names of our own.
            rows = kept.execute(f"SELECT {', '.join(_COLUMNS)} FROM signatures")  # noqa: S608
            while batch := await asyncio.to_thread(rows.fetchmany, _SIGNATURES_PER_BATCH):
                await connection.copy_records_to_table("signatures", records=batch, columns=_COLUMNS)
    except sqlite3.Error as error:
        raise SignatureBookError(f"the kept signatures cannot be read: {error}") from error


async def _signature(connection: Connection, digest: bytes, signer: Address) -> bytes | None:
    found: bytes | None = await connection.fetchval(
        "SELECT signature FROM signatures WHERE digest = $1 AND signer = $2", digest, signer
    )
    return found


async def _make_table(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MAKING_LOCK)
        # Looked up first: making what exists needs a permission that a running node does without.
        if await connection.fetchval("SELECT to_regclass('signatures')") is None:
            await _create(connection)


async def _create(connection: Connection) -> None:
    await connection.execute(_TABLE)
    await connection.execute("CREATE INDEX signatures_channel ON signatures (channel_id)")


def _failed() -> SignatureBookError:
    return SignatureBookError(
        "kept signatures could not be read or written", hint="check the database server and its log"
    )
