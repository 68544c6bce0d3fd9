"""Reading the operator's own record: calls that we had given up, and the signed statement over all of
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import stamina

from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.records import CallPhase, CallRecord
from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import AioumError, Divergence, InvalidInput, OutcomeUnknown, Refused, SignatureInvalid
from aioum.core.payment import ReadAccess, Statement
from aioum.core.problem import problem_code
from aioum.core.purse import accept_statement, adopt_answer
from aioum.core.signing import require_signer
from aioum.core.transcript import Entry, entry_from_json, transcript_root
from aioum.core.wire import SignedReceipt, SignedStatement, read_access_header

_ACCESS_MARGIN_SECONDS = 30


class Reconciler:
    """Compares one session's book with what the operator says of it."""

    def __init__(self, context: ClientContext, book: Book) -> None:
        self._context = context
        self._book = book
        self._node = context.node(book.facts.node_url)
        self._access = ""
        self._access_expires_at = 0

    async def adopt(self) -> list[CallRecord]:
        """Take over calls that we had given up and the operator had recorded; no call may be outstanding.

        Raises:
            Divergence: `unknown-call-recorded`, the operator recorded a call that we never signed, or as
                `adopt_answer`. Paying stopped.
            OutcomeUnknown, Refused: the record could not be read, or its answer was altered on the way.
        """
        adopted: list[CallRecord] = []
        more = True
        while more:
            try:
                page, more = await self._page(self._book.purse.next_index)
            except Refused as error:
                if error.code == "channel-not-found" and not self._book.record.adopted:
                    # The node never saw the session, so it recorded nothing of it.
                    return adopted
                raise
            for entry, signed in page:
                adopted.append(await self._adopt_one(entry, signed))
        return adopted

    async def agree(self) -> SignedStatement | None:
        """Fetch the operator's statement, hold it against our record and keep it; None before the first call.

        Raises:
            Divergence: the statement contradicts our record. Paying stopped.
            OutcomeUnknown: `statement-unavailable`; no statement over all our calls can be had now.
        """
        settings = self._context.settings
        try:
            async for attempt in stamina.retry_context(
                on=OutcomeUnknown,
                attempts=settings.retry_attempts,
                timeout=settings.retry_timeout_seconds,
                wait_initial=settings.retry_wait_initial_seconds,
                wait_max=settings.retry_wait_max_seconds,
                wait_jitter=settings.retry_wait_initial_seconds,
            ):
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
        given_up = self._book.abandoned and self._book.purse.outstanding is None
        if signed.statement.call_count > self._book.purse.next_index and given_up:
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

    async def _agree_once(self) -> SignedStatement | None:
        if self._book.purse.next_index == 0 and not self._book.abandoned:
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

    async def _page(self, first: int) -> tuple[list[tuple[Entry, SignedReceipt]], bool]:
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

    def _read(self, item: JsonValue, index: int) -> tuple[Entry, SignedReceipt]:
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
        return entry, signed

    async def _adopt_one(self, entry: Entry, signed: SignedReceipt) -> CallRecord:
        found = next(
            (
                record
                # Of equal requests the newest first: its caller may still be waiting for the answer.
                for record in reversed(self._book.abandoned)
                if (record.call.tool_id, record.call.request.decode()) == (entry.tool_id, entry.request)
            ),
            None,
        )
        if found is None:
            error = Divergence(
                f"the operator recorded a call {entry.index} that we never signed",
                code="unknown-call-recorded",
                hint="if this data directory was restored from a backup, exit() the session",
            )
            await self._book.diverge(error, (signed,), request=entry.request, response=entry.response)
            raise error
        response = entry.response.encode()
        await require_single_word(self._book, signed, [])
        try:
            purse = adopt_answer(self._book.purse, found.call, response, signed.receipt)
        except Divergence as error:
            if error.code == "receipt-charge-mismatch":
                await self._book.diverge(error, (signed,))
                raise
            # Receipt and text come from different places of one unsigned answer: altered on the way, perhaps.
            raise OutcomeUnknown(str(error), code="answer-altered") from error
        adopted = replace(
            found,
            call=replace(found.call, index=entry.index),
            phase=CallPhase.ANSWERED,
            status=recorded_status(response),
            response=response,
            receipt=signed,
        )
        await self._book.answer(purse, adopted)
        return adopted


async def require_single_word(book: Book, signed: SignedReceipt, sighted: Iterable[SignedReceipt]) -> None:
    """Hold a valid receipt against every other of the same index that we have seen.

    Raises:
        Divergence: `operator-double-signed`, with both receipts. Paying stopped.
    """
    index = signed.receipt.index
    known = [call.receipt for call in book.answered[index : index + 1] if call.receipt is not None]
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
