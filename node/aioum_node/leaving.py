"""What a node says that ends by an error, or cannot even start, while clients are leaving."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from aioum.core.errors import AioumError
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase
from aioum_node.store.port import SessionReader

EXITS_UNATTENDED: Final = "exits-unattended"
"""Alert: the node ends, and clients whose sessions are not settled may withdraw meanwhile."""

_CHANNELS_TOLD: Final = 16

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def leaving_told(store: SessionReader) -> AsyncIterator[None]:
    """Say which clients are leaving where the block ends by an error; nobody else may look after them."""
    try:
        yield
    except Exception as error:
        await _tell(store, error)
        raise


async def _tell(store: SessionReader, error: Exception) -> None:
    try:
        # Of the open ones only those whose client wants out.
        living = await store.sessions((Phase.OPEN, Phase.SEALED), idle_since_ms=0)
    except AioumError:
        # What the node ends with says more than that it cannot tell.
        return
    leaving = [to_hex(stored.facts.channel_id) for stored in living if stored.state.close_pending]
    if leaving:
        _log.critical(
            EXITS_UNATTENDED,
            code=error.code if isinstance(error, AioumError) else AioumError.default_code,
            sessions=len(leaving),
            channels=leaving[:_CHANNELS_TOLD],
            hint="their grace runs on: mend what keeps the node from running before it ends",
        )
