"""Ending a session: together with the operator, or alone by the timed withdrawal. Both resume after a
restart.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from aioum.chain import calls
from aioum.chain.model import ChainSession
from aioum.client.book import Book
from aioum.client.caller import Caller
from aioum.client.context import ClientContext
from aioum.client.delivery import Delivery
from aioum.client.http import HttpAnswer
from aioum.client.node import refusal_of
from aioum.client.reconcile import Reconciler
from aioum.client.records import SessionPhase
from aioum.client.silence import is_silence
from aioum.core.errors import (
    AioumError,
    ChainError,
    ContractReverted,
    Divergence,
    InvalidInput,
    OutcomeUnknown,
    Refused,
)
from aioum.core.hextext import to_hex
from aioum.core.payment import CloseRequest
from aioum.core.purse import accept_settlement
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import SignedStatement, close_request_json

_TEMPORARY_STATUS = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Closed:
    """A finalized session as the chain has it, after it agreed with our own record. Amounts are base units.

    Attributes:
        root, call_count: what is anchored; both zero where nothing was.
        refunded: what came back to the payer.
    """

    channel_id: ChannelId
    session_id: int
    root: Bytes32
    call_count: int
    deposit: int
    settled: int
    refunded: int


class Closer:
    """Ends one session."""

    def __init__(
        self,
        context: ClientContext,
        book: Book,
        caller: Caller,
        reconciler: Reconciler,
        delivery: Delivery,
    ) -> None:
        self._context = context
        self._book = book
        self._caller = caller
        self._reconciler = reconciler
        self._delivery = delivery
        self._node = context.node(book.facts.node_url)

    async def close(self) -> Closed:
        """Ask the operator to settle, wait for it, and hold the result against our record.

        Raises:
            Refused: the node's code, `call-count-mismatch` among them.
            OutcomeUnknown: `close-unconfirmed`, no settlement in time; or the outstanding call has no answer.
                The session can be resumed; `exit` ends it without the operator.
            Divergence: what the operator stated or settled contradicts our record.
        """
        if await self._finalized() is None:
            await self._settle_outstanding()
            # Durable: nothing is paid any more. The close can be asked for again after a restart.
            await self._book.enter(SessionPhase.CLOSING)
            if not self._book.record.adopted:
                await self._delivery.introduce()
                await self._book.update(adopted=True)
            await self._ask_until_settled()
        return await self.verify()

    async def exit(self) -> Closed:
        """Withdraw without the operator: request the close on-chain, wait out the grace period, withdraw.

        The operator may still settle in the grace period, for no more than our vouchers; that ends it too.
        Once it has begun, an endpoint may be away for as long as `exit_silence_seconds`.

        Raises:
            ChainError, OutcomeUnknown: as `Payer.send`; call it again to go on where it stopped.
            Divergence: what the operator settled contradicts our record.
        """
        session = await self._finalized()
        if session is None:
            # Durable: nothing is paid any more, and a restarted client goes on with the withdrawal.
            await self._book.enter(SessionPhase.EXITING)
            await self._withdraw()
        return await self.verify()

    async def verify(self) -> Closed:
        """Hold the finalized session against our record and end it.

        Raises:
            ChainError: `session-not-final`.
            Divergence: as `accept_settlement`.
        """
        session = await self._finalized()
        if session is None:
            raise ChainError("the session is not finalized", code="session-not-final")
        if session.call_count > self._book.purse.next_index:
            await self._fetch_what_is_missing()
        try:
            purse = accept_settlement(
                self._book.purse,
                root=session.root,
                call_count=session.call_count,
                settled=session.settled,
                refunded=session.refunded,
                deposit=session.deposit,
            )
        except Divergence as error:
            await self._book.diverge(
                error,
                anchoredRoot=to_hex(session.root),
                anchoredCallCount=session.call_count,
                settled=str(session.settled),
                refunded=str(session.refunded),
                deposit=str(session.deposit),
            )
            await self._book.enter(SessionPhase.CLOSED)
            raise
        await self._book.update(purse=purse, phase=SessionPhase.CLOSED)
        return Closed(
            channel_id=session.channel_id,
            session_id=session.session_id,
            root=session.root,
            call_count=session.call_count,
            deposit=session.deposit,
            settled=session.settled,
            refunded=session.refunded,
        )

    async def _finalized(self) -> ChainSession | None:
        session = await self._session()
        return session if session.is_finalized else None

    async def _session(self) -> ChainSession:
        session = await self._context.chain.session(self._book.facts.channel_id)
        if session is None:
            raise ChainError(
                f"the chain has no session {to_hex(self._book.facts.channel_id)}",
                code="session-not-on-chain",
                hint="was the devnet reset?",
            )
        return session

    async def _settle_outstanding(self) -> None:
        # After a divergence nothing is sent any more, not even again.
        while self._book.outstanding is not None and not self._book.record.evidence:
            try:
                await self._caller.settle()
            except Refused:
                return

    async def _fetch_what_is_missing(self) -> None:
        """Best effort: the operator may still answer. What it does not answer, and what it contradicts itself
        with, shows in the comparison.
        """
        # A contradiction is kept, and the end on-chain is to be held against our record as well. What is not
        # answered any more may still stand in the record that the operator shows.
        with suppress(AioumError):
            await self._settle_outstanding()
        with suppress(AioumError):
            if self._reconciler.may_adopt:
                await self._reconciler.adopt()

    async def _ask_until_settled(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._context.settings.close_timeout_seconds
        cause: AioumError | None = None
        while loop.time() < deadline:
            try:
                if await self._ask_once() and await self._finalized() is not None:
                    return
            except OutcomeUnknown as error:
                cause = error
                if await self._finalized() is not None:
                    return
            await asyncio.sleep(self._context.settings.poll_seconds)
        raise OutcomeUnknown(
            f"the operator has not settled within {self._context.settings.close_timeout_seconds:g} s",
            code="close-unconfirmed",
            hint="resume the session and close() again, or exit() it",
        ) from cause

    async def _ask_once(self) -> bool:
        """Whether the node says that it settled."""
        answer = await self._request_close()
        refusal = None if answer.status < 400 else refusal_of(answer)
        if refusal is not None and refusal.status in _TEMPORARY_STATUS:
            raise OutcomeUnknown(str(refusal.error()), code=refusal.code)
        comparable = self._book.purse.signed or self._book.outstanding is None
        if refusal is not None and refusal.code == "call-count-mismatch" and comparable:
            # The node counts more calls: those that it had refused.
            if not await self._reconciler.adopt():
                raise refusal.error()
            answer = await self._request_close()
        value = self._node.json_of(answer)
        if answer.status == 202:
            return False
        if value.get("statement") is not None:
            try:
                signed = SignedStatement.from_json(value["statement"], self._book.facts.channel_id)
            except InvalidInput as error:
                raise OutcomeUnknown(str(error), code="statement-invalid") from error
            await self._reconciler.accept(signed)
        return True

    async def _request_close(self) -> HttpAnswer:
        facts = self._book.facts
        request = CloseRequest(facts.channel_id, self._book.purse.next_index)
        signature = await self._context.signer.sign(request, facts.domain)
        return await self._node.close(facts.channel_id, close_request_json(request, signature))

    async def _withdraw(self) -> None:
        """Go on from what the chain says at each look, until the session is over: an endpoint that is away or
        behind, and a block that was replaced, only take more looks.
        """
        settings, loop = self._context.settings, asyncio.get_running_loop()
        heard = loop.time()
        while True:
            try:
                if await self._step_out():
                    return
                heard = loop.time()
            except ChainError as error:
                if not is_silence(error) or loop.time() - heard > settings.exit_silence_seconds:
                    raise
            await asyncio.sleep(settings.poll_seconds)

    async def _step_out(self) -> bool:
        """Send what the session calls for now; True once it is finalized."""
        chain, channel_id = self._context.chain, self._book.facts.channel_id
        session = await self._session()
        if session.is_finalized:
            return True
        if not session.is_closing:
            request = calls.request_close(chain.payment_manager, channel_id)
            await self._send(request, f"request-close {to_hex(channel_id)}", session)
            return False
        ready_at = session.close_requested_at + await chain.grace_period_seconds()
        # The contract judges by its own block's clock, so the machine's clock does not matter here.
        if (await chain.head()).timestamp >= ready_at:
            withdrawal = calls.withdraw(chain.payment_manager, channel_id)
            await self._send(withdrawal, f"withdraw {to_hex(channel_id)}", session)
        return False

    async def _send(self, call: calls.ContractCall, purpose: str, seen: ChainSession) -> None:
        """Send a step of the withdrawal, and wait until it shows. Whether it failed does not matter where the
        session is no longer as it was `seen`: the operator's settlement came first, or that look was at an
        older block.
        """
        failure: ChainError | None = None
        try:
            await self._context.payer.send(call, purpose)
        except ChainError as error:
            if is_silence(error):
                raise
            failure = error
        # What the contract did not refuse has nothing to do with how old that look was.
        may_be_stale = failure is None or isinstance(failure, ContractReverted)
        seconds = self._context.settings.stale_view_seconds if may_be_stale else 0.0
        if not await self._has_moved_on(seen, seconds) and failure is not None:
            raise failure

    async def _has_moved_on(self, seen: ChainSession, seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            found = await self._session()
            if (found.is_closing, found.is_finalized) != (seen.is_closing, seen.is_finalized):
                return True
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(self._context.settings.poll_seconds)
