"""Which run, and which span of it, is being recorded here: in this task, or in this thread.

Tasks inherit it from the task that made them, threads of `asyncio.to_thread` too. Other threads begin
without; `Run.attached` says it there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aioum.run.recorder import Run


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which run.

    Attributes:
        run: that records.
        parent: index of the innermost open span, or None outside of all.
    """

    run: Run
    parent: int | None


_place: ContextVar[Place | None] = ContextVar("aioum_run", default=None)


def current_place() -> Place | None:
    """Where we are, or None."""
    return _place.get()


def current_run() -> Run | None:
    """The run that records here, or None; one that is sealed or closed records nothing any more."""
    place = _place.get()
    return place.run if place is not None and place.run.recording else None


@contextmanager
def at_place(place: Place) -> Iterator[None]:
    """Be there until the end of the block."""
    token = _place.set(place)
    try:
        yield
    finally:
        # An async generator can be closed in another context than it began in, where nothing is ours.
        with suppress(ValueError):
            _place.reset(token)
