"""A connected client for commands that sign or send, and what they print about money."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click

from aioum.cli.keys import KeySource
from aioum.cli.logs import logs_to_stderr
from aioum.cli.record import recorded_session
from aioum.cli.settings import Settings
from aioum.client.closing import Closed
from aioum.client.marketplace import Marketplace
from aioum.client.policy import Policy
from aioum.client.session import PaidSession
from aioum.core.amounts import format_token_amount, parse_token_amount
from aioum.core.card import Card
from aioum.core.errors import InvalidInput
from aioum.core.hextext import to_hex


@asynccontextmanager
async def market(
    settings: Settings, key_source: KeySource, policy: Policy | None = None
) -> AsyncIterator[Marketplace]:
    """A client of the settings' chain, with the key that a person named.

    Raises:
        ChainError: no deployment, or the chain cannot be asked.
        ConfigError: there is no usable key.
    """
    logs_to_stderr()
    target = settings.deployment()
    key = key_source.load(target.chain_id)
    async with Marketplace(
        deployment=target, key=key, data_dir=settings.data_dir, policy=policy or Policy()
    ) as connected:
        yield connected


@asynccontextmanager
async def resumed(
    settings: Settings, key_source: KeySource, reference: bytes | int
) -> AsyncIterator[PaidSession]:
    """A session of the record, brought up to the chain's state.

    Raises:
        InvalidInput: `session-unknown` or `session-ambiguous`, before anything else is looked at.
    """
    async with recorded_session(settings.data_dir, reference) as (_, record):
        channel_id = record.channel_id
    async with market(settings, key_source) as connected:
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
