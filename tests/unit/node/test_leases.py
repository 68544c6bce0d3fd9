"""Work that one of several processes does: taken up, given over, and lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from aioum.chain.journal import SignedTransaction, TransactionJournalError, TransactionState
from aioum.core.errors import Refused
from aioum.core.ledger import Limits
from aioum.core.types import Address, Bytes32
from aioum_node.leases import Lease, LeaseKeeper
from aioum_node.store.postgres.store import PostgresStore
from tests.postgres import PostgresServer, schema_of

ACCOUNT = Address(b"\x02" * 20)
HELD_SECONDS = 2.0


def transaction(nonce: int, purpose: str = "settle:0x01") -> SignedTransaction:
    return SignedTransaction(
        transaction_hash=Bytes32(nonce.to_bytes(32, "big")),
        raw=b"raw",
        chain_id=31_337,
        account=ACCOUNT,
        nonce=nonce,
        purpose=purpose,
        label="settle",
        anchor_number=9,
        anchor_hash=Bytes32(b"\x03" * 32),
        created_at_ms=5,
    )


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """One process, its lease, and how often its work began and ended."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.clock = Clock()
        self.keeper = LeaseKeeper(store.leases, "work", self.clock)
        self.journal = store.journal(lambda: self.keeper.lease)
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    def holds(self) -> bool:
        return self.keeper.lease is not None

    async def work(self) -> None:
        self.ended.clear()
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.began.clear()
            self.ended.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.keeper.run(self.work))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


@pytest_asyncio.fixture
async def workers(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[tuple[Worker, Worker]]:
    stores = [
        PostgresStore(postgres.url, Limits(), schema=schema_of(tmp_path), silence_seconds=HELD_SECONDS)
        for _ in range(2)
    ]
    for store in stores:
        await store.connect()
    yield Worker(stores[0]), Worker(stores[1])
    for store in stores:
        await store.close()


async def within(event: asyncio.Event) -> None:
    async with asyncio.timeout(30):
        await event.wait()


async def test_one_works_and_when_it_stops_the_other_one_does(workers: tuple[Worker, Worker]) -> None:
    first, second = workers
    async with second.running():
        await within(second.began)
        async with first.running():
            assert not first.began.is_set()
            assert first.keeper.lease is None
    async with first.running():
        await within(first.began)
        assert second.ended.is_set()


async def test_a_holder_that_is_overtaken_stops_its_work_and_writes_nothing(
    workers: tuple[Worker, Worker], postgres: PostgresServer, tmp_path: Path
) -> None:
    first, second = workers
    sql = await asyncpg.connect(postgres.url, server_settings={"search_path": schema_of(tmp_path)})
    async with first.running():
        await within(first.began)
        await first.journal.append(transaction(1))
        await sql.execute("UPDATE leases SET held_until = '-infinity'")
        taken = await second.store.leases.take("work")
        # It does not know yet.
        assert first.holds()
        with pytest.raises(Refused) as caught:
            await first.journal.append(transaction(2))
        await within(first.ended)
        assert not first.holds()
        with pytest.raises(Refused) as later:
            await first.journal.append(transaction(2))
    await sql.close()
    assert (caught.value.code, later.value.code) == ("lease-lost", "lease-lost")
    assert taken is not None
    assert [item.nonce for item in await second.journal.unresolved(31_337, ACCOUNT)] == [1]


async def test_a_holder_that_stood_still_while_another_one_worked_begins_its_work_anew(
    workers: tuple[Worker, Worker],
) -> None:
    first, second = workers
    async with first.running():
        await within(first.began)
        # It stands still: its time passes here and in the database, and another one comes and goes.
        first.clock.now += 10 * HELD_SECONDS
        await first.store.leases.release(Lease("work", first.store.process, 1))
        assert await second.keeper.renew()
        await second.journal.append(transaction(1))
        await second.store.close()
        # What it had under way knows nothing of that, so nothing of it may be signed.
        await within(first.ended)
        with pytest.raises(Refused) as caught:
            await first.journal.append(transaction(1, "stale"))
        await within(first.began)
        await first.journal.append(transaction(2))
        journaled = await first.journal.unresolved(31_337, ACCOUNT)
    assert caught.value.code == "lease-lost"
    assert [item.purpose for item in journaled] == [transaction(1).purpose, transaction(2).purpose]


async def test_a_holder_that_was_overtaken_does_not_judge_what_it_had_signed(
    workers: tuple[Worker, Worker],
) -> None:
    first, second = workers
    assert await first.keeper.renew()
    await first.journal.append(transaction(1))
    await first.store.leases.release(Lease("work", first.store.process, 1))
    assert await second.keeper.renew()
    # The next one may have handed it in, so an endpoint's refusal says nothing any more.
    with pytest.raises(Refused) as caught:
        await first.journal.resolve(transaction(1).transaction_hash, TransactionState.REFUSED)
    assert caught.value.code == "lease-lost"
    assert await second.journal.unresolved(31_337, ACCOUNT) == [transaction(1)]


async def test_a_lease_that_was_not_renewed_in_time_is_not_relied_on(workers: tuple[Worker, Worker]) -> None:
    first, _ = workers
    assert await first.keeper.renew()
    assert first.keeper.lease is not None
    first.clock.now += HELD_SECONDS
    assert first.keeper.lease is None


async def test_while_the_database_is_away_work_goes_on_only_as_long_as_the_lease_does(
    workers: tuple[Worker, Worker], postgres: PostgresServer
) -> None:
    first, _ = workers
    assert await first.keeper.renew()
    postgres.stop(mode="immediate")
    try:
        assert await first.keeper.renew()
        first.clock.now += HELD_SECONDS
        assert not await first.keeper.renew()
        with pytest.raises(TransactionJournalError) as caught:
            await first.journal.unresolved(31_337, ACCOUNT)
    finally:
        postgres.start()
    assert caught.value.code == "transaction-journal-failed"


async def test_work_that_fails_fails_its_keeper_and_gives_the_lease_back(
    workers: tuple[Worker, Worker],
) -> None:
    first, second = workers

    async def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        await first.keeper.run(fail)
    assert await second.keeper.renew()


# --- the journal ---


async def test_whoever_holds_the_lease_next_knows_what_was_signed_in_order_of_its_nonces(
    workers: tuple[Worker, Worker],
) -> None:
    first, second = workers
    assert await first.keeper.renew()
    for nonce in (7, 3, 5):
        await first.journal.append(transaction(nonce))
    await first.journal.resolve(transaction(5).transaction_hash, TransactionState.MINED, 40)
    await first.journal.resolve(transaction(5).transaction_hash, TransactionState.REVERTED, 41)
    assert await second.journal.unresolved(31_337, ACCOUNT) == [transaction(3), transaction(7)]
    assert await second.journal.unresolved(1, ACCOUNT) == []
    assert await second.journal.state(transaction(5).transaction_hash) is TransactionState.MINED
    assert await second.journal.state(transaction(9).transaction_hash) is None


async def test_the_same_transaction_can_be_signed_again(workers: tuple[Worker, Worker]) -> None:
    first, _ = workers
    assert await first.keeper.renew()
    await first.journal.append(transaction(4))
    await first.journal.resolve(transaction(4).transaction_hash, TransactionState.REFUSED)
    await first.journal.append(transaction(4, "again"))
    assert await first.journal.unresolved(31_337, ACCOUNT) == [transaction(4, "again")]
    assert await first.journal.state(transaction(4).transaction_hash) is TransactionState.PENDING
