"""`aioum evidence`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click

from aioum.cli.evidence_sources import fetch, fetch_options
from aioum.cli.output import fact, print_facts, print_json, print_table, write_file
from aioum.cli.references import CALL_INDEXES, SESSION
from aioum.cli.settings import Settings, common_options, examples, json_option, verbose_option
from aioum.options.publishing import TARGETS, publisher_of, target_options

CLAIMS = ("non-delivery", "wrong-result", "quality")

_max_bytes_option = click.option(
    "--max-bytes",
    type=click.IntRange(1),
    default=64 * 1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="Largest package to take.",
)


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


@evidence.command(
    epilog=examples(
        "aioum evidence publish evidence.json --to directory --directory ./www --base-url https://files.example",
        "aioum evidence publish evidence.json --to ipfs --ipfs-api http://127.0.0.1:5001",
        "aioum evidence publish evidence.json --to data --json",
    )
)
@click.argument(
    "package_file", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True)
)
@click.option("--to", "target", type=click.Choice(TARGETS), required=True, help="Where to.")
@target_options
@_max_bytes_option
@json_option
@verbose_option
def publish(package_file: Path, target: str, max_bytes: int, as_json: bool, **options: Any) -> None:
    """Publish an evidence package, and print the URI and the hash that a dispute names.

    FILE may be - for standard input. Only a package in its canonical form is published. What an IPFS service
    answers must be the CID that is computed here: version 1, raw leaves, chunks of 256 KiB.
    """
    publisher = publisher_of(target, options)
    with click.open_file(str(package_file), "rb") as file:
        data: bytes = file.read(max_bytes + 1)
    from aioum.client.publication import publish_evidence
    from aioum.core.hextext import to_hex

    published = asyncio.run(publish_evidence(data, publisher, max_bytes=max_bytes))
    evidence_hash, cid = to_hex(published.evidence_hash), published.cid
    if as_json:
        print_json(
            {
                "uri": published.uri,
                "evidenceHash": evidence_hash,
                "sizeBytes": published.size_bytes,
                "cid": None if cid is None else str(cid),
            }
        )
        return
    print_facts(
        [
            ("uri", published.uri),
            ("evidence hash", evidence_hash),
            ("size", f"{published.size_bytes} bytes"),
            ("CID", "" if cid is None else str(cid)),
        ]
    )
    fact(f"others check it with: verify-evidence URI --evidence-hash {evidence_hash}")


@evidence.command(
    "fetch",
    epilog=examples(
        "aioum evidence fetch ipfs://bafkrei… --evidence-hash 0x51c5…e1b2 -o evidence.json",
        "aioum evidence fetch https://files.example/51c5…e1b2.json --json -o evidence.json",
    ),
)
@click.argument("uri", metavar="URI")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file instead of standard output.",
)
@fetch_options
@_max_bytes_option
@json_option
@verbose_option
def fetch_command(uri: str, out: Path | None, max_bytes: int, as_json: bool, **options: Any) -> None:
    """Fetch the evidence at a URI, byte for byte. Nothing in it is checked.

    URI is https:, ipfs:, file: or data:. Bytes of an ipfs: URI have its CID, and with --evidence-hash all
    bytes have that hash, or nothing is written. By default machines of the public Internet alone are asked.
    """
    if as_json and out is None:
        raise click.UsageError("--json needs --out: the package itself goes to standard output without it")
    from aioum.core.hextext import to_hex

    fetched = fetch(uri, max_bytes, options)
    write_file(out, fetched.data)
    if as_json:
        print_json(
            {
                "source": fetched.source,
                "evidenceHash": to_hex(fetched.evidence_hash),
                "sizeBytes": len(fetched.data),
                "hashExpected": options["evidence_hash_hex"] is not None,
            }
        )
        return
    fact(f"hash {to_hex(fetched.evidence_hash)}, from {fetched.source}")
    if options["evidence_hash_hex"] is None:
        fact("nobody named the hash: these may be other bytes than a dispute names")
