"""Taking over sessions from the chain: openings, top-ups, and what this node accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from aioum.chain.model import BlockRef, ChainSession, Opening, RegisteredTerms
from aioum.core.errors import Refused, SignatureInvalid
from aioum.core.ledger import SessionState, observe_chain
from aioum.core.payment import Domain, Terms, Voucher, compute_channel_id, session_salt
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.submission.roster import Roster
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Address, Bytes32, ChannelId
from aioum.core.wire import Credential
from aioum_node.access import ClientSignatures
from aioum_node.cards import Cards
from aioum_node.limits.slots import Slots
from aioum_node.restored.start import suspect_at_opening
from aioum_node.rosters import accepted_keys, require_roster
from aioum_node.sessions import SessionContext, Sessions
from aioum_node.store.incarnations import chain_instant
from aioum_node.store.port import SessionFacts, Store, StoredSession

_POLL_SECONDS = 0.3
Found = TypeVar("Found")


class OpeningChain(Protocol):
    """What is read from the chain; `aioum.chain.client.Chain` has it."""

    async def block_at_depth(self, depth: int) -> BlockRef:
        """The newest block with at least `depth` confirmations."""
        ...

    async def opening(self, transaction_hash: Bytes32, channel_id: ChannelId | None = None) -> Opening | None:
        """The opening in a transaction."""
        ...

    async def session(self, channel_id: ChannelId, block: int | None = None) -> ChainSession | None:
        """The channel as stored at a block."""
        ...

    async def terms(self, terms_hash: Bytes32, block: int | None = None) -> RegisteredTerms | None:
        """Registered terms."""
        ...

    async def code(self, at: Address, block: int | None = None) -> bytes:
        """The code at an address."""
        ...


@dataclass(frozen=True, slots=True)
class OpeningPolicy:
    """What this node accepts.

    Attributes:
        service_id, operator, payee, token: its own; sessions of others are refused.
        receipt_signers: who signs here, for present terms or for former ones; the terms name one of them.
        descriptor_hash: its current card, under which plain channels run.
        confirmations: blocks that make a deposit final.
        max_concurrent: openings and top-ups looked up at once; of them max_per_address for one address.
        max_seats: most seats of a roster.
        require_signed: refuse sessions whose calls no seat signs.
    """

    service_id: int
    operator: Address
    payee: Address
    token: Address
    receipt_signers: Collection[Address]
    descriptor_hash: Bytes32
    confirmations: int
    wait_seconds: float
    max_concurrent: int
    max_per_address: int
    max_seats: int
    require_signed: bool = False
    accept_plain_channels: bool = False
    accept_uncommitted_sessions: bool = False


class Openings:
    """Adopts sessions. Repeating an adoption or a top-up changes nothing.

    A session that was opened with a roster is also taken over without being shown it: then it can be closed
    and settled, and its calls have to wait until some `open` presents the roster.
    """

    def __init__(
        self,
        *,
        chain: OpeningChain,
        domain: Domain,
        store: Store,
        sessions: Sessions,
        cards: Cards,
        clients: ClientSignatures,
        policy: OpeningPolicy,
        on_adopted: Callable[[], None],
        now_ms: Callable[[], int],
        suspect_until: int | None = None,
    ) -> None:
        """Args: on_adopted: told of each session that was taken over; suspect_until: of `restored.Life`."""
        self._suspect_until = suspect_until
        self._chain = chain
        self._domain = domain
        self._store = store
        self._sessions = sessions
        self._cards = cards
        self._clients = clients
        self._policy = policy
        self._on_adopted = on_adopted
        self._now_ms = now_ms
        self._slots = Slots(
            policy.max_concurrent, policy.max_per_address, what="openings", code="too-many-openings"
        )

    @property
    def in_flight(self) -> int:
        """Openings and top-ups that are being looked up."""
        return self._slots.taken

    async def adopt(self, credential: Credential, client: str | None = None) -> SessionContext:
        """Take over the session that a credential's transaction opened, once it is final.

        An opening that is not on the chain is answered at once: only one that is there is waited for, and
        only by who can sign its vouchers.

        Args:
            credential: of an `open`.
            client: what the asking address is counted by; None is not counted.

        Raises:
            Refused: `too-many-openings`, `opening-not-final` (try again), `opening-mismatch`,
                `terms-not-ours`, `commit-not-required`, `signed-session-required`, `deposit-too-small`,
                `session-finalized`, `session-close-pending`, `plain-channel-refused`,
                `contract-signer-refused`, `roster-mismatch`, `roster-unexpected`.
            InvalidInput: `roster-invalid`.
            SignatureInvalid: the credential's voucher; `submission-key-invalid`, a key of the roster.
            ChainError: the chain could not be asked.
        """
        roster = self._roster(credential)
        stored = await self._store.session(credential.channel_id)
        if stored is not None:
            context = await self._sessions.context(credential.channel_id)
            await self._check_voucher(credential, context.facts.channel_id, context.facts.voucher_signer)
            return context if roster is None else await self._show_roster(stored, roster)
        with self._slots.held(client):
            if (found := await self._final_opening(credential)) is None:
                await self._require_begun(credential)
                found = await self._await(lambda: self._final_opening(credential), "opening-not-final")
            facts, deposit, opened_at = found
            await self._check_first_voucher(credential, facts.channel_id, facts.voucher_signer)
            seats = NO_SEATS
            if roster is not None:
                facts, seats = await self._with_roster(facts, roster)
            minimum = (await self._cards.offer(facts.descriptor_hash)).card.min_deposit
            if deposit < minimum:
                raise Refused(
                    f"the deposit is {deposit}, at least {minimum} is needed",
                    code="deposit-too-small",
                    hint="top up the session and open it here again",
                    details={"deposit": str(deposit), "minDeposit": str(minimum)},
                )
            await self._require_open(facts.channel_id)
            state = SessionState(facts.channel_id, deposit=deposit, signed=facts.signed, seats=seats)
            state = suspect_at_opening(state, opened_at, self._suspect_until)
            opened = await self._in_step(await self._store.open(facts, state, self._now_ms()))
        self._on_adopted()
        return await self._sessions.remember(opened.facts)

    def _roster(self, credential: Credential) -> Roster | None:
        if credential.roster is None:
            return None
        return Roster.from_json(credential.roster, max_seats=self._policy.max_seats)

    async def _show_roster(self, stored: StoredSession, roster: Roster) -> SessionContext:
        facts, seats = await self._with_roster(stored.facts, roster)
        if stored.facts.roster is None:
            state = replace(stored.state, seats=seats)
            facts = (await self._store.open(facts, state, self._now_ms())).facts
        return await self._sessions.remember(facts)

    async def _with_roster(self, facts: SessionFacts, roster: Roster) -> tuple[SessionFacts, Seats]:
        require_roster(roster, facts.roster_hash)
        # Keys are judged before anything is stored: one that is weak could speak for anybody.
        await asyncio.to_thread(accepted_keys, roster)
        return replace(facts, roster=roster), Seats.at_genesis(facts.channel_id, roster)

    async def top_up(self, credential: Credential, client: str | None = None) -> StoredSession:
        """Take over a raised deposit, once it is final. Args: as `adopt`.

        Raises:
            Refused: `channel-not-found`, `too-many-openings`, `top-up-not-final` (try again).
            ChainError: the chain could not be asked.
        """
        channel_id = credential.channel_id
        await self._sessions.context(channel_id)
        with self._slots.held(client):
            deposit, closing = await self._await(lambda: self._final_deposit(channel_id), "top-up-not-final")

        def observe(state: SessionState) -> SessionState:
            return observe_chain(state, deposit=deposit, close_pending=closing)

        return await self._in_step(await self._store.update(channel_id, observe, self._now_ms()))

    async def _in_step(self, stored: StoredSession) -> StoredSession:
        """Write whether a close is pending until a look that began after the write agrees with it.

        The watcher writes it as well, and only for channels that it finds in the store. A close that is
        requested between our look and our write it has seen before us, and no further event would tell.
        """
        channel_id = stored.facts.channel_id
        while (newest := await self._chain.session(channel_id)) is not None:
            closing = newest.is_closing or newest.is_finalized
            if closing == stored.state.close_pending:
                break

            def observe(state: SessionState, closing: bool = closing) -> SessionState:
                return replace(state, close_pending=closing)

            stored = await self._store.update(channel_id, observe, self._now_ms())
        return stored

    async def _await(self, look: Callable[[], Awaitable[Found | None]], code: str) -> Found:
        """Repeat `look` until it finds something, for the policy's time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._policy.wait_seconds
        while (found := await look()) is None:
            left_seconds = deadline - loop.time()
            if left_seconds <= 0:
                raise _not_yet(
                    f"the transaction does not have {self._policy.confirmations} confirmations yet", code
                )
            await asyncio.sleep(min(_POLL_SECONDS, left_seconds))
        return found

    async def _final_opening(self, credential: Credential) -> tuple[SessionFacts, int, int] | None:
        channel_id = credential.channel_id
        final = await self._chain.block_at_depth(self._policy.confirmations)
        opening = None
        if credential.transaction is not None:
            opening = await self._chain.opening(credential.transaction, channel_id)
        if opening is not None and opening.block.number > final.number:
            return None
        session = await self._chain.session(channel_id, final.number)
        if session is None:
            return None
        if not any(session.terms_hash):
            return self._plain_facts(session), session.deposit, chain_instant(session.opened_at, 0)
        if opening is None:
            raise Refused("that transaction did not open this session", code="opening-mismatch")
        opened_at = chain_instant(session.opened_at, opening.block.number)
        return await self._facts(opening), session.deposit, opened_at

    async def _require_begun(self, credential: Credential) -> None:
        """Nobody waits for what the newest block does not show, nor for a session of somebody else."""
        opening = None
        if credential.transaction is not None:
            opening = await self._chain.opening(credential.transaction, credential.channel_id)
        begun = opening or await self._chain.session(credential.channel_id)
        if begun is None:
            # An endpoint that lags behind says the same: the client comes again.
            raise _not_yet("the newest block known here does not show this opening", "opening-not-final")
        signer = begun.payer if begun.authorized_signer == ZERO_ADDRESS else begun.authorized_signer
        await self._check_first_voucher(credential, begun.channel_id, signer)

    async def _facts(self, opening: Opening) -> SessionFacts:
        policy = self._policy
        registered = await self._chain.terms(opening.terms_hash)
        if registered is None or registered.service_id != policy.service_id:
            raise Refused("the session is for another service", code="terms-not-ours")
        terms = registered.terms
        self._require_ours(opening, terms)
        salt = session_salt(opening.nonce, opening.terms_hash, opening.roster_hash)
        expected = compute_channel_id(
            opening.payer, opening.payee, opening.token, salt, opening.authorized_signer, self._domain
        )
        if expected != opening.channel_id:
            raise Refused("the channel id does not bind what the opening says", code="opening-mismatch")
        if policy.require_signed and opening.roster_hash == ZERO_BYTES32:
            raise _signed_session_required()
        if not (terms.commit_required or policy.accept_uncommitted_sessions):
            raise Refused("the session's terms do not demand an anchored root", code="commit-not-required")
        return SessionFacts(
            channel_id=opening.channel_id,
            session_id=opening.session_id,
            chain_id=self._domain.chain_id,
            payment_manager=self._domain.payment_manager,
            payer=opening.payer,
            payee=opening.payee,
            token=opening.token,
            authorized_signer=opening.authorized_signer,
            service_id=opening.service_id,
            terms_hash=opening.terms_hash,
            nonce=opening.nonce,
            roster_hash=opening.roster_hash,
            descriptor_hash=terms.descriptor_hash,
            commit_required=terms.commit_required,
            terms=terms,
        )

    def _require_ours(self, opening: Opening, terms: Terms) -> None:
        policy = self._policy
        if (
            (terms.operator, terms.payee, terms.token) != (policy.operator, policy.payee, policy.token)
            or terms.receipt_signer not in policy.receipt_signers
            or (opening.payee, opening.token) != (policy.payee, policy.token)
        ):
            raise Refused(
                "the session's terms name another operator, payee, token or receipt signer than this node's",
                code="terms-not-ours",
            )

    def _plain_facts(self, session: ChainSession) -> SessionFacts:
        policy = self._policy
        if not policy.accept_plain_channels:
            raise Refused("this node takes sessions under terms only", code="plain-channel-refused")
        if policy.require_signed:
            raise _signed_session_required()
        if policy.payee != policy.operator:
            # Without terms nobody but the payee may settle, and this node sends as the operator.
            raise Refused("this node cannot settle plain channels", code="plain-channel-refused")
        if (session.payee, session.token) != (policy.payee, policy.token):
            raise Refused("the channel pays somebody else, or in another token", code="terms-not-ours")
        return SessionFacts(
            channel_id=session.channel_id,
            session_id=session.session_id,
            chain_id=self._domain.chain_id,
            payment_manager=self._domain.payment_manager,
            payer=session.payer,
            payee=session.payee,
            token=session.token,
            authorized_signer=session.authorized_signer,
            service_id=0,
            terms_hash=ZERO_BYTES32,
            nonce=ZERO_BYTES32,
            roster_hash=ZERO_BYTES32,
            descriptor_hash=policy.descriptor_hash,
            commit_required=False,
        )

    async def _check_voucher(self, credential: Credential, channel_id: ChannelId, signer: Address) -> None:
        voucher = Voucher(channel_id, credential.amount)
        await self._clients.require(voucher, self._domain, credential.signature, (signer,))

    async def _check_first_voucher(
        self, credential: Credential, channel_id: ChannelId, signer: Address
    ) -> None:
        try:
            await self._check_voucher(credential, channel_id, signer)
        except SignatureInvalid as error:
            # Asked only now: an account with a delegation (EIP-7702) has code, and signs like any other key.
            if not self._clients.accepts_contracts and await self._chain.code(signer):
                raise Refused(
                    "vouchers are to be signed by a contract, which could revoke them after service",
                    code="contract-signer-refused",
                    hint="open the session with an authorizedSigner that is a plain key",
                ) from error
            raise

    async def _require_open(self, channel_id: ChannelId) -> None:
        newest = await self._chain.session(channel_id)
        if newest is None:
            raise Refused("the opening was reorganized away", code="opening-not-final")
        if newest.is_finalized:
            raise Refused("the session is finalized", code="session-finalized")
        if newest.is_closing:
            raise Refused("the client requested a close on-chain", code="session-close-pending")

    async def _final_deposit(self, channel_id: ChannelId) -> tuple[int, bool] | None:
        final = await self._chain.block_at_depth(self._policy.confirmations)
        settled = await self._chain.session(channel_id, final.number)
        newest = await self._chain.session(channel_id)
        if settled is None or newest is None or newest.deposit != settled.deposit:
            return None
        return settled.deposit, newest.is_closing


def _not_yet(why: str, code: str) -> Refused:
    return Refused(why, code=code, hint="send the same request again a little later")


def _signed_session_required() -> Refused:
    return Refused(
        "this node takes sessions with signed calls only",
        code="signed-session-required",
        hint="open the session with the hash of a roster",
    )
