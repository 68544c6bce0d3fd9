"""A session's contiguous prefix of recorded calls, and the calls that wait beyond a gap (PROTOCOL 2, 6)."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.core.merkle import Frontier
from aioum.core.transcript import append_leaf
from aioum.core.types import Bytes32


@dataclass(frozen=True, slots=True)
class AheadLeaf:
    """A call recorded before an earlier one: it waits to join the contiguous prefix."""

    index: int
    leaf: Bytes32
    charge: int


def advance(
    frontier: Frontier, ahead: tuple[AheadLeaf, ...], item: AheadLeaf
) -> tuple[Frontier, tuple[AheadLeaf, ...]]:
    """Take in a call that was recorded; whatever it closes the gap to joins the prefix with it."""
    if not ahead and item.index == frontier.size:
        return append_leaf(frontier, item.leaf), ()
    waiting = sorted((*ahead, item), key=lambda waits: waits.index)
    while waiting and waiting[0].index == frontier.size:
        frontier = append_leaf(frontier, waiting.pop(0).leaf)
    return frontier, tuple(waiting)
