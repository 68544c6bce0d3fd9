"""`aioum-node disputes`: what clients dispute and challenge, and the operator's answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from aioum.core.hashing import keccak256
from aioum.core.hextext import to_hex
from aioum.options.publishing import TARGETS, publisher_of, require_of, separated, target_options
from aioum_node.cli_options import loaded, print_json, settings_options

if TYPE_CHECKING:
    from aioum_node.disputes.report import HeldReport

_JSON: Final = click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout.")
_HEADINGS: Final = ("session", "channel", "state", "claim", "held", "bond", "until", "evidence")


@click.group()
def disputes() -> None:
    """Disputes and challenges over what sessions captured; the node may run meanwhile.

    A running node answers challenges, ends disputes that nobody ruled on and has held money released by
    itself. What these commands send, the running node sends for them.
    """


@disputes.command("list")
@click.option("--all", "every", is_flag=True, help="Also sessions over which nothing is pending.")
@_JSON
@settings_options
def list_disputes(every: bool, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """List what is pending over held money.

    \b
    Example:
      aioum-node disputes list --dir shop --all
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    settings = loaded(config_file, flags)
    from aioum_node.disputes.commands import list_held

    reports = asyncio.run(list_held(settings, every=every))
    if as_json:
        print_json([report.to_json() for report in reports])
        return
    if not reports:
        click.echo("nothing is held" if every else "nothing is pending")
        return
    rows = [_HEADINGS, *map(_row, reports)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


@disputes.command("show")
@click.argument("session")
@_JSON
@settings_options
def show_dispute(session: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show all that happened to what SESSION (session id or channel id) captured.

    \b
    Example:
      aioum-node disputes show 42 --dir shop
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    settings = loaded(config_file, flags)
    from aioum_node.disputes.commands import show

    value = asyncio.run(show(settings, session)).to_json()
    if as_json:
        print_json(value)
        return
    for name, shown in value.items():
        if shown not in (None, []):
            click.echo(f"{name}: {_shown(name, shown)}")


@disputes.command()
@click.argument("session")
@click.option("--narrative", default="", help="Your side, in words.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Also write the package here.")
@click.option("--uri", help="Where you publish what --out writes; nothing is published by this command then.")
@click.option("--to", type=click.Choice(TARGETS), help="Publish the package there.")
@target_options
@_JSON
@settings_options
def respond(
    session: str,
    narrative: str,
    out: Path | None,
    uri: str | None,
    to: str | None,
    as_json: bool,
    config_file: Path | None,
    **others: Any,
) -> None:
    """Answer the pending dispute over SESSION with the node's own record of it.

    The package is exported with receipts and statement, published where --to says (or by you, at --uri), and
    named on-chain by its URI and keccak256 hash. With --out alone it is only written.

    \b
    Examples:
      aioum-node disputes respond 42 --dir shop --to directory --directory /srv/evidence \\
          --base-url https://tools.example/evidence --narrative "The answer is what the tool gives."
      aioum-node disputes respond 42 --dir shop --out response.json --uri ipfs://bafy…
    """  # noqa: D301 - click wants this very character before a block that keeps its lines
    if to is not None and uri is not None:
        raise click.UsageError("--to and --uri exclude each other")
    if to is None and out is None:
        raise click.UsageError("say where the package goes: --to, or --out")
    target, flags = separated(others)
    require_of(to, target)
    publisher = None if to is None else publisher_of(to, target)
    settings = loaded(config_file, flags)

    async def work() -> dict[str, Any]:
        from aioum_node.disputes.commands import have_sent, make_response

        made = await make_response(settings, session, narrative)
        facts: dict[str, Any] = {
            "channelId": to_hex(made.channel_id),
            "uri": uri,
            "hash": to_hex(keccak256(made.package)),
            "transaction": None,
        }
        if out is not None:
            await asyncio.to_thread(out.write_bytes, made.package)
        if publisher is not None:
            from aioum.client.publication import publish_evidence

            facts["uri"] = (await publish_evidence(made.package, publisher)).uri
        if facts["uri"] is not None:
            command = {key: facts[key] for key in ("channelId", "uri", "hash")}
            facts.update(await have_sent(settings, {"action": "respond", **command}))
        return facts

    facts = asyncio.run(work())
    if as_json:
        print_json(facts)
    elif facts["transaction"] is None:
        click.echo(f"wrote {out} with hash {facts['hash']}; nothing was sent")
    else:
        click.echo(f"responded with {_short(facts['uri'])} and hash {facts['hash']}")
        click.echo(f"transaction {facts['transaction']}")


@disputes.command()
@click.argument("session")
@_JSON
@settings_options
def lapse(session: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """End the dispute over SESSION that nobody ruled on in time; a running node does it by itself."""
    _send_about("lapse", session, as_json, config_file, flags)


@disputes.command()
@click.argument("session")
@_JSON
@settings_options
def release(session: str, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Have what is held of SESSION paid after its window; a running node does it by itself."""
    _send_about("release", session, as_json, config_file, flags)


@disputes.command("credits")
@click.option("--claim", is_flag=True, help="Pull them to the operator's account.")
@_JSON
@settings_options
def show_credits(claim: bool, as_json: bool, config_file: Path | None, **flags: Any) -> None:
    """Show what the contracts owe the operator because a transfer failed."""
    settings = loaded(config_file, flags)

    async def work() -> dict[str, Any]:
        from aioum_node.disputes.commands import have_sent, read_credits

        owed = await read_credits(settings)
        facts: dict[str, Any] = {
            "account": owed.account,
            "token": owed.token,
            "paymentManager": str(owed.payment_manager),
            "disputeManager": str(owed.dispute_manager),
        }
        if claim:
            facts |= await have_sent(settings, {"action": "claim-credits", "token": owed.token})
        return facts

    facts = asyncio.run(work())
    if as_json:
        print_json(facts)
        return
    click.echo(f"PaymentManager owes {facts['paymentManager']}, DisputeManager {facts['disputeManager']}")
    for claimed in facts.get("claims", ()):
        click.echo(f"claimed {claimed['amount']} of {claimed['contract']}: {claimed['transaction']}")


def _send_about(
    action: str, session: str, as_json: bool, config_file: Path | None, flags: dict[str, Any]
) -> None:
    settings = loaded(config_file, flags)

    async def work() -> dict[str, Any]:
        from aioum_node.disputes.commands import have_sent, session_channel

        channel = to_hex(await session_channel(settings, session))
        return {"channelId": channel, **await have_sent(settings, {"action": action, "channelId": channel})}

    facts = asyncio.run(work())
    if as_json:
        print_json(facts)
    else:
        click.echo(f"transaction {facts['transaction']}")


def _row(report: HeldReport) -> tuple[str, ...]:
    value = report.to_json()
    until = value["answerBy"] or (value["ruleBy"] if report.state == "disputed" else value["heldUntil"])
    return (
        str(value["sessionId"]),
        _short(str(value["channelId"]), 12),
        report.state,
        str(value["claim"] or "-"),
        str(value["held"]),
        str(value["bond"]),
        _time(until),
        _short(str(value["evidenceURI"] or "-")),
    )


def _shown(name: str, value: Any) -> str:
    if name in ("raisedAt", "ruleBy", "answerBy", "heldUntil"):
        return _time(value)
    if name == "responses":
        return ", ".join(f"{_short(item['uri'])} ({item['hash']})" for item in value)
    return _short(str(value), 10_000)


def _time(seconds: Any) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _short(text: str, most: int = 60) -> str:
    # What a payer wrote on-chain may hold anything, also what moves a terminal's cursor.
    shown = "".join(character if character.isprintable() else "?" for character in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
