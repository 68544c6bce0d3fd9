"""The write-ahead journal of transactions: what is signed is durable before it can reach a chain."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

from aioum.chain.sqlite_journal import BUSY_TIMEOUT_SECONDS, make_ready
from aioum.core.errors import AioumError
from aioum.core.types import Address, Bytes32

Result = TypeVar("Result")

_COLUMNS: Final = """
    transaction_hash, raw, chain_id, account, nonce, purpose, label, anchor_number, anchor_hash, created_at_ms
"""
# The hash is not unique: signing is deterministic, so the very same transaction comes again after a refusal,
# and on a devnet that was reset.
_SCHEMA: Final = """
    CREATE TABLE transactions (
        id INTEGER PRIMARY KEY,
        transaction_hash BLOB NOT NULL CHECK (length(transaction_hash) = 32),
        raw BLOB NOT NULL,
        chain_id INTEGER NOT NULL,
        account BLOB NOT NULL CHECK (length(account) = 20),
        nonce INTEGER NOT NULL,
        purpose TEXT NOT NULL,
        label TEXT NOT NULL,
        anchor_number INTEGER NOT NULL,
        anchor_hash BLOB NOT NULL CHECK (length(anchor_hash) = 32),
        created_at_ms INTEGER NOT NULL,
        state TEXT NOT NULL,
        block_number INTEGER
    ) STRICT
"""


class TransactionJournalError(AioumError):
    """The journal could not be read or written; nothing was sent after that."""

    default_code: ClassVar[str] = "transaction-journal-failed"


class TransactionState(StrEnum):
    """What became of a transaction. Only `pending` is not final.

    Attributes:
        MINED: it succeeded.
        REVERTED: it is in a block and failed; a mined revert is final.
        SUPERSEDED: another transaction used its nonce, so it can never happen.
        REFUSED: the endpoint refused it when it was first handed in; nobody else has seen it.
        FOREIGN: it was signed for another history of the chain (a devnet that was reset).
    """

    PENDING = "pending"
    MINED = "mined"
    REVERTED = "reverted"
    SUPERSEDED = "superseded"
    REFUSED = "refused"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction as it is signed, with the history that it is meant for.

    Attributes:
        purpose: what the sender's caller said it is for; label: the function it calls.
        anchor_number, anchor_hash: a block too deep to be reorganized; a chain without it is another history.
        created_at_ms: unix milliseconds.
    """

    transaction_hash: Bytes32
    raw: bytes
    chain_id: int
    account: Address
    nonce: int
    purpose: str
    label: str
    anchor_number: int
    anchor_hash: Bytes32
    created_at_ms: int


class TransactionJournal(Protocol):
    """Each writing method returns only after its change is durable. One process at a time writes for an
    account.
    """

    async def append(self, transaction: SignedTransaction) -> None:
        """Keep a transaction, pending."""
        ...

    async def resolve(
        self, transaction_hash: Bytes32, state: TransactionState, block_number: int | None = None
    ) -> None:
        """Say what became of it, if it is pending. A final state is never changed again."""
        ...

    async def unresolved(self, chain_id: int, account: Address) -> list[SignedTransaction]:
        """Pending transactions of an account, by nonce."""
        ...

    async def state(self, transaction_hash: Bytes32) -> TransactionState | None:
        """What became of a transaction, the last time that it was signed; None where it is unknown."""
        ...

    async def close(self) -> None:
        """Release the journal."""
        ...


class SqliteTransactionJournal:
    """The journal in a SQLite file of its own (mode 0600). Blocking work runs in threads, one step at a
    time.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises TransactionJournalError."""
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._failed(error) from error
        try:
            make_ready(self._connection, _migrate)
            path.chmod(0o600)
        except (OSError, sqlite3.Error) as error:
            self._connection.close()
            raise self._failed(error) from error

    async def append(self, transaction: SignedTransaction) -> None:
        """See `TransactionJournal.append`."""
        t = transaction
        values = (
            *(t.transaction_hash, t.raw, t.chain_id, t.account, t.nonce, t.purpose, t.label),
            *(t.anchor_number, t.anchor_hash, t.created_at_ms, TransactionState.PENDING.value),
        )
        marks = ",".join("?" * len(values))
        # S608: the text is put together from names and marks of our own.
        sql = f"INSERT INTO transactions ({_COLUMNS}, state) VALUES ({marks})"  # noqa: S608
        await self._run(lambda connection: connection.execute(sql, values))

    async def resolve(
        self, transaction_hash: Bytes32, state: TransactionState, block_number: int | None = None
    ) -> None:
        """See `TransactionJournal.resolve`."""
        sql = (
            "UPDATE transactions SET state = ?, block_number = ? "
            "WHERE transaction_hash = ? AND state = 'pending'"
        )
        values = (state.value, block_number, transaction_hash)
        await self._run(lambda connection: connection.execute(sql, values))

    async def unresolved(self, chain_id: int, account: Address) -> list[SignedTransaction]:
        """See `TransactionJournal.unresolved`."""
        sql = (
            f"SELECT {_COLUMNS} FROM transactions "  # noqa: S608
            "WHERE chain_id = ? AND account = ? AND state = 'pending' ORDER BY nonce, id"
        )
        rows = await self._run(lambda connection: connection.execute(sql, (chain_id, account)).fetchall())
        return [SignedTransaction(*row) for row in rows]

    async def state(self, transaction_hash: Bytes32) -> TransactionState | None:
        """See `TransactionJournal.state`."""
        sql = "SELECT state FROM transactions WHERE transaction_hash = ? ORDER BY id DESC LIMIT 1"
        row = await self._run(lambda connection: connection.execute(sql, (transaction_hash,)).fetchone())
        return None if row is None else TransactionState(row[0])

    async def close(self) -> None:
        """Close the file."""
        await self._run(lambda connection: connection.close())

    async def _run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        return await asyncio.to_thread(self._step, work)

    def _step(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        with self._lock:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                raise self._failed(error) from error

    def _failed(self, error: Exception) -> TransactionJournalError:
        return TransactionJournalError(
            f"the transaction journal {self._path} failed: {error}",
            hint="check the disk and the folder's permissions; nothing is sent without the journal",
        )


def _migrate(connection: sqlite3.Connection) -> None:
    from sqlite_utils import Database, Migrations

    migrations = Migrations("aioum-transactions")

    @migrations(name="0001_transactions")
    def create(database: Database) -> None:
        database.execute(_SCHEMA)
        database.execute("CREATE INDEX transactions_hash ON transactions (transaction_hash)")
        database.execute(
            "CREATE INDEX transactions_pending ON transactions (account) WHERE state = 'pending'"
        )

    migrations.apply(Database(connection))
