"""Telling callers what became of their steps, in order, and not before the watermark covers it.

Where there is a watermark, this is a thread of its own: the disk flushes it while the writer's next group is
under way, and groups that meanwhile came to their end share one flush.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from aioum.core.errors import AioumError
from aioum.core.types import ChannelId
from aioum_node.store.live import Snapshot

Cover: TypeAlias = Callable[[int], None]
"""Makes it known outside the store that clients are told of this transaction number; returns when that is
durable. Raises AioumError where it fails: then nobody is told."""

Outcome: TypeAlias = tuple[asyncio.Future[Any], Any, BaseException | None]


@dataclass(frozen=True, slots=True)
class Answers:
    """What a group of steps came to.

    Attributes:
        changed: sessions as they are after it; `gone`: those that left memory.
        sequence: the transaction number that has to be covered before anybody is told.
    """

    outcomes: list[Outcome]
    changed: list[Snapshot]
    gone: list[ChannelId]
    sequence: int


class Answering:
    """Hands answers to the loop.

    Args:
        cover: see `Cover`; None where there is no watermark.
        deliver: called with one group's answers after the other, on the thread.
    """

    def __init__(self, cover: Cover | None, deliver: Callable[[Answers], None]) -> None:
        self._cover = cover
        self._deliver = deliver
        self._covered = 0
        self._queue: SimpleQueue[Answers | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.failure: AioumError | None = None
        if cover is not None:
            self._thread = threading.Thread(
                target=self._run, args=(cover,), name="store-answers", daemon=True
            )
            self._thread.start()

    def put(self, answers: Answers) -> None:
        """Tell the callers soon."""
        if self._thread is None:
            self._deliver(answers)
        else:
            self._queue.put(answers)

    def close(self) -> None:
        """Tell all of them, and end."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self, cover: Cover) -> None:
        open_for_more = True
        while open_for_more:
            taken = self._queue.get()
            if taken is None:
                return
            waiting = [taken]
            while open_for_more:
                try:
                    more = self._queue.get_nowait()
                except Empty:
                    break
                if more is None:
                    open_for_more = False
                else:
                    waiting.append(more)
            newest = max(answers.sequence for answers in waiting)
            if newest > self._covered:
                self._raise_to(newest, cover)
            for answers in waiting:
                self._deliver(self._judged(answers))

    def _raise_to(self, sequence: int, cover: Cover) -> None:
        # A crash here: the store is ahead of the watermark, which is no reason for doubt.
        try:
            cover(sequence)
        except AioumError as error:
            self.failure = error
        except Exception as error:
            self.failure = AioumError(f"the watermark broke: {error}", code="watermark-failed")
        else:
            self._covered = sequence
            self.failure = None

    def _judged(self, answers: Answers) -> Answers:
        """Who is not covered is told of the failure: whoever repeats the step comes by here as well."""
        failure = self.failure
        if failure is None or answers.sequence <= self._covered:
            return answers
        return replace(answers, outcomes=[(future, None, failure) for future, _, _ in answers.outcomes])
