"""Seats' secret keys on a real file system."""

import os
import stat
from pathlib import Path

import pytest

from aioum.client.seat_keys import SeatKeyFiles
from aioum.client.sqlite_writer import JournalError
from aioum.core.errors import ConfigError
from aioum.core.submission.framing import encode_base64
from aioum.core.submission.keys import SubmissionKey
from aioum.core.types import ChannelId

CHANNEL, OTHER = ChannelId(b"\x01" * 32), ChannelId(b"\x02" * 32)
SEEDS = {"client": b"\x03" * 32, "researcher": b"\x04" * 32}
KEYS = {seat: SubmissionKey(seed) for seat, seed in SEEDS.items()}


@pytest.fixture
def files(tmp_path: Path) -> SeatKeyFiles:
    return SeatKeyFiles(tmp_path / "client" / "seat-keys")


async def test_keys_come_back_as_they_were_kept(files: SeatKeyFiles) -> None:
    await files.keep(CHANNEL, KEYS)
    loaded = await files.load(CHANNEL)
    assert {seat: key.seed() for seat, key in loaded.items()} == SEEDS
    assert await files.load(OTHER) == {}


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
async def test_only_the_user_may_read_them_and_nothing_else_is_left(files: SeatKeyFiles) -> None:
    await files.keep(CHANNEL, KEYS)
    path = files.path(CHANNEL)
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
async def test_keys_that_others_can_read_are_not_used(files: SeatKeyFiles) -> None:
    await files.keep(CHANNEL, KEYS)
    files.path(CHANNEL).chmod(0o640)
    with pytest.raises(ConfigError) as caught:
        await files.load(CHANNEL)
    assert caught.value.code == "seat-keys-exposed"


async def test_kept_keys_are_never_replaced(files: SeatKeyFiles) -> None:
    await files.keep(CHANNEL, KEYS)
    with pytest.raises(JournalError) as caught:
        await files.keep(CHANNEL, {"client": SubmissionKey(bytes(32))})
    assert caught.value.code == "seat-keys-failed"
    assert (await files.load(CHANNEL))["client"].public_key == KEYS["client"].public_key
    assert list(files.path(CHANNEL).parent.iterdir()) == [files.path(CHANNEL)]


async def test_what_a_crash_left_half_written_does_not_stand_in_the_way(files: SeatKeyFiles) -> None:
    path = files.path(CHANNEL)
    path.parent.mkdir(parents=True)
    path.with_suffix(".partial").write_bytes(b'{"client"')
    assert await files.load(CHANNEL) == {}
    await files.keep(CHANNEL, KEYS)
    assert (await files.load(CHANNEL)).keys() == KEYS.keys()


SECRET = encode_base64(SEEDS["client"])


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", f'{{"client":"{SECRET[:-4]}"}}'.encode(), f'{{"client":"{SECRET}"'.encode()],
)
async def test_a_damaged_file_is_named_and_none_of_it_is_shown(files: SeatKeyFiles, content: bytes) -> None:
    path = files.path(CHANNEL)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        await files.load(CHANNEL)
    assert caught.value.code == "seat-keys-damaged"
    assert SECRET[:8] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_a_folder_that_cannot_be_written_is_an_error_of_the_journal(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError) as caught:
        await SeatKeyFiles(tmp_path / "file" / "seat-keys").keep(CHANNEL, KEYS)
    assert caught.value.code == "seat-keys-failed"
