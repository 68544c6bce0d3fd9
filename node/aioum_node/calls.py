"""A paid call, from voucher to receipt (PROTOCOL 3.1, 3.2, 6).

Checks that need no state come first, then one durable admission, the tool, one durable record, the receipt.
Each call runs in a task of its own, so that a client that goes away never cancels what was admitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from aioum.core.canonical import JsonValue
from aioum.core.errors import AioumError, OutcomeUnknown, Refused
from aioum.core.ledger import Admitted, Answer, Call, CallRequest, receipt_of
from aioum.core.payment import CallReceipt, Domain, Voucher
from aioum.core.problem import problem_code
from aioum.core.transcript import canonical_request
from aioum.core.types import ChannelId
from aioum.core.wire import JsonObject, SignedReceipt
from aioum_node.access import ClientSignatures
from aioum_node.failures import failed
from aioum_node.service import ServiceTool
from aioum_node.sessions import SessionContext, Sessions
from aioum_node.store.port import Store

_log = structlog.get_logger(__name__)

Canonicalize = Callable[[str, JsonValue], str]
SignReceipt = Callable[[CallReceipt, Domain], Awaitable[bytes]]


class CallObserver(Protocol):
    """Hears of every call that was run here."""

    def call_recorded(self, tool_id: str, outcome: str, seconds: float) -> None:
        """Args: outcome: `ok` or the failure's code."""
        ...


@dataclass(frozen=True, slots=True)
class PaidRequest:
    """A call with its voucher, as it came over the wire. `arguments` is the parsed body."""

    channel_id: ChannelId
    tool_id: str
    arguments: JsonObject
    amount: int
    signature: bytes


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


# A retry is the same request with the same voucher. Another request with that voucher must not stand in its
# way: it flies by itself, and the store refuses it.
_FlightKey = tuple[ChannelId, int, str, bytes]


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
            Refused: `channel-not-found`, `tool-unknown`, `node-busy`, and those of `ledger.admit`.
            InvalidInput: `arguments-invalid`, `request-too-large`, and those of `canonical_text`.
            SignatureInvalid: as `ClientSignatures.require`.
            OutcomeUnknown: `stopping`.
        """
        context = await self._sessions.context(paid.channel_id)
        offered = context.offer.tools.get(paid.tool_id)
        if offered is None:
            raise Refused(f"the session's card has no tool {paid.tool_id!r:.80}", code="tool-unknown")
        offered.check(paid.arguments)
        request = self._canonicalize(paid.tool_id, paid.arguments).encode()
        if len(request) > self._limits.max_request_bytes:
            raise Refused(
                f"the canonical request has {len(request)} of at most {self._limits.max_request_bytes} bytes",
                code="request-too-large",
            )
        await self._clients.require(
            Voucher(paid.channel_id, paid.amount),
            context.domain,
            paid.signature,
            (context.facts.voucher_signer,),
        )
        # From here to the entry in `_flights` nothing awaits: two requests cannot both start.
        key = (paid.channel_id, paid.amount, paid.tool_id, request)
        flight = self._flights.get(key)
        if flight is None:
            flight = self._start(key, context, paid, offered.price, offered.timeout_seconds)
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

    def _start(
        self,
        key: _FlightKey,
        context: SessionContext,
        paid: PaidRequest,
        price: int,
        timeout_seconds: int,
    ) -> asyncio.Task[Served]:
        if len(self._flights) >= self._limits.max_concurrent_calls:
            raise Refused("the node runs as many calls as it can", code="node-busy")
        *_, request = key
        entry = CallRequest(paid.tool_id, request, price, paid.amount, paid.signature)
        flight = self._flights[key] = asyncio.create_task(
            self._fly(context, entry, paid.arguments, timeout_seconds)
        )
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

    async def _fly(
        self, context: SessionContext, request: CallRequest, arguments: JsonObject, timeout_seconds: int
    ) -> Served:
        channel_id = context.facts.channel_id
        step = await self._store.admit(channel_id, request, self._now_ms())
        if isinstance(step, Admitted):
            # Durable: intent and voucher. After a crash here the call is recorded as interrupted, never run.
            answer = await self._run(request, arguments, timeout_seconds)
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

    async def _run(self, request: CallRequest, arguments: JsonObject, timeout_seconds: int) -> Answer:
        started = self._monotonic()
        tool = self._tools.get(request.tool_id)
        if tool is None:
            answer = failed("tool-withdrawn")
        else:
            try:
                answer = await tool.upstream.run(arguments, request.request, timeout_seconds)
            except Exception:
                _log.exception("upstream-broke", tool=request.tool_id)
                answer = failed("tool-failed")
        outcome = (problem_code(answer.response) or "tool-failed") if answer.failed else "ok"
        self._observer.call_recorded(request.tool_id, outcome, self._monotonic() - started)
        return answer

    async def _served(self, context: SessionContext, call: Call, spent: int, accepted: int) -> Served:
        receipt = receipt_of(context.facts.channel_id, call)
        signature = await self._sign_receipt(receipt, context.domain)
        if call.answer is None:
            raise Refused(f"call {call.index} is not recorded", code="call-not-recorded")
        return Served(context, call, call.answer, SignedReceipt(receipt, signature), spent, accepted)
