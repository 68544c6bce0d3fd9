"""A paid call, from voucher to receipt (PROTOCOL 3.1, 3.2, 5, 6).

Everything is checked before one durable admission; then the tool, one durable record, the receipt. Each call
runs in a task of its own, so that a client that goes away never cancels what was admitted.

A signed call is held against session, position, limits, signature and voucher, in this order. From its
admission on every outcome is recorded at its index, also that there is no such tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

import structlog

from aioum.core.errors import AioumError, OutcomeUnknown, Refused
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

_log = structlog.get_logger(__name__)

UNKNOWN_TOOL: Final = "(unknown)"
"""What observers are told for a tool that the session's card lacks: its name is the client's choice."""

SignReceipt = Callable[[CallReceipt, Domain], Awaitable[bytes]]


class CallObserver(Protocol):
    """Hears of every call that was run here."""

    def call_recorded(self, tool_id: str, outcome: str, seconds: float) -> None:
        """Args: tool_id: of a card, or UNKNOWN_TOOL; outcome: `ok` or the failure's code."""
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
    """Bounds of the whole node: bytes of a canonical request; calls that run at the same time."""

    max_request_bytes: int
    max_concurrent_calls: int


# A retry is the same request with the same voucher, or with the same envelope in a signed session. Another
# request with that voucher must not stand in its way: it flies by itself, and the store refuses it.
_FlightKey = tuple[ChannelId, int | Envelope, str, bytes]


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
        self._flights: dict[_FlightKey, asyncio.Task[Served]] = {}

    @property
    def in_flight(self) -> int:
        """Calls being served at this moment."""
        return len(self._flights)

    async def call(self, paid: PaidRequest) -> Served:
        """Serve a call, or answer a retry with what was recorded.

        Raises:
            Refused: `channel-not-found`, `node-busy`, those of `plan_call` and of `ledger.admit`. With
                `submission-conflict` the envelope is kept as evidence.
            InvalidInput: as `plan_call`.
            SignatureInvalid: as `ClientSignatures.require`, or `bad-signature` of the envelope.
            OutcomeUnknown: `stopping`.
        """
        context = await self._sessions.context(paid.channel_id)
        require_kind(paid.envelope, signed=context.facts.signed)
        if paid.envelope is not None:
            await self._require_position(paid.channel_id, paid.envelope)
        plan = plan_call(
            paid,
            context.offer,
            max_request_bytes=self._limits.max_request_bytes,
            canonicalize=self._canonicalize,
        )
        request = plan.request.request
        identity: int | Envelope = paid.amount
        if paid.envelope is not None:
            _require_signed(context, paid.envelope, request)
            # A seat that signs the same bytes twice, differently, says the same.
            identity = replace(paid.envelope, signature=b"")
        await self._clients.require(
            Voucher(paid.channel_id, paid.amount),
            context.domain,
            paid.signature,
            (context.facts.voucher_signer,),
        )
        # From here to the entry in `_flights` nothing awaits: two requests cannot both start.
        key = (paid.channel_id, identity, paid.tool_id, request)
        flight = self._flights.get(key)
        if flight is None:
            flight = self._start(key, context, plan)
        try:
            return await asyncio.shield(flight)
        except asyncio.CancelledError:
            if flight.cancelled():
                raise OutcomeUnknown("the node stopped during the call", code="stopping") from None
            raise

    async def drain(self, timeout_seconds: float) -> None:
        """Wait for running calls; those that last longer are cancelled: interrupted after a restart."""
        tasks = list(self._flights.values())
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout_seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _require_position(self, channel_id: ChannelId, envelope: Envelope) -> None:
        """Before any limit or signature: is it the seat's turn, or was this asked before?

        The store decides again with the admission; what is asked here cannot be relied on by then.
        """
        stored = await self._store.session(channel_id)
        if stored is None:
            raise Refused("the session was removed", code="channel-not-found")
        try:
            require_turn(stored.state, envelope)
        except Refused:
            # A retry comes out of turn, and so does a seat that contradicts itself: its signature decides.
            if await self._store.claimed(channel_id, envelope) is None:
                raise

    def _start(self, key: _FlightKey, context: SessionContext, plan: Plan) -> asyncio.Task[Served]:
        if len(self._flights) >= self._limits.max_concurrent_calls:
            raise Refused("the node runs as many calls as it can", code="node-busy")
        flight = self._flights[key] = asyncio.create_task(self._fly(context, plan))
        flight.add_done_callback(lambda done: self._landed(key, done))
        return flight

    def _landed(self, key: _FlightKey, task: asyncio.Task[Served]) -> None:
        del self._flights[key]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, AioumError):
            # Whoever waits gets it too; nobody may wait any more.
            _log.error("call-broke", channel=key[0].hex(), exc_info=error)

    async def _fly(self, context: SessionContext, plan: Plan) -> Served:
        channel_id = context.facts.channel_id
        step = await self._store.admit(channel_id, plan.request, self._now_ms())
        if isinstance(step, Admitted):
            # Durable: intent, voucher and envelope, and the seat's head moved. After a crash here the call is
            # recorded as interrupted, never run.
            answer = await self._answer(context, plan)
        elif step.call.answer is not None:
            stored = await self._store.session(channel_id)
            if stored is None:
                raise Refused("the session was removed", code="channel-not-found")
            return await self._served(context, step.call, stored.state.spent, stored.state.accepted)
        else:
            # One process owns the store, and this flight is the only one of this call: its earlier run died.
            answer = failed("interrupted")
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
