"""`aioum run show`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aioum.cli.output import print_facts, print_json
from aioum.cli.plain import one_line
from aioum.cli.settings import examples, json_option, verbose_option

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from aioum.run.event import Event, Header
    from aioum.run.timeline import Line

_COLORS = {
    "llm-call": "magenta",
    "tool-call": "cyan",
    "retrieval": "blue",
    "sub-agent": "green",
    "approval": "yellow",
    "guardrail": "red",
}


@click.command(epilog=examples("aioum run show run-42.json", "aioum run show runs/42 --json"))
@click.argument("source", metavar="FILE|FOLDER", type=click.Path(path_type=Path, exists=True))
@json_option
@verbose_option
def show(source: Path, as_json: bool) -> None:
    """Show what happened in a run, and inside of what.

    FILE is a capsule or a disclosure, FOLDER that of a run, also while it is recorded. Nothing is verified:
    that is for `aioum run verify`. Times are the recorder's own.
    """
    from aioum.run.timeline import timeline

    header, events, under_way, root = _read(source)
    if as_json:
        print_json(
            {
                "header": None if header is None else header.to_json(),
                "root": root,
                "events": [event.to_json() for event in events],
                "open": sorted(under_way),
            }
        )
        return
    if header is not None:
        print_facts(
            [
                ("run", header.run_id),
                ("agent", header.agent),
                ("started", _time(header.started_at)),
                ("events", str(len(events))),
                ("root", root or "not sealed"),
            ]
        )
    start = header.started_at if header is not None else min((event.at for event in events), default=0)
    _draw(timeline(events), start, under_way)


def _read(source: Path) -> tuple[Header | None, list[Event], Collection[int], str | None]:
    """Raises InvalidInput as `read_sealed`; RunJournalError as `read_journal`."""
    from aioum.cli.run_verify import read_sealed
    from aioum.cli.verify_run_inputs import read_bytes
    from aioum.run.capsule import MAX_CAPSULE_BYTES
    from aioum.run.journal import read_journal
    from aioum.run.seal import read_seal

    if source.is_dir():
        recorded = read_journal(source)
        root = None if recorded.sealed is None else "0x" + recorded.sealed.hex()
        return recorded.header, recorded.events, recorded.open, root
    sealed = read_sealed(read_bytes(source, MAX_CAPSULE_BYTES))
    seal = read_seal(sealed.envelope.payload)
    return seal.header, [item.event for item in sealed.events], (), "0x" + seal.root.hex()


def _time(milliseconds: int) -> str:
    # A header may say anything up to 2^53, which is no date any more.
    try:
        return datetime.fromtimestamp(milliseconds / 1_000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return f"{milliseconds} ms after 1970"


def _draw(lines: Iterable[Line], start: int, under_way: Collection[int]) -> None:
    rows = [
        (
            str(line.event.index),
            f"{(line.event.at - start) / 1_000:+.3f} s",
            line.event.kind.value,
            _branches(line.lasts) + one_line(line.event.name),
            _paid(line.event) + ("under way" if line.event.index in under_way else ""),
        )
        for line in lines
    ]
    if sys.stdout.isatty():
        _draw_on_terminal(rows)
        return
    widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else []
    for index, at, kind, name, more in rows:
        told = f"{index.rjust(widths[0])}  {at.rjust(widths[1])}  {kind.ljust(widths[2])}  {name}"
        click.echo(f"{told}  {more}" if more else told)


def _draw_on_terminal(rows: Iterable[tuple[str, str, str, str, str]]) -> None:
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(
        Column(justify="right", style="dim"),
        Column(justify="right", style="dim"),
        Column(),
        Column(overflow="fold"),
        Column(overflow="fold", style="dim"),
        box=None,
        pad_edge=False,
        show_header=False,
    )
    for index, at, kind, name, more in rows:
        # Text, not markup: square brackets in a tool's name mean nothing.
        cells = (Text(index), Text(at), Text(kind, style=_COLORS[kind]), Text(name), Text(more))
        table.add_row(*cells)
    Console(highlight=False).print(table)


def _branches(lasts: tuple[bool, ...]) -> str:
    if not lasts:
        return ""
    above = "".join("   " if last else "│  " for last in lasts[:-1])
    return above + ("└─ " if lasts[-1] else "├─ ")


def _paid(event: Event) -> str:
    if event.call is None:
        return ""
    return f"call {event.call.index} of 0x{event.call.channel_id.hex()} "
