"""A log's key and name, and entries."""

from pathlib import Path

from aioum.core.submission.keys import SubmissionKey
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.log.checkpoint import Checkpoint, read_checkpoint
from aioum.log.entry import SessionEntry
from aioum.log.files import LogFolder, static_files
from aioum.log.tiles import TileReader

ORIGIN = "example.com/log"
KEY = SubmissionKey(bytes(range(32)))
OTHER_KEY = SubmissionKey(bytes(32))


def session(number: int) -> SessionEntry:
    return SessionEntry(
        chain_id=31_337,
        payment_manager=Address(bytes.fromhex("5fbdb2315678afecb367f032d93f642f64180aa3")),
        channel_id=ChannelId(number.to_bytes(32, "big")),
        session_id=number + 1,
        call_count=number % 90,
        captured=1_000 * (number % 90),
        results_root=Bytes32((number * 7919).to_bytes(32, "little")),
    )


def entries(start: int, stop: int) -> list[bytes]:
    return [b'{"number":%d}' % number for number in range(start, stop)]


def verified(note: bytes) -> Checkpoint:
    return read_checkpoint(note, ORIGIN, KEY.public_key)


def opened(path: Path) -> LogFolder:
    return LogFolder.open(path, ORIGIN)


def reader(folder: Path) -> TileReader:
    return TileReader(static_files(folder / "public"))
