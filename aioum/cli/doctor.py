"""`aioum doctor`."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import click

from aioum.cli.failures import FAILED
from aioum.cli.output import print_json
from aioum.cli.plain import one_line
from aioum.cli.settings import Settings, common_options, examples

if TYPE_CHECKING:
    from aioum.cli.diagnosis import Finding

_COLORS = {"pass": "green", "fail": "red", "na": "yellow"}


@click.command(
    epilog=examples(
        "aioum doctor", "aioum doctor --deployment contracts.json --rpc https://rpc.example --json"
    )
)
@common_options
@click.pass_context
def doctor(ctx: click.Context, settings: Settings) -> None:
    """Check chain, contracts, token, clock and data folder.

    One line each: ✓ in order, ✗ wrong, ○ not applicable. The exit code is 1 if anything is wrong.
    """
    from aioum.cli.diagnosis import diagnose
    from aioum.verify.report import Status

    findings = asyncio.run(diagnose(settings, time.time()))
    ok = all(finding.status is not Status.FAIL for finding in findings)
    if settings.as_json:
        print_json({"ok": ok, "checks": [_to_json(finding) for finding in findings]})
    else:
        for finding in findings:
            _print(finding)
    if not ok:
        ctx.exit(FAILED)


def _to_json(finding: Finding) -> dict[str, str | None]:
    return {
        "name": finding.name,
        "status": finding.status.value,
        "code": finding.code,
        "summary": finding.summary,
        "hint": finding.hint,
    }


def _print(finding: Finding) -> None:
    mark = finding.status.mark
    if sys.stdout.isatty():
        mark = click.style(mark, fg=_COLORS[finding.status.value])
    code = f" [{finding.code}]" if finding.code else ""
    click.echo(f"{mark} {finding.name:<16} {one_line(finding.summary)}{code}")
    if finding.hint:
        click.echo(f"  {'':<16} hint: {one_line(finding.hint)}")
