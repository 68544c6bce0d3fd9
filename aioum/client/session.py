"""A paid session: what a program holds while it buys calls (PROTOCOL 3, 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from aioum.chain import calls
from aioum.chain.model import Mined
from aioum.client.book import Book
from aioum.client.buying import Buyer
from aioum.client.caller import Caller
from aioum.client.closing import Closed, Closer
from aioum.client.context import ClientContext
from aioum.client.delivery import Delivery
from aioum.client.dispute import Dispute
from aioum.client.flights import Flights
from aioum.client.held_money import HeldMoney
from aioum.client.linking import linked
from aioum.client.log_proof import keep_log_proof
from aioum.client.opening import complete_opening
from aioum.client.packaging import package_of
from aioum.client.policy import check_deposit
from aioum.client.publication.published import Publisher
from aioum.client.rating import Rater
from aioum.client.reconcile import Reconciler
from aioum.client.records import Evidence, SessionPhase
from aioum.client.recourse import Challenged, Proven, Recourse
from aioum.client.results import CallResult
from aioum.client.seats import CLIENT_SEAT, Seat, SeatKeys, SeatSigner, require_seat
from aioum.client.service import check_arguments, check_request, require_tool
from aioum.core.amounts import check_amount
from aioum.core.canonical import JsonValue
from aioum.core.card import Card
from aioum.core.errors import OutcomeUnknown, Refused
from aioum.core.evidence import Claim
from aioum.core.experience import SuggestedScore
from aioum.core.hextext import to_hex
from aioum.core.submission.framing import encode_base64
from aioum.core.submission.roster import Roster
from aioum.core.transcript import Entry, canonical_request
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement
from aioum.log.membership import Membership
from aioum.log.monitor import LogIdentity


class PaidSession:
    """An open session with a service. Calls of several tasks and seats queue up for their places in its one
    order; signed ones are then under way together, as many as the service takes.
    """

    def __init__(self, context: ClientContext, book: Book, keys: SeatKeys, *, resumed: bool = False) -> None:
        """Made by `Marketplace.open` and `Marketplace.resume`."""
        self._context = context
        self._book = book
        self._flights = Flights()
        self._reconciler = Reconciler(context, book)
        self._delivery = Delivery(context, book)
        signer = SeatSigner(context, book, keys)
        self._caller = Caller(context, book, self._reconciler, self._delivery, signer)
        self._closer = Closer(context, book, self._caller, self._reconciler, self._delivery)
        self._recourse = Recourse(context, book, HeldMoney(context))
        self._rater = Rater(context, book, self._recourse)
        # A record that was read from the journal may be older than the session.
        self._buyer = Buyer(
            context, book, self._flights, self._caller, self._reconciler, caught_up=not resumed
        )

    def __repr__(self) -> str:
        return f"PaidSession({to_hex(self.channel_id)}, {self.phase}, {len(self._book.answered)} calls)"

    @property
    def channel_id(self) -> ChannelId:
        """The session's key, 32 bytes."""
        return self._book.facts.channel_id

    @property
    def session_id(self) -> int:
        """The chain's label for it; 0 while it is not known."""
        return self._book.record.session_id

    @property
    def phase(self) -> SessionPhase:
        """How far it is."""
        return self._book.record.phase

    @property
    def card(self) -> Card:
        """The card it was opened under; its prices hold to the end."""
        return self._book.facts.card

    @property
    def calls(self) -> tuple[Entry, ...]:
        """The transcript: the answered calls by index, up to the first that has no answer."""
        return self._book.entries

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The answered calls as `call` returned them."""
        return tuple(CallResult.of(record) for record in self._book.answered)

    @property
    def root(self) -> Bytes32:
        """Root over `calls`, 32 bytes; zero where there are none."""
        return self._book.purse.root

    @property
    def spent(self) -> int:
        """Base units that the answered calls cost."""
        return self._book.purse.spent

    @property
    def authorized(self) -> int:
        """The highest amount signed, base units: what a dishonest operator could ask for at most."""
        return self._book.purse.highest

    @property
    def deposit(self) -> int:
        """Base units in the channel."""
        return self._book.purse.deposit

    @property
    def outstanding(self) -> bool:
        """Whether a call has no answer yet. One that nobody waits for any more is repeated first by the next
        call, `recover` or `close`.
        """
        return self._book.purse.outstanding is not None

    @property
    def unattended(self) -> bool:
        """Whether a call has no answer yet and is not under way together with others."""
        return self._buyer.unattended

    @property
    def max_in_flight(self) -> int:
        """Calls that can be under way at the same time; more queue up. Without signatures it is one."""
        return self._buyer.max_in_flight

    @property
    def stopped(self) -> str | None:
        """Reason code that ended paying, or None."""
        return self._book.purse.stopped

    @property
    def roster(self) -> Roster | None:
        """The seats whose keys sign the calls; None in an unsigned session."""
        return self._book.facts.roster

    @property
    def heads(self) -> dict[str, str]:
        """Each seat's head after its answered calls, base64. Keep them: a record that ends earlier is cut."""
        return {seat: encode_base64(head) for seat, head in self._book.retained_heads.items()}

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Contradictions of the operator, with what proves them."""
        return self._book.record.evidence

    def seat(self, name: str) -> Seat:
        """A seat of the session, to call as. Raises InvalidInput `seat-unknown`."""
        entry = require_seat(self._book, name)
        return Seat(name, entry.public_key, self._call)

    async def call(
        self, tool_id: str, arguments: Mapping[str, JsonValue] | None = None, /, **more: JsonValue
    ) -> CallResult:
        """Buy one call; in a signed session as the seat `client`.

        Args:
            tool_id: a tool of the card.
            arguments: its arguments.
            **more: further arguments, by name.

        Returns:
            The recorded answer. A tool that failed is an answer too, with `ok` False, and costs nothing.

        Raises:
            InvalidInput: `tool-unknown`, `arguments-invalid`, `request-too-large`, or CanonicalError. Nothing
                was sent.
            PolicyRefused: `spend-limit-exceeded`, `call-too-expensive`, `deposit-exhausted`,
                `paying-stopped`, `session-not-open`, `seat-key-lost`. Nothing was sent.
            ConfigError: `seat-keys-exposed`, `seat-keys-damaged`. Nothing was sent.
            Refused: the node's code; the call was not made. In a signed session it stays outstanding, because
                an envelope is never replaced; while the node goes on refusing it, another call is refused
                with `signed-call-refused`.
            OutcomeUnknown: no valid answer in time. The call stays outstanding: the next call, `recover` or
                `close` repeats the same request, and it is never paid twice.
            Divergence: the operator's signed word contradicts our record. Paying stopped for good; `evidence`
                has it.
        """
        return await self._call(CLIENT_SEAT, tool_id, {**(arguments or {}), **more})

    async def _call(self, seat: str, tool_id: str, arguments: dict[str, JsonValue]) -> CallResult:
        tool = require_tool(self.card, tool_id)
        request = canonical_request(tool_id, arguments).encode()
        check_arguments(tool, arguments)
        check_request(self.card, request, signed=self._book.purse.signed)
        buy = partial(self._buyer.buy, seat, tool, request)
        return CallResult.of(await linked(self.channel_id, tool_id, request, buy))

    async def recover(self) -> CallResult | None:
        """Get the answers of calls that have none yet, by repeating them in their order.

        Returns:
            The answer of the first of them; the others stand in `results`. None where there were none.

        Raises:
            Refused, OutcomeUnknown, Divergence: as `call`.
        """
        async with self._flights.quiet():
            await self._book.refresh()
            if self._book.outstanding is None:
                return None
            if self.evidence:
                # Not even the same bytes are sent again to an operator that contradicted itself.
                self._buyer.require_paying()
            first = await self._caller.settle()
            while self._book.open:
                await self._caller.settle()
            return CallResult.of(first)

    async def statement(self) -> SignedStatement | None:
        """Fetch the operator's signed statement over all calls and hold it against our record.

        Returns:
            The statement, or None before the first call.

        Raises:
            OutcomeUnknown: `statement-unavailable`.
            Divergence: it contradicts our record. Paying stopped.
        """
        async with self._flights.quiet():
            await self._book.refresh()
            await self._buyer.settle_all()
            return await self._reconciler.agree()

    async def top_up(self, amount: int) -> int:
        """Add base units to the deposit. Returns the new deposit.

        Raises:
            PolicyRefused: `session-not-open`, `deposit-too-high`, `balance-too-low`.
            ChainError, OutcomeUnknown: as `Payer.send`; a resumed session reads the deposit from the chain.
        """
        async with self._flights.quiet():
            await self._book.refresh()
            self._buyer.require_open()
            check_deposit(self._context.policy, self.card, check_amount(self.deposit + check_amount(amount)))
            transaction = await self._send_top_up(amount)
            await self._buyer.look_at_chain(again=True)
            if self._book.record.adopted and transaction is not None:
                # The node notices by itself as well, only later.
                with suppress(OutcomeUnknown, Refused):
                    await self._delivery.announce_top_up(transaction)
            return self.deposit

    async def _send_top_up(self, amount: int) -> Bytes32 | None:
        context, token = self._context, self._book.facts.channel.token
        if context.gasless is not None:
            salt = Bytes32(context.random_bytes(32))
            return await context.gasless.top_up(self.channel_id, token, amount, salt)
        channel_hex = to_hex(self.channel_id)
        call = calls.top_up(context.chain.payment_manager, self.channel_id, amount)
        async with context.allowances.covering(token, amount, f"approve {channel_hex}"):
            return (await context.payer.send(call, f"top-up {channel_hex}")).transaction_hash

    async def close(self) -> Closed:
        """End the session together with the operator; see `Closer.close`. A closed one is looked at again."""
        async with self._flights.quiet():
            await self._book.refresh()
            return await self._closer.close()

    async def exit(self) -> Closed:
        """End the session without the operator, in the contract's grace period; see `Closer.exit`."""
        async with self._flights.quiet():
            await self._book.refresh()
            return await self._closer.exit()

    async def verify(self) -> Closed:
        """Hold a session that is over on-chain against our own record, whoever ended it.

        Raises:
            ChainError: `session-not-final`.
            Divergence: as `Closer.verify`.
        """
        async with self._flights.quiet():
            await self._book.refresh()
            return await self._closer.verify()

    async def log_proof(self, known: LogIdentity | None = None) -> Membership:
        """Prove that the session is in its operator's transparency log, and keep the proof for
        `evidence_package`; see `keep_log_proof`.
        """
        async with self._flights.quiet():
            await self._book.refresh()
            node = self._context.node(self._book.facts.node_url)
            return await keep_log_proof(self._context.chain, node, self._book, known)

    def evidence_package(
        self,
        claim: Claim | str,
        narrative: str,
        *,
        disclose: Iterable[int] | None = None,
        attestations: Sequence[dict[str, JsonValue]] = (),
    ) -> dict[str, JsonValue]:
        """Assemble an evidence package (PROTOCOL 7) from our own record; write it with `package_bytes`.

        Args:
            claim: `non-delivery`, `wrong-result` or `quality`.
            narrative: free text.
            disclose: indexes of the calls to show (formatVersion 2); None: all (formatVersion 1).
            attestations: as in PROTOCOL 7.

        Raises:
            InvalidInput: as `build_package` and `disclose`.
        """
        return package_of(self._book, claim, narrative, disclose_only=disclose, attestations=attestations)

    @property
    def rater(self) -> Rater:
        """The steps behind `rate`, with what they cost."""
        return self._rater

    @property
    def recourse(self) -> Recourse:
        """The steps behind `dispute`, `prove_lies` and `challenge`, one by one, with what each costs."""
        return self._recourse

    async def dispute(
        self,
        claim: Claim | str,
        narrative: str,
        publisher: Publisher,
        *,
        disclose: Iterable[int] | None = None,
        attestations: Sequence[dict[str, JsonValue]] = (),
    ) -> Dispute:
        """Put what the session captured before its arbitrator; see `Recourse.dispute`."""
        async with self._flights.quiet():
            await self._book.refresh()
            return await self._recourse.dispute(
                claim, narrative, publisher, disclose=disclose, attestations=attestations
            )

    async def prove_lies(self) -> Proven:
        """Show the contract a lie that the operator's own words prove; see `Recourse.prove`."""
        async with self._flights.quiet():
            await self._book.refresh()
            return await self._recourse.prove()

    async def challenge(self, word: SignedReceipt | SignedStatement | None = None) -> Challenged:
        """Make the operator prove that its word is part of what it anchored; see `Recourse.challenge`."""
        async with self._flights.quiet():
            await self._book.refresh()
            return await self._recourse.challenge(word)

    async def suggest_score(self) -> SuggestedScore:
        """A score from what the session met, with its reasons; see `aioum.core.experience`.

        Raises:
            ChainError: `session-not-final`, or as `Chain`.
        """
        return await self._rater.suggest()

    async def rate(self, score: int, detail_uri: str = "", *, registry: Address | None = None) -> Mined:
        """Rate the session, once, when it is over; see `Rater.rate`."""
        async with self._flights.quiet():
            return await self._rater.rate(score, detail_uri, registry)

    async def restore(self) -> None:
        """Bring a session that was read from the journal up to the chain's state."""
        async with self._flights.quiet():
            if self.phase is SessionPhase.OPENING:
                await complete_opening(self._context, self._book)
            elif self.phase is SessionPhase.VOID:
                await self._restore_void()
            elif self.phase is not SessionPhase.CLOSED:
                await self._buyer.look_at_chain()

    async def _restore_void(self) -> None:
        # It was never opened, as far as we learned; the chain has the last word.
        if await self._context.chain.session(self.channel_id) is not None:
            await complete_opening(self._context, self._book)
