"""What `aioum rate` does: suggest, ask, send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from aioum.cli.confirming import Money, confirm, tell_cost
from aioum.cli.keys import KeySource
from aioum.cli.market import resumed
from aioum.cli.output import fact
from aioum.cli.settings import Settings
from aioum.core.experience import SuggestedScore
from aioum.core.hextext import to_hex
from aioum.core.types import Address, Bytes32, ChannelId


@dataclass(frozen=True, slots=True)
class Rated:
    """A rating that is on-chain; `suggested` is what the record said."""

    channel_id: ChannelId
    score: int
    suggested: SuggestedScore
    transaction: Bytes32


async def rate(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    *,
    score: int | None,
    detail_uri: str,
    registry: Address | None,
    yes: bool,
) -> Rated:
    """Show the suggestion, ask for the score unless one was given, and rate.

    Raises:
        ConfigError: `not-confirmed`.
        AioumError: as `Rater.step`.
    """
    async with resumed(settings, key_source, reference) as paid:
        suggested = await paid.suggest_score()
        # What would be refused is said before anybody thinks about a score.
        await paid.rater.step(suggested.score, detail_uri, registry)
        tell(suggested)
        chosen = score
        if chosen is None:
            chosen = suggested.score if yes else _asked(suggested.score)
        step = await paid.rater.step(chosen, detail_uri, registry)
        token = paid.card.token
        tell_cost(await paid.rater.cost(step), Money(token.decimals, token.symbol))
        confirm(f"Rate {paid.card.name} with {chosen} of 100, once and for ever", yes=yes)
        mined = await paid.rate(chosen, detail_uri, registry=registry)
        return Rated(paid.channel_id, chosen, suggested, mined.transaction_hash)


async def suggest(settings: Settings, key_source: KeySource, reference: bytes | int) -> SuggestedScore:
    """The suggestion alone. Nothing is sent."""
    async with resumed(settings, key_source, reference) as paid:
        return await paid.suggest_score()


def tell(suggested: SuggestedScore) -> None:
    """Say what is suggested, and why."""
    fact(f"your record suggests {suggested.score} of 100")
    for reason in suggested.reasons:
        fact(f"  -{reason.points}: {reason.text} [{reason.code}]")


def suggested_json(suggested: SuggestedScore) -> dict[str, Any]:
    """A suggestion, for a program."""
    return {
        "score": suggested.score,
        "reasons": [
            {"code": reason.code, "points": reason.points, "text": reason.text}
            for reason in suggested.reasons
        ],
    }


def rated_json(rated: Rated) -> dict[str, Any]:
    """A rating, for a program."""
    return {
        "channelId": to_hex(rated.channel_id),
        "score": rated.score,
        "suggested": suggested_json(rated.suggested),
        "transaction": to_hex(rated.transaction),
    }


def _asked(suggested: int) -> int:
    try:
        score: int = click.prompt("Score", type=click.IntRange(0, 100), default=suggested, err=True)
    except click.Abort:
        click.echo(err=True)
        return suggested
    return score
