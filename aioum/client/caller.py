"""Paying for one call: the signed intent is durable before it leaves, and every retry repeats the same bytes.

An answer counts when it carries the operator's signed receipt and the receipt fits our own record. Everything
else is an unknown outcome: the same request is sent again until it is answered, because the operator answers
a repeated voucher or submission with what it recorded and never runs or charges it twice.

A refused call of an unsigned session is given up. A signed one stays outstanding: its envelope is never
replaced, so it is answered some day, or the session ends.
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
    """Sends the calls of one session, one at a time."""

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
            return found if found is not None else await self._pay_again(seat, tool, request)

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

    async def _pay_again(self, seat: str, tool: Tool, request: bytes) -> CallRecord:
        try:
            return await self._pay(seat, tool, request)
        except _Behind as behind:
            if self._book.outstanding is not None:
                await self._book.abandon()
            raise behind.cause from None

    async def _pay(self, seat: str, tool: Tool, request: bytes) -> CallRecord:
        limit = self._book.record.call_limit
        if limit is not None and tool.price > limit:
            raise PolicyRefused(
                f"a call of {tool.id} costs {tool.price}, the limit per call is {limit}",
                code="call-too-expensive",
            )
        purse, call = begin_call(self._book.purse, tool.id, request, tool.price)
        voucher = Voucher(self._book.facts.channel_id, call.amount)
        signature = await self._context.signer.sign(voucher, self._book.facts.domain)
        record = CallRecord(call, signature, envelope=self._signer.sign(seat, call))
        # From here the amount counts as given away and the seat's head as signed on. A crash before this line
        # signed nothing that left; after it, a restarted client repeats exactly this request.
        await self._book.begin(purse, record)
        return await self._repeat(record)

    async def _repeat(self, record: CallRecord) -> CallRecord:
        contradictions: list[_Contradiction] = []
        async for attempt in attempts(self._context.settings, _pause):
            with attempt:
                try:
                    return await self._attempt(record, contradictions)
                except _Contradiction as contradiction:
                    contradictions.append(contradiction)
                    if len(contradictions) >= self._context.settings.contradictions_before_stop:
                        await self._stop(record, contradiction)
                    raise
        raise AssertionError("a retry ends by its result or its last error")

    async def _attempt(self, record: CallRecord, earlier: list[_Contradiction]) -> CallRecord:
        facts = self._book.facts
        try:
            answer = await self._delivery.send(record)
        except Refused as error:
            # Not even a challenge is to be had for this tool.
            await self._not_made(error)
        signed = verified_receipt(answer, facts.channel_id, facts.receipt_signer, facts.domain)
        if signed is None:
            return await self._refused(record, answer)
        await require_single_word(self._book, signed, [item.receipt for item in earlier])
        try:
            purse = accept_answer(self._book.purse, record.call, _text_bytes(answer), signed.receipt)
        except Divergence as error:
            if error.code == "receipt-charge-mismatch":
                # Leaf and charge are signed together, so nobody on the way can have made this up.
                await self._book.diverge(error, (signed,))
                raise
            if signed.receipt.index < record.call.index:
                # The very receipt that we have of that call: somebody repeats an old answer.
                raise OutcomeUnknown("the answer is of an earlier call", code="answer-replayed") from error
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
        )
        # The answer is durable before the caller sees it: a crash before this line repeats the request.
        await self._book.answer(purse, answered)
        return answered

    async def _refused(self, record: CallRecord, answer: HttpAnswer) -> CallRecord:
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
            return await self._elsewhere(record, refusal)
        await self._not_made(error)

    async def _elsewhere(self, record: CallRecord, refusal: Refusal) -> CallRecord:
        """Compare positions with a node that expects another submission. What it says is not signed, so its
        record with its receipts decides.
        """
        found = await self._reconciler.adopt()
        if found:
            return found[0]
        error, index = refusal.error(), refusal.details.get("expectedIndex")
        behind = isinstance(index, int) and index < record.call.index
        same = (index, refusal.details.get("expectedHead")) == (
            record.call.index, None if record.envelope is None else encode_base64(record.envelope.prev_head),
        )  # fmt: skip
        if behind or same:
            # It lags, or has lost what it gave receipts for; the same envelope is what comes next here.
            raise OutcomeUnknown(str(error), code="node-behind" if behind else error.code)
        await self._not_made(error)

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


def _pause(error: Exception) -> bool | float:
    """Whether to send the same request again, and after how many seconds."""
    if isinstance(error, _NotYet) and error.retry_after_seconds is not None:
        return error.retry_after_seconds
    return isinstance(error, OutcomeUnknown)


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
