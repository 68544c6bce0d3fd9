"""`aioum call`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from aioum.cli.arguments import MAX_ARGUMENTS_BYTES
from aioum.cli.failures import FAILED
from aioum.cli.keys import KeySource, key_options, relayer_option
from aioum.cli.references import SESSION
from aioum.cli.settings import Settings, common_options, examples


@click.command(
    epilog=examples(
        'aioum call 1 wordcount --arg text="one two three" --devnet-account 1',
        "aioum call 1 wordcount --arg-file text=README.md --deposit 1 --keep-open --key-store key.json",
        'echo \'{"text": "one"}\' | aioum call https://node.example wordcount - --session 3 --json',
    )
)
@click.argument("service", metavar="SERVICE")
@click.argument("tool", metavar="TOOL")
@click.argument("source", metavar="[-]", required=False, type=click.Choice(["-"]))
@click.option(
    "--arg",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="One argument; JSON where the tool wants no text.",
)
@click.option(
    "--arg-file", "file_pairs", multiple=True, metavar="NAME=PATH", help="One argument, read from a file."
)
@click.option("--json-args", metavar="JSON", help="All arguments as a JSON object.")
@click.option(
    "--deposit",
    metavar="AMOUNT",
    help="Deposit of a new session in whole tokens; by default the least that node and call need.",
)
@click.option(
    "--spend-limit", metavar="AMOUNT", help="Most that a new session may ever spend, in whole tokens."
)
@click.option(
    "--session",
    "reference",
    type=SESSION,
    metavar="SESSION",
    help="Go on with this session, open no new one.",
)
@click.option(
    "--seat",
    metavar="NAME",
    help="Sign the call as this sub-agent, with a key of its own; a new session gets the seat.",
)
@click.option("--keep-open", is_flag=True, help="Leave the session open after the call.")
@click.option(
    "--accept-uncommitted",
    is_flag=True,
    help="Also pay a service that need not anchor the record of your calls.",
)
@relayer_option
@key_options
@common_options
@click.pass_context
def call(
    ctx: click.Context,
    settings: Settings,
    key_source: KeySource,
    relayer_key_file: Path | None,
    service: str,
    tool: str,
    source: str | None,
    pairs: tuple[str, ...],
    file_pairs: tuple[str, ...],
    json_args: str | None,
    deposit: str | None,
    spend_limit: str | None,
    reference: bytes | int | None,
    seat: str | None,
    keep_open: bool,
    accept_uncommitted: bool,
) -> None:
    """Pay for one tool call and print its response.

    SERVICE is a service's number or its node's URL. Opens a session (or goes on with --session), calls TOOL,
    prints the response on standard output, and closes the session unless --keep-open is given. With - the
    arguments are read from standard input as a JSON object. A tool that fails costs nothing; then the exit
    code is 1.
    """
    if reference is not None and (deposit is not None or spend_limit is not None):
        raise click.UsageError(
            "--deposit and --spend-limit are for a new session; add to one with `aioum session top-up`"
        )
    if source is not None and json_args is not None:
        raise click.UsageError("give the arguments as - or as --json-args, not both")
    json_text: str | bytes | None = json_args
    if source is not None:
        json_text = sys.stdin.buffer.read(MAX_ARGUMENTS_BYTES + 1)

    from aioum.cli.buying import Purchase, buy

    purchase = Purchase(
        service=service,
        tool_id=tool,
        json_text=json_text,
        pairs=pairs,
        file_pairs=file_pairs,
        deposit=deposit,
        spend_limit=spend_limit,
        reference=reference,
        seat=seat,
        keep_open=keep_open,
        accept_uncommitted=accept_uncommitted,
        relayer_key_file=relayer_key_file,
    )
    if not asyncio.run(buy(settings, key_source, purchase)):
        ctx.exit(FAILED)
