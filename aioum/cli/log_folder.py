"""`aioum log fsck`."""

from __future__ import annotations

from pathlib import Path

import click

from aioum.cli.failures import FAILED
from aioum.cli.log_options import LogKey
from aioum.cli.output import print_json
from aioum.cli.plain import one_line
from aioum.cli.settings import examples, json_option, verbose_option


@click.command(epilog=examples("aioum log fsck shop/log", "aioum log fsck shop/log --json"))
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--public-key",
    type=LogKey(),
    metavar="BASE64",
    help="Key that signs the log's checkpoints; without it the signature is not checked.",
)
@json_option
@verbose_option
@click.pass_context
def fsck(ctx: click.Context, folder: Path, public_key: bytes | None, as_json: bool) -> None:
    """Hash everything in a log folder again.

    Compares all nodes, states, tiles and the checkpoint with what the entries hash to. Changes nothing, and
    the node may run meanwhile. The exit code is 1 if anything is wrong.
    """
    from aioum.core.hextext import to_hex
    from aioum.log.fsck import fsck as check

    report = check(folder, public_key)
    shown = report.checkpoint
    if as_json:
        print_json(
            {
                "ok": not report.findings,
                "origin": report.origin,
                "size": report.size,
                "root": to_hex(report.root),
                "entryBytes": report.entry_bytes,
                "publishedSize": None if shown is None else shown.size,
                "signatureChecked": shown is not None and public_key is not None,
                "findings": [
                    {"code": found.code, "where": found.where, "message": found.message}
                    for found in report.findings
                ],
            }
        )
    else:
        published = "nothing published" if shown is None else f"{shown.size} published"
        mark = "✗" if report.findings else "✓"
        click.echo(one_line(f"{mark} {report.origin}: {report.size} entries, {published}"))
        click.echo(f"  root {to_hex(report.root)}")
        for found in report.findings:
            click.echo(one_line(f"✗ {found.where}: {found.message} [{found.code}]"))
    if report.findings:
        ctx.exit(FAILED)
