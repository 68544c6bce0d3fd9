"""Which entries of a log are of a session that the same log had before."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from aioum.client.logs.look import Look
from aioum.core.errors import AioumError, OutcomeUnknown, PolicyRefused, ProofInvalid
from aioum.core.merkle import Frontier
from aioum.core.types import ChannelId
from aioum.log.audit import LoggedSession
from aioum.log.checkpoint import Checkpoint
from aioum.log.entry import SessionEntry, read_entry
from aioum.log.errors import ResourceMissing, TileInvalid
from aioum.log.tiles import TileReader


async def repeated_entries(
    look: Look, had_one: Collection[LoggedSession], origins: Collection[str]
) -> tuple[set[LoggedSession], set[LoggedSession]]:
    """Those that repeat an entry of their own log, and those of logs that cannot be asked now. An operator
    that moves may write in a new log what the old one has.

    Args:
        look: with views of the logs; gets a remark where one cannot be read again.
        had_one: entries whose session had one before, in whichever log of the operator.
        origins: all logs that were ever read.
    """
    if len(origins) == 1:
        return set(had_one), set()
    repeated: set[LoggedSession] = set()
    unclear: set[LoggedSession] = set()
    for origin in {logged.origin for logged in had_one}:
        entries, view = {logged for logged in had_one if logged.origin == origin}, look.view(origin)
        if view is None or view.shown is None:
            unclear |= entries
            continue
        try:
            first = await _first_places(
                view.reader, view.shown, {logged.entry.channel_id for logged in entries}
            )
            repeated |= {
                logged
                for logged in entries
                if first.get(logged.entry.channel_id, logged.index) < logged.index
            }
        except (OutcomeUnknown, PolicyRefused, ProofInvalid, ResourceMissing, TileInvalid) as error:
            look.unreachable(view, error)
            unclear |= entries
    return repeated, unclear


async def _first_places(
    reader: TileReader, shown: Checkpoint, channels: Collection[ChannelId]
) -> dict[ChannelId, int]:
    first: dict[ChannelId, int] = {}
    async for data, frontier in reader.entries_after(Frontier(), shown):
        with suppress(AioumError):
            entry = read_entry(data)
            if isinstance(entry, SessionEntry) and entry.channel_id in channels:
                first.setdefault(entry.channel_id, frontier.size - 1)
    return first
