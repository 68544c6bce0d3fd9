"""`aioum log audit`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from aioum.cli.failures import FAILED
from aioum.cli.log_named import LogOrigin
from aioum.cli.log_options import (
    LogKey,
    OperatorAddress,
    confirmations_option,
    look_json,
    look_lines,
    max_delay_option,
    private_addresses_option,
    timeout_option,
)
from aioum.cli.output import print_json
from aioum.cli.settings import Settings, common_options, examples

if TYPE_CHECKING:
    from aioum.client.logs.followed import Followed
    from aioum.client.logs.look import Look
    from aioum.core.types import Address


@click.command(
    epilog=examples(
        "aioum log audit --operator 0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
        "aioum log audit --operator 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --log ./mirror --json",
    )
)
@click.option(
    "--operator",
    type=OperatorAddress(),
    required=True,
    metavar="ADDRESS",
    help="Whose sessions and logs: the operator that the terms name.",
)
@click.option(
    "--log",
    "places",
    multiple=True,
    metavar="URL|FOLDER",
    help="Where the log is; repeat for several. By default where the cards of the operator's services say.",
)
@click.option(
    "--origin",
    type=LogOrigin(),
    metavar="TEXT",
    help="The log's name, where no card says it; with --public-key.",
)
@click.option(
    "--public-key",
    type=LogKey(),
    metavar="BASE64",
    help="Key that signs the log's checkpoints, where no card says it.",
)
@timeout_option
@max_delay_option
@confirmations_option
@private_addresses_option
@common_options
@click.pass_context
def audit(
    ctx: click.Context,
    settings: Settings,
    operator: Address,
    places: tuple[str, ...],
    origin: str | None,
    public_key: bytes | None,
    max_delay_seconds: int | None,
    confirmations: int,
    timeout: float,
    allow_private_addresses: bool,
) -> None:
    """Hold an operator's log against the chain.

    Reads every session of the operator that is final on-chain, the anchors, and every entry of the log. A
    session without an entry is pending as long as the promised delay allows, and session-missing after.
    Entries that contradict the chain are named too, and so is a log that does not continue what is anchored.
    The exit code is 1 if anything is wrong, or cannot be read.
    """
    if (origin is None) != (public_key is None):
        raise click.UsageError("--origin and --public-key belong together")
    if origin is not None and len(places) != 1:
        raise click.UsageError("--origin and --public-key are of one log: name it with one --log")
    from aioum.client.logs.followed import Followed
    from aioum.log.monitor import LogIdentity

    identity = None if origin is None or public_key is None else LogIdentity(origin, public_key)
    followed = Followed(operator, places, identity, max_delay_seconds)
    look = asyncio.run(_audit(settings, followed, confirmations, timeout, allow_private_addresses))
    if settings.as_json:
        print_json(look_json(look))
    else:
        for line in look_lines(look):
            click.echo(line)
    if not look.ok:
        ctx.exit(FAILED)


async def _audit(
    settings: Settings,
    followed: Followed,
    confirmations: int,
    timeout_seconds: float,
    allow_private_addresses: bool,
) -> Look:
    from aioum.chain.client import Chain
    from aioum.client.logs.auditing import audit
    from aioum.client.logs.web import open_web

    async with (
        Chain.connect(settings.deployment()) as chain,
        open_web(allow_private_addresses=allow_private_addresses) as web,
    ):
        return await audit(chain, followed, web, confirmations=confirmations, timeout_seconds=timeout_seconds)
