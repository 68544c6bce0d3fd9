"""Threads for Python tools. What waits for one, waits here: no pile of forgotten work grows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from aioum_node.upstream.queues import WatchedSemaphore

Result = TypeVar("Result")


class FunctionThreads:
    """A number of threads, shared by all functions. Made inside the loop that uses it.

    A function that overran its time keeps its thread until it ends, and nothing is handed to a thread that is
    not free: calls wait within their own time, and leave nothing behind when it is over.
    """

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="aioum-tool")
        self._free = WatchedSemaphore(count)

    @property
    def waiting(self) -> int:
        """Calls that wait for a free thread."""
        return self._free.waiting

    async def run(self, function: Callable[[], Result]) -> Result:
        """Run a function as soon as a thread is free. Cancellation does not stop a function that runs."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()

        def ended(future: Future[Any]) -> None:
            # The loop may be closed by the time an abandoned function ends.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._free.release)

        try:
            # What the function logs names its session and call, as the caller's context does.
            future = self._executor.submit(copy_context().run, _carried, function)
        except BaseException:
            self._free.release()
            raise
        future.add_done_callback(ended)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Take nothing more. A function that overran its time may still run; nobody waits for it."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _carried(function: Callable[[], Result]) -> Result:
    try:
        return function()
    except StopIteration as error:
        # No future of the loop takes this one: whoever waits would wait for ever.
        raise RuntimeError("the function raised StopIteration") from error
