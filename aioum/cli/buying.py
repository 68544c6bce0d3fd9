"""What `aioum call` does: one session, one call, and the right end of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from aioum.cli.arguments import read_arguments
from aioum.cli.failures import complain
from aioum.cli.keys import KeySource
from aioum.cli.market import closed_json, market, token_amount
from aioum.cli.output import fact, print_json, print_response
from aioum.cli.record import recorded_session
from aioum.cli.references import is_number
from aioum.cli.settings import Settings
from aioum.client.closing import Closed
from aioum.client.marketplace import Marketplace
from aioum.client.policy import Policy
from aioum.client.records import SessionPhase
from aioum.client.results import CallResult
from aioum.client.service import check_arguments, require_tool
from aioum.client.session import PaidSession
from aioum.core.amounts import format_token_amount
from aioum.core.canonical import JsonValue
from aioum.core.card import Card
from aioum.core.errors import AioumError, ChainError, OutcomeUnknown
from aioum.core.hextext import to_hex


@dataclass(frozen=True, slots=True)
class Purchase:
    """What a person asked for, as typed.

    Attributes:
        json_text, pairs, file_pairs: the arguments, as `read_arguments` takes them.
        deposit, spend_limit: whole tokens, or None.
        reference: the session to go on with, or None for a new one.
        seat: who asks, or None: the session's own client.
        relayer_key_file: who sends the opening, or None: the payer itself.
    """

    service: str
    tool_id: str
    json_text: str | bytes | None
    pairs: Sequence[str]
    file_pairs: Sequence[str]
    deposit: str | None
    spend_limit: str | None
    reference: bytes | int | None
    seat: str | None
    keep_open: bool
    accept_uncommitted: bool
    relayer_key_file: Path | None


async def buy(settings: Settings, key_source: KeySource, purchase: Purchase) -> bool:
    """Make the call and print its response. Returns whether the tool answered.

    Raises:
        click.UsageError: the arguments or amounts cannot be read, or the session is of another service.
        AioumError: whatever refuses or fails; what to do about a session that stays open was said before.
    """
    policy = Policy(require_commit=not purchase.accept_uncommitted)
    channel_id = None
    if purchase.reference is not None:
        async with recorded_session(settings.data_dir, purchase.reference) as (_, record):
            _require_service(purchase.service, str(record.facts.service.service_id), record.facts.node_url)
            channel_id = record.channel_id
    async with market(settings, key_source, policy, relayer_key_file=purchase.relayer_key_file) as connected:
        if channel_id is None:
            session, arguments = await _opened(connected, purchase)
        else:
            session = await connected.resume(channel_id)
            arguments = _arguments(session.card, purchase)
        try:
            caller = session if purchase.seat is None else session.seat(purchase.seat)
            result = await caller.call(purchase.tool_id, arguments)
        except AioumError:
            await _end_after_failure(session, purchase)
            raise
        _tell(session, f"call {result.index} of {purchase.tool_id}: {_money(session.card, result.charge)}")
        if not settings.as_json:
            # Before the close, which can fail: what was paid for must not be lost with it.
            print_response(result.text)
        closed = None
        try:
            if not purchase.keep_open:
                closed = await _closed(session)
        finally:
            if settings.as_json:
                print_json(_result_json(session, result, closed))
        if purchase.keep_open:
            _tell(session, "it stays open")
        if result.failure is not None:
            complain(f"the tool failed; nothing was charged: {result.failure}", "call-failed", None)
        return result.ok


async def _opened(connected: Marketplace, purchase: Purchase) -> tuple[PaidSession, dict[str, JsonValue]]:
    service = purchase.service
    offer = await connected.service(int(service) if is_number(service) else service)
    # Everything that can be judged is judged before a deposit moves.
    arguments = _arguments(offer.card, purchase)
    decimals = offer.card.token.decimals
    price = require_tool(offer.card, purchase.tool_id).price
    least = max(offer.card.min_deposit, price, 1)
    deposit = least if purchase.deposit is None else token_amount(purchase.deposit, decimals)
    limit = None if purchase.spend_limit is None else token_amount(purchase.spend_limit, decimals)
    try:
        seats = () if purchase.seat is None else (purchase.seat,)
        session = await connected.open(offer, deposit=deposit, spend_limit=limit, seats=seats)
    except (ChainError, OutcomeUnknown):
        await _tell_of_unfinished_opening(connected)
        raise
    _tell(session, f"opened with {offer.card.name}, deposit {_money(session.card, session.deposit)}")
    return session, arguments


async def _tell_of_unfinished_opening(connected: Marketplace) -> None:
    """The record has the opening before anything is sent, so whatever became of it can be gone on with."""
    sessions = await connected.sessions()
    if sessions and sessions[-1].phase is SessionPhase.OPENING:
        channel = to_hex(sessions[-1].channel_id)
        fact(f"its opening is in your record, and may be on its way: go on with --session {channel}")


def _arguments(card: Card, purchase: Purchase) -> dict[str, JsonValue]:
    tool = require_tool(card, purchase.tool_id)
    arguments = read_arguments(
        json_text=purchase.json_text,
        pairs=purchase.pairs,
        file_pairs=purchase.file_pairs,
        input_schema=tool.input_schema,
    )
    check_arguments(tool, arguments)
    return arguments


def _require_service(named: str, service_id: str, node_url: str) -> None:
    if named != service_id and named.rstrip("/") != node_url:
        raise click.UsageError(f"the session is one of service {service_id} at {node_url}, not of {named}")


async def _end_after_failure(session: PaidSession, purchase: Purchase) -> None:
    """Give an unused deposit back, or say how to go on."""
    if purchase.keep_open or session.outstanding or session.stopped is not None:
        reference = to_hex(session.channel_id)
        _tell(session, f"it stays open; see `aioum session show {reference}`")
        return
    try:
        await _closed(session)
    except AioumError as error:
        # The call's own error is the one that matters.
        _tell(session, f"it stays open, closing it failed too: {error} [{error.code}]")


async def _closed(session: PaidSession) -> Closed:
    try:
        closed = await session.close()
    except OutcomeUnknown:
        _tell(session, f"it is not settled yet; again: `aioum session close {to_hex(session.channel_id)}`")
        raise
    anchored = (
        f"root {to_hex(closed.root)} over {closed.call_count} calls" if closed.call_count else "no root"
    )
    captured, refunded = _money(session.card, closed.settled), _money(session.card, closed.refunded)
    _tell(session, f"closed: {anchored}, captured {captured}, refunded {refunded}")
    return closed


def _result_json(session: PaidSession, result: CallResult, closed: Closed | None) -> dict[str, Any]:
    return {
        "channelId": to_hex(session.channel_id),
        "sessionId": str(session.session_id) if session.session_id else None,
        "index": result.index,
        "seat": result.seat,
        "ok": result.ok,
        "failure": result.failure,
        "status": result.status,
        "response": result.text,
        "charge": str(result.charge),
        "leaf": to_hex(result.receipt.receipt.leaf),
        "spent": str(session.spent),
        "deposit": str(session.deposit),
        "root": to_hex(session.root),
        "closed": None if closed is None else closed_json(closed),
    }


def _money(card: Card, amount: int) -> str:
    return f"{format_token_amount(amount, card.token.decimals)} {card.token.symbol}"


def _tell(session: PaidSession, text: str) -> None:
    fact(f"session {session.session_id or to_hex(session.channel_id)}: {text}")
