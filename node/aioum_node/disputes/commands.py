"""The operator's side of disputes, as `aioum-node disputes` does it; the node may run meanwhile, or not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass

from aioum.chain.client import Chain
from aioum.chain.decisions import Decisions, DisputeState
from aioum.chain.journal import TransactionJournal
from aioum.chain.signers import as_signer
from aioum.core.errors import Refused
from aioum.core.evidence import package_bytes
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import ChannelId
from aioum.core.wire import JsonObject
from aioum_node.account import opened_account, opened_chain
from aioum_node.disputes import desk
from aioum_node.disputes.control import ask_node
from aioum_node.disputes.report import HeldReport, report_on
from aioum_node.disputes.sending import HeldMoneySender
from aioum_node.export import Sign, assemble, find_session
from aioum_node.keys.identity import Identity, opened_identity
from aioum_node.registration import deployment_of, token_of
from aioum_node.settings import Settings
from aioum_node.storage import EvidenceReader, is_shared, opened_reader, opened_sending
from aioum_node.store.port import StoredSession
from aioum_node.store.sqlite import STORE_FILE, store_lock


@dataclass(frozen=True, slots=True)
class Response:
    """The operator's package over a disputed session, in canonical bytes."""

    channel_id: ChannelId
    package: bytes


@dataclass(frozen=True, slots=True)
class Credits:
    """What both contracts owe an account because a transfer failed, in base units."""

    account: str
    token: str
    payment_manager: int
    dispute_manager: int


async def list_held(settings: Settings, *, every: bool) -> list[HeldReport]:
    """The sessions whose captured money is held.

    Args:
        settings: name store and chain.
        every: also those over which nothing is pending.

    Raises:
        ConfigError, ChainError, AioumError: as `opened_reader`, `opened_chain`.
    """
    async with _reading(settings) as (reader, chain, decisions):
        reports = []
        for channel_id in await reader.held():
            stored = await reader.session(channel_id)
            if stored is not None and _is_here(stored, chain):
                report = await report_on(chain, decisions, stored)
                if report is not None and (every or report.case.is_pending):
                    reports.append(report)
        return reports


async def show(settings: Settings, session: str) -> HeldReport:
    """All that is known of one session's held money, the operator's responses included.

    Raises:
        Refused: `session-not-found`, `session-ambiguous`; `nothing-held`, it is not final, or its terms have
            no dispute window.
        InvalidInput: `session-id-invalid`.
        ConfigError, ChainError, AioumError: as `list_held`.
    """
    async with _reading(settings) as (reader, chain, decisions):
        stored = await find_session(reader, session)
        return await _report(chain, decisions, stored, with_responses=True)


async def make_response(settings: Settings, session: str, narrative: str) -> Response:
    """Export the node's own record of a disputed session, with its receipts and statement.

    Raises:
        Refused: as `show`; `no-dispute-pending`; `terms-not-ours`, its receipt signer's key is not here.
        ConfigError, SignerError: as `opened_identity`.
    """
    async with _reading(settings) as (reader, chain, decisions), opened_identity(settings) as identity:
        stored = await find_session(reader, session)
        report = await _report(chain, decisions, stored)
        if report.case.dispute is not DisputeState.PENDING or report.complaint is None:
            raise Refused(
                f"no dispute is pending over session {session}: it is {report.state}",
                code="no-dispute-pending",
            )
        package = await assemble(
            reader,
            stored,
            claim=report.complaint.claim.text,
            narrative=narrative,
            sign=_signing(identity, stored),
        )
        return Response(stored.facts.channel_id, package_bytes(package))


async def session_channel(settings: Settings, session: str) -> ChannelId:
    """The channel of a session id or channel id. Raises as `find_session`."""
    async with opened_reader(settings) as reader:
        return (await find_session(reader, session)).facts.channel_id


async def read_credits(settings: Settings) -> Credits:
    """What the operator's account can pull. Raises ConfigError, ChainError, SignerError."""
    async with opened_chain(settings) as chain, opened_identity(settings) as identity:
        decisions = await Decisions.of(chain)
        token, account = token_of(settings, deployment_of(settings)), as_signer(identity.operator).address
        return Credits(
            address_text(account),
            address_text(token),
            await chain.credit(token, account),
            await decisions.credit(token, account),
        )


async def have_sent(settings: Settings, command: JsonObject) -> JsonObject:
    """Have the running node send what a command says, or send it here where none runs; see `desk.perform`.

    Raises:
        NodeRefused, AioumError: as `ask_node`.
        ConfigError: `store-locked`, a node of this folder runs and does not listen; `lease-held`, another
            process sends; as `opened_identity`.
        ChainError, OutcomeUnknown, InvalidInput: as `desk.perform`.
    """
    answer = await ask_node(settings.node_dir, command)
    if answer is not None:
        return answer
    own = not is_shared(settings)
    with store_lock(settings.node_dir / STORE_FILE) if own else nullcontext():
        async with opened_sending(settings) as sending:
            return await sending.once(_work(settings, sending.journal, command))


def _work(
    settings: Settings, journal: TransactionJournal, command: JsonObject
) -> Callable[[], Awaitable[JsonObject]]:
    async def work() -> JsonObject:
        async with (
            opened_identity(settings) as identity,
            opened_account(settings, identity, journal) as account,
        ):
            # What a former run sent may be this very thing: its outcome comes before another one is sent.
            await account.sender.reconcile()
            decisions = await Decisions.of(account.chain)
            sender = HeldMoneySender(account.chain, decisions, account.sender)
            return await desk.perform(sender, command, account.sender.signer.address)

    return work


@asynccontextmanager
async def _reading(settings: Settings) -> AsyncIterator[tuple[EvidenceReader, Chain, Decisions]]:
    async with opened_reader(settings) as reader, opened_chain(settings) as chain:
        yield reader, chain, await Decisions.of(chain)


async def _report(
    chain: Chain, decisions: Decisions, stored: StoredSession, *, with_responses: bool = False
) -> HeldReport:
    report = None
    if _is_here(stored, chain):
        report = await report_on(chain, decisions, stored, with_responses=with_responses)
    if report is None:
        raise Refused(
            f"nothing was ever held of session {to_hex(stored.facts.channel_id)}: it is not final, or its "
            "terms have no dispute window",
            code="nothing-held",
        )
    return report


def _is_here(stored: StoredSession, chain: Chain) -> bool:
    facts = stored.facts
    return (facts.chain_id, facts.payment_manager) == (chain.chain_id, chain.payment_manager)


def _signing(identity: Identity, stored: StoredSession) -> Sign:
    terms = stored.facts.terms
    for key in (identity.receipt_signer, *identity.retired):
        signer = as_signer(key)
        if terms is not None and signer.address == terms.receipt_signer:
            return signer.sign
    raise Refused(
        "the receipt signer of the session's terms is no key of this node",
        code="terms-not-ours",
        hint="name the retired key in retired_receipt_keys",
    )
