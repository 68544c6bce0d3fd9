"""`aioum services`."""

from __future__ import annotations

import asyncio

import click

from aioum.cli.failures import warn
from aioum.cli.output import print_facts, print_json, print_table
from aioum.cli.settings import Settings, common_options, examples


@click.group()
def services() -> None:
    """Find services and see what they offer."""


@services.command("list", epilog=examples("aioum services list --json"))
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Show at most N.",
)
@common_options
def list_services(settings: Settings, limit: int) -> None:
    """List the services that take new sessions.

    The names and prices come from the card that each service's node serves, checked against the hash that the
    registry has. The column "rating" is the mean of what payers gave, 0 to 100; the column "state" says
    whether you could pay under the default policy.
    """
    from aioum.cli import offers

    seen, total = asyncio.run(offers.list_services(settings, limit))
    if settings.as_json:
        print_json({"services": [offers.to_json(service) for service in seen], "total": total})
    else:
        print_table(
            ("id", "name", "tools", "price", "rating", "state", "node"),
            [offers.list_row(service) for service in seen],
            empty="no services are registered; an operator registers one with `aioum-node register`",
        )
    if total > len(seen):
        warn(f"{total - len(seen)} more services are left out; --limit shows more")


@services.command(epilog=examples("aioum services show 1", "aioum services show https://node.example --json"))
@click.argument("service", metavar="SERVICE")
@common_options
def show(settings: Settings, service: str) -> None:
    """Show a service with its tools. SERVICE is its number, or its node's URL."""
    from aioum.cli import offers

    seen = asyncio.run(offers.show_service(settings, service))
    if settings.as_json:
        print_json(offers.to_json(seen))
        return
    print_facts(offers.facts(seen))
    if seen.card is not None:
        click.echo()
        print_table(("tool", "price", "arguments", "description"), offers.tool_rows(seen.card), empty="")
