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
    """When a client may withdraw (unix milliseconds of this machine), and whether that was told as near."""

    due_ms: int
    is_exact: bool
    is_told: bool = False


class Deadlines:
    """The sessions whose clients asked for their exit and that are not final yet.

    Deadlines are judged by the chain's clock (PROTOCOL 3.2). Each look says how much of the grace is left by
    that clock, and from then on this machine's clock counts it down, so that it runs on while the chain is
    silent.

    Args:
        now_ms: unix milliseconds.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._known: dict[ChannelId, _Deadline] = {}

    def notice(self, living: Collection[StoredSession]) -> None:
        """Take over what the store says.

        Args:
            living: every session that is sealed, or whose client wants out; the others are forgotten. Where a
                pending close is all that is known, the shortest grace is counted down.
        """
        leaving = {stored.facts.channel_id for stored in living if stored.state.close_pending}
        for channel_id in leaving - self._known.keys():
            due_ms = self._now_ms() + SHORTEST_GRACE_SECONDS * 1_000
            self._known[channel_id] = _Deadline(due_ms, is_exact=False)
        for channel_id in self._known.keys() - {stored.facts.channel_id for stored in living}:
            del self._known[channel_id]

    def saw(self, channel_id: ChannelId, view: ChainView) -> None:
        """Take over what a look at the channel says."""
        newest = view.newest
        if newest is None or not newest.is_closing:
            self.forget(channel_id)
            return
        withdrawable_at = newest.close_requested_at + view.grace_period_seconds
        due_ms = self._now_ms() + (withdrawable_at - view.head.timestamp) * 1_000
        known = self._known.get(channel_id)
        if known is None:
            self._known[channel_id] = _Deadline(due_ms, is_exact=True)
            return
        # The head is older than it was read; what an earlier look counted down from is closer to the truth.
        known.due_ms = min(known.due_ms, due_ms) if known.is_exact else due_ms
        known.is_exact = True

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

    def near(self, within_seconds: float) -> list[tuple[ChannelId, float]]:
        """Those with at most so much left, and how much; each of them once."""
        found = []
        for channel_id, known in self._known.items():
            left = (known.due_ms - self._now_ms()) / 1_000
            if left <= within_seconds and not known.is_told:
                known.is_told = True
                found.append((channel_id, left))
        return found
