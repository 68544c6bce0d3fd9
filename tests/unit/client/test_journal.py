"""The client's durable record on a real file."""

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from aioum.client.book import Book
from aioum.client.journal import SqliteJournal
from aioum.client.records import CallPhase, CallRecord, Evidence, SessionPhase, SessionRecord
from aioum.client.sqlite_writer import JournalError
from aioum.core.errors import Divergence, InvalidInput
from aioum.core.payment import CallReceipt, Statement
from aioum.core.purse import Outstanding, accept_answer, begin_call
from aioum.core.transcript import leaf_hash
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement
from tests.unit.client.records import make_record


def signed_receipt(call: Outstanding, channel_id: ChannelId, response: bytes) -> SignedReceipt:
    leaf = Bytes32(leaf_hash(call.index, call.request, response, call.tool_id.encode()))
    return SignedReceipt(CallReceipt(channel_id, call.index, leaf, call.price), b"\x0b" * 65)


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path / "client" / "sessions.sqlite3")
    yield journal
    await journal.aclose()


async def test_a_session_comes_back_as_it_was_written(journal: SqliteJournal, tmp_path: Path) -> None:
    created = await journal.create(make_record())
    purse, call = begin_call(created.purse, "echo", b'{"arguments":{},"tool":"echo"}', 2**90)
    first = CallRecord(call, b"\x0c" * 65)
    begun = await journal.save(replace(created, purse=purse, phase=SessionPhase.OPEN), [first])
    assert await journal.load(created.channel_id) == begun
    assert await journal.calls(created.channel_id) == [first]
    receipt = signed_receipt(call, created.channel_id, b"answer")
    statement = SignedStatement(Statement(created.channel_id, 1, Bytes32(b"\x0d" * 32), 2**90), b"\x0e" * 65)
    done = replace(first, phase=CallPhase.ANSWERED, status=200, response=b"answer", receipt=receipt)
    evidence = Evidence("divergence", "why", 1, {"statement": statement.to_json()}, (receipt, receipt))
    settled = await journal.save(
        replace(
            begun,
            purse=accept_answer(purse, call, b"answer", receipt.receipt),
            adopted=True,
            opening_transaction=Bytes32(b"\x0f" * 32),
            session_id=2**100,
            statement=statement,
            evidence=(evidence,),
        ),
        [done],
    )
    await journal.aclose()
    again = SqliteJournal(tmp_path / "client" / "sessions.sqlite3")
    assert await again.sessions() == [settled]
    assert await again.calls(created.channel_id) == [done]
    await again.aclose()


async def test_a_session_is_created_once(journal: SqliteJournal) -> None:
    await journal.create(make_record())
    with pytest.raises(JournalError) as caught:
        await journal.create(make_record())
    assert caught.value.code == "session-exists"


async def test_whoever_writes_an_older_version_is_refused_and_changes_nothing(
    journal: SqliteJournal,
) -> None:
    created = await journal.create(make_record())
    newer = await journal.save(replace(created, phase=SessionPhase.OPEN))
    call = CallRecord(Outstanding(0, "echo", b"{}", 1, 1), b"")
    with pytest.raises(JournalError) as caught:
        await journal.save(replace(created, phase=SessionPhase.CLOSED), [call])
    assert caught.value.code == "session-in-use"
    assert await journal.load(created.channel_id) == newer
    assert await journal.calls(created.channel_id) == []


async def test_two_calls_without_an_answer_are_impossible(journal: SqliteJournal) -> None:
    created = await journal.create(make_record())
    calls = [CallRecord(Outstanding(0, "echo", b"{}", 1, amount), b"") for amount in (1, 2)]
    with pytest.raises(JournalError) as caught:
        await journal.save(created, calls)
    assert caught.value.code == "journal-failed"
    assert await journal.calls(created.channel_id) == []


async def test_sessions_that_write_at_once_share_commits_and_each_gets_its_own_outcome(
    journal: SqliteJournal,
) -> None:
    records = await asyncio.gather(*(journal.create(make_record(number)) for number in range(1, 60)))
    stale = replace(records[0], version=9)
    outcomes = await asyncio.gather(
        *(journal.save(replace(record, phase=SessionPhase.OPEN)) for record in records[1:]),
        journal.save(stale),
        return_exceptions=True,
    )
    assert isinstance(outcomes[-1], JournalError)
    assert all(isinstance(outcome, SessionRecord) for outcome in outcomes[:-1])
    assert len(await journal.sessions()) == 59


async def test_a_closed_journal_says_so(journal: SqliteJournal) -> None:
    await journal.aclose()
    with pytest.raises(JournalError) as caught:
        await journal.sessions()
    assert caught.value.code == "journal-closed"


async def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite3"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(JournalError) as caught:
        SqliteJournal(path)
    assert caught.value.code == "journal-failed"


async def test_a_locked_file_fails_the_step_and_the_next_one_works(
    journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = await journal.create(make_record())
    await journal._writer.run(lambda connection: connection.execute("PRAGMA busy_timeout = 20"))
    other = sqlite3.connect(tmp_path / "client" / "sessions.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalError) as caught:
        await journal.save(created)
    assert caught.value.code == "journal-failed"
    other.execute("ROLLBACK")
    other.close()
    assert (await journal.save(created)).version == 2


async def test_a_damaged_row_is_named(journal: SqliteJournal, tmp_path: Path) -> None:
    created = await journal.create(make_record())
    await journal.save(replace(created, evidence=(Evidence("x", "y", 1),)))
    await journal._writer.run(lambda connection: connection.execute("UPDATE evidence SET detail = '[]'"))
    with pytest.raises(JournalError) as caught:
        await journal.sessions()
    assert caught.value.code == "journal-damaged"


async def test_only_the_user_may_read_it(journal: SqliteJournal, tmp_path: Path) -> None:
    await journal.create(make_record())
    files = list((tmp_path / "client").iterdir())
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "client").stat().st_mode) == 0o700


async def test_a_book_finds_out_what_an_interrupted_write_did(journal: SqliteJournal) -> None:
    book = Book(journal, await journal.create(make_record()), lambda: 1)
    _, call = begin_call(book.purse, "echo", b"{}", 1)
    writing = asyncio.create_task(book.begin(CallRecord(call, b"")))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await book.refresh()
    assert book.record == await journal.load(book.record.channel_id)
    assert book.purse.outstanding == call
    assert book.require_outstanding().call == call


async def test_a_book_keeps_one_contradiction_once_and_says_what_it_lacks(journal: SqliteJournal) -> None:
    book = Book(journal, await journal.create(make_record()), lambda: 1)
    for _ in range(2):
        await book.diverge(Divergence("why", code="captured-above-spent"), response="\0" * 10**7)
    assert [item.code for item in book.record.evidence] == ["captured-above-spent"]
    assert await journal.load(book.record.channel_id) == book.record
    assert book.purse.stopped == "captured-above-spent"
    with pytest.raises(InvalidInput) as caught:
        book.require_outstanding()
    assert caught.value.code == "nothing-outstanding"
    with pytest.raises(InvalidInput) as caught:
        CallRecord(Outstanding(0, "echo", b"{}", 1, 1), b"").entry()
    assert caught.value.code == "call-not-answered"
    with pytest.raises(JournalError) as unknown:
        await Book.load(journal, ChannelId(bytes(32)), lambda: 1)
    assert unknown.value.code == "session-unknown"


def test_programs_that_start_at_the_same_time_share_one_new_file(tmp_path: Path) -> None:
    at_once = Barrier(8)

    def start(_: int) -> SqliteJournal:
        at_once.wait()
        return SqliteJournal(tmp_path / "client" / "sessions.sqlite3")

    with ThreadPoolExecutor(8) as pool:
        journals = list(pool.map(start, range(8)))

    async def use() -> None:
        for journal in journals:
            assert await journal.sessions() == []
            await journal.aclose()

    asyncio.run(use())
