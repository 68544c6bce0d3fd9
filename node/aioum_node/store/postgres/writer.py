"""Group commit: steps that wait together share one transaction, and none can harm another.

Steps of one session are taken in the order they came, and by one group at a time: a process never waits for
itself at a session's row.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import asyncpg

from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.core.types import ChannelId
from aioum_node.store.postgres.driver import store_failed
from aioum_node.store.postgres.steps import Delete, Result, Step

_Waiting: TypeAlias = tuple[Step, "asyncio.Future[Any]"]
Perform: TypeAlias = Callable[[Sequence[Step]], Awaitable[list[Result | Exception]]]
"""Runs steps in one transaction and returns once it is durable."""


class GroupWriter:
    """Collects steps into groups.

    Args:
        perform: see `Perform`.
        max_queued_steps: how many steps may wait or run; more are refused with `store-busy`.
        max_steps_per_group: how many steps share a transaction.
        max_groups: how many transactions are under way at once.
    """

    def __init__(
        self, perform: Perform, *, max_queued_steps: int, max_steps_per_group: int, max_groups: int
    ) -> None:
        self._perform = perform
        self._max_queued_steps = max_queued_steps
        self._max_steps_per_group = max_steps_per_group
        self._max_groups = max_groups
        # Sessions whose first step may be taken now, the longest waiting first; and those in a group.
        self._ready: dict[ChannelId, deque[_Waiting]] = {}
        self._taken: dict[ChannelId, deque[_Waiting]] = {}
        self._groups: set[asyncio.Task[None]] = set()
        self._unanswered = 0
        self._pumping = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Steps that are not answered yet."""
        return self._unanswered

    async def submit(self, step: Step) -> Any:
        """Run the step in the next group and return once it is durable.

        A caller that is canceled stops waiting; the step may happen all the same.

        Raises:
            AioumError: `store-failed`, `store-busy` or `store-closed`; else what the step raises.
        """
        if self._closed:
            raise AioumError("the store is closed", code="store-closed")
        if self._unanswered >= self._max_queued_steps:
            raise AioumError(
                f"{self._unanswered} steps wait for the store already",
                code="store-busy",
                hint="repeat the same request a little later",
            )
        self._unanswered += 1
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        taken = self._taken.get(step.channel_id)
        queue = self._ready.setdefault(step.channel_id, deque()) if taken is None else taken
        queue.append((step, future))
        if not self._pumping:
            self._pumping = True
            # Everything that other tasks submit in this turn of the loop goes into one group.
            loop.call_soon(self._pump)
        return await future

    async def close(self) -> None:
        """Finish what was submitted."""
        self._closed = True
        self._pump()
        while self._groups:
            await asyncio.wait(self._groups)

    def _pump(self) -> None:
        self._pumping = False
        while self._ready and len(self._groups) < self._max_groups:
            task = asyncio.create_task(self._run(self._take()))
            self._groups.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._groups.discard(task)
        self._pump()

    def _take(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        while self._ready and len(group) < self._max_steps_per_group:
            channel_id = next(iter(self._ready))
            removal = isinstance(self._ready[channel_id][0][0], Delete)
            if removal and group:
                break
            queue = self._taken[channel_id] = self._ready.pop(channel_id)
            if removal:
                # It may take long, and nobody else's session is to be locked meanwhile.
                return [queue.popleft()]
            while queue and len(group) < self._max_steps_per_group and not isinstance(queue[0][0], Delete):
                group.append(queue.popleft())
        return group

    async def _run(self, group: list[_Waiting]) -> None:
        try:
            await self._answer(group)
        except Exception as error:
            # A bug must not leave the callers waiting for ever.
            self._resolve(group, [store_failed(error, "unknown")] * len(group))
        finally:
            self._unanswered -= len(group)
            for channel_id in {step.channel_id for step, _ in group}:
                queue = self._taken.pop(channel_id)
                if queue:
                    self._ready[channel_id] = queue

    async def _answer(self, group: list[_Waiting]) -> None:
        try:
            outcomes = await self._perform([step for step, _ in group])
        except AioumError as error:
            if len(group) > 1 and _is_a_steps_own(error):
                # One row that cannot be written must not take the others with it.
                await self._answer_each(group)
                return
            outcomes = [error] * len(group)
        self._resolve(group, outcomes)

    async def _answer_each(self, group: list[_Waiting]) -> None:
        for place, waiting in enumerate(group):
            outcomes: list[Result | Exception]
            try:
                outcomes = await self._perform([waiting[0]])
            except AioumError as error:
                if not _is_a_steps_own(error):
                    # The others are told now, rather than after as many attempts as there are steps.
                    self._resolve(group[place:], [error] * (len(group) - place))
                    return
                outcomes = [error]
            self._resolve([waiting], outcomes)

    def _resolve(self, group: list[_Waiting], outcomes: Sequence[Result | Exception]) -> None:
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


def _is_a_steps_own(error: AioumError) -> bool:
    """Whether a group failed for what one of its steps is, rather than for the server or the way to it."""
    if isinstance(error, OutcomeUnknown):
        return False
    cause = error.__cause__
    if isinstance(cause, asyncpg.PostgresConnectionError | OSError | TimeoutError):
        return False
    return isinstance(
        cause, asyncpg.PostgresError | asyncpg.DataError | ValueError | TypeError | ArithmeticError
    )
