"""Paying for one call: the signed intent is durable before it leaves, and every retry repeats the same bytes.

An answer counts when it carries the operator's signed receipt and the receipt fits our own record. Everything
else is an unknown outcome: the same request is sent again until it is answered, because the operator answers
a repeated voucher or submission with what it recorded and never runs or charges it twice.

A refused call of an unsigned session is given up. A signed one stays outstanding: its envelope is never
replaced, so it is answered some day, or the session ends.

Signed calls can be under way together (`send`). Everything else here is for whoever has the session to
himself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NoReturn

from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.delivery import CHALLENGE_CODES, Delivery
from aioum.client.http import HttpAnswer
from aioum.client.node import Refusal, refusal_of, verified_receipt
from aioum.client.reconcile import Reconciler, recorded_status, require_single_word
from aioum.client.records import CallPhase, CallRecord
from aioum.client.retries import attempts
from aioum.client.seats import SeatSigner
from aioum.core.card import Tool
from aioum.core.errors import Divergence, OutcomeUnknown, PolicyRefused, Refused
from aioum.core.payment import Voucher
from aioum.core.problem import problem_code
from aioum.core.purse import accept_answer, begin_call
from aioum.core.submission.framing import encode_base64
from aioum.core.wire import SignedReceipt

BEHIND_CODES: Final = frozenset({"payment-insufficient", "amount-not-increasing", "request-conflict"})
"""Refusals that show that the node recorded calls that we had given up."""

TEMPORARY_CODES: Final = frozenset(
    {"too-many-in-flight", "node-busy", "opening-not-final", "top-up-not-final", "amount-exceeds-deposit"}
)
"""Refusals that pass by themselves; right after a top-up a node may not have seen the new deposit yet."""

SEALED_CODES: Final = frozenset({"session-sealed", "session-finalized", "session-close-pending"})
"""Refusals after which nothing is paid any more."""

POSITION_CODES: Final = frozenset({"cursor-out-of-order", "head-mismatch", "submission-conflict"})
"""Refusals of a submission because the node's record of the session is another than ours."""

_TEMPORARY_STATUS: Final = frozenset({408, 425, 429})


class _Contradiction(OutcomeUnknown):
    """A signed receipt that does not fit the answer; believed once it was repeated."""

    def __init__(self, error: Divergence, receipt: SignedReceipt, body: bytes) -> None:
        super().__init__(str(error), code=error.code)
        self.error = error
        self.receipt = receipt
        self.body = body


class Elsewhere(Exception):
    """The node claims a position that only a look at its record explains; that needs the session quiet."""


class _Ended(OutcomeUnknown):
    """A call that is not sent again, although it has no answer."""

    default_code = "operator-contradicted"


class _Behind(Exception):
    """The operator knows of calls that we had given up."""

    def __init__(self, cause: Refused | _Contradiction) -> None:
        self.cause = cause


class _NotYet(OutcomeUnknown):
    """The node does not take the call now."""

    def __init__(self, refusal: Refusal, longest_pause_seconds: float) -> None:
        error = refusal.error()
        super().__init__(str(error), code=error.code, details=error.details)
        wanted = refusal.retry_after_seconds
        # The advice is not signed: it may not hold a call longer than all attempts together may last.
        self.retry_after_seconds = None if wanted is None else min(wanted, longest_pause_seconds)


class Caller:
    """Sends the calls of one session."""

    def __init__(
        self,
        context: ClientContext,
        book: Book,
        reconciler: Reconciler,
        delivery: Delivery,
        signer: SeatSigner,
    ) -> None:
        self._context = context
        self._book = book
        self._reconciler = reconciler
        self._delivery = delivery
        self._signer = signer
        self._strays: dict[int, SignedReceipt] = {}

    async def pay(self, seat: str, tool: Tool, request: bytes) -> CallRecord:
        """Sign, keep and send a new call. `request`: its canonical bytes.

        Raises:
            InvalidInput: as `SeatSigner.sign`. Nothing was signed.
            PolicyRefused: as `begin_call`, `call-too-expensive`, `seat-key-lost`. Nothing was signed.
            ConfigError: as `SeatSigner.sign`. Nothing was signed.
            Refused: the node's code; the call was not made, and a signed one stays outstanding.
            OutcomeUnknown: no valid answer; the call stays outstanding.
            Divergence: the operator's signed word contradicts our record; paying stopped.
        """
        try:
            return await self._pay(seat, tool, request)
        except _Behind as behind:
            # The node forgot nothing: what we had given up it had recorded. Take that over, then pay what is
            # due now.
            found = await self._catch_up(behind)
            return found if found is not None else await self._pay_again(seat, tool, request, behind)

    async def settle(self) -> CallRecord:
        """Repeat the outstanding call until it is answered.

        Raises:
            Refused, OutcomeUnknown, Divergence: as `pay`.
        """
        outstanding = self._book.require_outstanding()
        try:
            return await self._repeat(outstanding)
        except _Behind as behind:
            found = await self._catch_up(behind)
            if found is not None:
                return found
            raise Refused(
                "the node had not recorded the outstanding call and refuses it now; it was given up",
                code="call-abandoned",
                hint="make the call again",
            ) from behind.cause

    async def _pay_again(self, seat: str, tool: Tool, request: bytes, earlier: _Behind) -> CallRecord:
        try:
            return await self._pay(seat, tool, request)
        except _Behind as behind:
            if self._book.outstanding is not None:
                await self._book.abandon()
            raise behind.cause from None
        except PolicyRefused as refused:
            # Alone it would say that nothing was sent; the attempt before it was, and was given up.
            raise Refused(
                f"the node refused the call, and it is not made again: {refused}",
                code="call-abandoned",
                hint=refused.hint,
                details={"refusal": refused.code},
            ) from earlier.cause

    async def _pay(self, seat: str, tool: Tool, request: bytes) -> CallRecord:
        return await self._repeat(await self.begin(seat, tool, request))

    async def begin(self, seat: str, tool: Tool, request: bytes, max_open: int = 1) -> CallRecord:
        """Sign and keep a new call, and send nothing. One task at a time.

        Args:
            seat: who asks.
            tool: what is called.
            request: canonical bytes.
            max_open: calls of a signed session that may be without an answer, this one included.

        Raises:
            InvalidInput, PolicyRefused, ConfigError: as `pay`.
        """
        limit = self._book.record.call_limit
        if limit is not None and tool.price > limit:
            raise PolicyRefused(
                f"a call of {tool.id} costs {tool.price}, the limit per call is {limit}",
                code="call-too-expensive",
            )
        _, call = begin_call(self._book.purse, tool.id, request, tool.price, max_open)
        voucher = Voucher(self._book.facts.channel_id, call.amount)
        signature = await self._context.signer.sign(voucher, self._book.facts.domain)
        record = CallRecord(call, signature, envelope=self._signer.sign(seat, call))
        # From here the amount counts as given away and the seat's head as signed on. A crash before this line
        # signed nothing that left; after it, a restarted client repeats exactly this request.
        await self._book.begin(record)
        return record

    async def send(self, record: CallRecord) -> CallRecord:
        """Send a kept signed call until it is answered; others may be under way.

        Raises:
            Elsewhere: settle it alone.
            Refused, OutcomeUnknown, Divergence: as `pay`.
        """
        return await self._repeat(record, alone=False)

    async def _repeat(self, record: CallRecord, *, alone: bool = True) -> CallRecord:
        contradictions: list[_Contradiction] = []
        started = self._context.clock()
        async for attempt in attempts(self._context.settings, _pause):
            with attempt:
                try:
                    if not alone and self._book.record.evidence:
                        raise _Ended("the operator contradicted itself, nothing is sent again")
                    return await self._attempt(record, contradictions, started, alone=alone)
                except _Contradiction as contradiction:
                    contradictions.append(contradiction)
                    if len(contradictions) >= self._context.settings.contradictions_before_stop:
                        await self._stop(record, contradiction)
                    raise
        raise AssertionError("a retry ends by its result or its last error")

    async def _attempt(
        self, record: CallRecord, earlier: list[_Contradiction], started: float, *, alone: bool
    ) -> CallRecord:
        facts = self._book.facts
        try:
            answer = await self._delivery.send(record)
        except Refused as error:
            # Not even a challenge is to be had for this tool.
            await self._not_made(error)
        signed = verified_receipt(answer, facts.channel_id, facts.receipt_signer, facts.domain)
        if signed is None:
            return await self._refused(record, answer, alone=alone)
        stray = self._strays.get(signed.receipt.index)
        sighted = [item.receipt for item in earlier] + ([] if stray is None else [stray])
        await require_single_word(self._book, signed, sighted)
        try:
            accept_answer(self._book.purse, record.call, _text_bytes(answer), signed.receipt)
        except Divergence as error:
            if error.code == "receipt-charge-mismatch":
                # Leaf and charge are signed together, so nobody on the way can have made this up.
                await self._book.diverge(error, (signed,))
                raise
            index = signed.receipt.index
            # Whoever mixed up what: it stays the operator's word on the call of that index.
            self._strays.setdefault(index, signed)
            await self._context.words.keep(signed)
            if index < record.call.index or (index != record.call.index and index < self._book.purse.made):
                # The very receipt that we have of an earlier call, or the one that another call of ours waits
                # for: somebody repeats or exchanges answers.
                raise OutcomeUnknown("the answer is of another call", code="answer-replayed") from error
            contradiction = _Contradiction(error, signed, answer.body)
            if signed.receipt.index > record.call.index and self._book.abandoned:
                raise _Behind(contradiction) from error
            raise contradiction from error
        answered = replace(
            record,
            phase=CallPhase.ANSWERED,
            status=_status(answer),
            response=answer.body,
            receipt=signed,
            elapsed_ms=max(0, int((self._context.clock() - started) * 1_000)),
        )
        # The answer is durable before the caller sees it: a crash before this line repeats the request.
        await self._book.answer(answered)
        self._strays.pop(record.call.index, None)
        return answered

    async def _refused(self, record: CallRecord, answer: HttpAnswer, *, alone: bool) -> CallRecord:
        refusal = refusal_of(answer)
        if refusal is None or not 400 <= answer.status < 500:
            raise OutcomeUnknown(
                f"status {answer.status} without the operator's receipt", code="receipt-missing"
            )
        code = refusal.code
        temporary = answer.status in _TEMPORARY_STATUS or code in TEMPORARY_CODES
        if temporary or code == "channel-not-found" or code in CHALLENGE_CODES:
            raise _NotYet(refusal, self._context.settings.retry_timeout_seconds)
        error = refusal.error()
        if code in BEHIND_CODES and self._book.abandoned:
            raise _Behind(error)
        if code in POSITION_CODES and record.envelope is not None:
            if alone:
                return await self._elsewhere(record, refusal)
            # An earlier call of ours may not have come there yet; then the same envelope has its turn later.
            _require_other_position(record, refusal)
            raise Elsewhere
        await self._not_made(error)

    async def _elsewhere(self, record: CallRecord, refusal: Refusal) -> CallRecord:
        """Compare positions with a node that expects another submission. What it says is not signed, so its
        record with its receipts decides.
        """
        found = {call.number: call for call in await self._reconciler.adopt()}
        if record.number in found:
            return found[record.number]
        _require_other_position(record, refusal)
        await self._not_made(refusal.error())

    async def _not_made(self, error: Refused) -> NoReturn:
        stop = error if error.code in SEALED_CODES else None
        if self._book.purse.signed:
            if stop is not None:
                await self._book.stop(stop)
            error.hint = "the signed call stays: recover() sends it again, close() or exit() ends the session"
        else:
            await self._book.abandon(stop)
        raise error

    async def _catch_up(self, behind: _Behind) -> CallRecord | None:
        given_up = self._book.outstanding
        if given_up is not None:
            await self._book.abandon()
        adopted = await self._reconciler.adopt()
        if not adopted and isinstance(behind.cause, _Contradiction):
            # The operator signed a later position, but shows no call that would explain it.
            await self._stop(None, behind.cause)
        if given_up is None:
            return None
        return next((call for call in adopted if call.call.amount == given_up.call.amount), None)

    async def _stop(self, record: CallRecord | None, contradiction: _Contradiction) -> NoReturn:
        error = contradiction.error
        request = None if record is None else record.call.request.decode()
        response = contradiction.body.decode(errors="replace")
        await self._book.diverge(error, (contradiction.receipt,), request=request, response=response)
        raise error


def _require_other_position(record: CallRecord, refusal: Refusal) -> None:
    """Raises OutcomeUnknown where the same envelope is what comes next, now or later."""
    error, index = refusal.error(), refusal.details.get("expectedIndex")
    behind = isinstance(index, int) and index < record.call.index
    same = (index, refusal.details.get("expectedHead")) == (
        record.call.index, None if record.envelope is None else encode_base64(record.envelope.prev_head),
    )  # fmt: skip
    if behind or same:
        # It lags, has lost what it gave receipts for, or waits for an earlier call.
        raise OutcomeUnknown(str(error), code="node-behind" if behind else error.code)


def _pause(error: Exception) -> bool | float:
    """Whether to send the same request again, and after how many seconds."""
    if isinstance(error, _NotYet) and error.retry_after_seconds is not None:
        return error.retry_after_seconds
    return isinstance(error, OutcomeUnknown) and not isinstance(error, _Ended)


def _text_bytes(answer: HttpAnswer) -> bytes:
    """The body where it is text as PROTOCOL 6 wants it; what is not was altered on the way."""
    try:
        text = answer.body.decode()
    except UnicodeDecodeError as error:
        raise OutcomeUnknown("the answer is not UTF-8 text", code="answer-altered") from error
    if text.startswith("\ufeff"):
        raise OutcomeUnknown("the answer begins with a byte order mark", code="answer-altered")
    return answer.body


def _status(answer: HttpAnswer) -> int:
    """The status that goes with the signed response: the status line itself is not signed."""
    if problem_code(answer.body) is not None:
        return recorded_status(answer.body)
    return answer.status if 200 <= answer.status < 300 else 200
