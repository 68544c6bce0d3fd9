"""Paying for one call: the signed intent is durable before it leaves, and every retry repeats the same bytes.

An answer counts when it carries the operator's signed receipt and the receipt fits our own record. Everything
else is
an unknown outcome: the same request is sent again until it is answered, because the operator answers a
    repeated voucher
with what it recorded and never runs or charges it twice.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Final, NoReturn

import stamina

from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.http import HttpAnswer
from aioum.client.node import Refusal, challenge_of, refusal_of, verified_receipt
from aioum.client.reconcile import Reconciler, recorded_status, require_single_word
from aioum.client.records import CallPhase, CallRecord
from aioum.client.service import require_tool
from aioum.core.card import Tool
from aioum.core.errors import Divergence, OutcomeUnknown, PolicyRefused, Refused
from aioum.core.hextext import address_text
from aioum.core.payment import Voucher
from aioum.core.problem import problem_code
from aioum.core.purse import Outstanding, accept_answer, begin_call
from aioum.core.types import Bytes32
from aioum.core.wire import Challenge, Credential, SignedReceipt

CHALLENGE_CODES: Final = frozenset(
    {
        "payment-required", "challenge-invalid", "challenge-malformed", "challenge-expired",
        "invalid-challenge", "payment-expired",
    }
)  # fmt: skip
"""Refusals that a fresh challenge cures."""

BEHIND_CODES: Final = frozenset({"payment-insufficient", "amount-not-increasing", "request-conflict"})
"""Refusals that show that the node recorded calls that we had given up."""

TEMPORARY_CODES: Final = frozenset(
    {"too-many-in-flight", "node-busy", "opening-not-final", "top-up-not-final", "amount-exceeds-deposit"}
)
"""Refusals that pass by themselves; right after a top-up a node may not have seen the new deposit yet."""

SEALED_CODES: Final = frozenset({"session-sealed", "session-finalized", "session-close-pending"})
"""Refusals after which nothing is paid any more."""

_TEMPORARY_STATUS: Final = frozenset({408, 425, 429})
_EXPIRY_MARGIN_SECONDS: Final = 5.0


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

    def __init__(self, context: ClientContext, book: Book, reconciler: Reconciler) -> None:
        self._context = context
        self._book = book
        self._reconciler = reconciler
        self._node = context.node(book.facts.node_url)
        self._challenges: dict[str, Challenge] = {}

    async def pay(self, tool: Tool, request: bytes) -> CallRecord:
        """Sign, keep and send a new call. `request`: its canonical bytes.

        Raises:
            PolicyRefused: as `begin_call`, or `call-too-expensive`. Nothing was signed.
            Refused: the node's code; the call was not made.
            OutcomeUnknown: no valid answer; the call stays outstanding.
            Divergence: the operator's signed word contradicts our record; paying stopped.
        """
        try:
            return await self._pay(tool, request)
        except _Behind as behind:
            # The node forgot nothing: what we had given up it had recorded. Take that over, then pay what is
            # due now.
            found = await self._catch_up(behind)
            return found if found is not None else await self._pay_again(tool, request)

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

    async def introduce(self) -> None:
        """Show the node the opening without buying anything, so that it can close a session without calls.

        Raises:
            Refused, OutcomeUnknown: the node did not take it over.
        """
        tool_id = self._book.facts.card.tools[0].id
        await self._open_or_top_up(tool_id, "open", self._book.record.opening_transaction)
        await self._book.update(adopted=True)

    async def announce_top_up(self, transaction: Bytes32) -> None:
        """Tell the node of a top-up, so that it need not wait until it notices by itself.

        Raises:
            Refused, OutcomeUnknown: the node did not take it over.
        """
        await self._open_or_top_up(self._book.facts.card.tools[0].id, "topUp", transaction)

    async def _open_or_top_up(self, tool_id: str, action: str, transaction: Bytes32 | None) -> None:
        facts = self._book.facts
        signature = b""
        if action == "open":
            # A voucher of nothing: it gives nothing away.
            signature = await self._context.signer.sign(Voucher(facts.channel_id, 0), facts.domain)
        credential = Credential(
            challenge=await self._fresh_challenge(tool_id),
            action=action,
            channel_id=facts.channel_id,
            signature=signature,
            transaction=transaction,
            source=self._source(),
        )
        answer = await self._node.call(tool_id, b"{}", credential.header(), max_bytes=1, timeout_seconds=0)
        refusal = refusal_of(answer)
        if refusal is None:
            raise OutcomeUnknown(f"status {answer.status} to a payment of nothing", code="node-failed")
        # What nothing was bought with is answered by asking for payment, with the session's own numbers.
        taken_over = refusal.details.keys() & {"acceptedCumulative", "deposit"}
        if refusal.code != "payment-required" or not taken_over:
            raise refusal.error()

    def _source(self) -> str:
        facts = self._book.facts
        return f"did:pkh:eip155:{facts.domain.chain_id}:{address_text(facts.channel.payer)}"

    async def _pay_again(self, tool: Tool, request: bytes) -> CallRecord:
        try:
            return await self._pay(tool, request)
        except _Behind as behind:
            if self._book.outstanding is not None:
                await self._book.abandon()
            raise behind.cause from None

    async def _pay(self, tool: Tool, request: bytes) -> CallRecord:
        limit = self._book.record.call_limit
        if limit is not None and tool.price > limit:
            raise PolicyRefused(
                f"a call of {tool.id} costs {tool.price}, the limit per call is {limit}",
                code="call-too-expensive",
            )
        purse, call = begin_call(self._book.purse, tool.id, request, tool.price)
        voucher = Voucher(self._book.facts.channel_id, call.amount)
        signature = await self._context.signer.sign(voucher, self._book.facts.domain)
        record = CallRecord(call, signature)
        # From here the amount counts as given away. A crash before this line signs nothing that left; after
        # it, a restarted client repeats exactly this request.
        await self._book.begin(purse, record)
        return await self._repeat(record)

    async def _repeat(self, record: CallRecord) -> CallRecord:
        settings = self._context.settings
        contradictions: list[_Contradiction] = []
        async for attempt in stamina.retry_context(
            on=_pause,
            attempts=settings.retry_attempts,
            timeout=settings.retry_timeout_seconds,
            wait_initial=settings.retry_wait_initial_seconds,
            wait_max=settings.retry_wait_max_seconds,
            wait_jitter=settings.retry_wait_initial_seconds,
        ):
            with attempt:
                try:
                    return await self._attempt(record, contradictions)
                except _Contradiction as contradiction:
                    contradictions.append(contradiction)
                    if len(contradictions) >= settings.contradictions_before_stop:
                        await self._stop(record, contradiction)
                    raise
        raise AssertionError("a retry ends by its result or its last error")

    async def _attempt(self, record: CallRecord, earlier: list[_Contradiction]) -> CallRecord:
        facts = self._book.facts
        try:
            answer = await self._send(record)
        except Refused:
            # Not even a challenge is to be had for this tool.
            await self._book.abandon()
            raise
        signed = verified_receipt(answer, facts.channel_id, facts.receipt_signer, facts.domain)
        if signed is None:
            await self._refused(answer)
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

    async def _send(self, record: CallRecord) -> HttpAnswer:
        opening = not self._book.record.adopted
        answer = await self._send_once(record, opening=opening)
        refusal = None if answer.status < 400 else refusal_of(answer)
        if refusal is None:
            return answer
        if answer.status == 402:
            fresh = challenge_of(answer)
            if fresh is not None:
                self._challenges[record.call.tool_id] = fresh
            if refusal.code in CHALLENGE_CODES:
                return await self._send_once(record, opening=opening)
        if refusal.code == "channel-not-found" and not opening:
            # The node lost the session, or never kept it: show it the opening again.
            return await self._send_once(record, opening=True)
        return answer

    async def _send_once(self, record: CallRecord, *, opening: bool) -> HttpAnswer:
        facts, call = self._book.facts, record.call
        tool = require_tool(facts.card, call.tool_id)
        transaction = self._book.record.opening_transaction if opening else None
        credential = Credential(
            challenge=await self._challenge(call.tool_id),
            action="voucher" if transaction is None else "open",
            channel_id=facts.channel_id,
            amount=call.amount,
            signature=record.signature,
            transaction=transaction,
            source=self._source(),
        )
        return await self._node.call(
            call.tool_id,
            _arguments(call),
            credential.header(),
            max_bytes=min(facts.card.limits.max_response_bytes, self._context.settings.max_answer_bytes),
            timeout_seconds=tool.timeout_seconds,
        )

    async def _challenge(self, tool_id: str) -> Challenge:
        known = self._challenges.get(tool_id)
        if known is None or self._expired(known):
            known = await self._fresh_challenge(tool_id)
            self._challenges[tool_id] = known
        return known

    async def _fresh_challenge(self, tool_id: str) -> Challenge:
        try:
            return await self._node.challenge(tool_id)
        except Refused as error:
            if error.code != "tool-unknown":
                raise
            # Today's card may lack a tool that ours still offers; a challenge proves who issued it, not for
            # what.
            for tool in self._book.facts.card.tools:
                if tool.id != tool_id:
                    try:
                        return await self._node.challenge(tool.id)
                    except Refused:
                        continue
            raise

    def _expired(self, challenge: Challenge) -> bool:
        if challenge.expires is None:
            return False
        try:
            expires = datetime.datetime.fromisoformat(challenge.expires)
        except ValueError:
            return True
        if expires.tzinfo is None:
            return True
        return expires.timestamp() - _EXPIRY_MARGIN_SECONDS <= self._context.clock()

    async def _refused(self, answer: HttpAnswer) -> NoReturn:
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
        await self._book.abandon(error if code in SEALED_CODES else None)
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


def _arguments(call: Outstanding) -> bytes:
    """The request's body: canonical text has its two members in this order, and tool ids need no escapes."""
    return call.request[len(b'{"arguments":') : -len(f',"tool":"{call.tool_id}"}}')]


def _status(answer: HttpAnswer) -> int:
    """The status that goes with the signed response: the status line itself is not signed."""
    if problem_code(answer.body) is not None:
        return recorded_status(answer.body)
    return answer.status if 200 <= answer.status < 300 else 200
