"""The durable record of signed sessions: heads follow from it, and it refuses what must never be signed."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlite_utils import Database

from aioum.client import journal as journal_module
from aioum.client.book import Book
from aioum.client.journal import SqliteJournal
from aioum.client.journal_rows import fixed_values, mutable_values
from aioum.client.records import CallPhase, CallRecord, SessionRecord
from aioum.client.sqlite_writer import JournalError
from aioum.core.errors import PolicyRefused
from aioum.core.purse import Outstanding, begin_call
from aioum.core.submission.chain import genesis, paid_session_id
from aioum.core.types import Bytes32
from tests.unit.client.records import ROSTER, make_record, signed_call
from tests.unit.client.test_journal import signed_receipt

REQUEST = b'{"arguments":{},"tool":"echo"}'


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    journal = SqliteJournal(tmp_path / "sessions.sqlite3")
    yield journal
    await journal.aclose()


def head_of(record: SessionRecord, seat: str) -> Bytes32:
    return genesis(paid_session_id(record.channel_id), seat, ROSTER.hash)


async def begun(book: Book, seat: str, name: str) -> CallRecord:
    """One more signed call, kept and not answered."""
    _, call = begin_call(book.purse, "echo", REQUEST, 10, max_open=9)
    head = book.seats.head(seat)
    assert head is not None
    record = signed_call(book.record.channel_id, call, head, seat, name)
    await book.begin(record)
    return record


async def answered(book: Book, seat: str, name: str) -> CallRecord:
    """One more signed call with its answer."""
    return await answer(book, await begun(book, seat, name))


async def answer(book: Book, record: CallRecord) -> CallRecord:
    """The call with its answer."""
    receipt = signed_receipt(record.call, book.record.channel_id, b"ok")
    done = replace(record, phase=CallPhase.ANSWERED, status=200, response=b"ok", receipt=receipt)
    await book.answer(done)
    return done


async def test_a_signed_session_comes_back_with_roster_envelopes_and_heads(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    book = Book(journal, await journal.create(make_record(roster=ROSTER)), lambda: 1)
    channel_id = book.record.channel_id
    assert book.retained_heads == {seat: head_of(book.record, seat) for seat in ("client", "researcher")}
    first = await answered(book, "client", "a")
    second = await answered(book, "researcher", "b")
    third = await begun(book, "client", "c")
    await journal.aclose()
    again = SqliteJournal(tmp_path / "sessions.sqlite3")
    loaded = await Book.load(again, channel_id, lambda: 1)
    assert loaded.record == book.record
    assert loaded.purse.signed
    assert loaded.made == [first, second, third]
    assert loaded.seats == book.seats
    assert first.envelope is not None
    assert second.envelope is not None
    assert third.envelope is not None
    # The call without an answer moved the head that is signed on, and not the one that is retained.
    assert third.envelope.prev_head == first.envelope.submission(channel_id, REQUEST).head()
    assert loaded.seats.head("client") == third.envelope.submission(channel_id, REQUEST).head()
    assert loaded.retained_heads == {
        "client": third.envelope.prev_head,
        "researcher": second.envelope.submission(channel_id, REQUEST).head(),
    }
    assert loaded.outstanding == third
    await again.aclose()


async def test_calls_of_one_amount_are_told_apart_by_their_index(journal: SqliteJournal) -> None:
    record = await journal.create(make_record(roster=ROSTER))
    head = head_of(record, "client")
    first = signed_call(record.channel_id, Outstanding(0, "echo", REQUEST, 10, 10), head, name="a")
    first = replace(first, phase=CallPhase.ANSWERED, response=b"")
    assert first.envelope is not None
    later = first.envelope.submission(record.channel_id, REQUEST).head()
    second = signed_call(record.channel_id, Outstanding(1, "echo", REQUEST, 10, 10), later, name="b")
    await journal.save(record, [first, second])
    assert await journal.calls(record.channel_id) == [first, second]


async def test_a_second_envelope_on_one_head_is_refused_by_the_file_itself(journal: SqliteJournal) -> None:
    record = await journal.create(make_record(roster=ROSTER))
    head = head_of(record, "client")
    kept = signed_call(record.channel_id, Outstanding(0, "echo", REQUEST, 10, 10), head, name="a")
    record = await journal.save(record, [replace(kept, phase=CallPhase.ANSWERED, response=b"")])
    other = signed_call(record.channel_id, Outstanding(1, "echo", REQUEST, 10, 10), head, name="b")
    with pytest.raises(JournalError) as caught:
        await journal.save(record, [other])
    assert caught.value.code == "journal-failed"
    assert len(await journal.calls(record.channel_id)) == 1


@pytest.mark.parametrize("name", ["another", "one"])
async def test_a_kept_envelope_is_never_replaced(journal: SqliteJournal, name: str) -> None:
    record = await journal.create(make_record(roster=ROSTER))
    head = head_of(record, "client")
    call = Outstanding(0, "echo", REQUEST, 10, 10)
    kept = signed_call(record.channel_id, call, head, name="one")
    record = await journal.save(record, [kept])
    other = signed_call(record.channel_id, replace(call, request=b"{}"), head, name=name)
    with pytest.raises(JournalError) as caught:
        await journal.save(record, [other])
    assert caught.value.code == "journal-failed"
    # A voucher is not part of it.
    funded = replace(kept, call=replace(call, amount=20), signature=b"\x0d" * 65)
    await journal.save(record, [funded])
    assert await journal.calls(record.channel_id) == [funded]


async def test_several_calls_without_an_answer_come_back_with_those_answered_beyond_them(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    book = Book(journal, await journal.create(make_record(roster=ROSTER)), lambda: 1)
    first = await answered(book, "client", "a")
    second = await begun(book, "client", "b")
    third = await answer(book, await begun(book, "researcher", "c"))
    fourth = await begun(book, "researcher", "d")
    assert book.purse.spent == 20
    await journal.aclose()
    again = SqliteJournal(tmp_path / "sessions.sqlite3")
    loaded = await Book.load(again, book.record.channel_id, lambda: 1)
    assert loaded.record == book.record
    assert (loaded.open, loaded.answered) == ([second, fourth], [first])
    assert (loaded.answered_at(2), loaded.answered_at(1)) == (third, None)
    assert [item.index for item in loaded.purse.ahead] == [2]
    # Heads are retained up to the first call of a seat that has no answer.
    assert second.envelope is not None
    assert fourth.envelope is not None
    assert loaded.retained_heads == {
        "client": second.envelope.prev_head, "researcher": fourth.envelope.prev_head,
    }  # fmt: skip
    await answer(loaded, second)
    assert [entry.index for entry in loaded.entries] == [0, 1, 2]
    assert (loaded.purse.next_index, loaded.purse.ahead) == (3, ())
    await again.aclose()


async def test_answers_that_arrive_together_are_all_written(journal: SqliteJournal) -> None:
    book = Book(journal, await journal.create(make_record(roster=ROSTER)), lambda: 1)
    calls = [await begun(book, "client", str(number)) for number in range(8)]
    await asyncio.gather(
        *(answer(book, call) for call in reversed(calls)), begun(book, "client", "8"), book.observe(7, None)
    )
    assert (book.purse.next_index, book.purse.spent, len(book.open)) == (8, 80, 1)
    assert book.purse.deposit == 7
    assert await journal.load(book.record.channel_id) == book.record


async def test_an_answer_after_an_interrupted_write_misses_nothing(journal: SqliteJournal) -> None:
    book = Book(journal, await journal.create(make_record(roster=ROSTER)), lambda: 1)
    first, second = await begun(book, "client", "a"), await begun(book, "client", "b")
    writing = asyncio.create_task(answer(book, first))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await answer(book, second)
    assert await journal.load(book.record.channel_id) == book.record
    assert [entry.index for entry in book.entries] == [0, 1][: book.purse.next_index]
    assert book.purse.spent == 10 * (2 - len(book.open))


async def test_two_programs_with_one_session_in_flight_do_not_count_an_answer_twice_nor_sign_one_place_twice(
    journal: SqliteJournal,
) -> None:
    book = Book(journal, await journal.create(make_record(roster=ROSTER)), lambda: 1)
    first, second = await begun(book, "client", "a"), await begun(book, "client", "b")
    other = await Book.load(journal, book.record.channel_id, lambda: 1)
    _, late = begin_call(book.purse, "echo", REQUEST, 10, max_open=9)
    head = book.seats.head("researcher")
    assert head is not None
    late_call = signed_call(book.record.channel_id, late, head, "researcher", "late")
    await answer(other, first)
    third = await begun(other, "client", "c")
    for step in (lambda: answer(book, second), lambda: book.begin(late_call)):
        # The first notices that another program was here; what follows goes by what that one wrote.
        with pytest.raises(JournalError) as caught:
            await step()
        assert caught.value.code == "session-in-use"
    await answer(book, first)
    await answer(book, second)
    assert (book.purse.spent, book.purse.next_index, book.open) == (20, 2, [third])
    assert await journal.load(book.record.channel_id) == book.record


async def test_a_second_unsigned_call_without_an_answer_is_refused_by_the_file_itself(
    journal: SqliteJournal,
) -> None:
    record = await journal.create(make_record())
    record = await journal.save(record, [CallRecord(Outstanding(0, "echo", REQUEST, 1, 1), b"")])
    with pytest.raises(JournalError) as caught:
        await journal.save(record, [CallRecord(Outstanding(1, "echo", REQUEST, 1, 2), b"")])
    assert caught.value.code == "journal-failed"


async def test_a_signed_call_is_not_given_up(journal: SqliteJournal) -> None:
    book = Book(journal, await journal.create(make_record(roster=ROSTER)), lambda: 1)
    kept = await begun(book, "client", "a")
    with pytest.raises(PolicyRefused) as caught:
        await book.abandon()
    assert caught.value.code == "signed-call-outstanding"
    assert book.outstanding == kept


async def test_a_journal_from_before_signed_calls_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "sessions.sqlite3"
    connection = sqlite3.connect(path)
    first, *_ = journal_module._migrations._migrations
    journal_module._migrations.apply(Database(connection), stop_before="m002_signed_calls")
    assert first.name == "m001_sessions_and_calls"
    record = make_record()
    later = {"roster", "log_proof"}
    columns = [name for name in journal_module._WRITTEN_COLUMNS if name not in later]
    fixed, mutable = fixed_values(record)[:-1], mutable_values(record)[:-1]
    marks = ", ".join("?" * len(columns))
    connection.execute(
        f"INSERT INTO sessions ({', '.join(columns)}) VALUES ({marks})",
        (*fixed, 7, *mutable),
    )
    rows = [("3", 0, "abandoned", None), ("5", 0, "answered", b"ok"), ("6", 1, "outstanding", None)]
    connection.executemany(
        "INSERT INTO calls (session, amount, call_index, tool_id, request, price, signature, phase, status, "
        "response) VALUES (1, ?, ?, 'echo', x'7b7d', '1', x'0c', ?, 0, ?)",
        rows,
    )
    connection.commit()
    connection.close()
    for _ in range(2):
        journal = SqliteJournal(path)
        (loaded,) = await journal.sessions()
        assert loaded.facts == record.facts
        assert not loaded.purse.signed
        calls = await journal.calls(record.channel_id)
        assert [(call.number, call.call.index, call.phase, call.response) for call in calls] == [
            (int(amount), index, phase, response) for amount, index, phase, response in rows
        ]
        assert loaded.purse.outstanding == calls[2].call
        await journal.aclose()
