"""`aioum watch`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import click

from aioum.cli.failures import warn
from aioum.cli.log_options import OperatorAddress
from aioum.cli.plain import one_line
from aioum.cli.settings import Settings, common_options, examples

if TYPE_CHECKING:
    from aioum.chain.client import Chain
    from aioum.client.watching import Sighting, Watch
    from aioum.core.types import Address, ChannelId

DEFAULT_INTERVAL_SECONDS = 2.0


class _Channel(click.ParamType["ChannelId"]):
    name = "channel"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> ChannelId:
        from aioum.core.errors import InvalidInput
        from aioum.core.hextext import channel_id

        try:
            return channel_id(value)
        except InvalidInput:
            self.fail(f"{value!r:.80} is no channel id of 0x and 64 digits", param, ctx)


@click.command(
    epilog=examples(
        "aioum watch --of 0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "aioum watch --from-block 0 --once --json",
    )
)
@click.option(
    "--of",
    "accounts",
    type=OperatorAddress(),
    multiple=True,
    metavar="ADDRESS",
    help="Only what concerns this payer, payee or operator; repeat for several.",
)
@click.option(
    "--channel",
    "channels",
    type=_Channel(),
    multiple=True,
    metavar="CHANNEL",
    help="Only what concerns this session, by its channel id; repeat for several.",
)
@click.option(
    "--from-block",
    type=click.IntRange(min=0),
    metavar="N",
    help="Begin with this block; by default with the newest one.",
)
@click.option("--once", is_flag=True, help="Print what there is, and end.")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 600),
    default=DEFAULT_INTERVAL_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two looks at the chain.",
)
@common_options
def watch(
    settings: Settings,
    accounts: tuple[Address, ...],
    channels: tuple[ChannelId, ...],
    from_block: int | None,
    once: bool,
    interval: float,
) -> None:
    """Follow disputes, exits, settlements, ratings and anchors as they happen.

    One line for each event, on standard output; with --json one JSON object a line. What a reorganization
    undoes is said too. Without --once it goes on until it is stopped; an endpoint that is away for a while
    costs nothing.
    """
    asyncio.run(_watch(settings, accounts, channels, from_block, once, interval))


async def _watch(
    settings: Settings,
    accounts: tuple[Address, ...],
    channels: tuple[ChannelId, ...],
    from_block: int | None,
    once: bool,
    interval: float,
) -> None:
    from aioum.chain.client import Chain
    from aioum.client.watching import Concern, Watch

    async with Chain.connect(settings.deployment()) as chain:
        first = (await chain.head()).number if from_block is None else max(from_block, chain.first_block)
        watched = Watch(
            chain,
            [contract async for contract in _contracts(chain)],
            Concern(frozenset(accounts), frozenset(channels)),
            first_block=first,
        )
        tokens: dict[Address, tuple[int | None, str]] = {}
        if once:
            await _print(settings, chain, await watched.look(), tokens)
            return
        await _follow(settings, chain, watched, tokens, interval)


async def _follow(
    settings: Settings,
    chain: Chain,
    watched: Watch,
    tokens: dict[Address, tuple[int | None, str]],
    interval: float,
) -> None:
    from aioum.core.errors import ChainError

    failing: str | None = None
    while True:
        try:
            seen = await watched.look()
            failing = None
        except ChainError as error:
            if error.code != failing:
                warn(f"{error} [{error.code}]; asking again")
            failing, seen = error.code, []
        await _print(settings, chain, seen, tokens)
        await asyncio.sleep(interval)


async def _contracts(chain: Chain) -> AsyncIterator[Address]:
    from aioum.chain.decisions import Decisions

    yield chain.payment_manager
    yield chain.service_registry
    yield (await Decisions.of(chain)).address
    if chain.deployment is not None:
        for contract in (chain.deployment.rating_registry, chain.deployment.log_anchor):
            if contract is not None:
                yield contract


async def _print(
    settings: Settings,
    chain: Chain,
    sightings: list[Sighting],
    tokens: dict[Address, tuple[int | None, str]],
) -> None:
    from aioum.cli.watch_lines import QUIET, to_json, to_line

    for seen in sightings:
        if settings.as_json:
            click.echo(json.dumps(to_json(seen), ensure_ascii=True))
        elif seen.event.name not in QUIET:
            decimals, symbol = await _token_of(chain, seen, tokens)
            click.echo(one_line(to_line(seen, decimals, symbol)))


async def _token_of(
    chain: Chain, seen: Sighting, tokens: dict[Address, tuple[int | None, str]]
) -> tuple[int | None, str]:
    from aioum.chain.events import ChannelOpened, CreditClaimed, Credited, Rated, SessionOpened
    from aioum.core.errors import ChainError

    token = None if seen.session is None else seen.session.token
    if isinstance(seen.event.body, SessionOpened | ChannelOpened | Credited | CreditClaimed | Rated):
        token = seen.event.body.token
    if token is None:
        return None, ""
    if token not in tokens:
        try:
            tokens[token] = (await chain.token_decimals(token), await chain.token_symbol(token))
        except ChainError:
            # Anybody may register terms with an address that is no token.
            tokens[token] = (None, "")
    return tokens[token]
