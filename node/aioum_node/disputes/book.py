"""What is known of each session whose money is held, and until when each challenge has to be answered."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from aioum.chain.decisions import Case, DisputeState
from aioum.core.types import ZERO_BYTES32, Bytes32, ChannelId
from aioum_node.disputes.rules import HoldView

PARTS_LEFT: Final = (0.5, 0.25, 0.1)
"""Of the time to answer: an alert where only so much of it is left, and the challenge is unanswered still."""

NO_CASE: Final = Case(DisputeState.NONE, 0, 0, 0, ZERO_BYTES32, 0)


@dataclass(slots=True)
class _Challenge:
    """A pending challenge. `due_ms`: when it is lost, unix milliseconds of this machine."""

    word: Bytes32
    answer_by: int
    due_ms: int
    parts_told: set[float] = field(default_factory=set)


@dataclass(slots=True)
class Watched:
    """One session with held money, as it was seen last.

    Attributes:
        held: base units.
        due_at: unix seconds of the chain's clock; before it there is nothing to do unless something happens.
        looked_ms: when it was looked at last, unix milliseconds; 0: never.
        is_touched: something happened to it since.
        unanswerable: the challenged word that cannot be proven.
    """

    case: Case = NO_CASE
    held: int = 0
    due_at: int = 0
    looked_ms: int = 0
    is_touched: bool = True
    challenge: _Challenge | None = None
    unanswerable: Bytes32 | None = None


@dataclass(frozen=True, slots=True)
class Late:
    """A challenge that is unanswered with little time left."""

    channel_id: ChannelId
    answer_by: int
    seconds_left: float
    part_left: float


class Book:
    """The sessions whose money is held.

    Deadlines are judged by the chain's clock (PROTOCOL 3.2). Each look says how much time is left by that
    clock; from then on this machine's clock counts it down, so that it runs on while the chain is silent.

    Args:
        now_ms: unix milliseconds.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._watched: dict[ChannelId, Watched] = {}

    def notice(self, held: Collection[ChannelId]) -> None:
        """Take over which sessions there are; others are forgotten."""
        for channel_id in held:
            self._watched.setdefault(channel_id, Watched())
        for channel_id in self._watched.keys() - set(held):
            del self._watched[channel_id]

    def forget(self, channel_id: ChannelId) -> None:
        """Nothing of it is held any more."""
        self._watched.pop(channel_id, None)

    def touch(self, channel_id: ChannelId) -> None:
        """Something happened to it."""
        if (watched := self._watched.get(channel_id)) is not None:
            watched.is_touched = True

    def saw(self, channel_id: ChannelId, view: HoldView) -> Case:
        """Take over a look; returns the case as it was seen before."""
        watched = self._watched.setdefault(channel_id, Watched())
        before, watched.case = watched.case, view.case
        watched.held = 0 if view.newest is None else view.newest.held
        watched.looked_ms = self._now_ms()
        watched.is_touched = False
        watched.due_at = 0
        self._count_down(watched, view)
        return before

    def waits(self, channel_id: ChannelId, until: int) -> None:
        """There is nothing to do before `until` (unix seconds of the chain's clock)."""
        if (watched := self._watched.get(channel_id)) is not None:
            watched.due_at = until

    def cannot_answer(self, channel_id: ChannelId, word: Bytes32) -> bool:
        """Note that a word cannot be proven; whether that is new."""
        watched = self._watched.setdefault(channel_id, Watched())
        is_new = watched.unanswerable != word
        watched.unanswerable = word
        return is_new

    def is_challenged(self, channel_id: ChannelId) -> bool:
        """Whether a challenge of it is pending."""
        watched = self._watched.get(channel_id)
        return watched is not None and watched.challenge is not None

    def seconds_left(self, channel_id: ChannelId) -> float | None:
        """Until its challenge is lost, negative after that; None where none is pending."""
        watched = self._watched.get(channel_id)
        return None if watched is None or watched.challenge is None else self._left(watched.challenge)

    def due(self, chain_time: int, sweep: int) -> list[ChannelId]:
        """The sessions that are to be looked at now, those with a challenge first.

        Args:
            chain_time: timestamp of the newest block.
            sweep: so many of the others as well, those that were not looked at for longest: an event that
                was missed costs time, and nothing else.
        """
        now: list[tuple[bool, ChannelId]] = []
        later: list[tuple[int, ChannelId]] = []
        for channel_id, watched in self._watched.items():
            if watched.is_touched or watched.challenge is not None or chain_time >= watched.due_at:
                now.append((watched.challenge is None, channel_id))
            else:
                later.append((watched.looked_ms, channel_id))
        later.sort(key=lambda item: item[0])
        now.sort(key=lambda item: item[0])
        return [channel_id for _, channel_id in (*now, *later[:sweep])]

    def late(self, answer_period_seconds: int) -> Iterator[Late]:
        """Challenges of which a further part of the time is gone; each part of each challenge once."""
        for channel_id, watched in self._watched.items():
            challenge = watched.challenge
            if challenge is None:
                continue
            left = self._left(challenge)
            parts = {part for part in PARTS_LEFT if left <= part * answer_period_seconds}
            if parts - challenge.parts_told:
                challenge.parts_told |= parts
                yield Late(channel_id, challenge.answer_by, left, min(parts))

    # --- for metrics ---

    def __len__(self) -> int:
        return len(self._watched)

    @property
    def held(self) -> int:
        """Base units that are held in all, as far as was looked."""
        return sum(watched.held for watched in self._watched.values())

    @property
    def challenges(self) -> int:
        """Pending challenges."""
        return sum(watched.challenge is not None for watched in self._watched.values())

    @property
    def disputes(self) -> int:
        """Pending disputes."""
        return sum(watched.case.dispute is DisputeState.PENDING for watched in self._watched.values())

    @property
    def nearest_answer_seconds(self) -> float:
        """Until the first challenge is lost; infinite where none is pending."""
        challenges = (watched.challenge for watched in self._watched.values())
        return min(
            (self._left(challenge) for challenge in challenges if challenge is not None), default=math.inf
        )

    def _left(self, challenge: _Challenge) -> float:
        return (challenge.due_ms - self._now_ms()) / 1_000

    def _count_down(self, watched: Watched, view: HoldView) -> None:
        case = view.case
        if not case.is_challenged:
            watched.challenge = watched.unanswerable = None
            return
        due_ms = self._now_ms() + (case.answer_by - view.head.timestamp) * 1_000
        known = watched.challenge
        if known is None or (known.word, known.answer_by) != (case.challenged_word, case.answer_by):
            watched.challenge = _Challenge(case.challenged_word, case.answer_by, due_ms)
        else:
            # The head is older than it was read; what an earlier look counted down from is closer to the
            # truth.
            known.due_ms = min(known.due_ms, due_ms)
