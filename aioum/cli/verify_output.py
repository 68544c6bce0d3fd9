"""A verification report for a person: a table on a terminal, plain lines in a pipe."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Final

import click

from aioum.cli.plain import one_line
from aioum.core.hextext import to_hex
from aioum.verify.report import NUMBERS, Check, Report, Status

MAX_SHOWN_FINDINGS: Final = 5
_COLORS: Final = {Status.PASS: "green", Status.FAIL: "bold red", Status.NOT_APPLICABLE: "yellow"}
_NAMES: Final = {Status.PASS: "proven", Status.FAIL: "failed", Status.NOT_APPLICABLE: "not applicable"}


def print_report(report: Report) -> None:
    """Print all rows on standard output, most detailed where something failed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show the marks gets question marks rather than a crash.
        with contextlib.suppress(io.UnsupportedOperation):
            sys.stdout.reconfigure(errors="replace")
    if sys.stdout.isatty():
        _print_table(report)
    else:
        _print_plain(report)


def _print_plain(report: Report) -> None:
    click.echo(_title(report))
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        codes = f" [{', '.join(check.codes)}]" if check.codes else ""
        row = f"{check.status.mark} {_number(check)} {check.name.ljust(width)}"
        click.echo(f"{row}  {one_line(check.summary)}{codes}")
        for line in _findings(check):
            click.echo(" " * (width + 6) + line)
    click.echo(_totals(report))


def _print_table(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(_title(report), style="bold"))
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in report.checks:
        color = _COLORS[check.status]
        # Text, not markup: a package's words are a stranger's.
        told = Text(one_line(check.summary))
        if check.codes:
            told.append(f" [{', '.join(check.codes)}]", style="dim")
        for line in _findings(check):
            told.append(f"\n{line}", style="dim")
        table.add_row(
            Text(check.status.mark, style=color), Text(_number(check)), Text(check.name, style=color), told
        )
    console.print(table)
    console.print(Text(_totals(report), style="bold red" if report.exit_code else "bold"))


def _title(report: Report) -> str:
    package = report.package
    shown = f"{len(package.calls)} of {package.call_count}" if package.disclosed else f"{package.call_count}"
    where = "offline, no chain facts"
    if report.block is not None:
        where = f"chain facts at block {report.block.number} {to_hex(report.block.hash)}"
    return (
        f"Session {package.session_id} on chain {package.domain.chain_id}: {shown} calls, "
        f"claim {package.claim.value}; {where}"
    )


def _number(check: Check) -> str:
    number = NUMBERS[check.name]
    return " " if number is None else str(number)


def _findings(check: Check) -> list[str]:
    """All findings but the first, which the summary tells."""
    listed = check.details.get("findings")
    findings = listed[1:] if isinstance(listed, list) else []
    lines = [
        one_line(f"{finding['text']} [{finding['code']}]")
        for finding in findings
        if isinstance(finding, dict)
    ]
    if len(lines) > MAX_SHOWN_FINDINGS:
        lines = [
            *lines[:MAX_SHOWN_FINDINGS],
            f"and {len(lines) - MAX_SHOWN_FINDINGS} more; --json lists them",
        ]
    return lines


def _totals(report: Report) -> str:
    counts = {status: sum(check.status is status for check in report.checks) for status in Status}
    return " · ".join(f"{counts[status]} {_NAMES[status]}" for status in Status)
