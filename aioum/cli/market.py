"""A connected client for commands that sign or send, and what they print about money."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import click

from aioum.chain.client import Chain
from aioum.chain.deployments import Deployment
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.cli.keys import KeySource, key_in_file
from aioum.cli.logs import logs_to_stderr
from aioum.cli.record import recorded_session
from aioum.cli.settings import Settings
from aioum.client.closing import Closed
from aioum.client.gasless import Relayer
from aioum.client.marketplace import TRANSACTIONS_FILE, Marketplace
from aioum.client.policy import Policy
from aioum.client.session import PaidSession
from aioum.core.amounts import format_token_amount, parse_token_amount
from aioum.core.card import Card
from aioum.core.errors import InvalidInput
from aioum.core.hextext import to_hex


@asynccontextmanager
async def market(
    settings: Settings,
    key_source: KeySource,
    policy: Policy | None = None,
    *,
    relayer_key_file: Path | None = None,
) -> AsyncIterator[Marketplace]:
    """A client of the settings' chain, with the key that a person named; openings and top-ups are sent by the
    account of `relayer_key_file`, if there is one.

    Raises:
        ChainError: no deployment, or the chain cannot be asked.
        ConfigError: there is no usable key.
    """
    logs_to_stderr()
    target = settings.deployment()
    key = key_source.load(target.chain_id)
    async with AsyncExitStack() as stack:
        relayer: Relayer | None = None
        if relayer_key_file is not None:
            relayer = await stack.enter_async_context(_relayer(settings, target, relayer_key_file))
        yield await stack.enter_async_context(
            Marketplace(
                deployment=target,
                key=key,
                data_dir=settings.data_dir,
                policy=policy or Policy(),
                relayer=relayer,
            )
        )


@asynccontextmanager
async def _relayer(settings: Settings, target: Deployment, key_file: Path) -> AsyncIterator[Relayer]:
    signer = LocalSigner(key_in_file(key_file))
    async with Chain.connect(target) as chain:
        journal = SqliteTransactionJournal(settings.data_dir / TRANSACTIONS_FILE)
        try:
            sender = Sender(chain, signer, journal)
            await sender.reconcile()
            yield sender
        finally:
            await journal.close()


@asynccontextmanager
async def resumed(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    *,
    relayer_key_file: Path | None = None,
) -> AsyncIterator[PaidSession]:
    """A session of the record, brought up to the chain's state.

    Raises:
        InvalidInput: `session-unknown` or `session-ambiguous`, before anything else is looked at.
    """
    async with recorded_session(settings.data_dir, reference) as (_, record):
        channel_id = record.channel_id
    async with market(settings, key_source, relayer_key_file=relayer_key_file) as connected:
        yield await connected.resume(channel_id)


def token_amount(text: str, decimals: int) -> int:
    """Base units of an amount that a person typed in whole tokens; anything else is wrong usage."""
    try:
        return parse_token_amount(text, decimals)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error


def closed_json(closed: Closed) -> dict[str, Any]:
    """The end of a session for a program; amounts are base units as text."""
    return {
        "channelId": to_hex(closed.channel_id),
        "sessionId": str(closed.session_id),
        "calls": closed.call_count,
        "anchoredRoot": to_hex(closed.root) if closed.call_count else None,
        "deposit": str(closed.deposit),
        "captured": str(closed.settled),
        "refunded": str(closed.refunded),
    }


def closed_facts(closed: Closed, card: Card) -> list[tuple[str, str]]:
    """The end of a session for print."""

    def money(amount: int) -> str:
        return f"{format_token_amount(amount, card.token.decimals)} {card.token.symbol}"

    return [
        ("session", f"{closed.session_id}, finalized"),
        ("channel", to_hex(closed.channel_id)),
        ("anchored", f"{closed.call_count} calls, {to_hex(closed.root)}" if closed.call_count else "no root"),
        ("captured", money(closed.settled)),
        ("refunded", money(closed.refunded)),
    ]
