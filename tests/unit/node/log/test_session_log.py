"""The log folder with its table of sessions, and what everybody may read of them."""

import shutil
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aioum.core.errors import AioumError
from aioum.core.types import Bytes32
from aioum.log.entry import CapsuleEntry, SessionEntry
from aioum.log.files import entries_file
from aioum.log.publish import FileRegister, publish
from aioum_node.log.index import INDEX_FILE, SessionIndex
from aioum_node.log.reader import LogReader
from aioum_node.log.sessions import SessionLog
from tests.unit.log.samples import KEY, ORIGIN, session

BLOCK = Bytes32(b"\x0b" * 32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "log"


def appended(folder: Path, numbers: Sequence[int]) -> int:
    log = SessionLog.open(folder, ORIGIN)
    try:
        return log.append([session(number) for number in numbers])
    finally:
        log.close()


def places(folder: Path, numbers: Sequence[int]) -> list[int | None]:
    log = SessionLog.open(folder, ORIGIN)
    try:
        return [log.index.find(session(number).channel_id) for number in numbers]
    finally:
        log.close()


async def shown(folder: Path) -> None:
    log = SessionLog.open(folder, ORIGIN)
    await publish(log.folder, FileRegister(folder.with_name("register")), KEY)
    log.close()


async def unreadable(folder: Path, entry: SessionEntry) -> bool:
    with pytest.raises(AioumError) as caught:
        await LogReader(folder).membership(entry.channel_id)
    return caught.value.code == "log-unreadable"


def test_a_session_is_in_the_log_once_however_often_it_is_found(folder: Path) -> None:
    assert appended(folder, [3, 1, 3]) == 2
    assert appended(folder, [1, 2, 3]) == 1
    assert appended(folder, []) == 0
    assert places(folder, [3, 1, 2, 4]) == [0, 1, 2, None]


def test_those_that_are_not_in_the_log_are_told_from_those_that_are(folder: Path) -> None:
    appended(folder, [1, 2])
    index = SessionIndex(folder)
    assert index.without(session(number).channel_id for number in range(4)) == {
        session(0).channel_id,
        session(3).channel_id,
    }
    index.close()


@pytest.mark.parametrize("damage", ["missing", "behind", "no database"])
def test_the_table_is_made_again_from_the_entries(folder: Path, tmp_path: Path, damage: str) -> None:
    appended(folder, range(300))
    table = folder / INDEX_FILE
    match damage:
        case "missing":
            table.unlink()
        case "behind":
            former = shutil.copy(table, tmp_path / "former")
            appended(folder, range(300, 310))
            shutil.copy(former, table)
        case "no database":
            table.write_bytes(b"not a database " * 100)
    assert places(folder, [0, 299, 999]) == [0, 299, None]
    assert appended(folder, range(310)) == (0 if damage == "behind" else 10)


def test_the_table_of_another_folder_is_not_believed(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    appended(other, [9, 8, 7])
    for count in (2, 3, 4):
        appended(folder, range(1, count + 1))
        shutil.copy(other / INDEX_FILE, folder / INDEX_FILE)
        assert places(folder, [1, 2, 9]) == [0, 1, None]
        shutil.rmtree(folder)


def test_how_far_the_chain_was_searched_is_forgotten_with_the_table(folder: Path) -> None:
    appended(folder, [1])
    index = SessionIndex(folder)
    assert index.position() is None
    index.put_position(17, BLOCK)
    assert index.position() == (17, BLOCK)
    index.forget()
    assert (index.position(), index.entries) == (None, 0)
    index.close()


def test_closing_waits_for_whoever_reads_and_later_reads_are_refused(folder: Path) -> None:
    appended(folder, range(100))

    def read(index: SessionIndex) -> str:
        with pytest.raises(sqlite3.ProgrammingError) as caught:
            while True:
                index.position()
                index.without(session(number).channel_id for number in range(100))
        return str(caught.value)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            index = SessionIndex(folder)
            reading = [pool.submit(read, index) for _ in range(4)]
            index.position()
            index.close()
            assert {each.result() for each in reading} == {"Cannot operate on a closed database."}


def test_entries_of_runs_have_places_and_no_session(folder: Path) -> None:
    log = SessionLog.open(folder, ORIGIN)
    log.append_as_they_are([CapsuleEntry(BLOCK).to_bytes(), session(1).to_bytes()])
    assert log.index.find(session(1).channel_id) == 1
    log.close()
    assert places(folder, [1]) == [1]


async def test_a_session_is_proven_once_it_is_shown(folder: Path) -> None:
    reader = LogReader(folder)
    assert await reader.checkpoint() is None
    assert await reader.membership(session(1).channel_id) is None
    appended(folder, range(3))
    assert await reader.membership(session(1).channel_id) is None
    await shown(folder)
    appended(folder, [3])
    membership = await reader.membership(session(1).channel_id)
    assert membership is not None
    checkpoint, entry = membership.verify(ORIGIN, KEY.public_key)
    assert (entry, checkpoint.size) == (session(1), 3)
    assert await reader.membership(session(3).channel_id) is None


async def test_a_table_or_files_that_contradict_the_log_give_no_proof(folder: Path) -> None:
    appended(folder, range(300))
    await shown(folder)
    reader = LogReader(folder)
    table = sqlite3.connect(folder / INDEX_FILE)
    table.execute("UPDATE sessions SET place = 5 WHERE place = 1")
    table.commit()
    table.close()
    assert await unreadable(folder, session(1))
    assert await reader.membership(session(2).channel_id) is not None
    public = folder / "public" / "tile" / "entries" / "000"
    public.unlink()
    assert await unreadable(folder, session(2))
    assert await reader.membership(session(299).channel_id) is not None
    (folder / INDEX_FILE).write_bytes(b"not a database " * 100)
    assert await unreadable(folder, session(299))
    assert entries_file(folder, 0).is_file()
