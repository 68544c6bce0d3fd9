"""A session as a `gaos.replay` artifact, for `aioum session export` and `verify-evidence --export`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from aioum.cli.record import recorded_session
from aioum.replay.paid.export import export_replay

if TYPE_CHECKING:
    from aioum.cli.settings import Settings


async def replay_from_record(settings: Settings, reference: bytes | int) -> bytes:
    """The artifact of a session of the client's record.

    Raises:
        InvalidInput: `session-unknown`, `session-ambiguous`, or as `export_replay`.
    """
    from aioum.client.book import Book
    from aioum.client.packaging import package_of
    from aioum.core.evidence import Claim
    from aioum.core.evidence_reading import read_package

    async with recorded_session(settings.data_dir, reference) as (journal, record):
        book = await Book.load(journal, record.channel_id, lambda: time.time_ns() // 1_000_000)
        package = read_package(package_of(book, Claim.QUALITY, ""))
        return export_replay(package, deposit=book.purse.deposit)


def replay_from_package(package: dict[str, Any]) -> bytes:
    """The artifact of a session that a node exported; the deposit is not known there. As `export_replay`."""
    from aioum.core.evidence_reading import read_package

    return export_replay(read_package(package))
