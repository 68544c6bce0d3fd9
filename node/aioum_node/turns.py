"""Signed calls that came before an earlier one: each waits a moment for its turn (PROTOCOL 6).

A client that has several calls of a session in flight cannot make them arrive in order. Waiting decides
nothing: whoever waited goes to the store, which admits in index order or says what it expects. A call that
waits is not admitted; nothing of it is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from aioum.core.errors import Refused
from aioum.core.ledger import SessionState, require_turn
from aioum.core.submission.envelope import Envelope
from aioum.core.types import ChannelId
from aioum_node.store.port import SessionReader

# An admission here wakes who waits for it. One of another process is seen by looking again, after pauses that
# double.
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Bounds of waiting.

    Attributes:
        max_in_flight: calls of one session that may be open: how far ahead of its turn a call may come, and
            how many wait.
        wait_seconds: how long one waits.
        max_waiting: how many wait in the whole node.
    """

    max_in_flight: int
    wait_seconds: float
    max_waiting: int


@dataclass(slots=True)
class _Place:
    """Where one envelope waits, however often it was sent."""

    cursor: int
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0


class Turns:
    """Who waits for which session. Args: reader: knows what every process that shares the store admitted."""

    def __init__(self, reader: SessionReader, limits: TurnLimits) -> None:
        self._reader = reader
        self._limits = limits
        self._places: dict[ChannelId, dict[Envelope, _Place]] = {}
        self._waiting = 0
        self._stopping = False

    @property
    def waiting(self) -> int:
        """Envelopes that wait at this moment."""
        return self._waiting

    def is_early(self, state: SessionState, envelope: Envelope) -> bool:
        """Whether an envelope may come to its turn once the calls in flight before it were admitted."""
        try:
            require_turn(state, envelope)
        except Refused as error:
            ahead = envelope.cursor - state.admitted
            return error.code == "cursor-out-of-order" and 0 < ahead < self._limits.max_in_flight
        return False

    async def wait(self, channel_id: ChannelId, envelope: Envelope) -> None:
        """Return when the envelope's turn has come, when it cannot come any more, or after `wait_seconds`.

        Args:
            channel_id: the session.
            envelope: the same for every request that sends it again; these share its place.

        Raises:
            Refused: `too-many-in-flight`, `node-busy` or `stopping`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.wait_seconds
        pause_seconds = _FIRST_PAUSE_SECONDS
        with self._place(channel_id, envelope) as place:
            # Looks first: what was admitted before this place was taken woke nobody here.
            while await self._is_early(channel_id, envelope) and loop.time() < deadline:
                try:
                    async with asyncio.timeout_at(min(loop.time() + pause_seconds, deadline)):
                        await place.woken.wait()
                except TimeoutError:
                    pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
                    continue
                break
        if self._stopping:
            raise _stopping()

    def moved(self, channel_id: ChannelId, admitted: int) -> None:
        """Wake those whose turn has come: so many calls of the session were admitted."""
        for place in self._places.get(channel_id, {}).values():
            if place.cursor <= admitted:
                place.woken.set()

    def stop(self) -> None:
        """Let nobody wait any more, from now on."""
        self._stopping = True
        for places in self._places.values():
            for place in places.values():
                place.woken.set()

    async def _is_early(self, channel_id: ChannelId, envelope: Envelope) -> bool:
        stored = await self._reader.session(channel_id)
        return stored is not None and self.is_early(stored.state, envelope)

    @contextmanager
    def _place(self, channel_id: ChannelId, envelope: Envelope) -> Iterator[_Place]:
        if self._stopping:
            raise _stopping()
        places = self._places.setdefault(channel_id, {})
        try:
            place = places.get(envelope) or self._new_place(places, envelope)
            place.requests += 1
            try:
                yield place
            finally:
                place.requests -= 1
                if not place.requests:
                    del places[envelope]
                    self._waiting -= 1
        finally:
            if not places:
                self._places.pop(channel_id, None)

    def _new_place(self, places: dict[Envelope, _Place], envelope: Envelope) -> _Place:
        if len(places) >= self._limits.max_in_flight:
            raise Refused("too many calls of this session wait for their turn", code="too-many-in-flight")
        if self._waiting >= self._limits.max_waiting:
            raise Refused("as many calls as the node lets wait do so", code="node-busy")
        self._waiting += 1
        place = places[envelope] = _Place(envelope.cursor)
        return place


def _stopping() -> Refused:
    return Refused("the node is stopping", code="stopping", hint="send the same call again later")
