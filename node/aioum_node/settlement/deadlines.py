"""Until when each leaving client's session has to be settled, known without asking the chain."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from aioum.core.types import ChannelId
from aioum_node.settlement.rules import ChainView
from aioum_node.store.port import StoredSession

SHORTEST_GRACE_SECONDS: Final = 900
"""No PaymentManager gives less (PROTOCOL 4.2)."""


@dataclass(slots=True)
class _Deadline:
    """When a client may withdraw, and whether that was told as near.

    Attributes:
        due_ms: unix milliseconds of this machine.
        withdrawable_at: unix seconds of the chain, or None where `due_ms` is a guess.
    """

    due_ms: int
    withdrawable_at: int | None = None
    is_told: bool = False


class Deadlines:
    """The sessions whose clients asked for their exit and that are not final yet.

    Deadlines are judged by the chain's clock (PROTOCOL 3.2). Each look says how much of the grace is left by
    that clock, and from then on this machine's clock counts it down, so that it runs on while the chain is
    silent, and while another process settles.

    Args:
        now_ms: unix milliseconds.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._known: dict[ChannelId, _Deadline] = {}
        self._is_taking_over = True

    def hand_over(self) -> None:
        """Another process settles from now on, and may leave behind what this one has not looked at."""
        self._is_taking_over = True

    def notice(self, living: Collection[StoredSession]) -> None:
        """Take over what the store says.

        Args:
            living: every session that is sealed, or whose client wants out; the others are forgotten. Where a
                pending close is all that is known, the shortest grace is counted down. How much of it is gone
                nobody knows who has just taken over: then it counts as over.
        """
        guess_seconds = 0 if self._is_taking_over else SHORTEST_GRACE_SECONDS
        self._is_taking_over = False
        leaving = {stored.facts.channel_id for stored in living if stored.state.close_pending}
        for channel_id in leaving - self._known.keys():
            self._known[channel_id] = _Deadline(self._now_ms() + guess_seconds * 1_000)
        for channel_id in self._known.keys() - {stored.facts.channel_id for stored in living}:
            del self._known[channel_id]

    def saw(self, channel_id: ChannelId, view: ChainView | None) -> None:
        """Take over what a look at the channel says; None: its session is final."""
        newest = None if view is None else view.newest
        if view is None or newest is None or not newest.is_closing:
            self.forget(channel_id)
            return
        withdrawable_at = newest.close_requested_at + view.grace_period_seconds
        due_ms = self._now_ms() + (withdrawable_at - view.head.timestamp) * 1_000
        known = self._known.get(channel_id)
        if known is None or known.withdrawable_at != withdrawable_at:
            self._known[channel_id] = _Deadline(due_ms, withdrawable_at)
            return
        # The head is older than it was read; what an earlier look counted down from is closer to the truth.
        known.due_ms = min(known.due_ms, due_ms)

    def forget(self, channel_id: ChannelId) -> None:
        """The exit was taken back, or the session is final."""
        self._known.pop(channel_id, None)

    def seconds_left(self, channel_id: ChannelId) -> float | None:
        """Until the client may withdraw, negative after that; None where it does not leave."""
        known = self._known.get(channel_id)
        return None if known is None else (known.due_ms - self._now_ms()) / 1_000

    def nearest_seconds(self) -> float:
        """What is left of the grace that ends first; infinite where nobody leaves."""
        if not self._known:
            return math.inf
        return (min(known.due_ms for known in self._known.values()) - self._now_ms()) / 1_000

    def near(self, within_seconds: float) -> list[tuple[ChannelId, float | None]]:
        """Those with at most so much left, and how much, None where that is a guess; each of them once."""
        found: list[tuple[ChannelId, float | None]] = []
        for channel_id, known in self._known.items():
            left = (known.due_ms - self._now_ms()) / 1_000
            if left <= within_seconds and not known.is_told:
                known.is_told = True
                found.append((channel_id, None if known.withdrawable_at is None else left))
        return found
