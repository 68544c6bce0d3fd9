"""Buying calls in one session: what has to be in order before a call is signed, and which go together."""

from __future__ import annotations

from contextlib import ExitStack, suppress

from aioum.client.book import Book
from aioum.client.caller import Caller, Elsewhere
from aioum.client.context import ClientContext
from aioum.client.flights import Flights
from aioum.client.reconcile import Reconciler
from aioum.client.records import CallRecord, SessionPhase
from aioum.core.card import Tool
from aioum.core.errors import AioumError, ChainError, OutcomeUnknown, PolicyRefused, Refused
from aioum.core.hextext import to_hex
from aioum.core.purse import NO_MONEY_CODES


class EarlierCallRefused(Refused):
    """An earlier signed call stands in the way of this one, of which nothing was sent."""

    default_code = "signed-call-refused"


class Buyer:
    """Takes the calls of one session in their order, and lets signed ones be under way together.

    Where something has to be settled first (a call without an answer that nobody waits for, the operator's
    statement), the session is quiet for it.
    """

    def __init__(
        self,
        context: ClientContext,
        book: Book,
        flights: Flights,
        caller: Caller,
        reconciler: Reconciler,
        *,
        caught_up: bool,
    ) -> None:
        """Args: caught_up: the record is no older than the session."""
        self._context = context
        self._book = book
        self._flights = flights
        self._caller = caller
        self._reconciler = reconciler
        self._caught_up = caught_up
        self._looked_at: float | None = None
        self._close_pending = False

    @property
    def max_in_flight(self) -> int:
        """Calls that can be under way at the same time; more queue up. Without signatures it is one."""
        if not self._book.purse.signed:
            return 1
        return min(self._book.facts.card.limits.max_in_flight, self._context.settings.max_calls_in_flight)

    @property
    def unattended(self) -> bool:
        """Whether a call has no answer yet and is not under way together with others."""
        return any(call.number not in self._flights.under_way for call in self._book.open)

    async def buy(self, seat: str, tool: Tool, request: bytes) -> CallRecord:
        """Sign, keep and send a call. `request`: its canonical bytes.

        Raises:
            PolicyRefused, ConfigError, Refused, OutcomeUnknown, Divergence: as `PaidSession.call`.
        """
        with ExitStack() as flight:
            async with self._flights.turn():
                await self._make_ready()
                if self._goes_alone:
                    return await self._caller.pay(seat, tool, request)
                record = await self._begin(seat, tool, request)
                # Before the turn ends: nobody takes it for a call that nobody waits for.
                flight.enter_context(self._flights.flight(record.number))
            with suppress(Elsewhere):
                return await self._caller.send(record)
        async with self._flights.quiet():
            return await self._settled(record)

    @property
    def _goes_alone(self) -> bool:
        # The first call shows the node the opening; the others need not all do that.
        return self.max_in_flight == 1 or not self._book.record.adopted

    async def _make_ready(self) -> None:
        """With the turn in hand: wait until a call can begin, and put in order what has to be before it."""
        while True:
            await self._book.refresh()
            self.require_open()
            await self.look_at_chain()
            self.require_open()
            purse = self._book.purse
            behind = purse.signed and not self._caught_up
            quiet = self._goes_alone or behind or self.unattended or purse.statement_due
            most = 1 if quiet else self.max_in_flight
            if len(self._flights.under_way) < most:
                break
            await self._flights.fewer_than(most)
        if quiet:
            await self._put_in_order()

    async def _put_in_order(self) -> None:
        refused = await self.settle_all()
        if refused is not None and self._book.outstanding is not None:
            raise EarlierCallRefused(
                f"the node still refuses the signed call {self._book.purse.next_index}: {refused}",
                hint="nothing replaces it: recover() sends it again, close() or exit() ends the session",
                details={"refusal": refused.code},
            ) from refused
        if self._book.purse.signed and not self._caught_up:
            await self._reconciler.catch_up()
            self._caught_up = True
        if self._book.purse.statement_due:
            await self._reconciler.agree()

    async def _begin(self, seat: str, tool: Tool, request: bytes) -> CallRecord:
        try:
            return await self._caller.begin(seat, tool, request, self.max_in_flight)
        except PolicyRefused as refused:
            if refused.code not in NO_MONEY_CODES or not self._flights.under_way:
                raise
        # What is under way and fails costs nothing, and then there may be enough.
        await self._flights.fewer_than(1)
        await self._make_ready()
        return await self._caller.begin(seat, tool, request, self.max_in_flight)

    async def _settled(self, record: CallRecord) -> CallRecord:
        """Settle a call that was under way, after those before it, while no other is under way."""
        await self._book.refresh()
        refused = await self.settle_all()
        answered = self._book.answered_at(record.call.index)
        if answered is not None:
            return answered
        first = self._book.outstanding
        if refused is not None and first is not None and first.number == record.number:
            raise refused
        raise OutcomeUnknown(
            f"the signed call {record.call.index} has no answer"
            + (f", because the node refuses an earlier one: {refused}" if refused else ""),
            code=self._book.purse.stopped if refused is None else refused.code,
        )

    def require_open(self) -> None:
        """Raises PolicyRefused `close-pending`, `session-not-open`, or as `require_paying`."""
        if self._close_pending and self._book.record.phase is SessionPhase.OPEN:
            raise PolicyRefused(
                "a close of the session is pending on-chain", code="close-pending", hint="exit() finishes it"
            )
        if self._book.record.phase is not SessionPhase.OPEN:
            raise PolicyRefused(
                f"the session is {self._book.record.phase}, nothing is paid in it",
                code="session-not-open",
                hint="open another session",
            )
        self.require_paying()

    def require_paying(self) -> None:
        """Raises PolicyRefused `paying-stopped`."""
        if self._book.purse.stopped is not None:
            raise PolicyRefused(
                f"this session stopped paying: {self._book.purse.stopped}",
                code="paying-stopped",
                hint="build an evidence package if the operator contradicted itself, and exit() the session",
            )

    async def settle_all(self) -> Refused | None:
        """Repeat the calls that have no answer. What is refused is another call's matter: an unsigned one was
        given up, and its amount stays signed.
        """
        while self._book.outstanding is not None and not self._book.record.evidence:
            try:
                await self._caller.settle()
            except Refused as refused:
                return refused
        return None

    async def look_at_chain(self, *, again: bool = False) -> None:
        """Take over the deposit; stop paying where the operator anchored a root or the session is over.

        Args:
            again: also if it was looked at a moment ago.

        Raises:
            ChainError: `session-not-on-chain`.
        """
        now = self._context.clock()
        limit = self._context.settings.chain_check_seconds
        if not again and self._looked_at is not None and 0 <= now - self._looked_at < limit:
            return
        session = await self._context.chain.session(self._book.facts.channel_id)
        if session is None:
            raise ChainError(
                f"the chain has no session {to_hex(self._book.facts.channel_id)}",
                code="session-not-on-chain",
                hint="was the devnet reset?",
            )
        ended: AioumError | None = None
        if session.is_finalized:
            ended = PolicyRefused("the session is finalized", code="session-finalized")
        elif session.has_root:
            ended = PolicyRefused("the operator anchored the session's root", code="root-anchored")
        await self._book.observe(session.deposit, ended)
        self._close_pending = session.is_closing
        self._looked_at = now
