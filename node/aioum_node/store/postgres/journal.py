"""The transaction journal in the shared database: who sends next knows what the one before had signed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aioum.chain.journal import SignedTransaction, TransactionJournalError, TransactionState
from aioum.core.errors import AioumError, Refused
from aioum.core.types import Address, Bytes32
from aioum_node.leases import Lease
from aioum_node.store.postgres.driver import Connection, Connections
from aioum_node.store.postgres.leases import require

COLUMNS: Final = (
    "transaction_hash", "raw", "chain_id", "account", "nonce", "purpose", "label", "anchor_number",
    "anchor_hash", "created_at_ms",
)  # fmt: skip
_COLUMNS: Final = ", ".join(COLUMNS)


class PostgresTransactionJournal:
    """`TransactionJournal` of the processes that share a store and an account.

    Args:
        connections: to the store's schema.
        held: the lease of whoever may send, while this process has it. Without it nothing is written, and so
            nothing is sent.
    """

    def __init__(self, connections: Connections, held: Callable[[], Lease | None]) -> None:
        self._connections = connections
        self._held = held

    async def append(self, transaction: SignedTransaction) -> None:
        """See `TransactionJournal.append`.

        Raises:
            Refused: `lease-lost`.
            TransactionJournalError: see there.
        """
        t = transaction
        async with self._writing() as connection:
            await connection.execute(
                # The text is put together from names of our own.
                f"INSERT INTO transactions ({_COLUMNS}, state) "  # noqa: S608
                "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
                *(t.transaction_hash, t.raw, t.chain_id, t.account, t.nonce, t.purpose, t.label),
                *(t.anchor_number, t.anchor_hash, t.created_at_ms, TransactionState.PENDING.value),
            )

    async def resolve(
        self, transaction_hash: Bytes32, state: TransactionState, block_number: int | None = None
    ) -> None:
        """See `TransactionJournal.resolve`. Who was overtaken does not know what the next one handed in.

        Raises:
            Refused: `lease-lost`.
            TransactionJournalError: see there.
        """
        async with self._writing() as connection:
            await connection.execute(
                "UPDATE transactions SET state = $1, block_number = $2 "
                "WHERE transaction_hash = $3 AND state = 'pending'",
                state.value,
                block_number,
                transaction_hash,
            )

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Connection]:
        lease = self._held()
        if lease is None:
            raise Refused("another process sends for this account", code="lease-lost")
        try:
            async with self._connections.transaction() as connection:
                await require(connection, lease)
                yield connection
        except Refused:
            raise
        except AioumError as error:
            raise _failed(error) from error

    async def unresolved(self, chain_id: int, account: Address) -> list[SignedTransaction]:
        """See `TransactionJournal.unresolved`."""

        async def read(connection: Connection) -> list[SignedTransaction]:
            found = await connection.fetch(
                f"SELECT {_COLUMNS} FROM transactions "  # noqa: S608
                "WHERE chain_id = $1 AND account = $2 AND state = 'pending' ORDER BY nonce, id",
                chain_id,
                account,
            )
            return [_read(*row) for row in found]

        try:
            return await self._connections.read(read)
        except AioumError as error:
            raise _failed(error) from error

    async def state(self, transaction_hash: Bytes32) -> TransactionState | None:
        """See `TransactionJournal.state`."""

        async def read(connection: Connection) -> TransactionState | None:
            state: str | None = await connection.fetchval(
                "SELECT state FROM transactions WHERE transaction_hash = $1 ORDER BY id DESC LIMIT 1",
                transaction_hash,
            )
            return None if state is None else TransactionState(state)

        try:
            return await self._connections.read(read)
        except AioumError as error:
            raise _failed(error) from error

    async def close(self) -> None:
        """See `TransactionJournal.close`. The connections are the store's."""
        return


def _read(
    transaction_hash: bytes,
    raw: bytes,
    chain_id: int,
    account: bytes,
    nonce: int,
    purpose: str,
    label: str,
    anchor_number: int,
    anchor_hash: bytes,
    created_at_ms: int,
) -> SignedTransaction:
    return SignedTransaction(
        Bytes32(transaction_hash),
        raw,
        chain_id,
        Address(account),
        nonce,
        purpose,
        label,
        anchor_number,
        Bytes32(anchor_hash),
        created_at_ms,
    )


def _failed(error: AioumError) -> TransactionJournalError:
    return TransactionJournalError(
        f"the transaction journal failed: {error}",
        hint="check the database server; nothing is sent without the journal",
        details=error.details,
    )
