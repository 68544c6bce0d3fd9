"""A database file and its log that a crash left in the middle of being brought together."""

from pathlib import Path

import pytest

from aioum.core.errors import AioumError
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.unit.node.store.conformance import LIMITS, admitted
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened

PAGE_BYTES = 4_096
WAL_FILE = STORE_FILE + "-wal"


async def fill(store: SqliteStore, *, first: int, calls: int) -> None:
    for index in range(first, first + calls):
        await admitted(store, 1, (index + 1) * PRICE)
        await store.record(channel(1), index, answer("long " * 1_000), NOW_MS)


async def crashed(folder: Path) -> tuple[bytes, bytes, bytes]:
    """The database file and its log as they lie there, and the file once the log is in it."""
    path = folder / STORE_FILE
    async with SqliteStore(path, LIMITS) as store:
        await store.open(facts(1), opened(1), NOW_MS)
        await fill(store, first=0, calls=3)
    async with SqliteStore(path, LIMITS) as store:
        await fill(store, first=3, calls=20)
        before, log = path.read_bytes(), (folder / WAL_FILE).read_bytes()
    return before, log, path.read_bytes()


@pytest.mark.parametrize("written", [1, 2, 5, 12])
async def test_a_crash_while_the_log_goes_into_the_file_is_healed_by_the_log(
    tmp_path: Path, written: int
) -> None:
    before, log, after = await crashed(tmp_path)
    assert len(after) > len(before)
    cut = written * PAGE_BYTES
    (tmp_path / STORE_FILE).write_bytes(after[:cut] + before[cut:])
    (tmp_path / WAL_FILE).write_bytes(log)

    async with SqliteStore(tmp_path / STORE_FILE, LIMITS) as store:
        assert len(await store.calls(channel(1), 0, 99)) == 23


async def test_a_damaged_file_that_its_log_does_not_heal_is_not_opened(tmp_path: Path) -> None:
    before, log, after = await crashed(tmp_path)
    # Of its pages only the first is there, and the log does not hold the others.
    (tmp_path / STORE_FILE).write_bytes(after[:PAGE_BYTES] + bytes(len(before) - PAGE_BYTES))
    (tmp_path / WAL_FILE).write_bytes(log)

    with pytest.raises(AioumError) as caught:
        SqliteStore(tmp_path / STORE_FILE, LIMITS)
    assert caught.value.code in ("store-parts-differ", "store-failed")
