"""Options of the commands about logs, and remarks as they are printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from aioum.cli.plain import one_line
from aioum.options.common import Command

if TYPE_CHECKING:
    from aioum.client.logs.look import Look
    from aioum.core.types import Address
    from aioum.log.audit import Remark

_MARKS = {"alert": "✗", "pending": "○", "note": "·"}


class OperatorAddress(click.ParamType["Address"]):
    """An account, on the command line."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """The 20 bytes."""
        from aioum.core.errors import InvalidInput
        from aioum.core.hextext import address

        try:
            return address(value)
        except InvalidInput:
            self.fail(f"{value!r:.80} is no address of 0x and 40 digits", param, ctx)


class LogKey(click.ParamType[bytes]):
    """A log's public key, on the command line."""

    name = "base64"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """The 32 bytes."""
        from aioum.core.errors import InvalidInput
        from aioum.core.submission.framing import decode_base64

        try:
            return decode_base64(value, 32)
        except InvalidInput:
            self.fail(f"{value!r:.80} is no key of 32 bytes in base64", param, ctx)


def confirmations_option(function: Command) -> Command:
    """Add `--confirmations`."""
    return click.option(
        "--confirmations",
        type=click.IntRange(1, 1_000),
        default=1,
        show_default=True,
        metavar="N",
        help="Blocks that make something final, its own included; 12 or more on a public chain.",
    )(function)


def max_delay_option(function: Command) -> Command:
    """Add `--max-delay-seconds`."""
    return click.option(
        "--max-delay-seconds",
        type=click.IntRange(0, 31_536_000),
        metavar="N",
        help="How long after it is final a session may be missing; by default what the card promises, else "
        "3600.",
    )(function)


def timeout_option(function: Command) -> Command:
    """Add `--timeout`."""
    return click.option(
        "--timeout",
        type=click.FloatRange(1, 86_400),
        default=3_600.0,
        show_default=True,
        metavar="SECONDS",
        help="Longest look at one operator.",
    )(function)


def private_addresses_option(function: Command) -> Command:
    """Add `--allow-private-addresses`."""
    return click.option(
        "--allow-private-addresses",
        is_flag=True,
        help="Also read cards and logs that the registry places on machines of the own network, this one "
        "included.",
    )(function)


def remark_json(remark: Remark) -> dict[str, Any]:
    """A remark for a program."""
    return {
        "code": remark.code,
        "level": remark.level.value,
        "text": remark.text,
        "facts": dict(remark.facts),
    }


def remark_line(remark: Remark) -> str:
    """A remark for a person."""
    return one_line(f"{_MARKS[remark.level]} {remark.text} [{remark.code}]")


def look_json(look: Look) -> dict[str, Any]:
    """A look for a program. Times are unix seconds by the chain's clock."""
    from aioum.core.hextext import address_text, to_hex

    counts = look.state.counts
    return {
        "ok": look.ok,
        "operator": address_text(look.state.operator),
        "at": look.head.timestamp,
        "blockNumber": look.head.number,
        "maxDelaySeconds": look.max_delay_seconds,
        "matched": counts.matched,
        "missing": len(look.state.missing),
        "early": len(look.state.strangers),
        "capsules": counts.capsules,
        "elsewhere": counts.elsewhere,
        "logs": [
            {
                "origin": view.target.identity.origin,
                "where": view.target.source.where,
                "size": None if view.shown is None else view.shown.size,
                "root": None if view.shown is None else to_hex(view.shown.root),
                "anchoredSize": None if view.anchored is None else view.anchored.size,
                "anchoredAt": None if view.anchored is None else view.anchored.anchored_at,
            }
            for view in look.views
        ],
        "remarks": [remark_json(found.remark) for found in look.found],
        "leftOut": dict(look.left_out),
    }


def look_lines(look: Look) -> list[str]:
    """A look for a person: a line for each log, one for the sessions, and the remarks."""
    from aioum.core.hextext import address_text

    lines = []
    for view in look.views:
        size = "no checkpoint that counts" if view.shown is None else f"{view.shown.size} entries"
        anchor = "not anchored" if view.anchored is None else f"{view.anchored.size} anchored"
        lines.append("  " + one_line(f"{view.target.identity.origin}: {size}, {anchor}"))
    counts, missing, early = look.state.counts, len(look.state.missing), len(look.state.strangers)
    parts = [f"{counts.matched} sessions as the chain has them"]
    parts += [f"{missing} without entry"] if missing else []
    parts += [f"{early} early"] if early else []
    parts += [f"{counts.capsules} capsules"] if counts.capsules else []
    parts += [f"{counts.elsewhere} of other contracts"] if counts.elsewhere else []
    lines.append(f"  entries: {', '.join(parts)}")
    mark = "✓" if look.ok else "✗"
    remarks = [remark_line(found.remark) for found in look.found]
    more = [f"  {count} more [{code}]" for code, count in look.left_out.items()]
    return [f"{mark} {address_text(look.state.operator)}", *lines, *remarks, *more]
