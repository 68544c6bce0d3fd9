"""`aioum evidence`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from aioum.cli.output import fact, print_facts, print_json, print_table, write_file
from aioum.cli.references import CALL_INDEXES, SESSION
from aioum.cli.settings import Settings, common_options, examples, json_option, verbose_option

CLAIMS = ("non-delivery", "wrong-result", "quality")


@click.group()
def evidence() -> None:
    """Build evidence packages and read them."""


@evidence.command(
    epilog=examples(
        'aioum evidence build 3 --claim wrong-result --narrative "the sum is off" --out evidence.json',
        "aioum evidence build 3 --claim quality --disclose 1,2,5 > evidence.json",
    )
)
@click.argument("reference", metavar="SESSION", type=SESSION)
@click.option("--claim", type=click.Choice(CLAIMS), required=True, help="What you claim.")
@click.option("--narrative", default="", metavar="TEXT", help="What happened, in your words.")
@click.option(
    "--disclose",
    type=CALL_INDEXES,
    metavar="INDEXES",
    help="Show these calls alone, such as 1,2,5 or 0-3; the others stay hidden behind the root.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file instead of standard output.",
)
@common_options
def build(
    settings: Settings,
    reference: bytes | int,
    claim: str,
    narrative: str,
    disclose: tuple[int, ...] | None,
    out: Path | None,
) -> None:
    """Build an evidence package from your record of a session.

    The package is canonical JSON: whoever holds it can check it with `verify-evidence`, without trusting you.
    It needs neither a key nor the node, and holds no secret beside what the calls say.
    """
    from aioum.cli.packaging import build_from_record

    written = asyncio.run(build_from_record(settings, reference, claim, narrative, disclose))
    write_file(out, written)


@evidence.command(
    epilog=examples("aioum evidence show evidence.json --calls", "aioum evidence show evidence.json --json")
)
@click.argument(
    "package_file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True)
)
@click.option("--calls", is_flag=True, help="List the calls too.")
@json_option
@verbose_option
def show(package_file: Path, calls: bool, as_json: bool) -> None:
    """Show what an evidence package says. FILE may be - for standard input.

    Nothing is checked here: `verify-evidence FILE` says what is proven.
    """
    from aioum.cli import package_summary
    from aioum.core.evidence import MAX_PACKAGE_BYTES
    from aioum.core.evidence_reading import parse_package

    with click.open_file(str(package_file), "rb") as file:
        data: bytes = file.read(MAX_PACKAGE_BYTES + 1)
    package = parse_package(data)
    summary = package_summary.summary_json(package, data)
    rows = package_summary.call_rows(package) if calls else []
    if as_json:
        print_json({**summary, "calls": rows} if calls else summary)
        return
    print_facts(package_summary.summary_facts(summary))
    if rows:
        click.echo()
        print_table(
            ("index", "tool", "outcome", "charge", "request bytes", "response bytes"),
            [package_summary.call_cells(row) for row in rows],
            empty="",
        )
    fact(f"nothing of this is checked here: verify-evidence {package_file}")
