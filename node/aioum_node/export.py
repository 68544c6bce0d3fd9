"""The operator's evidence package: a node's own record of one session, as PROTOCOL 7 writes it down."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.card import MAX_CARD_BYTES, parse_card
from aioum.core.errors import AioumError, InvalidInput, Refused
from aioum.core.evidence import ChannelFacts, ServiceTerms, build_package
from aioum.core.evidence_submissions import SubmissionEntry, Submissions
from aioum.core.hextext import channel_id as parse_channel_id
from aioum.core.hextext import to_hex
from aioum.core.ledger import Call, receipt_of, statement_of
from aioum.core.payment import CallReceipt, Domain, SignedMessage, Statement
from aioum.core.transcript import Entry
from aioum.core.types import Address
from aioum.log.membership import Membership
from aioum_node.log.identity import keeps_log
from aioum_node.log.start import log_reader
from aioum_node.settings import Settings, load_settings
from aioum_node.storage import EvidenceReader, opened_reader
from aioum_node.store.port import StoredSession

Sign = Callable[[SignedMessage, Domain], Awaitable[bytes]]

_CALLS_PER_READ: Final = 64
_SESSION_ID: Final = re.compile(r"[1-9][0-9]{0,77}", re.ASCII)


def export_package(*, session: str, node_dir: Path, claim: str, narrative: str) -> dict[str, JsonValue]:
    """What `verify-evidence --export --store node` writes; the node may run meanwhile.

    Args:
        session: channel id in hex, or session id.
        node_dir: the node's folder.
        claim: one of `aioum.core.evidence.Claim`.
        narrative: free text.

    Raises:
        ConfigError: `store-missing`, `store-foreign`.
        Refused: `session-not-found`; `session-ambiguous`, several sessions bear this id (a devnet was reset).
        InvalidInput: `session-id-invalid`, or as `build_package`.
        AioumError: `store-failed`.
    """
    settings = load_settings(flags={"node_dir": node_dir, "store": "sqlite"})
    return asyncio.run(_package(settings, session=session, claim=claim, narrative=narrative))


def export_shared_package(
    *, session: str, node_dir: Path, claim: str, narrative: str
) -> dict[str, JsonValue]:
    """What `verify-evidence --export --store multinode` writes: from the PostgreSQL store that nodes share.

    Args:
        session: channel id in hex, or session id.
        node_dir: the folder of one of the nodes; its settings name the database.
        claim: one of `aioum.core.evidence.Claim`.
        narrative: free text.

    Raises:
        ConfigError: `store-missing`, `store-foreign`, `postgres-missing`, and as `read_secret`.
        Refused, InvalidInput, AioumError: as `export_package`.
    """
    settings = load_settings(flags={"node_dir": node_dir, "store": "postgresql"})
    return asyncio.run(_package(settings, session=session, claim=claim, narrative=narrative))


async def _package(settings: Settings, *, session: str, claim: str, narrative: str) -> dict[str, JsonValue]:
    async with opened_reader(settings) as reader:
        stored = await find_session(reader, session)
        logged = await _logged(settings, stored) if keeps_log(settings) else None
        return await assemble(reader, stored, claim=claim, narrative=narrative, logged=logged)


async def _logged(settings: Settings, stored: StoredSession) -> Membership | None:
    try:
        return await log_reader(settings).membership(stored.facts.channel_id)
    except AioumError:
        # The package stands without it, and may be needed within a dispute's window.
        return None


async def find_session(reader: EvidenceReader, session: str) -> StoredSession:
    """The session of a channel id in hex, or of a session id.

    Raises:
        Refused: `session-not-found`; `session-ambiguous`, details `channelIds`.
        InvalidInput: `session-id-invalid`.
    """
    if session.lower().startswith("0x"):
        stored = await reader.session(parse_channel_id(session))
        found = [] if stored is None else [stored]
    elif _SESSION_ID.fullmatch(session):
        found = await reader.find(int(session))
    else:
        raise InvalidInput(
            f"expected a session id from 1, or a channel id, got {session!r:.80}", code="session-id-invalid"
        )
    if not found:
        raise Refused(f"the node has no session {session}", code="session-not-found")
    if len(found) > 1:
        channels = [to_hex(stored.facts.channel_id) for stored in found]
        raise Refused(
            f"{len(found)} sessions bear the id {session}: {', '.join(channels)}",
            code="session-ambiguous",
            hint="name the one you mean by its channel id",
            details={"channelIds": channels},
        )
    return found[0]


async def assemble(
    reader: EvidenceReader,
    stored: StoredSession,
    *,
    claim: str,
    narrative: str,
    sign: Sign | None = None,
    logged: Membership | None = None,
) -> dict[str, JsonValue]:
    """The package of one session.

    Args:
        reader: where its calls and its card lie.
        stored: the session.
        claim: one of `aioum.core.evidence.Claim`.
        narrative: free text.
        sign: the receipt signer; without it the package has no receipts and no statement. Signatures are
            deterministic, so these are the very words that the client got.
        logged: that the session is in the transparency log, once it is.

    Raises:
        Refused: `session-suspect`, where it is to be signed.
        InvalidInput: as `build_package`.
        AioumError: `store-failed`.
    """
    facts, state = stored.facts, stored.state
    domain = Domain(facts.chain_id, facts.payment_manager)
    calls = await _calls(reader, stored)
    entries = [_entry(call) for call in calls[: state.frontier.size]]
    receipts: list[tuple[CallReceipt, bytes]] = []
    statement: tuple[Statement, bytes] | None = None
    if sign is not None:
        state.require_trusted()
        # A call that ended before an earlier one is not in the package yet, and its receipt would seem to be
        # of another history.
        for call in calls[: len(entries)]:
            receipt = receipt_of(facts.channel_id, call)
            receipts.append((receipt, await sign(receipt, domain)))
        if entries:
            word = statement_of(state)
            statement = (word, await sign(word, domain))
    card, registry = await _card(reader, stored)
    plain = not any(facts.terms_hash)
    return build_package(
        session_id=facts.session_id,
        domain=domain,
        claim=claim,
        narrative=narrative,
        entries=entries,
        vouchers=[(call.amount, call.signature) for call in calls],
        # A plain channel's salt is not known here, so nothing could be computed from it.
        channel=None if plain else _channel(stored),
        terms=None if facts.terms is None else ServiceTerms(registry, facts.service_id, facts.terms),
        card=card,
        receipts=receipts,
        statement=statement,
        submissions=await _submissions(reader, stored, calls, len(entries)),
        log=None if logged is None else logged.to_json(),
    )


async def _submissions(
    reader: EvidenceReader, stored: StoredSession, calls: list[Call], answered: int
) -> Submissions | None:
    """Roster and signed calls: those answered, the next where it waits, and what contradicts them."""
    roster = stored.facts.roster
    if roster is None:
        return None
    found = [
        SubmissionEntry(call.index, call.envelope, None if call.index < answered else call.request)
        for call in calls[: answered + 1]
        if call.envelope is not None
    ]
    # One for an index that the package does not show could be taken for the call that waits.
    found.extend(
        SubmissionEntry(item.envelope.cursor, item.envelope, item.request)
        for item in await reader.equivocations(stored.facts.channel_id)
        if item.envelope.cursor < answered
    )
    return Submissions(roster, tuple(sorted(found, key=lambda entry: entry.index)))


async def _calls(reader: EvidenceReader, stored: StoredSession) -> list[Call]:
    calls: list[Call] = []
    while page := await reader.calls(stored.facts.channel_id, len(calls), _CALLS_PER_READ):
        calls.extend(page)
    return calls


async def _card(reader: EvidenceReader, stored: StoredSession) -> tuple[JsonValue, Address | None]:
    data = await reader.card(stored.facts.descriptor_hash)
    if data is None:
        return None, None
    card = parse_json(data, max_bytes=MAX_CARD_BYTES)
    return card, parse_card(card).contracts.service_registry


def _channel(stored: StoredSession) -> ChannelFacts:
    facts = stored.facts
    return ChannelFacts(
        payer=facts.payer,
        payee=facts.payee,
        token=facts.token,
        authorized_signer=facts.authorized_signer,
        nonce=facts.nonce,
        terms_hash=facts.terms_hash,
        roster_hash=facts.roster_hash,
    )


def _entry(call: Call) -> Entry:
    response = b"" if call.answer is None else call.answer.response
    return Entry(call.index, call.tool_id, call.request.decode(), response.decode())
