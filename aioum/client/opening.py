"""Opening a session so that a crash at any point loses no deposit.

The channel id is computed here and kept before the transaction is signed, after the keys of the seats that
its roster names; the transaction is kept before it is sent. A restarted client finds it in its journal
and either its transaction on-chain, or none, and then sends it again: the same nonce gives the same channel
id, which can be opened only once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from aioum.chain import calls
from aioum.chain.model import ChainSession
from aioum.client.book import Book
from aioum.client.context import ClientContext
from aioum.client.policy import check_deposit
from aioum.client.records import SessionFacts, SessionPhase, SessionRecord
from aioum.client.seats import roster_of
from aioum.client.service import Offer
from aioum.core.amounts import check_amount
from aioum.core.errors import ChainError, ContractReverted, Divergence, InvalidInput, PolicyRefused
from aioum.core.evidence import ChannelFacts
from aioum.core.hextext import address_text, to_hex
from aioum.core.purse import PurseState, observe_deposit
from aioum.core.submission.keys import SubmissionKey
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Bytes32


@dataclass(frozen=True, slots=True)
class SpendLimits:
    """The caller's own limits, base units; None: the deposit alone.

    Attributes:
        session: most that vouchers of the session may ever authorize.
        call: most that one call may cost.
    """

    session: int | None = None
    call: int | None = None


async def begin_session(
    context: ClientContext,
    offer: Offer,
    deposit: int,
    limits: SpendLimits,
    keys: Mapping[str, SubmissionKey],
    own: Collection[str] = (),
) -> Book:
    """Decide a session and make it durable. Nothing is sent.

    Args:
        context: the client.
        offer: the service.
        deposit: base units.
        limits: of spending.
        keys: of the seats that sign its calls, in the roster's order; none for an unsigned session.
        own: seats whose keys the caller keeps.

    Raises:
        PolicyRefused: `deposit-too-high`, `deposit-too-low`.
        InvalidInput: `amount-invalid`.
        JournalError: `seat-keys-failed`.
    """
    check_deposit(context.policy, offer.card, check_amount(deposit))
    for limit in (limits.session, limits.call):
        if limit is not None:
            check_amount(limit)
    roster = roster_of(keys) if keys else None
    payer, signer = context.payer.address, context.signer.address
    channel = ChannelFacts(
        payer=payer,
        payee=offer.service.terms.payee,
        token=offer.service.terms.token,
        authorized_signer=ZERO_ADDRESS if signer == payer else signer,
        nonce=Bytes32(context.random_bytes(32)),
        terms_hash=offer.terms_hash,
        roster_hash=ZERO_BYTES32 if roster is None else roster.hash,
    )
    channel_id = channel.channel_id(context.known.domain)
    facts = SessionFacts(
        channel_id=channel_id,
        domain=context.known.domain,
        node_url=offer.node_url,
        channel=channel,
        service=offer.service,
        card_json=offer.card_json,
        roster=roster,
    )
    made = {seat: key for seat, key in keys.items() if seat not in own}
    if made:
        # Durable before the session: a roster whose keys are lost could never sign. A crash behind this line
        # leaves keys that open nothing.
        await context.seat_keys.keep(channel_id, made)
    record = await context.journal.create(
        SessionRecord(
            facts=facts,
            phase=SessionPhase.OPENING,
            purse=PurseState(
                channel_id, deposit=deposit, signed=roster is not None, spend_limit=limits.session
            ),
            opened_at_ms=context.now_ms(),
            call_limit=limits.call,
        )
    )
    return Book(context.journal, record, context.now_ms)


async def complete_opening(context: ClientContext, book: Book) -> None:
    """Bring a begun session on-chain, unless it is there already.

    Raises:
        PolicyRefused: `balance-too-low`, `wallet-counterfactual`.
        ChainError, OutcomeUnknown: as `Payer.send`; the session stays begun and can be resumed.
        Divergence: `opening-mismatch`, the chain has another session under this channel id.
    """
    channel_id = book.facts.channel_id
    session = await context.chain.session(channel_id)
    transaction = book.record.opening_transaction
    if session is None:
        transaction = await _send_opening(context, book)
        session = await context.chain.session(channel_id)
    elif transaction is None:
        # An earlier process sent it and ended before it learned what became of it.
        opening = await context.chain.find_opening(channel_id)
        transaction = None if opening is None else opening.transaction_hash
    if session is None or transaction is None:
        raise ChainError(
            f"the chain does not show the session {to_hex(channel_id)} that was opened",
            code="session-not-on-chain",
            hint="resume the session a little later",
        )
    require_as_intended(book.facts, session)
    # Durable: the deposit is on-chain, and where. From here on calls can be paid.
    await book.update(
        phase=SessionPhase.OPEN,
        purse=observe_deposit(book.purse, session.deposit),
        opening_transaction=transaction,
        session_id=session.session_id,
    )


async def open_now(context: ClientContext, book: Book) -> None:
    """Bring a session on-chain that was begun by this very program; what is refused for good becomes void.

    Raises:
        PolicyRefused, ChainError, OutcomeUnknown, Divergence: as `complete_opening`.
    """
    try:
        await complete_opening(context, book)
    except (PolicyRefused, ChainError) as error:
        # Only refusals that leave nothing on its way: what may still be mined has to be looked for again.
        never_opened = isinstance(error, PolicyRefused | ContractReverted)
        if never_opened or error.code == "transaction-refused":
            await book.enter(SessionPhase.VOID)
        raise


async def _send_opening(context: ClientContext, book: Book) -> Bytes32:
    facts, channel = book.facts, book.facts.channel
    if context.gasless is not None:
        return await context.gasless.open(channel, facts.service.service_id, book.purse.deposit)
    await _require_deployed(context)
    call = calls.open_session(
        context.chain.payment_manager,
        service_id=facts.service.service_id,
        terms_hash=channel.terms_hash,
        deposit=book.purse.deposit,
        nonce=channel.nonce,
        authorized_signer=channel.authorized_signer,
        roster_hash=channel.roster_hash,
    )
    channel_hex = to_hex(facts.channel_id)
    async with context.allowances.covering(channel.token, book.purse.deposit, f"approve {channel_hex}"):
        mined = await context.payer.send(call, f"open {channel_hex}")
    return mined.transaction_hash


async def _require_deployed(context: ClientContext) -> None:
    """Refuse a wallet that is only an address yet: a call of it would be mined, and do nothing."""
    payer = context.payer
    if payer.is_contract and not await context.chain.code(payer.address):
        raise PolicyRefused(
            f"there is no contract at the wallet's address {address_text(payer.address)}",
            code="wallet-counterfactual",
            hint="deploy the wallet first",
        )


def require_as_intended(facts: SessionFacts, session: ChainSession) -> None:
    """Hold the opened session against what we meant to open. Raises Divergence `opening-mismatch`."""
    intended = (facts.channel.payer, facts.channel.terms_hash, facts.voucher_signer, facts.channel.payee)
    if (session.payer, session.terms_hash, session.voucher_signer, session.payee) != intended:
        raise Divergence("the chain has another session under this channel id", code="opening-mismatch")


def require_same_contracts(context: ClientContext, book: Book) -> None:
    """Refuse to go on with a session of another chain, PaymentManager or client key.

    Raises:
        InvalidInput: `session-elsewhere` or `session-of-another-key`.
    """
    if book.facts.domain != context.known.domain:
        raise InvalidInput(
            "the session was opened on another chain or PaymentManager",
            code="session-elsewhere",
            hint="connect with the deployment it was opened on",
        )
    if (book.facts.voucher_signer, book.facts.channel.payer) != (
        context.signer.address, context.payer.address,
    ):  # fmt: skip
        raise InvalidInput(
            "the session was opened with another key",
            code="session-of-another-key",
            hint="use the key it was opened with",
        )
