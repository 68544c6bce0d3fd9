"""A run in reading order: each event below the span it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aioum.run.event import Event

MAX_BRANCHES: Final = 20
"""Levels of which a line tells how they go on; deeper ones stand below the last of them."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event of a timeline.

    Attributes:
        event: it.
        depth: how many spans it is inside of.
        lasts: for each level down to the event's own, whether it is the last one there; of the innermost
            MAX_BRANCHES levels alone, and empty where the event belongs to no span.
    """

    event: Event
    depth: int
    lasts: tuple[bool, ...]


def timeline(events: Iterable[Event]) -> list[Line]:
    """The events as a tree, by index on each level.

    An event whose parent is not among them, or that would be its own ancestor, stands on the outermost level:
    whoever recorded it may have written anything.
    """
    ordered = sorted(events, key=lambda event: event.index)
    known = {event.index for event in ordered}
    below: dict[int, list[Event]] = {}
    for event in ordered:
        if event.parent is not None and event.parent in known:
            below.setdefault(event.parent, []).append(event)
    outermost = [event for event in ordered if event.parent is None or event.parent not in known]
    lines: list[Line] = []
    placed: set[int] = set()
    for event in (*outermost, *ordered):
        # What is not placed after the outermost ones belongs to itself in a circle.
        if event.index not in placed:
            lines += _subtree(event, below, placed)
    return lines


def _subtree(top: Event, below: dict[int, list[Event]], placed: set[int]) -> Sequence[Line]:
    lines = []
    # Not recursive: a run can be as deep as it is long.
    waiting = [Line(top, 0, ())]
    placed.add(top.index)
    while waiting:
        line = waiting.pop()
        lines.append(line)
        children = [child for child in below.get(line.event.index, ()) if child.index not in placed]
        placed.update(child.index for child in children)
        for position, child in reversed(list(enumerate(children))):
            lasts = (*line.lasts, position == len(children) - 1)[-MAX_BRANCHES:]
            waiting.append(Line(child, line.depth + 1, lasts))
    return lines
