"""The transaction journal keeps what was signed, by account, and never changes a final state."""

import asyncio
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

from aioum.chain.journal import SignedTransaction, SqliteTransactionJournal, TransactionState
from aioum.core.types import Address, Bytes32

SIGNED = SignedTransaction(
    transaction_hash=Bytes32(b"\1" * 32),
    raw=b"\2raw",
    chain_id=31337,
    account=Address(b"\3" * 20),
    nonce=4,
    purpose="settle",
    label="settleSession",
    anchor_number=5,
    anchor_hash=Bytes32(b"\6" * 32),
    created_at_ms=1_700_000_000_000,
)


async def test_what_was_signed_survives_a_restart_in_order_of_its_nonces(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "transactions.sqlite3"
    earlier = replace(SIGNED, nonce=3, transaction_hash=Bytes32(b"\7" * 32))
    others = (
        replace(SIGNED, chain_id=1),
        replace(SIGNED, account=Address(b"\4" * 20)),
    )
    journal = SqliteTransactionJournal(path)
    for transaction in (SIGNED, earlier, *others):
        await journal.append(transaction)
    await journal.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    journal = SqliteTransactionJournal(path)
    assert await journal.unresolved(SIGNED.chain_id, SIGNED.account) == [earlier, SIGNED]
    await journal.close()


async def test_a_final_state_stays_and_the_same_transaction_can_be_signed_again(tmp_path: Path) -> None:
    journal = SqliteTransactionJournal(tmp_path / "journal")
    key = SIGNED.transaction_hash
    assert await journal.state(key) is None
    await journal.append(SIGNED)
    assert await journal.state(key) is TransactionState.PENDING
    await journal.resolve(key, TransactionState.REFUSED)
    await journal.resolve(key, TransactionState.MINED, 9)
    assert await journal.state(key) is TransactionState.REFUSED
    assert await journal.unresolved(SIGNED.chain_id, SIGNED.account) == []

    await journal.append(SIGNED)
    assert await journal.unresolved(SIGNED.chain_id, SIGNED.account) == [SIGNED]
    await journal.resolve(key, TransactionState.MINED, 9)
    assert await journal.state(key) is TransactionState.MINED
    await journal.close()


def test_programs_that_start_at_the_same_time_share_one_new_file(tmp_path: Path) -> None:
    at_once = Barrier(8)

    def start(_: int) -> SqliteTransactionJournal:
        at_once.wait()
        return SqliteTransactionJournal(tmp_path / "keys" / "transactions.sqlite3")

    with ThreadPoolExecutor(8) as pool:
        journals = list(pool.map(start, range(8)))

    async def use() -> None:
        await journals[0].append(SIGNED)
        assert await journals[7].unresolved(SIGNED.chain_id, SIGNED.account) == [SIGNED]
        for journal in journals:
            await journal.close()

    asyncio.run(use())
