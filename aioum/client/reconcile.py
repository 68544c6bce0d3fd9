"""Reading the operator's own record: calls that we had given up, and the signed statement over all of
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.records import CallPhase, CallRecord
from aioum.client.retries import attempts
from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import (
    AioumError,
    Divergence,
    InvalidInput,
    OutcomeUnknown,
    PolicyRefused,
    Refused,
    SignatureInvalid,
)
from aioum.core.payment import ReadAccess, Statement, Voucher
from aioum.core.problem import problem_code
from aioum.core.purse import PurseState, accept_statement, adopt_answer, missed_call
from aioum.core.signing import require_signer
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.keys import VerifyingKey
from aioum.core.transcript import Entry, entry_from_json, entry_leaf, transcript_root
from aioum.core.wire import SignedReceipt, SignedStatement, read_access_header

_ACCESS_MARGIN_SECONDS = 30


@dataclass(frozen=True, slots=True)
class _Shown:
    """A call of the operator's record. Its receipt was checked; `submission` is as it came."""

    entry: Entry
    receipt: SignedReceipt
    submission: JsonValue


class Reconciler:
    """Compares one session's book with what the operator says of it."""

    def __init__(self, context: ClientContext, book: Book) -> None:
        self._context = context
        self._book = book
        self._node = context.node(book.facts.node_url)
        self._access = ""
        self._access_expires_at = 0

    async def adopt(self) -> list[CallRecord]:
        """Take over calls of ours that the operator had recorded and we lack: those given up; in a signed
        session those without an answer, and whatever else one of our seats signed. In an unsigned session no
        call may be outstanding. No call may be under way.

        Raises:
            Divergence: `unknown-call-recorded`, the operator recorded a call that we never signed, or as
                `adopt_answer`. Paying stopped.
            PolicyRefused: `record-outdated`, our own seats signed two calls for one position. Paying stopped.
            OutcomeUnknown, Refused: the record could not be read, or its answer was altered on the way.
        """
        adopted: list[CallRecord] = []
        more = True
        while more:
            try:
                page, more = await self._page(self._book.purse.next_index)
            except Refused as error:
                if error.code == "channel-not-found":
                    # The node never saw the session, or lost it: it shows no record of it.
                    return adopted
                raise
            for shown in page:
                call = await self._adopt_one(shown)
                if call is not None:
                    adopted.append(call)
        return adopted

    async def catch_up(self) -> None:
        """Before a resumed session signs anything, take over what the operator knows and this record lacks.

        A record that was restored from a backup would sign a second submission on a head that it forgot, and
        the operator could show both as proof against the client. Vouchers alone prove no such thing.

        Raises:
            Divergence, PolicyRefused, OutcomeUnknown, Refused: as `adopt`.
        """
        async for attempt in attempts(self._context.settings):
            with attempt:
                await self.adopt()

    async def agree(self) -> SignedStatement | None:
        """Fetch the operator's statement, hold it against our record and keep it; None before the first call.

        Raises:
            Divergence: the statement contradicts our record. Paying stopped.
            OutcomeUnknown: `statement-unavailable`; no statement over all our calls can be had now.
        """
        try:
            async for attempt in attempts(self._context.settings):
                with attempt:
                    return await self._agree_once()
        except (OutcomeUnknown, Refused) as error:
            raise OutcomeUnknown(
                f"the operator gives no statement: {error}",
                code="statement-unavailable",
                hint="try again, or exit() the session",
            ) from error
        raise AssertionError("a retry ends by its result or its last error")

    async def accept(self, signed: SignedStatement) -> None:
        """Hold a statement against our record and keep it.

        Raises:
            Divergence: it contradicts our record. Paying stopped.
            OutcomeUnknown: `statement-invalid`, not signed by the receipt signer; `statement-stale`, it is
                about fewer calls than we know and agrees with us on those.
        """
        facts = self._book.facts
        try:
            require_signer(signed.statement.digest(facts.domain), signed.signature, facts.receipt_signer)
        except SignatureInvalid as error:
            raise OutcomeUnknown(f"no valid statement: {error}", code="statement-invalid") from error
        # Whatever comes of the comparison, it is the operator's word.
        await self._context.words.keep(signed)
        if signed.statement.call_count > self._book.purse.next_index and self.may_adopt:
            await self.adopt()
        try:
            purse = accept_statement(self._book.purse, signed.statement)
        except Divergence as error:
            if self._agrees_with_prefix(signed.statement):
                raise OutcomeUnknown(
                    f"the statement is about the first {signed.statement.call_count} calls only",
                    code="statement-stale",
                ) from error
            await self._book.diverge(error, statement=signed.to_json())
            raise
        await self._book.keep_statement(purse, signed)

    @property
    def may_adopt(self) -> bool:
        """Whether the operator's record may have calls of ours that ours lacks."""
        return self._book.purse.signed or bool(self._book.abandoned and self._book.outstanding is None)

    async def _agree_once(self) -> SignedStatement | None:
        refused = self._book.abandoned or (self._book.purse.signed and self._book.outstanding)
        if self._book.purse.next_index == 0 and not refused:
            return None
        answer = await self._node.read_session(self._book.facts.channel_id, "/statement", await self.access())
        try:
            value = self._node.json_of(answer)
            signed = SignedStatement.from_json(value, self._book.facts.channel_id)
        except InvalidInput as error:
            raise OutcomeUnknown(str(error), code="statement-invalid") from error
        except Refused as error:
            if error.code == "nothing-recorded" and self._book.purse.next_index == 0:
                return None
            raise
        await self.accept(signed)
        return signed

    async def access(self) -> str:
        """An `Authorization` value that lets us read our session."""
        now = int(self._context.clock())
        if now + _ACCESS_MARGIN_SECONDS >= self._access_expires_at:
            facts = self._book.facts
            expires_at = now + self._context.settings.read_access_seconds
            access = ReadAccess(facts.channel_id, expires_at)
            self._access = read_access_header(access, await self._context.signer.sign(access, facts.domain))
            self._access_expires_at = expires_at
        return self._access

    def _agrees_with_prefix(self, statement: Statement) -> bool:
        count = statement.call_count
        if count >= self._book.purse.next_index:
            return False
        spent = sum(call.receipt.receipt.charge for call in self._book.answered[:count] if call.receipt)
        root = transcript_root(self._book.entries[:count])
        return (statement.root, statement.spent) == (root, spent)

    async def _page(self, first: int) -> tuple[list[_Shown], bool]:
        channel_id = self._book.facts.channel_id
        answer = await self._node.read_session(channel_id, f"/calls?from={first}", await self.access())
        value = self._node.json_of(answer)
        calls = value.get("calls")
        try:
            if not isinstance(calls, list):
                raise InvalidInput("expected a list of calls")
            page = [self._read(item, first + offset) for offset, item in enumerate(calls)]
            return page, bool(page) and value.get("next") is not None
        except (InvalidInput, SignatureInvalid) as error:
            raise OutcomeUnknown(
                f"the operator's record is not readable: {error}", code="node-answer-malformed"
            ) from error

    def _read(self, item: JsonValue, index: int) -> _Shown:
        facts = self._book.facts
        if not isinstance(item, dict):
            raise InvalidInput("a recorded call is an object")
        members = {name: item.get(name) for name in ("index", "toolId", "request", "response")}
        entry = entry_from_json(members, index)
        header = item.get("receipt")
        if not isinstance(header, str):
            raise InvalidInput("a call's receipt is text")
        signed = SignedReceipt.from_header(header)
        require_signer(signed.receipt.digest(facts.domain), signed.signature, facts.receipt_signer)
        return _Shown(entry, signed, item.get("submission"))

    async def _adopt_one(self, shown: _Shown) -> CallRecord | None:
        """None: it was answered before, out of order."""
        entry, signed = shown.entry, shown.receipt
        if (signed.receipt.index, signed.receipt.leaf) != (entry.index, entry_leaf(entry)):
            # They come from different places of one unsigned answer, so this accuses nobody. The receipt
            # alone stays what the operator signed.
            await self._context.words.keep(signed)
            raise OutcomeUnknown(
                f"the text shown of call {entry.index} is not what its receipt is about",
                code="answer-altered",
            )
        await require_single_word(self._book, signed, [])
        if self._book.answered_at(entry.index) is not None:
            return None
        purse = self._book.purse
        found = next((record for record in self._candidates() if self._is_shown(record, shown)), None)
        if found is None:
            purse, found = await self._missed(shown)
        response = entry.response.encode()
        try:
            purse = adopt_answer(purse, found.call, response, signed.receipt)
        except Divergence as error:
            if error.code == "receipt-charge-mismatch":
                await self._book.diverge(error, (signed,))
                raise
            await self._context.words.keep(signed)
            raise OutcomeUnknown(str(error), code="answer-altered") from error
        adopted = replace(
            found,
            call=replace(found.call, index=entry.index),
            phase=CallPhase.ANSWERED,
            status=recorded_status(response),
            response=response,
            receipt=signed,
        )
        await self._book.adopt(purse, adopted)
        return adopted

    async def _missed(self, shown: _Shown) -> tuple[PurseState, CallRecord]:
        """A call that this record lacks as its maker began it: the record was restored, or has a copy."""
        entry, facts = shown.entry, self._book.facts
        envelope = self._own_envelope(shown)
        if envelope is None:
            error = Divergence(
                f"the operator recorded a call {entry.index} that we never signed",
                code="unknown-call-recorded",
                hint="if this data directory was restored from a backup, exit() the session",
            )
            proof = (shown.receipt,)
            await self._book.diverge(error, proof, request=entry.request, response=entry.response)
            raise error
        same_history = envelope.prev_head == self._book.seats.head(envelope.seat)
        if self._book.outstanding is not None or not same_history:
            outdated = PolicyRefused(
                f"our own seat {envelope.seat} signed two calls for position {entry.index}",
                code="record-outdated",
                hint="the data directory was restored, or is used twice; exit() the session",
            )
            await self._book.stop(outdated)
            raise outdated
        tool = facts.card.tool(entry.tool_id)
        price = 0 if tool is None else tool.price
        purse, call = missed_call(self._book.purse, entry.tool_id, entry.request.encode(), price)
        voucher = await self._context.signer.sign(Voucher(facts.channel_id, call.amount), facts.domain)
        return purse, CallRecord(call, voucher, envelope=envelope)

    def _own_envelope(self, shown: _Shown) -> Envelope | None:
        """What one of our seats signed for a call, or None where none did."""
        roster = self._book.facts.roster
        if roster is None:
            return None
        try:
            envelope = Envelope.from_json(shown.submission)
            seat = roster.entry(envelope.seat)
            if seat is None or envelope.cursor != shown.entry.index:
                return None
            submission = envelope.submission(self._book.facts.channel_id, shown.entry.request.encode())
            submission.require_signed(envelope.signature, VerifyingKey(seat.public_key))
        except (InvalidInput, SignatureInvalid):
            return None
        return envelope

    def _is_shown(self, record: CallRecord, shown: _Shown) -> bool:
        """Whether a call of ours is the one that the operator shows: the same request, and no other envelope
        of ours. An envelope that is none of ours says nothing: the receipt does not cover it.
        """
        if (record.call.tool_id, record.call.request.decode()) != (shown.entry.tool_id, shown.entry.request):
            return False
        if record.envelope is not None and record.envelope.cursor != shown.entry.index:
            return False
        other = self._own_envelope(shown)
        if record.envelope is None or other is None:
            return True
        return replace(other, signature=b"") == replace(record.envelope, signature=b"")

    def _candidates(self) -> list[CallRecord]:
        if self._book.purse.signed:
            return self._book.open
        # Of equal requests the newest first: its caller may still be waiting for the answer.
        return self._book.abandoned[::-1]


async def require_single_word(book: Book, signed: SignedReceipt, sighted: Iterable[SignedReceipt]) -> None:
    """Hold a valid receipt against every other of the same index that we have seen.

    Raises:
        Divergence: `operator-double-signed`, with both receipts. Paying stopped.
    """
    index = signed.receipt.index
    answered = book.answered_at(index)
    known = [] if answered is None or answered.receipt is None else [answered.receipt]
    kept = [receipt for evidence in book.record.evidence for receipt in evidence.receipts]
    for other in (*known, *kept, *sighted):
        if other.receipt.index == index and other.receipt != signed.receipt:
            error: AioumError = Divergence(
                f"the operator signed two different receipts of call {index}",
                code="operator-double-signed",
                hint="the two receipts prove it to anybody; build an evidence package",
            )
            await book.diverge(error, (other, signed))
            raise error


def recorded_status(response: bytes) -> int:
    """The HTTP status that a recorded response belongs to: that of its problem document, else 200."""
    if problem_code(response) is None:
        return 200
    value = parse_json(response, max_bytes=len(response))
    status = value.get("status") if isinstance(value, dict) else None
    return status if isinstance(status, int) else 500
