"""The log as everybody may see it: the public files of its folder, read beside whoever writes them."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from aioum.core.errors import AioumError
from aioum.core.types import ChannelId
from aioum.log.checkpoint import parse_checkpoint
from aioum.log.entry import SessionEntry, read_entry
from aioum.log.errors import ResourceMissing
from aioum.log.files import published_note
from aioum.log.membership import Membership
from aioum.log.paths import TilePath
from aioum.log.tiles import TileReader
from aioum_node.log.index import find_place


class LogReader:
    """Reads a log folder; takes no lock and changes nothing.

    Args:
        folder: of the log; it may not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def checkpoint(self) -> bytes | None:
        """The newest signed note, or None before the first."""
        return await asyncio.to_thread(published_note, self._folder)

    async def file(self, path: str) -> bytes:
        """A tile or a bundle of entries.

        Args:
            path: as `tile/0/x001/234`.

        Raises:
            TileInvalid: `tile-path-malformed`.
            ResourceMissing: `log-resource-missing`.
        """
        file = self._folder / "public" / TilePath.parse(path).text()
        try:
            return await asyncio.to_thread(file.read_bytes)
        except FileNotFoundError as error:
            raise ResourceMissing(f"{path} is not there") from error

    async def membership(self, channel_id: ChannelId) -> Membership | None:
        """The proof that a session is in the log, under the newest checkpoint; None while it is not.

        Raises:
            AioumError: `log-unreadable`.
        """
        try:
            return await self._membership(channel_id)
        except (AioumError, OSError, sqlite3.Error) as error:
            raise AioumError(
                f"the log cannot be read: {error}",
                code="log-unreadable",
                hint="`aioum log fsck` says what is damaged",
            ) from error

    async def _membership(self, channel_id: ChannelId) -> Membership | None:
        place = await asyncio.to_thread(find_place, self._folder, channel_id)
        note = await self.checkpoint()
        if place is None or note is None:
            return None
        size = parse_checkpoint(note).size
        if place >= size:
            return None
        reader = TileReader(self.file)
        data = await reader.entry(place, size)
        entry = read_entry(data)
        if not isinstance(entry, SessionEntry) or entry.channel_id != channel_id:
            # The folder was exchanged, and whoever writes it has not made the table anew yet.
            raise AioumError(f"entry {place} is not the one that the table names", code="log-unreadable")
        return Membership(note, data, place, tuple(await reader.inclusion(place, size)))
