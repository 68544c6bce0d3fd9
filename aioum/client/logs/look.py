"""What one look at an operator's logs found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aioum.chain.anchors import LogAnchored
from aioum.chain.model import BlockRef
from aioum.client.logs.sources import LogTarget
from aioum.core.canonical import JsonValue
from aioum.log.audit import Level, Remark
from aioum.log.checkpoint import Checkpoint
from aioum.log.membership import Membership
from aioum.log.monitor import OperatorState
from aioum.log.tiles import TileReader

MAX_REMARKS: Final = 1_000
"""Most remarks of one code that a look keeps; of more only the number."""


@dataclass(frozen=True, slots=True)
class Found:
    """A remark with what proves it to others.

    Attributes:
        notes: signed checkpoints.
        membership: that the log has the entry that is spoken of, or None.
    """

    remark: Remark
    notes: tuple[bytes, ...] = ()
    membership: Membership | None = None


@dataclass(slots=True)
class LogView:
    """What one log showed.

    Attributes:
        shown: its checkpoint, or None: it showed none, an older one, or one that contradicts the last one.
        reader: of its files.
        unreachable: whether something of it could not be had.
        doubtful: whether nothing proves that it continues its anchor and its last state, yet nothing proves
            the contrary.
        read: whether all its entries were.
    """

    target: LogTarget
    reader: TileReader
    anchored: LogAnchored | None = None
    note: bytes = b""
    shown: Checkpoint | None = None
    unreachable: bool = False
    doubtful: bool = False
    read: bool = False


@dataclass(slots=True)
class Look:
    """What a look found.

    Attributes:
        state: what to remember of it.
        head: the chain's newest block, read before anything else.
        max_delay_seconds: what missing sessions were judged by.
        views: of each log.
        found: remarks, in the order in which they were made.
        left_out: by code, how many more remarks there would be.
    """

    state: OperatorState
    head: BlockRef
    max_delay_seconds: int
    views: list[LogView] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    _kept: Counter[str] = field(default_factory=Counter, repr=False)

    def add(
        self, remark: Remark, notes: tuple[bytes, ...] = (), membership: Membership | None = None
    ) -> None:
        """Note a remark with what proves it."""
        if self.has_room(remark.code):
            self._kept[remark.code] += 1
            self.found.append(Found(remark, notes, membership))
        else:
            self.left_out[remark.code] += 1

    def view(self, origin: str) -> LogView | None:
        """What the log of this name showed; of several places the last one."""
        return next((view for view in reversed(self.views) if view.target.identity.origin == origin), None)

    def has_room(self, code: str) -> bool:
        """Whether a remark of this code would be kept."""
        return self._kept[code] < MAX_REMARKS

    def unreachable(self, view: LogView, error: Exception) -> None:
        """Note, once, that something of a log cannot be had."""
        if not view.unreachable:
            view.unreachable = True
            facts: Mapping[str, JsonValue] = {"origin": view.target.identity.origin}
            self.add(Remark("log-unreachable", Level.ALERT, str(error), facts))

    @property
    def ok(self) -> bool:
        """Whether nobody has to look."""
        return all(found.remark.level is not Level.ALERT for found in self.found)
