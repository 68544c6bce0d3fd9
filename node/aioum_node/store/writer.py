"""Group commit: many tasks' steps share one durable transaction on one thread, and none can harm another."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.core.types import ChannelId
from aioum_node.store.answering import Answering, Answers, Cover, Outcome
from aioum_node.store.live import Snapshot
from aioum_node.store.steps import SessionSteps

T = TypeVar("T")

_MOST_STEPS_PER_GROUP: Final = 512
_GROUPS_PER_FOLD: Final = 256
# Of SQLite's errors those that a disk causes; the others are about a value.
_DISK_ERRORS: Final = (sqlite3.OperationalError, sqlite3.DatabaseError)

_Step = tuple[asyncio.Future[Any], Callable[..., Any], tuple[Any, ...]]
Published = Callable[[list[Snapshot], list[ChannelId]], None]
"""Told on the loop, before any waiter of the group: the sessions it changed, and those that left memory."""


def store_failed(error: Exception, outcome: str) -> AioumError:
    """The one translation of SQLite's errors. `outcome` is `not-done`, `unknown` or `nothing-read`."""
    kind = OutcomeUnknown if outcome == "unknown" else AioumError
    return kind(
        f"the store failed: {error}",
        code="store-failed",
        hint="check the disk's free space and health, and the permissions of the node's folder",
        details={"outcome": outcome},
    )


class Writer:
    """The thread that owns the writing connection.

    Args:
        connection: in autocommit mode, made with `check_same_thread=False`; from now on this thread's alone.
        steps: what runs inside the transactions.
        published: see `Published`.
        cover: see `Cover`; None where there is no watermark.
        max_queued_steps: how many steps may wait; more are refused with `store-busy`.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        steps: SessionSteps,
        published: Published,
        cover: Cover | None,
        max_queued_steps: int,
    ) -> None:
        self._connection = connection
        self._answering = Answering(cover, self._deliver)
        self._groups = 0
        self._steps = steps
        self._published = published
        self._max_queued_steps = max_queued_steps
        self._queue: SimpleQueue[list[_Step] | None] = SimpleQueue()
        self._collected: list[_Step] = []
        self._waiting = 0
        self._failure: AioumError | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Steps that are not answered yet."""
        return self._waiting

    async def submit(self, step: Callable[..., T], *arguments: Any) -> T:
        """Run `step(*arguments)` in the next group and return once it is durable.

        A caller that is canceled stops waiting; the step may happen all the same.

        Raises:
            AioumError: `store-failed`, `store-busy` or `store-closed`; else what the step raises.
        """
        if self._closed:
            raise AioumError("the store is closed", code="store-closed")
        if self._waiting >= self._max_queued_steps:
            raise AioumError(
                f"{self._waiting} steps wait for the store already",
                code="store-busy",
                hint="repeat the same request a little later",
            )
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting += 1
        if not self._collected:
            # Everything that other tasks submit in this turn of the loop goes over in one piece.
            loop.call_soon(self._hand_over)
        self._collected.append((future, step, arguments))
        return await future

    def _hand_over(self) -> None:
        collected = self._collected
        self._collected = []
        self._queue.put(collected)

    async def close(self) -> None:
        """Finish what was submitted and end the thread."""
        if not self._closed:
            self._closed = True
            self._hand_over()
            self._queue.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._join)

    def require_covered(self) -> None:
        """Raises what the watermark's last failure was, while it lasts: what is stored must not be told."""
        if self._answering.failure is not None:
            raise self._answering.failure

    @property
    def failure(self) -> AioumError | None:
        """What the disk of the store, or of the watermark, did to the last step; None once one succeeded."""
        return self._answering.failure or self._failure

    def _join(self) -> None:
        self._thread.join()
        self._answering.close()

    # --- the writer's thread ---

    def _run(self) -> None:
        open_for_more = True
        while open_for_more:
            taken = self._queue.get()
            if taken is None:
                return
            group = list(taken)
            while len(group) < _MOST_STEPS_PER_GROUP:
                try:
                    more = self._queue.get_nowait()
                except Empty:
                    break
                if more is None:
                    open_for_more = False
                    break
                group.extend(more)
            try:
                self._perform(group)
            except Exception as error:
                # A bug must not leave the callers waiting for ever.
                self._undo()
                failed = store_failed(error, "unknown")
                self._answer([(future, None, failed) for future, _, _ in group], [], self._steps.take_gone())

    def _perform(self, group: list[_Step]) -> None:
        try:
            outcomes = self._transaction(group)
        except AioumError as error:
            if type(error.__cause__) in _DISK_ERRORS:
                self._failure = error
            if len(group) == 1 or isinstance(error, OutcomeUnknown):
                self._answer([(future, None, error) for future, _, _ in group], [], self._steps.take_gone())
                return
            # One row that cannot be written must not take the others with it.
            for step in group:
                self._perform([step])
            return
        self._failure = None
        self._answer(outcomes, *self._steps.committed())
        self._groups += 1
        if self._groups % _GROUPS_PER_FOLD == 0:
            self._fold()

    def _fold(self) -> None:
        """Bring the log into the database file, so that an older file below a newer log is found out."""
        try:
            busy, frames, folded = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error:
            # The next transaction meets the same disk, and has somebody to tell.
            return
        if not busy and frames == folded:
            self._steps.folded()

    def _transaction(self, group: list[_Step]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._steps.begin()
            for future, step, arguments in group:
                try:
                    outcomes.append((future, step(*arguments), None))
                except sqlite3.Error:
                    raise
                except Exception as error:
                    outcomes.append((future, None, error))
            # A crash up to here: the file knows nothing of the group, and nobody was told anything.
            self._steps.finish()
        except Exception as error:
            self._undo()
            raise store_failed(error, "not-done") from error
        try:
            execute("COMMIT")
        except sqlite3.Error as error:
            self._undo()
            raise store_failed(error, "unknown") from error
        # A crash from here on: the whole group is durable, and its callers find it when they ask again.
        return outcomes

    def _undo(self) -> None:
        self._steps.rolled_back()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            # The next BEGIN fails as well, and every step with it, until the node is started again.
            return

    def _answer(self, outcomes: list[Outcome], changed: list[Snapshot], gone: list[ChannelId]) -> None:
        if outcomes:
            self._answering.put(Answers(outcomes, changed, gone, self._steps.answered_sequence))

    def _deliver(self, answers: Answers) -> None:
        loop = answers.outcomes[0][0].get_loop()
        try:
            loop.call_soon_threadsafe(self._resolve, answers.outcomes, answers.changed, answers.gone)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            return

    # --- the loop's thread again ---

    def _resolve(self, outcomes: list[Outcome], changed: list[Snapshot], gone: list[ChannelId]) -> None:
        self._waiting -= len(outcomes)
        self._published(changed, gone)
        for future, result, error in outcomes:
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
