"""What the demo shows while it runs. With `--json`, all of it goes to standard error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from aioum.client import CallResult
from aioum.core.amounts import format_token_amount
from aioum.core.canonical import JsonValue
from aioum.core.hextext import to_hex

_MARKS = {"pass": "[green]✓[/]", "fail": "[red]✗[/]", "na": "[yellow]○[/]"}


@dataclass(frozen=True, slots=True)
class Transaction:
    """A mined transaction: what it did, its gas, its hash."""

    what: str
    gas_used: int
    transaction_hash: bytes


class Show:
    """Prints the steps of the main job."""

    def __init__(self, console: Console, decimals: int, symbol: str) -> None:
        self._console = console
        self._decimals = decimals
        self._symbol = symbol

    def step(self, text: str) -> None:
        """A step that begins."""
        self._console.print(f"[bold]→[/] {text}", highlight=False)

    def amount(self, value: int) -> str:
        """Base units as a person reads them."""
        return f"{format_token_amount(value, self._decimals)} {self._symbol}"

    def call(self, result: CallResult) -> None:
        """One line of progress for an answered call."""
        word = "ok" if result.ok else f"failed ({result.failure}), not charged"
        self._console.print(f"  call {result.index:>2}  {word}", style=None if result.ok else "yellow")

    def calls(self, rows: Sequence[tuple[CallResult, str, str]]) -> None:
        """The table of calls: (result, tool, request)."""
        table = Table(title="Calls, as both sides recorded them", title_justify="left", box=SIMPLE)
        table.add_column("#", justify="right")
        for name in ("tool", "request", "response"):
            table.add_column(name)
        table.add_column("charge", justify="right")
        table.add_column("leaf")
        # What is left of the line beside the narrow columns, halved.
        room = max(12, (self._console.width - 56) // 2)
        for result, tool, request in rows:
            leaf = to_hex(result.receipt.receipt.leaf)[:10]
            response = result.text if result.ok else f"✗ {result.failure}"
            table.add_row(
                str(result.index),
                tool,
                _clipped(request, room),
                _clipped(response, room),
                self.amount(result.charge),
                leaf,
            )
        self._console.print(table)

    def roots(self, roots: Mapping[str, str]) -> None:
        """Roots by who computed them."""
        for who, root in roots.items():
            self._console.print(f"  {who:<22} {root}", highlight=False, soft_wrap=True)

    def transactions(self, transactions: Sequence[Transaction]) -> None:
        """Transactions with their gas."""
        table = Table(title="Transactions", title_justify="left", box=SIMPLE)
        table.add_column("what")
        table.add_column("gas", justify="right")
        table.add_column("hash", no_wrap=True)
        for item in transactions:
            table.add_row(item.what, f"{item.gas_used:,}", to_hex(item.transaction_hash))
        self._console.print(table)

    def checks(self, checks: Sequence[Mapping[str, JsonValue]]) -> None:
        """The verifier's checks with one sentence each."""
        for check in checks:
            mark = _MARKS[str(check["status"])]
            self._console.print(f"  {mark} {check['name']!s:<14} {check['summary']}", highlight=False)


def _clipped(text: str, room: int) -> Text:
    line = " ".join(text.split())
    return Text(line if len(line) <= room else line[: room - 1] + "…", no_wrap=True)
