"""A paid call, from voucher to receipt (PROTOCOL 3.1, 3.2, 5, 6).

Everything is checked before one durable admission; then the tool, one durable record, the receipt. Each call
runs in a task of its own, so that a client that goes away never cancels what was admitted.

A signed call is held against session, position, limits, signature and voucher, in this order. From its
admission on every outcome is recorded at its index, also that there is no such tool. Several of a session may
run at the same time: admitted in the order of their indexes, each recorded when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog
from structlog.contextvars import bind_contextvars

from aioum.core.errors import AioumError, OutcomeUnknown, Refused
from aioum.core.hextext import to_hex
from aioum.core.ledger import Admitted, Answer, Call, receipt_of, require_turn
from aioum.core.payment import CallReceipt, Domain, Voucher
from aioum.core.problem import problem_code
from aioum.core.seats import require_kind
from aioum.core.submission.envelope import Envelope
from aioum.core.transcript import canonical_request
from aioum.core.types import ChannelId
from aioum.core.wire import SignedReceipt
from aioum_node.access import ClientSignatures
from aioum_node.failures import failed
from aioum_node.planning import Canonicalize, PaidRequest, Plan, plan_call
from aioum_node.service import ServiceTool
from aioum_node.sessions import SessionContext, Sessions
from aioum_node.store.port import Store
from aioum_node.turns import TurnLimits, Turns

_log = structlog.get_logger(__name__)

UNKNOWN_TOOL: Final = "(unknown)"
"""What observers are told for a tool that the session's card lacks: its name is the client's choice."""

SignReceipt = Callable[[CallReceipt, Domain], Awaitable[bytes]]


class CallObserver(Protocol):
    """Hears of every call that was run here."""

    def call_recorded(self, tool_id: str, outcome: str, seconds: float) -> None:
        """Args: tool_id: of a card, or UNKNOWN_TOOL; outcome: `ok` or the failure's code."""
        ...

    def call_broke(self) -> None:
        """A bug ended a call that was being served."""
        ...


@dataclass(frozen=True, slots=True)
class Served:
    """A recorded call with its receipt. `spent` and `accepted` are the session's, when this was answered."""

    context: SessionContext
    call: Call
    answer: Answer
    receipt: SignedReceipt
    spent: int
    accepted: int


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Bounds of the whole node: bytes of a canonical request; calls that run at the same time.

    Attributes:
        turns: of signed calls that wait for an earlier one of their session.
    """

    max_request_bytes: int
    max_concurrent_calls: int
    turns: TurnLimits


# A retry is the same request with the same voucher, or with the same envelope in a signed session. Another
# request with that voucher must not stand in its way: it flies by itself, and the store refuses it.
_FlightKey = tuple[ChannelId, int | Envelope, str, bytes]

# What another process may take beyond a tool's own limit.
_RECORDING_SECONDS: Final = 5.0
_REFUSED_FOR_THE_VOUCHER: Final = frozenset({"payment-insufficient", "amount-exceeds-deposit"})


@dataclass(frozen=True, slots=True)
class _Flight:
    """A call being served, and the amount of the voucher that it is admitted with."""

    task: asyncio.Task[Served]
    amount: int


class PaidCalls:
    """Serves paid calls.

    Args:
        sign_receipt: signs deterministically, so that a retry gets the same bytes.
        canonicalize: tool id and arguments to the canonical request.
        now_ms: unix milliseconds.
        monotonic: seconds, for durations.
    """

    def __init__(
        self,
        *,
        store: Store,
        sessions: Sessions,
        tools: Mapping[str, ServiceTool],
        clients: ClientSignatures,
        sign_receipt: SignReceipt,
        observer: CallObserver,
        limits: CallLimits,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        canonicalize: Canonicalize = canonical_request,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._tools = tools
        self._clients = clients
        self._sign_receipt = sign_receipt
        self._observer = observer
        self._limits = limits
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._canonicalize = canonicalize
        self._turns = Turns(store, limits.turns)
        self._flights: dict[_FlightKey, _Flight] = {}

    @property
    def in_flight(self) -> int:
        """Calls being served at this moment."""
        return len(self._flights)

    @property
    def waiting(self) -> int:
        """Signed calls that wait for an earlier one of their session at this moment."""
        return self._turns.waiting

    async def call(self, paid: PaidRequest) -> Served:
        """Serve a call, or answer a retry with what was recorded.

        Raises:
            Refused: `channel-not-found`, `node-busy`, `stopping`, those of `plan_call` and of `ledger.admit`.
                With `submission-conflict` the envelope is kept as evidence.
            InvalidInput: as `plan_call`.
            SignatureInvalid: as `ClientSignatures.require`, or `bad-signature` of the envelope.
            OutcomeUnknown: `stopping`.
        """
        context = await self._sessions.context(paid.channel_id)
        require_kind(paid.envelope, signed=context.facts.signed)
        early = paid.envelope is not None and await self._is_early(paid.channel_id, paid.envelope)
        plan = plan_call(
            paid,
            context.offer,
            max_request_bytes=self._limits.max_request_bytes,
            canonicalize=self._canonicalize,
        )
        request = plan.request.request
        envelope = None
        if paid.envelope is not None:
            _require_signed(context, paid.envelope, request)
            # A seat that signs the same bytes twice, differently, says the same.
            envelope = replace(paid.envelope, signature=b"")
        await self._clients.require(
            Voucher(paid.channel_id, paid.amount),
            context.domain,
            paid.signature,
            (context.facts.voucher_signer,),
        )
        if early and envelope is not None:
            # Only what its seat signed and a voucher came with may take a place.
            await self._turns.wait(paid.channel_id, envelope)
        return await self._board(
            (paid.channel_id, envelope or paid.amount, paid.tool_id, request), context, plan
        )

    async def drain(self, timeout_seconds: float) -> None:
        """Wait for running calls; those that last longer are cancelled: interrupted after a restart.

        Calls that wait for their turn are refused: nothing of them was kept.
        """
        self._turns.stop()
        tasks = [flight.task for flight in self._flights.values()]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _is_early(self, channel_id: ChannelId, envelope: Envelope) -> bool:
        """Before any limit or signature: is it the seat's turn, soon or now, or was this asked before?

        The store decides again with the admission; what is asked here cannot be relied on by then.

        Returns:
            Whether it came before its turn and may wait for it.

        Raises:
            Refused: `channel-not-found`, and those of `ledger.require_turn`.
        """
        stored = await self._store.session(channel_id)
        if stored is None:
            raise Refused("the session was removed", code="channel-not-found")
        try:
            require_turn(stored.state, envelope)
        except Refused:
            # A retry comes out of turn, and so does a seat that contradicts itself: its signature decides.
            if await self._store.claimed(channel_id, envelope) is None:
                if self._turns.is_early(stored.state, envelope):
                    return True
                raise
        return False

    async def _board(self, key: _FlightKey, context: SessionContext, plan: Plan) -> Served:
        """Join the flight of this very call, or start it."""
        while True:
            # From here to the entry in `_flights` nothing awaits: two requests cannot both start.
            flight = self._flights.get(key)
            joined = flight is not None
            if flight is None:
                flight = self._start(key, context, plan)
            try:
                return await asyncio.shield(flight.task)
            except asyncio.CancelledError:
                if flight.task.cancelled():
                    raise OutcomeUnknown("the node stopped during the call", code="stopping") from None
                raise
            except Refused as error:
                # Another request's voucher was not enough, and nothing was admitted: ours may be.
                same_voucher = not joined or flight.amount == plan.request.amount
                if same_voucher or error.code not in _REFUSED_FOR_THE_VOUCHER:
                    raise

    def _start(self, key: _FlightKey, context: SessionContext, plan: Plan) -> _Flight:
        if len(self._flights) >= self._limits.max_concurrent_calls:
            raise Refused("the node runs as many calls as it can", code="node-busy")
        # What is logged during the flight, and of its end, names session and call.
        names = copy_context()
        task = asyncio.create_task(self._fly(context, plan), context=names)
        # Called before anybody who waits for the task goes on: who looks then finds no flight that is over.
        task.add_done_callback(lambda done: self._landed(key, done), context=names)
        flight = self._flights[key] = _Flight(task, plan.request.amount)
        return flight

    def _landed(self, key: _FlightKey, task: asyncio.Task[Served]) -> None:
        del self._flights[key]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, AioumError):
            # Whoever waits gets it too; nobody may wait any more.
            self._observer.call_broke()
            _log.error("call-broke", exc_info=error)

    async def _fly(self, context: SessionContext, plan: Plan) -> Served:
        channel_id = context.facts.channel_id
        # For whatever is logged on the way, by tools too: this context is the flight's own.
        bind_contextvars(channel=to_hex(channel_id))
        step = await self._store.admit(channel_id, plan.request, self._now_ms())
        bind_contextvars(call=step.call.index)
        if isinstance(step, Admitted):
            # Durable: intent, voucher and envelope, and the seat's head moved. After a crash here the call is
            # recorded as interrupted, never run.
            self._turns.moved(channel_id, step.state.admitted)
            answer = await self._answer(context, plan)
        elif step.call.answer is not None:
            stored = await self._store.session(channel_id)
            if stored is None:
                raise Refused("the session was removed", code="channel-not-found")
            return await self._served(context, step.call, stored.state.spent, stored.state.accepted)
        else:
            # This flight is the only one of this call here, and where no other process runs it either, its
            # earlier run died. What comes second loses: then this is answered with what is recorded.
            patience_seconds = plan.timeout_seconds + _RECORDING_SECONDS
            theirs = await self._store.answered(channel_id, step.call.index, patience_seconds)
            answer = failed("interrupted") if theirs is None or theirs.answer is None else theirs.answer
        recorded = await self._store.record(channel_id, step.call.index, answer, self._now_ms())
        # Durable: response, leaf, charge and root. After a crash here a retry finds the stored call.
        return await self._served(context, recorded.call, recorded.state.spent, recorded.state.accepted)

    async def _answer(self, context: SessionContext, plan: Plan) -> Answer:
        started = self._monotonic()
        answer = plan.failure or await self._run(plan)
        outcome = (problem_code(answer.response) or "tool-failed") if answer.failed else "ok"
        tool_id = plan.request.tool_id
        known = tool_id if tool_id in context.offer.tools else UNKNOWN_TOOL
        self._observer.call_recorded(known, outcome, self._monotonic() - started)
        return answer

    async def _run(self, plan: Plan) -> Answer:
        request = plan.request
        tool = self._tools.get(request.tool_id)
        if tool is None:
            return failed("tool-withdrawn")
        try:
            return await tool.upstream.run(plan.arguments, request.request, plan.timeout_seconds)
        except Exception:
            _log.exception("upstream-broke", tool=request.tool_id)
        except asyncio.CancelledError:
            flight = asyncio.current_task()
            if flight is None or flight.cancelling():
                raise
            # Nobody cancelled this call: something that the tool waited for was.
            _log.warning("tool-cancelled", tool=request.tool_id)
        return failed("tool-failed")

    async def _served(self, context: SessionContext, call: Call, spent: int, accepted: int) -> Served:
        receipt = receipt_of(context.facts.channel_id, call)
        signature = await self._sign_receipt(receipt, context.domain)
        if call.answer is None:
            raise Refused(f"call {call.index} is not recorded", code="call-not-recorded")
        return Served(context, call, call.answer, SignedReceipt(receipt, signature), spent, accepted)


def _require_signed(context: SessionContext, envelope: Envelope, request: bytes) -> None:
    key = context.keys.get(envelope.seat)
    if key is None:
        raise Refused(f"the node has no key of seat {envelope.seat} yet", code="roster-required")
    envelope.submission(context.facts.channel_id, request).require_signed(envelope.signature, key)
