"""The log that processes share: who lost the lease writes nothing, and a checkpoint is exchanged once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from aioum.core.errors import Refused
from aioum.core.ledger import Limits
from aioum.log.publish import FileRegister
from aioum_node.leases import Lease
from aioum_node.store.postgres.checkpoints import PostgresLog
from aioum_node.store.postgres.store import PostgresStore
from tests.postgres import PostgresServer, schema_of

ORIGIN = "operator.example/log"


class Process:
    """One of those that share the log."""

    def __init__(self, store: PostgresStore, register: FileRegister) -> None:
        self.store = store
        self.lease: Lease | None = None
        self.log: PostgresLog = store.shared_log(ORIGIN, lambda: self.lease, register)

    async def take(self) -> None:
        self.lease = await self.store.leases.take("sending")
        assert self.lease is not None


@pytest.fixture
def register(tmp_path: Path) -> FileRegister:
    return FileRegister(tmp_path / "log.checkpoint")


@pytest_asyncio.fixture
async def processes(
    postgres: PostgresServer, tmp_path: Path, register: FileRegister
) -> AsyncIterator[tuple[Process, Process]]:
    stores = [PostgresStore(postgres.url, Limits(), schema=schema_of(tmp_path)) for _ in range(2)]
    for store in stores:
        await store.connect()
    yield Process(stores[0], register), Process(stores[1], register)
    for store in stores:
        await store.close()


async def let_lapse(postgres: PostgresServer, folder: Path) -> None:
    sql = await asyncpg.connect(postgres.url, server_settings={"search_path": schema_of(folder)})
    await sql.execute("UPDATE leases SET held_until = '-infinity'")
    await sql.close()


async def lost(work: object) -> None:
    with pytest.raises(Refused) as caught:
        await work  # type: ignore[misc]
    assert caught.value.code == "lease-lost"


async def test_a_checkpoint_is_exchanged_by_one_of_those_that_read_it(
    processes: tuple[Process, Process],
) -> None:
    one, other = processes
    await one.take()
    assert await other.log.latest() is None
    assert await one.log.swap(None, b"1")
    assert not await one.log.swap(None, b"2")
    swapped = await asyncio.gather(*(one.log.swap(b"1", b"%d" % number) for number in range(2, 8)))
    assert swapped.count(True) == 1
    assert await other.log.latest() == b"%d" % (swapped.index(True) + 2)


async def test_who_was_overtaken_writes_neither_checkpoint_nor_entries(
    processes: tuple[Process, Process], postgres: PostgresServer, tmp_path: Path
) -> None:
    one, other = processes
    await lost(other.log.swap(None, b"1"))
    await one.take()
    await let_lapse(postgres, tmp_path)
    await other.take()
    await lost(one.log.swap(None, b"1"))
    await lost(one.log.put(0, [b"entry"]))
    assert (await other.log.latest(), await other.log.count()) == (None, 0)
    assert await other.log.swap(None, b"1")


async def test_entries_come_back_in_order_and_those_nobody_committed_to_are_replaced(
    processes: tuple[Process, Process],
) -> None:
    one, other = processes
    await one.take()
    await one.log.put(0, [b"%d" % number for number in range(1_500)])
    await one.log.put(1_498, [b"again", b"and again"])
    assert await other.log.count() == 1_500
    first = await other.log.entries(0, 1_500)
    rest = await other.log.entries(len(first), 1_500)
    assert len(first) == 1_024
    assert [*first, *rest] == [*(b"%d" % number for number in range(1_498)), b"again", b"and again"]
    assert await other.log.entries(1_500, 1_600) == []


async def test_the_register_of_before_the_store_was_moved_counts_until_the_first_exchange(
    processes: tuple[Process, Process], register: FileRegister
) -> None:
    one, other = processes
    await one.take()
    assert await register.swap(None, b"of before")
    assert await other.log.latest() == b"of before"
    assert not await one.log.swap(None, b"1")
    assert await one.log.swap(b"of before", b"1")
    assert await other.log.latest() == b"1"
    assert not await one.log.swap(b"of before", b"2")
