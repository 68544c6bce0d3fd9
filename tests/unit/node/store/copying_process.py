"""Copies a store and dies at one of its durable steps; run in a process of its own."""

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

from aioum_node.store.postgres import copying
from tests.durable_steps import Countdown, watch


def copy(source: Path, journal: Path, url: str, schema: str, point: int, reached: Connection) -> None:
    """Copy in small batches, so that even of a small store there are several.

    Args:
        source, journal, url, schema: as of `copy_store`.
        point: which of the points of its durable steps to die at, counted from 1; 0 for none.
        reached: gets the points that it came to.
    """
    countdown = Countdown(point, lambda last: reached.send(countdown.reached))
    countdown.lit = True
    watch(countdown)
    with patch.multiple(copying, _SESSIONS_PER_BATCH=2, _CALLS_PER_BATCH=2):
        asyncio.run(copying.copy_store(source, journal, url, schema))
    reached.send(countdown.reached)
