import asyncio
import shutil
from pathlib import Path

import pytest

from aioum.core.errors import AioumError
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.files import LogFolder, published_note
from aioum.log.fsck import fsck
from aioum.log.publish import FileRegister, follow, publish
from aioum.log.static import show
from tests.unit.log.samples import KEY, ORIGIN, OTHER_KEY, entries, opened, reader, verified


class Shop:
    """A log folder with its register, and copies of both."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log"
        self.register = FileRegister(path / "apart" / "checkpoint")

    async def publish(self, log: LogFolder, **known: object) -> Checkpoint:
        return verified(await publish(log, self.register, KEY, **known))  # type: ignore[arg-type]

    def backup(self, name: str) -> None:
        shutil.copytree(self.path / name, self.path / f"{name}-copy")

    def restore(self, name: str) -> None:
        shutil.rmtree(self.path / name)
        shutil.move(self.path / f"{name}-copy", self.path / name)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


async def refused(shop: Shop, log: LogFolder, **known: object) -> str:
    before = published_note(log.path)
    with pytest.raises(AioumError) as caught:
        await shop.publish(log, **known)
    assert published_note(log.path) == before
    return caught.value.code


async def test_what_is_published_is_the_logs_state_and_publishing_it_again_changes_nothing(
    shop: Shop,
) -> None:
    with opened(shop.log) as log:
        assert (await shop.publish(log)).size == 0
        log.append(entries(0, 300))
        checkpoint = await shop.publish(log)
        assert (checkpoint.size, checkpoint.root) == (300, log.tree.root())
        note = published_note(shop.log)
        assert await shop.register.latest() == note
        assert await shop.publish(log) == checkpoint
        assert published_note(shop.log) == note
    assert await reader(shop.log).root(300) == checkpoint.root


async def test_partial_files_go_when_the_full_one_is_there(shop: Shop) -> None:
    with opened(shop.log) as log:
        for start in (0, 100, 200):
            log.append(entries(start, start + 100))
            await shop.publish(log)
        public = shop.log / "public" / "tile"
        assert not (public / "0" / "000.p").exists()
        assert not (public / "entries" / "000.p").exists()
        assert (public / "entries" / "001.p" / "44").is_file()


async def test_a_restored_folder_publishes_nothing(shop: Shop) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        await shop.publish(log)
    shop.backup("log")
    with opened(shop.log) as log:
        log.append(entries(10, 20))
        await shop.publish(log)
    shop.restore("log")
    with opened(shop.log) as log:
        assert await refused(shop, log) == "log-rolled-back"
        # Nor when it has grown again, with something else in place of what was shown.
        log.append(entries(50, 70))
        assert await refused(shop, log) == "log-forked"


async def test_a_restored_register_publishes_nothing(shop: Shop) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        await shop.publish(log)
        shop.backup("apart")
        log.append(entries(10, 20))
        await shop.publish(log)
        shop.restore("apart")
        assert await refused(shop, log) == "register-rolled-back"
        shutil.rmtree(shop.path / "apart")
        assert await refused(shop, log) == "register-rolled-back"


async def test_what_others_saw_counts_where_folder_and_register_were_restored_together(shop: Shop) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        await shop.publish(log)
        shop.backup("log")
        shop.backup("apart")
        log.append(entries(10, 20))
        anchored = await shop.publish(log)
    shop.restore("log")
    shop.restore("apart")
    with opened(shop.log) as log:
        assert await refused(shop, log, known=[anchored]) == "log-rolled-back"
        log.append(entries(50, 70))
        assert await refused(shop, log, known=[anchored]) == "log-forked"


async def test_of_two_writers_with_copies_of_one_log_one_publishes(shop: Shop) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        await shop.publish(log)
    shop.backup("log")
    with opened(shop.log) as one, opened(shop.path / "log-copy") as other:
        one.append(entries(10, 20))
        other.append(entries(30, 40))
        outcomes = await asyncio.gather(shop.publish(one), shop.publish(other), return_exceptions=True)
        lost = [outcome for outcome in outcomes if isinstance(outcome, AioumError)]
        assert len(lost) == 1
        assert lost[0].code in ("checkpoint-conflict", "log-forked")
        loser = one if outcomes[0] is lost[0] else other
        assert await refused(shop, loser) == "log-forked"


async def test_a_copy_shows_what_another_writer_committed_to_once_it_has_as_much(shop: Shop) -> None:
    keys = [KEY.public_key]
    with opened(shop.log) as log, opened(shop.path / "log-copy") as copy:
        assert await follow(copy, shop.register, keys) is None
        log.append(entries(0, 300))
        checkpoint = await shop.publish(log)
        copy.append(entries(0, 200))
        assert await follow(copy, shop.register, keys) is None
        assert published_note(copy.path) is None
        copy.append(entries(200, 310))
        for _ in range(2):
            assert await follow(copy, shop.register, keys) == checkpoint
            assert published_note(copy.path) == published_note(log.path)
    assert await reader(shop.path / "log-copy").root(300) == checkpoint.root


async def test_a_copy_of_another_history_or_beyond_the_register_shows_nothing_more(shop: Shop) -> None:
    keys = [KEY.public_key]
    with opened(shop.log) as log, opened(shop.path / "log-copy") as copy:
        log.append(entries(0, 10))
        await shop.publish(log)
        copy.append(entries(1, 11))
        with pytest.raises(AioumError) as forked:
            await follow(copy, shop.register, keys)
        assert published_note(copy.path) is None
        shop.backup("apart")
        log.append(entries(10, 20))
        await shop.publish(log)
        shop.restore("apart")
        before = published_note(log.path)
        with pytest.raises(AioumError) as rolled_back:
            await follow(log, shop.register, keys)
        assert published_note(log.path) == before
    assert (forked.value.code, rolled_back.value.code) == ("log-forked", "register-rolled-back")


async def test_a_writer_that_read_the_register_before_another_wrote_it_is_refused(shop: Shop) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        held = await shop.register.latest()
        await shop.publish(log)
        assert await shop.register.swap(held, b"a state of mine") is False

        class Slow(FileRegister):
            async def latest(self) -> bytes | None:
                found = await super().latest()
                await shop.publish(log)
                return found

        log.append(entries(10, 20))
        with pytest.raises(AioumError) as caught:
            await publish(
                log, Slow(shop.path / "apart" / "checkpoint"), OTHER_KEY, former_keys=[KEY.public_key]
            )
        assert caught.value.code == "checkpoint-conflict"


async def test_calls_at_once_leave_the_longest_state_visible(shop: Shop) -> None:
    with opened(shop.log) as log:
        for start in range(0, 100, 10):
            log.append(entries(start, start + 10))
            await asyncio.gather(*(shop.publish(log) for _ in range(3)), return_exceptions=True)
        note = published_note(shop.log)
        assert note is not None
        assert verified(note).size == 100
    assert fsck(shop.log, KEY.public_key).findings == []


async def test_a_slow_call_does_not_hide_what_a_faster_one_has_shown(shop: Shop) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        first = await publish(log, shop.register, KEY)
        log.append(entries(10, 20))
        second = await publish(log, shop.register, KEY)
        show(log, 10, first)
    assert published_note(shop.log) == second


async def test_a_new_key_signs_the_same_state_anew_and_only_a_known_former_key_may_precede_it(
    shop: Shop,
) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        await shop.publish(log)
        with pytest.raises(AioumError) as caught:
            await publish(log, shop.register, OTHER_KEY)
        assert caught.value.code == "checkpoint-key-mismatch"
        note = await publish(log, shop.register, OTHER_KEY, former_keys=[KEY.public_key])
        assert read_checkpoint(note, ORIGIN, OTHER_KEY.public_key).size == 10
        assert published_note(shop.log) == note


async def test_a_register_that_holds_no_checkpoint_of_the_log_stops_publishing(shop: Shop) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        await shop.register.swap(None, b"something else\n")
        assert await refused(shop, log) == "checkpoint-layout-malformed"


async def test_a_public_file_that_was_written_by_others_stops_publishing(shop: Shop) -> None:
    with opened(shop.log) as log:
        log.append(entries(0, 10))
        strange = shop.log / "public" / "tile" / "0" / "000.p" / "10"
        strange.parent.mkdir(parents=True)
        strange.write_bytes(bytes(320))
        assert await refused(shop, log) == "log-public-altered"
