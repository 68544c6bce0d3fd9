"""Which of several sessions takes the next call, and who waits for one: in the order of asking, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aioum.client.records import SessionPhase
from aioum.client.session import PaidSession
from aioum.core.errors import PolicyRefused
from aioum.core.hextext import to_hex
from aioum.core.purse import NO_MONEY_CODES


@dataclass(slots=True, eq=False)
class Lane:
    """One of the sessions.

    Attributes:
        in_flight: calls of ours that are under way in it.
        started: calls that it was ever given.
        retired: code for which it gets no more calls, or None.
    """

    session: PaidSession
    in_flight: int = 0
    started: int = 0
    retired: str | None = None

    @property
    def ended(self) -> str | None:
        """Code for which it takes no call any more, or None."""
        if self.retired is not None or self.session.stopped is not None:
            return self.retired or self.session.stopped
        return None if self.session.phase is SessionPhase.OPEN else "session-not-open"

    @property
    def is_free(self) -> bool:
        """Whether one more call can be under way in it."""
        return self.in_flight < self.session.max_in_flight

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Lower ones come first."""
        return self.session.unattended, self.in_flight, self.started


@dataclass(slots=True, eq=False)
class _Place:
    """Where one call waits for a lane. `tried`: the lanes that it no longer waits for, and why."""

    tried: Mapping[Lane, str]
    turn: asyncio.Future[Lane]


class LaneQueue:
    """Hands lanes to calls. Nobody waits while a lane that would do is free."""

    def __init__(self, lanes: Sequence[Lane], max_waiting: int) -> None:
        """Args: max_waiting: calls that wait for a lane."""
        self._lanes = lanes
        self._max_waiting = max_waiting
        self._places: list[_Place] = []
        self._closed = False

    @property
    def waiting(self) -> int:
        """Calls that wait for a lane."""
        return len(self._places)

    async def take(self, tried: Mapping[Lane, str]) -> Lane:
        """The best lane that is not among `tried`; give it back afterwards.

        Raises:
            PolicyRefused: `lanes-full`, `lanes-closed`, `lanes-exhausted`, `lanes-stopped`.
        """
        if self._closed:
            raise _closed()
        place = _Place(tried, asyncio.get_running_loop().create_future())
        # Who had a lane already and lost it waits before those who never had one.
        self._places.insert(0 if tried else len(self._places), place)
        self._serve()
        if not tried and place in self._places and len(self._places) > self._max_waiting:
            self._places.remove(place)
            raise PolicyRefused(
                f"{self._max_waiting} calls wait for a lane already",
                code="lanes-full",
                hint="make fewer calls at once, or open more lanes",
            )
        try:
            return await place.turn
        except asyncio.CancelledError:
            self._leave(place)
            raise

    def give_back(self, lane: Lane) -> None:
        """The call is over."""
        lane.in_flight -= 1
        self._serve()

    def close(self) -> None:
        """Give out no lane from now on; who waits for one is refused with `lanes-closed`."""
        self._closed = True
        for place in self._places:
            if not place.turn.done():
                place.turn.set_exception(_closed())
        self._places.clear()

    def _leave(self, place: _Place) -> None:
        if place in self._places:
            self._places.remove(place)
        elif not place.turn.cancelled() and place.turn.exception() is None:
            # Its turn came in the very moment in which it was cancelled.
            self.give_back(place.turn.result())

    def _serve(self) -> None:
        live = [lane for lane in self._lanes if lane.ended is None]
        free = [lane for lane in live if lane.is_free]
        kept: list[_Place] = []
        for place in self._places:
            if place.turn.done():
                continue
            wanted = [lane for lane in free if lane not in place.tried]
            if wanted:
                lane = min(wanted, key=lambda lane: lane.rank)
                lane.in_flight += 1
                lane.started += 1
                free = [lane for lane in free if lane.is_free]
                place.turn.set_result(lane)
            elif all(lane in place.tried for lane in live):
                place.turn.set_exception(self._none(place.tried))
            else:
                kept.append(place)
        self._places = kept

    def _none(self, tried: Mapping[Lane, str]) -> PolicyRefused:
        reasons = {to_hex(lane.session.channel_id): lane.ended or tried.get(lane, "") for lane in self._lanes}
        if _any_of(NO_MONEY_CODES, reasons.values()):
            return PolicyRefused(
                "no lane has the money for the call left",
                code="lanes-exhausted",
                hint="top up one of the sessions, or open other lanes",
                details={"lanes": reasons},
            )
        return PolicyRefused(
            "no lane takes a call now: " + ", ".join(sorted(set(reasons.values()))),
            code="lanes-stopped",
            hint="the reasons by session are in the details; close the lanes and open others",
            details={"lanes": reasons},
        )


def _any_of(codes: frozenset[str], found: Iterable[str]) -> bool:
    return not codes.isdisjoint(found)


def _closed() -> PolicyRefused:
    return PolicyRefused("the lanes are closed", code="lanes-closed", hint="open others")
