"""Several sessions of one service as one: more calls at the same time than one session may have under way.

A call goes to another lane only where nothing of it was sent. Whatever left this machine may have run, so its
outcome is its caller's to know, and its lane repeats it before it takes anything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from aioum.client.buying import EarlierCallRefused
from aioum.client.closing import Closed
from aioum.client.lane_queue import Lane, LaneQueue
from aioum.client.marketplace import Marketplace
from aioum.client.results import CallResult
from aioum.client.service import Offer
from aioum.client.session import PaidSession
from aioum.core.amounts import check_amount
from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, Divergence, InvalidInput, OutcomeUnknown, PolicyRefused, Refused
from aioum.core.hextext import to_hex
from aioum.core.purse import NO_MONEY_CODES
from aioum.core.types import ChannelId

MAX_LANES: Final = 64
QUEUE_LIMIT_CALLS: Final = 256
"""Calls that wait for a lane, where the caller names no other number."""

RETIRING_CODES: Final = frozenset({"paying-stopped", "session-not-open", "close-pending", "seat-key-lost"})
"""Refusals of a session, before anything is sent, that every later call would meet as well."""


class Lanes:
    """Open sessions of one service that share the calls of a program. Use it with `async with`.

    Each call goes to the session that has no trouble, then the fewest calls under way, then the fewest ever.
    Leaving the block closes all sessions together with the operator. After an error inside the block nothing
    is closed: each session stays as it is, and `Marketplace.resume` goes on with it.
    """

    def __init__(self, sessions: Sequence[PaidSession], *, queue_limit: int = QUEUE_LIMIT_CALLS) -> None:
        """Spread calls over sessions that are open already, as after a restart.

        Args:
            sessions: of one service.
            queue_limit: most calls that wait for a lane; the next is refused.

        Raises:
            InvalidInput: `lanes-invalid`.
        """
        _check_limits(len(sessions), queue_limit)
        self._lanes = [Lane(session) for session in sessions]
        self._queue = LaneQueue(self._lanes, queue_limit)

    @classmethod
    async def open(
        cls,
        market: Marketplace,
        service: str | int | Offer,
        *,
        lanes: int,
        deposit_each: int,
        deposit_limit: int | None = None,
        queue_limit: int = QUEUE_LIMIT_CALLS,
        call_limit: int | None = None,
        signed: bool = True,
    ) -> Self:
        """Open so many sessions of a service.

        Args:
            market: a connected client.
            service: as `Marketplace.open`.
            lanes: how many, at most MAX_LANES.
            deposit_each: base units to put into each.
            deposit_limit: most base units in all of them together; None: no limit of this kind.
            queue_limit: most calls that wait for a lane; the next is refused.
            call_limit: most that one call may cost, base units.
            signed: as `Marketplace.open`.

        Raises:
            InvalidInput: `lanes-invalid`.
            PolicyRefused: `deposit-limit-exceeded`, or as `Marketplace.open`.
            ChainError, OutcomeUnknown: as `Marketplace.open`. What was opened is closed again as far as it
                can be; `details["left"]` has the channel ids of the others, `Marketplace.resume` takes them.
        """
        _check_limits(lanes, queue_limit)
        if deposit_limit is not None and lanes * check_amount(deposit_each) > deposit_limit:
            raise PolicyRefused(
                f"{lanes} lanes with {deposit_each} each are above the limit of {deposit_limit}",
                code="deposit-limit-exceeded",
            )
        offer = service if isinstance(service, Offer) else await market.service(service)

        async def start() -> PaidSession | AioumError:
            try:
                return await market.open(offer, deposit=deposit_each, call_limit=call_limit, signed=signed)
            except AioumError as error:
                return error

        started = await asyncio.gather(*(start() for _ in range(lanes)))
        sessions = [found for found in started if isinstance(found, PaidSession)]
        failures = [found for found in started if isinstance(found, AioumError)]
        if failures:
            left = await _close_all(sessions)
            failures[0].details["left"] = [
                to_hex(session.channel_id)
                for session, end in zip(sessions, left, strict=True)
                if isinstance(end, AioumError)
            ]
            raise failures[0]
        return cls(sessions, queue_limit=queue_limit)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()

    def __repr__(self) -> str:
        return f"Lanes({len(self._lanes)} sessions, {self.in_flight} calls under way, {self.waiting} waiting)"

    @property
    def sessions(self) -> tuple[PaidSession, ...]:
        """The sessions, each with its own record, root and evidence."""
        return tuple(lane.session for lane in self._lanes)

    @property
    def in_flight(self) -> int:
        """Calls under way."""
        return sum(lane.in_flight for lane in self._lanes)

    @property
    def waiting(self) -> int:
        """Calls that wait for a lane."""
        return self._queue.waiting

    @property
    def spent(self) -> int:
        """Base units that the answered calls of all sessions cost."""
        return sum(lane.session.spent for lane in self._lanes)

    async def call(
        self, tool_id: str, arguments: Mapping[str, JsonValue] | None = None, /, **more: JsonValue
    ) -> CallResult:
        """Buy one call in whichever session takes it.

        Args:
            tool_id: a tool of the card.
            arguments: its arguments.
            **more: further arguments, by name.

        Raises:
            PolicyRefused: `lanes-full`, too many calls wait; `lanes-exhausted`, no lane has the money for
                this call; `lanes-stopped`, none takes calls, because each stopped or has a call without an
                answer; `lanes-closed`. Nothing was sent.
            InvalidInput, ConfigError, PolicyRefused, Refused, OutcomeUnknown, Divergence: as
                `PaidSession.call`. Where something may have been sent, no other lane tried it.
        """
        wanted = {**(arguments or {}), **more}
        tried: dict[Lane, str] = {}
        while True:
            lane = await self._queue.take(tried)
            try:
                # What a lane has no answer of is repeated before it is given more.
                reason = await self._repeat(lane) if lane.session.unattended else None
                found = reason or await self._ask(lane, tool_id, wanted)
                if isinstance(found, CallResult):
                    return found
                tried[lane] = found
            finally:
                self._queue.give_back(lane)

    async def recover(self) -> dict[ChannelId, str]:
        """Get the answers of calls that have none yet, by repeating them.

        Returns:
            Channel ids of sessions in which one still has none, with the reason code.
        """
        troubled = [lane for lane in self._lanes if lane.session.unattended]
        reasons = await asyncio.gather(*(self._repeat(lane) for lane in troubled))
        return {
            lane.session.channel_id: reason
            for lane, reason in zip(troubled, reasons, strict=True)
            if reason is not None
        }

    async def close(self) -> tuple[Closed, ...]:
        """End all sessions together with the operator, side by side, once their calls under way are over.

        No call is taken any more. Call it again to try those again that did not close.

        Returns:
            How each ended, in the order of `sessions`.

        Raises:
            OutcomeUnknown: `lanes-not-closed`; `details["lanes"]` has channel ids and reason codes of those
                that did not. `exit` of the session ends each without the operator.
        """
        self._queue.close()
        ends = await _close_all(self.sessions)
        failures = {
            to_hex(session.channel_id): end
            for session, end in zip(self.sessions, ends, strict=True)
            if isinstance(end, AioumError)
        }
        if failures:
            raise OutcomeUnknown(
                f"{len(failures)} of {len(ends)} lanes did not close: "
                + "; ".join(f"{channel} {error.code}" for channel, error in failures.items()),
                code="lanes-not-closed",
                hint="close() tries those again, exit() of a session ends it without the operator",
                details={"lanes": {channel: error.code for channel, error in failures.items()}},
            ) from next(iter(failures.values()))
        return tuple(end for end in ends if isinstance(end, Closed))

    async def _ask(self, lane: Lane, tool_id: str, arguments: Mapping[str, JsonValue]) -> CallResult | str:
        """The answer, or the code for which the session sent nothing of the call."""
        try:
            return await lane.session.call(tool_id, arguments)
        except EarlierCallRefused as error:
            return error.code
        except PolicyRefused as error:
            # Our own word: a node's refusal is of another kind, whatever code it names.
            if error.code in RETIRING_CODES:
                lane.retired = error.code
            elif error.code not in NO_MONEY_CODES:
                raise
            return error.code

    async def _repeat(self, lane: Lane) -> str | None:
        """Repeat the calls of a lane that have no answer; the code for which one still has none."""
        try:
            await lane.session.recover()
        except (Refused, OutcomeUnknown, Divergence, PolicyRefused) as error:
            return error.code
        return None


def _check_limits(lanes: int, queue_limit: int) -> None:
    if not 1 <= lanes <= MAX_LANES or queue_limit < 0:
        raise InvalidInput(
            f"1 to {MAX_LANES} lanes, and a queue that is not negative, are possible; "
            f"got {lanes} and {queue_limit}",
            code="lanes-invalid",
        )


async def _close_all(sessions: Sequence[PaidSession]) -> list[Closed | AioumError]:
    async def end(session: PaidSession) -> Closed | AioumError:
        try:
            return await session.close()
        except AioumError as error:
            return error

    return await asyncio.gather(*(end(session) for session in sessions))
