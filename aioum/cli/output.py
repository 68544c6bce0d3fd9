"""Printing results: JSON for programs, a table on a terminal, plain text in a pipe."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.plain import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console


def print_json(value: Any) -> None:
    """Print one JSON document on standard output: indented on a terminal, one line in a pipe."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(value, indent=indent, ensure_ascii=True))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Print rows on standard output.

    Args:
        columns: the headings.
        rows: as many texts each as there are columns.
        empty: what to say on standard error where there are no rows.
    """
    if not rows:
        fact(empty)
        return
    cells = [[one_line(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        from rich.table import Column, Table
        from rich.text import Text

        # Folded, not cut: a channel id is there to be copied.
        headings = (Column(column, overflow="fold") for column in columns)
        table = Table(*headings, box=None, pad_edge=False)
        for row in cells:
            # Text, not markup: square brackets in an operator's words mean nothing.
            table.add_row(*(Text(cell) for cell in row))
        _console().print(table)
        return
    widths = [max(len(row[i]) for row in [list(columns), *cells]) for i in range(len(columns))]
    for row in [list(columns), *cells]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """Print names and values on standard output, one pair a line; pairs with an empty value are left out."""
    shown = [(name, one_line(value)) for name, value in facts if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        label = name.ljust(width)
        click.echo(f"{click.style(label, bold=True) if sys.stdout.isatty() else label}  {value}")


def print_response(response: str) -> None:
    """Print a tool's response: the exact text in a pipe, made safe for the screen on a terminal."""
    if sys.stdout.isatty():
        click.echo(printable(response), nl=not response.endswith("\n"))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(response.encode())
    sys.stdout.buffer.flush()


def fact(text: str) -> None:
    """Say on standard error what happened; results alone go to standard output."""
    click.echo(printable(text), err=True)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


def write_file(path: Path | None, content: bytes) -> None:
    """Write a result to a file, replacing it at once, or to standard output where there is no path.

    Raises:
        OSError: the file cannot be written; an older one is unchanged.
    """
    if path is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    fact(f"wrote {len(content)} bytes to {path}")
