"""A node's SQLite store is moved to PostgreSQL: whole, proven, and served from one of them at any time."""

import asyncio
import multiprocessing
import shutil
import signal
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

from aioum.chain.journal import SignedTransaction, SqliteTransactionJournal
from aioum.chain.model import BlockRef
from aioum.core.errors import AioumError, ConfigError
from aioum.core.ledger import Phase, Repeat, finalize
from aioum.core.types import Address, Bytes32
from aioum_node.keys.kept_signatures import SIGNATURES_FILE, KeptSignature, SqliteSignatureBook
from aioum_node.leases import Lease
from aioum_node.restored.start import Life, begin_life
from aioum_node.restored.watermark import Watermark
from aioum_node.store.port import StoredSession
from aioum_node.store.postgres.copying import Copied, copy_store
from aioum_node.store.postgres.signatures import PostgresSignatureBook
from aioum_node.store.postgres.store import PostgresStore
from aioum_node.store.reader import SqliteReader
from aioum_node.store.sqlite import STORE_FILE, SqliteStore, store_lock
from tests.pens import Pen
from tests.postgres import PostgresServer, schema_of
from tests.unit.node.store.conformance import LIMITS, admitted
from tests.unit.node.store.copying_process import copy
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request
from tests.unit.node.store.signed_conformance import asked, opened_signed

# Importing takes longer than copying: one process does it, and forks those that copy.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["__main__", "tests.unit.node.store.copying_process"])

TRANSACTION = SignedTransaction(
    transaction_hash=Bytes32(b"\x01" * 32),
    raw=b"raw",
    chain_id=31_337,
    account=Address(b"\x02" * 20),
    nonce=4,
    purpose="settle:0x01",
    label="settle",
    anchor_number=9,
    anchor_hash=Bytes32(b"\x03" * 32),
    created_at_ms=NOW_MS,
)


class Crash(Exception):
    """The program ended here."""


async def chain_is_away() -> BlockRef:
    raise AssertionError("without doubt the chain is not asked")


class Moving:
    """A node's folder with a store that was lived in, and where it is moved to."""

    def __init__(self, folder: Path, url: str) -> None:
        self.path = folder / STORE_FILE
        self.journal = folder / "transactions.sqlite3"
        self.watermark = Watermark(folder / "watermark")
        self.url = url
        self.schema = schema_of(folder)

    async def fill(self) -> None:
        store = SqliteStore(self.path, LIMITS, cover=self.watermark.cover)
        await begin_life(store, self.watermark, chain_is_away)
        for number in (1, 3, 4):
            await store.open(facts(number), opened(number), NOW_MS)
        for index in range(3):
            await admitted(store, 1, (index + 1) * PRICE, text=f"{index}")
            if index < 2:
                await store.record(channel(1), index, answer(failed=index == 1), NOW_MS)
        pen = await opened_signed(store)
        genesis = pen.head
        await asked(store, pen, 0, submission_id="first")
        await asked(store, pen, 1)
        with pytest.raises(AioumError):
            draft = pen.draft(b"[]", 0, prev_head=genesis)
            await store.admit(channel(2), request(PRICE, text="[]", envelope=draft), NOW_MS)
        await store.update(channel(4), finalize, NOW_MS, transaction_hash=Bytes32(b"\x07" * 32))
        # A removed one leaves a gap among the ids.
        await store.update(channel(3), finalize, NOW_MS)
        await store.released(channel(3))
        await store.delete(channel(3))
        await store.put_card(Bytes32(b"\x01" * 32), b"{}")
        await store.put_position("scan", 7, b"\x07" * 32)
        await store.close()
        self.watermark.close()
        journal = SqliteTransactionJournal(self.journal)
        await journal.append(TRANSACTION)
        await journal.close()

    async def sessions(self) -> list[StoredSession]:
        reader = SqliteReader(self.path)
        try:
            return await reader.sessions(tuple(Phase))
        finally:
            await reader.close()

    async def copy(self, crash_at: int | None = None) -> list[str]:
        """Copy; returns the durable steps. Args: crash_at: how many steps are done then."""
        done: list[str] = []

        async def note(step: str) -> None:
            done.append(step)
            if len(done) == crash_at:
                raise Crash

        assert await copy_store(self.path, self.journal, self.url, self.schema, note) == Copied(3, 5)
        return done

    def copied_apart(self, point: int = 0) -> list[str]:
        """Copy in another process, which counts its durable steps; returns the points it came to.

        Args:
            point: which of them it gets no time after, counted from 1; 0 for none.
        """
        receiving, sending = _PROCESSES.Pipe(duplex=False)
        process = _PROCESSES.Process(
            target=copy, args=(self.path, self.journal, self.url, self.schema, point, sending)
        )
        process.start()
        process.join()
        assert process.exitcode == (-signal.SIGKILL if point else 0)
        reached: list[str] = receiving.recv()
        for end in (receiving, sending, process):
            end.close()
        return [name.replace(self.schema, "shop") for name in reached]

    async def rows(self) -> dict[str, list[str]]:
        """Every row that the database has of the store, by table."""
        connection = await asyncpg.connect(self.url)
        tables = await connection.fetch(
            # When a version was applied differs.
            "SELECT tablename FROM pg_tables WHERE schemaname = $1 AND tablename <> 'schema_versions'",
            self.schema,
        )
        rows: dict[str, list[str]] = {}
        for (table,) in tables:
            found = await connection.fetch(
                f"SELECT (to_jsonb(t) - $1::text)::text FROM {self.schema}.{table} t",
                # A copy that was undone took numbers, too.
                "id" if table == "transactions" else "",
            )
            rows[table] = sorted(row for (row,) in found)
        await connection.close()
        return rows

    def store(self) -> PostgresStore:
        kept = self.watermark.read()
        assert kept is not None
        return PostgresStore(
            self.url, LIMITS, schema=self.schema, former=kept.incarnation, cover=self.watermark.cover
        )

    async def exists(self, schema: str) -> bool:
        connection = await asyncpg.connect(self.url)
        found: bool = await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", schema)
        await connection.close()
        return found

    async def refusal(self) -> AioumError:
        with pytest.raises(AioumError) as caught:
            await self.copy()
        return caught.value


@pytest_asyncio.fixture
async def moving(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Moving]:
    moving = Moving(tmp_path, postgres.url)
    await moving.fill()
    yield moving


async def test_a_moved_node_goes_on_as_if_nothing_had_happened(moving: Moving) -> None:
    before = await moving.sessions()
    await moving.copy()
    async with moving.store() as store:
        # Its watermark fits, so nothing is in doubt.
        assert await begin_life(store, moving.watermark, chain_is_away) == Life(None, 0, None)
        assert await store.sessions(tuple(Phase)) == before
        assert [(channel_id, call.index) for channel_id, call in await store.unrecorded()] == [
            (channel(1), 2)
        ]
        retry = await store.admit(channel(1), request(PRICE, text="0"), NOW_MS)
        await store.record(channel(1), 2, answer(), NOW_MS)
        following = await admitted(store, 1, 4 * PRICE)
        pen = Pen(channel(2))
        for cursor, name in enumerate(("first", None)):
            pen.sign(b"{}", cursor, **({} if name is None else {"submission_id": name}))
        (kept,) = await store.equivocations(channel(2))
        fresh = await store.open(facts(9), opened(9), NOW_MS)
        assert [found.facts.session_id for found in await store.sessions((Phase.OPEN,))] == [1, 2, 9]
        assert (await store.card(Bytes32(b"\x01" * 32)), await store.position("scan")) == (
            b"{}",
            (7, b"\x07" * 32),
        )
        held = Lease("sending", store.process, 1)
        journal = store.journal(lambda: held)
        assert await journal.unresolved(31_337, TRANSACTION.account) == [TRANSACTION]
    assert isinstance(retry, Repeat)
    assert (retry.call.answer, following.index, kept.request) == (answer(), 3, b"[]")
    assert fresh.facts.channel_id == channel(9)


async def test_a_moved_store_is_opened_and_moved_no_more(moving: Moving) -> None:
    await moving.copy()
    with pytest.raises(ConfigError) as opening:
        SqliteStore(moving.path, LIMITS)
    with pytest.raises(ConfigError) as reading:
        await moving.sessions()
    again = await moving.refusal()
    moving.schema += "_other"
    elsewhere = await moving.refusal()
    codes = [error.code for error in (opening.value, reading.value, again, elsewhere)]
    assert codes == ["store-moved"] * 4


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
async def test_a_copy_killed_at_any_durable_step_is_invisible_and_goes_on_from_there(
    moving: Moving, tmp_path_factory: pytest.TempPathFactory, every: int
) -> None:
    prepared = shutil.copytree(moving.path.parent, tmp_path_factory.mktemp("prepared"), dirs_exist_ok=True)
    before = await moving.sessions()
    points = moving.copied_apart()
    require_among(points, "create copies", "copy sessions", "copy calls", "copy transactions")
    require_among(points, "pragma application_id", "alter shop_copying")
    copied = await moving.rows()
    # An odd stride comes to both sides of commits. Where the store changes hands, none is left out.
    for point in {*range(len(points), 0, -every), *range(len(points) - 3, len(points) + 1)}:
        again = shutil.copytree(prepared, tmp_path_factory.mktemp("again"), dirs_exist_ok=True)
        other = Moving(again, moving.url)
        assert other.copied_apart(point) == points[:point]
        if await other.exists(other.schema):
            # All was done before it died.
            assert point == len(points)
        else:
            # What was done is not done again.
            begun = points[point - 1].startswith("before")
            assert other.copied_apart() == points[point - begun :]
        assert await other.rows() == copied
        assert (await other.refusal()).code == "store-moved"
        with pytest.raises(ConfigError) as opening:
            SqliteStore(other.path, LIMITS)
        assert opening.value.code == "store-moved"
        async with other.store() as store:
            assert await store.sessions(tuple(Phase)) == before


def require_among(points: list[str], *changes: str) -> None:
    """Each change was come to on both of its sides."""
    for change in changes:
        sides = {point.split()[0] for point in points if change in point}
        assert sides == {"before", "after"}, change


async def test_a_copy_from_before_the_node_ran_once_more_is_begun_anew(moving: Moving) -> None:
    with pytest.raises(Crash):
        await moving.copy(crash_at=3)
    async with SqliteStore(moving.path, LIMITS, cover=moving.watermark.cover) as store:
        await begin_life(store, moving.watermark, chain_is_away)
        await store.record(channel(1), 2, answer("late"), NOW_MS)
    moving.watermark.close()
    assert (await moving.copy())[0] == "sessions"
    async with moving.store() as target:
        assert [call.recorded for call in await target.calls(channel(1), 0, 9)] == [True] * 3


async def test_what_does_not_come_back_as_it_was_written_is_not_moved(moving: Moving) -> None:
    sql = await asyncpg.connect(moving.url)
    staging = f"{moving.schema}_copying"

    async def damage(step: str) -> None:
        if step == "copied":
            await sql.execute(f"UPDATE {staging}.answers SET response = '\\x00'")

    with pytest.raises(AioumError) as caught:
        await copy_store(moving.path, moving.journal, moving.url, moving.schema, damage)
    await sql.close()
    assert caught.value.code == "copy-mismatch"
    assert len(await moving.sessions()) == 3
    assert not await moving.exists(moving.schema)


async def test_a_store_that_contradicts_itself_is_not_moved(moving: Moving) -> None:
    connection = sqlite3.connect(moving.path)
    connection.execute("UPDATE answers SET response = x'00' WHERE seq = 1")
    connection.commit()
    connection.close()
    refusal = await moving.refusal()
    assert refusal.code == "store-corrupt"
    assert refusal.details["findings"][0]["code"] == "leaf-mismatch"
    assert len(await moving.sessions()) == 3


async def test_where_something_is_already_nothing_is_copied_to(moving: Moving) -> None:
    async with PostgresStore(moving.url, LIMITS, schema=moving.schema) as store:
        await store.open(facts(7), opened(7), NOW_MS)
    assert (await moving.refusal()).code == "copy-target-exists"


async def test_a_file_is_not_marked_as_moved_where_the_schema_was_taken_meanwhile(moving: Moving) -> None:
    async def start_too_early(step: str) -> None:
        if step == "proven":
            async with PostgresStore(moving.url, LIMITS, schema=moving.schema):
                pass

    with pytest.raises(ConfigError) as caught:
        await copy_store(moving.path, moving.journal, moving.url, moving.schema, start_too_early)
    assert caught.value.code == "copy-target-exists"
    assert len(await moving.sessions()) == 3


async def test_what_was_signed_while_a_copy_was_interrupted_goes_over_too(moving: Moving) -> None:
    with pytest.raises(Crash):
        await moving.copy(crash_at=5)
    # A registration uses the journal, and not the store.
    journal = SqliteTransactionJournal(moving.journal)
    later = replace(TRANSACTION, nonce=5, transaction_hash=Bytes32(b"\x05" * 32), purpose="register")
    await journal.append(later)
    await journal.close()
    await moving.copy()
    async with moving.store() as store:
        held = Lease("sending", store.process, 1)
        moved = await store.journal(lambda: held).unresolved(31_337, TRANSACTION.account)
    assert moved == [TRANSACTION, later]


async def test_kept_signatures_go_over_so_that_a_retry_gets_the_same_receipt(moving: Moving) -> None:
    kept = [
        KeptSignature(channel(1), bytes([number]) * 32, TRANSACTION.account, bytes([number]) * 65)
        for number in (1, 2)
    ]
    book = SqliteSignatureBook(moving.path.with_name(SIGNATURES_FILE))
    for signed in kept:
        await book.keep(signed)
    await book.close()
    await moving.copy()
    moved = PostgresSignatureBook(moving.url, moving.schema)
    found = [await moved.kept(signed.digest, signed.signer) for signed in kept]
    await moved.close()
    assert found == [signed.signature for signed in kept]


async def test_a_store_that_is_missing_or_in_use_is_not_copied(moving: Moving, tmp_path: Path) -> None:
    with store_lock(moving.path):
        assert (await moving.refusal()).code == "store-locked"
    moving.path = tmp_path / "elsewhere" / STORE_FILE
    assert (await moving.refusal()).code == "store-missing"


async def test_many_sessions_and_calls_go_over_in_batches(postgres: PostgresServer, tmp_path: Path) -> None:
    path, schema = tmp_path / STORE_FILE, schema_of(tmp_path)
    async with SqliteStore(path, LIMITS) as source:
        numbers = range(1, 602)
        await asyncio.gather(*(source.open(facts(number), opened(number), NOW_MS) for number in numbers))
        for index in range(4):
            await asyncio.gather(*(admitted(source, n, (index + 1) * PRICE) for n in numbers))
            await asyncio.gather(*(source.record(channel(n), index, answer(), NOW_MS) for n in numbers))
        before = await source.sessions(tuple(Phase))
    steps: list[str] = []

    async def note(step: str) -> None:
        steps.append(step)

    assert await copy_store(path, tmp_path / "none", postgres.url, schema, note) == Copied(601, 2_404)
    assert (steps.count("sessions"), steps.count("calls")) == (2, 2)
    async with PostgresStore(postgres.url, LIMITS, schema=schema) as target:
        assert await target.sessions(tuple(Phase)) == before
