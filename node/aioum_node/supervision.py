"""What runs beside the edge, for as long as the node does: the end of one part ends all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import structlog

Part: TypeAlias = Callable[[], Coroutine[None, None, None]]

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def supervised(parts: Sequence[Part], on_end: Callable[[], None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run `parts` while the block lasts; the task ends early only where one of them fails.

    Args:
        parts: run until they are canceled.
        on_end: called when they run no more.
    """
    supervisor = asyncio.create_task(_run(parts))

    def ended(task: asyncio.Task[None]) -> None:
        on_end()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.critical("node-part-failed", exc_info=error)

    supervisor.add_done_callback(ended)
    try:
        yield supervisor
    finally:
        supervisor.cancel()
        with suppress(asyncio.CancelledError):
            await supervisor


async def _run(parts: Sequence[Part]) -> None:
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(part())
