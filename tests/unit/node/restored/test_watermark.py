"""The file outside the store, and what a start concludes from the two of them."""

import resource
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.chain.model import BlockRef
from aioum.core.errors import AioumError, ConfigError, OutcomeUnknown
from aioum.core.ledger import Limits, Phase, finalize, seal
from aioum.core.suspicion import abandon
from aioum.core.types import Bytes32
from aioum_node.restored.start import Life, begin_life, doubt_about, suspect_at_opening
from aioum_node.restored.watermark import Mark, Watermark
from aioum_node.store.incarnations import StoreMark, chain_instant
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.unit.node.store.conformance import admitted
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened

FIRST, SECOND, THIRD = b"\x01" * 16, b"\x02" * 16, b"\x03" * 16
NOTICED_AT = chain_instant(1_900_000_000, 7)


@pytest.fixture
def watermark(tmp_path: Path) -> Watermark:
    return Watermark(tmp_path / "watermark")


async def head() -> BlockRef:
    return BlockRef(7, Bytes32(b"\x07" * 32), 1_900_000_000)


async def chain_is_away() -> BlockRef:
    raise AssertionError("without doubt the chain is not asked")


# --- the file ---


def test_what_is_covered_is_read_back_and_belongs_to_its_owner_alone(
    watermark: Watermark, tmp_path: Path
) -> None:
    assert watermark.read() is None
    watermark.replace(Mark(FIRST, 5))
    for sequence in (6, 9, 2**63):
        watermark.cover(sequence)
        assert watermark.read() == Mark(FIRST, sequence)
    assert stat.S_IMODE((tmp_path / "watermark").stat().st_mode) == 0o600


def test_a_new_incarnation_begins_the_file_anew_also_with_a_lower_number(watermark: Watermark) -> None:
    watermark.replace(Mark(FIRST, 50))
    watermark.cover(60)
    watermark.replace(Mark(SECOND, 5))
    assert watermark.read() == Mark(SECOND, 5)


def test_nothing_is_covered_before_a_life_began_or_after_it_ended(watermark: Watermark) -> None:
    watermark.cover(9)
    assert watermark.read() is None
    watermark.replace(Mark(FIRST, 5))
    watermark.close()
    watermark.cover(9)
    assert watermark.read() == Mark(FIRST, 5)


@pytest.mark.parametrize("at", [0, 30, 71, 4_096, 4_130, 4_167])
def test_one_write_that_is_torn_leaves_the_one_before_it(
    watermark: Watermark, tmp_path: Path, at: int
) -> None:
    watermark.replace(Mark(FIRST, 5))
    watermark.cover(6)
    content = bytearray((tmp_path / "watermark").read_bytes())
    content[at] ^= 1
    (tmp_path / "watermark").write_bytes(content)
    assert watermark.read() == Mark(FIRST, 6 if at < 4_096 else 5)


def test_a_write_that_failed_half_way_is_repeated_in_its_place(watermark: Watermark, tmp_path: Path) -> None:
    watermark.replace(Mark(FIRST, 5))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_130, hard))
    try:
        with pytest.raises(OutcomeUnknown) as caught:
            watermark.cover(6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    torn = (tmp_path / "watermark").read_bytes()
    watermark.cover(7)
    assert caught.value.code == "watermark-failed"
    assert watermark.read() == Mark(FIRST, 7)
    # Had the machine gone down during the second write, the one before both would still be there.
    assert (tmp_path / "watermark").read_bytes()[:4_096] == torn[:4_096]


@pytest.mark.parametrize("content", [b"", b"aioum-watermark1", bytes(8_192)])
def test_another_file_is_no_watermark(watermark: Watermark, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "watermark").write_bytes(content)
    with pytest.raises(AioumError) as caught:
        watermark.read()
    assert caught.value.code == "watermark-damaged"


def test_a_disk_that_is_not_mounted_is_not_taken_for_a_lost_watermark(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        Watermark(tmp_path / "other-disk" / "watermark").read()
    assert caught.value.code == "watermark-unusable"


# --- what they say together ---

STORE = StoreMark(SECOND, FIRST, starts=2, sequence=10, suspect_until=None)


@pytest.mark.parametrize(
    ("store", "kept", "doubt"),
    [
        (STORE, Mark(SECOND, 10), None),
        # a crash between the store's commit and the watermark
        (STORE, Mark(SECOND, 9), None),
        # a crash between the store's new life and the watermark's
        (STORE, Mark(FIRST, 9), None),
        (STORE, Mark(SECOND, 11), "store-older"),
        (STORE, Mark(THIRD, 11), "store-older"),
        (STORE, Mark(THIRD, 10), "store-forked"),
        (STORE, None, "watermark-missing"),
        (replace(STORE, starts=0, previous=None), Mark(THIRD, 0), "store-replaced"),
        (replace(STORE, starts=0, previous=None), None, None),
    ],
)
def test_doubt_is_named(store: StoreMark, kept: Mark | None, doubt: str | None) -> None:
    assert doubt_about(store, kept) == doubt


# --- with a store ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def open_store(folder: Path, watermark: Watermark) -> SqliteStore:
    return SqliteStore(folder / STORE_FILE, Limits(), cover=watermark.cover)


async def lived(folder: Path, watermark: Watermark, *, calls: int = 0, first: int = 0) -> Life:
    """A life of the node: it answers some calls of session 1."""
    async with open_store(folder, watermark) as store:
        life = await begin_life(store, watermark, head)
        if first == 0:
            await store.open(facts(1), opened(1), NOW_MS)
        for index in range(first, first + calls):
            await admitted(store, 1, (index + 1) * PRICE)
            await store.record(channel(1), index, answer(), NOW_MS)
    watermark.close()
    return life


async def test_every_life_has_an_incarnation_of_its_own_and_honest_restarts_raise_no_doubt(
    folder: Path, watermark: Watermark
) -> None:
    incarnations = set()
    for first in (0, 2, 4):
        assert await lived(folder, watermark, calls=2, first=first) == Life(None, 0, None)
        mark = watermark.read()
        assert mark is not None
        incarnations.add(mark.incarnation)
    assert len(incarnations) == 3


async def test_clients_are_told_nothing_before_the_watermark_is_durable(
    folder: Path, watermark: Watermark
) -> None:
    async with open_store(folder, watermark) as store:
        await begin_life(store, watermark, chain_is_away)
        await store.open(facts(1), opened(1), NOW_MS)
        before = watermark.read()
        await admitted(store, 1, PRICE)
        # A call that waits for its answer is nothing that anybody has heard of.
        assert watermark.read() == before
        await store.record(channel(1), 0, answer(), NOW_MS)
        after = watermark.read()
    assert before is not None
    assert after is not None
    assert after.sequence > before.sequence
    async with open_store(folder, watermark) as store:
        assert (await store.mark()).sequence == after.sequence


async def test_where_the_watermark_cannot_be_written_nobody_is_answered_neither_at_once_nor_by_a_retry(
    folder: Path, watermark: Watermark
) -> None:
    failing = True

    def cover(sequence: int) -> None:
        if failing:
            raise OutcomeUnknown("no space", code="watermark-failed")
        watermark.cover(sequence)

    async with SqliteStore(folder / STORE_FILE, Limits(), cover=cover) as store:
        await begin_life(store, watermark, chain_is_away)
        await store.open(facts(1), opened(1), NOW_MS)
        await admitted(store, 1, PRICE)
        for _ in range(2):
            with pytest.raises(OutcomeUnknown) as caught:
                await store.record(channel(1), 0, answer(), NOW_MS)
            assert caught.value.code == "watermark-failed"
        # Nor is it told to whoever reads, as long as it is so.
        for reading in (store.session(channel(1)), store.calls(channel(1), 0, 9)):
            with pytest.raises(OutcomeUnknown):
                await reading
        with pytest.raises(OutcomeUnknown):
            await store.check()
        failures = [store.failure]
        failing = False
        await store.check()
        failures.append(store.failure)
        recorded = await store.record(channel(1), 0, answer("late"), NOW_MS)
    assert recorded.call.answer == answer()
    assert [failure and failure.code for failure in failures] == ["watermark-failed", None]


async def test_a_store_that_is_older_than_the_last_answer_makes_what_is_not_over_suspect(
    folder: Path, watermark: Watermark
) -> None:
    await lived(folder, watermark, calls=1)
    async with open_store(folder, watermark) as store:
        await begin_life(store, watermark, chain_is_away)
        for number in (2, 3, 4, 5):
            await store.open(facts(number), opened(number), NOW_MS)
        await store.update(channel(3), lambda state: seal(state, "idle"), NOW_MS)
        await store.update(channel(4), finalize, NOW_MS)
    watermark.close()
    backup = (folder / STORE_FILE).read_bytes()
    # One answer more, in the very incarnation that the backup could be of.
    await lived(folder, watermark, calls=1, first=1)
    (folder / STORE_FILE).write_bytes(backup)
    assert await lived(folder, watermark, first=1) == Life("store-older", 4, NOTICED_AT)
    # Noticed once: the next start begins where this one ended, and the suspects stay.
    async with open_store(folder, watermark) as store:
        assert await begin_life(store, watermark, chain_is_away) == Life(None, 0, NOTICED_AT)
        phases = {found.facts.session_id: found.state.phase for found in await store.sessions(tuple(Phase))}
        sealed = await store.session(channel(3))
        assert sealed is not None
        assert sealed.state.seal_reason == "idle"
    final = {number: Phase.FINAL if number == 4 else Phase.SUSPECT for number in range(1, 6)}
    assert phases == final


async def test_a_crash_between_the_new_life_of_the_store_and_the_watermarks_raises_no_doubt(
    folder: Path, watermark: Watermark
) -> None:
    await lived(folder, watermark, calls=1)
    before = (folder / "watermark").read_bytes()
    for _ in range(2):
        await lived(folder, watermark, first=1)
        (folder / "watermark").write_bytes(before)
    assert await lived(folder, watermark, first=1) == Life(None, 0, None)


async def test_a_crash_after_the_restored_store_was_noticed_leaves_its_suspects_and_doubts_nothing_again(
    folder: Path, watermark: Watermark
) -> None:
    await lived(folder, watermark)
    backup = (folder / STORE_FILE).read_bytes()
    await lived(folder, watermark, calls=1, first=0)
    (folder / STORE_FILE).write_bytes(backup)
    before = (folder / "watermark").read_bytes()
    assert (await lived(folder, watermark, first=1)).suspects == 1
    (folder / "watermark").write_bytes(before)
    assert await lived(folder, watermark, first=1) == Life(None, 0, NOTICED_AT)
    async with open_store(folder, watermark) as store:
        stored = await store.session(channel(1))
    assert stored is not None
    assert stored.state.phase is Phase.SUSPECT


async def test_a_store_whose_watermark_is_lost_damaged_or_anothers_is_suspect(
    folder: Path, watermark: Watermark
) -> None:
    await lived(folder, watermark, calls=1)
    backup = (folder / STORE_FILE).read_bytes()
    for change, doubt in (
        (lambda path: path.unlink(), "watermark-missing"),
        (lambda path: path.write_bytes(b"x"), "watermark-damaged"),
        (lambda path: Watermark(path).replace(Mark(THIRD, 0)), "store-forked"),
    ):
        (folder / STORE_FILE).write_bytes(backup)
        await lived(folder, watermark, first=1)
        change(folder / "watermark")
        assert (await lived(folder, watermark, first=1)).doubt == doubt


async def test_an_empty_store_beside_a_watermark_makes_every_earlier_opening_suspect(
    folder: Path, watermark: Watermark
) -> None:
    await lived(folder, watermark, calls=1)
    (folder / STORE_FILE).unlink()
    life = await lived(folder, watermark)
    assert life == Life("store-replaced", 0, NOTICED_AT)
    for seconds, block, phase in (
        (1_900_000_000, 7, Phase.SUSPECT),
        (1_899_999_999, 8, Phase.SUSPECT),
        (1_900_000_000, 8, Phase.OPEN),
        # a chain that began anew
        (1_900_000_001, 1, Phase.OPEN),
    ):
        opened_at = chain_instant(seconds, block)
        assert suspect_at_opening(opened(2), opened_at, life.suspect_until).phase is phase
    assert suspect_at_opening(opened(2), NOTICED_AT, None).phase is Phase.OPEN


async def test_an_abandoned_session_does_not_become_suspect_again(folder: Path, watermark: Watermark) -> None:
    await lived(folder, watermark, calls=1)
    for _ in range(2):
        (folder / "watermark").unlink()
        life = await lived(folder, watermark, first=1)
        async with open_store(folder, watermark) as store:
            if life.suspects:
                await store.update(channel(1), abandon, NOW_MS)
    assert life.suspects == 0


# --- in part ---

WAL_FILE = STORE_FILE + "-wal"


async def busy_life(folder: Path, watermark: Watermark, crashed: Path, *, first: int, calls: int) -> None:
    """A life that ends with the machine: `crashed` gets the files as they lay there, watermark included."""
    async with open_store(folder, watermark) as store:
        await begin_life(store, watermark, head)
        for index in range(first, first + calls):
            await admitted(store, 1, (index + 1) * PRICE)
            await store.record(channel(1), index, answer(), NOW_MS)
        crashed.mkdir(exist_ok=True)
        for name in (STORE_FILE, WAL_FILE, "watermark"):
            (crashed / name).write_bytes((folder / name).read_bytes())
    watermark.close()


async def found(crashed: Path) -> str | None:
    """What the next start in that folder finds."""
    watermark = Watermark(crashed / "watermark")
    try:
        async with open_store(crashed, watermark) as store:
            return (await begin_life(store, watermark, head)).doubt
    except AioumError as error:
        return error.code
    finally:
        watermark.close()


async def test_parts_of_different_times_are_noticed_and_a_crash_is_not_mistaken_for_them(
    folder: Path, watermark: Watermark, tmp_path: Path
) -> None:
    crashed = tmp_path / "crashed"
    await lived(folder, watermark, calls=1)
    old_file = (folder / STORE_FILE).read_bytes()
    await busy_life(folder, watermark, tmp_path / "early", first=1, calls=1)
    old_log = (tmp_path / "early" / WAL_FILE).read_bytes()
    # More groups than lie between two foldings of the log into the file.
    await busy_life(folder, watermark, crashed, first=2, calls=200)
    files = {path.name: path.read_bytes() for path in crashed.iterdir()}

    async def after(**changes: bytes | None) -> str | None:
        for name, content in files.items():
            (crashed / name).write_bytes(content)
        (crashed / f"{STORE_FILE}-shm").unlink(missing_ok=True)
        for part, other in changes.items():
            path = crashed / {"file": STORE_FILE, "log": WAL_FILE}[part]
            if other is None:
                path.unlink()
            else:
                path.write_bytes(other)
        return await found(crashed)

    assert await after() is None
    assert await after(file=old_file, log=None) == "store-older"
    assert await after(file=old_file, log=old_log) == "store-older"
    # SQLite itself may find that these do not fit.
    assert await after(log=old_log) in ("store-parts-differ", "store-failed")
    assert await after(log=None) == "store-older"
    assert await after(file=old_file) == "store-parts-differ"
    # It was left as it is: whoever tries again finds the same.
    assert await found(crashed) == "store-parts-differ"
