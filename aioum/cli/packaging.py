"""Evidence packages out of the client's record, for `aioum evidence build`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from aioum.cli.record import recorded_session
from aioum.cli.settings import Settings
from aioum.client.book import Book
from aioum.client.packaging import package_of
from aioum.core.evidence import package_bytes


async def build_from_record(
    settings: Settings, reference: bytes | int, claim: str, narrative: str, disclose: Sequence[int] | None
) -> bytes:
    """The package as it is written.

    Args:
        settings: name the record.
        reference: a session of it.
        claim: one of `Claim`.
        narrative: free text.
        disclose: the calls to show, or None for all.

    Raises:
        InvalidInput: `session-unknown`, `session-ambiguous`, or as `package_of`.
    """
    async with recorded_session(settings.data_dir, reference) as (journal, record):
        book = await Book.load(journal, record.channel_id, lambda: time.time_ns() // 1_000_000)
        return package_bytes(package_of(book, claim, narrative, disclose_only=disclose))
