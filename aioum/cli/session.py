"""`aioum session`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aioum.cli.keys import KeySource, key_options, relayer_option
from aioum.cli.log_named import named_log_options
from aioum.cli.output import fact, print_facts, print_json, print_table, write_file
from aioum.cli.references import SESSION
from aioum.cli.settings import Settings, common_options, examples

if TYPE_CHECKING:
    from aioum.client.records import SessionRecord
    from aioum.log.monitor import LogIdentity


@click.group()
def session() -> None:
    """List, inspect, fund, close and export sessions.

    A session is named by its channel id, or by the number that the chain gave it. Your own record knows your
    sessions; `list`, `show` and `export` need neither a key nor a node.
    """


@session.command("list", epilog=examples("aioum session list --json"))
@common_options
def list_sessions(settings: Settings) -> None:
    """List the sessions in your record, oldest first."""
    from aioum.cli.record import all_records, money, record_json
    from aioum.core.hextext import to_hex

    records = asyncio.run(all_records(settings.data_dir))
    if settings.as_json:
        print_json({"sessions": [record_json(record) for record in records]})
        return
    print_table(
        ("session", "service", "phase", "calls", "spent", "deposit", "opened", "channel"),
        [
            (
                str(record.session_id or "-"),
                record.facts.card.name,
                _phase(record),
                str(record.purse.next_index),
                money(record, record.purse.spent),
                money(record, record.purse.deposit),
                _time(record.opened_at_ms),
                to_hex(record.channel_id),
            )
            for record in records
        ],
        empty=f"no sessions in {settings.data_dir}",
    )


@session.command(epilog=examples("aioum session show 3", "aioum session show 3 --offline --json"))
@click.argument("reference", metavar="SESSION", type=SESSION)
@click.option("--offline", is_flag=True, help="Do not ask the chain.")
@common_options
def show(settings: Settings, reference: bytes | int, offline: bool) -> None:
    """Show a session: your record of it, and what the chain says."""
    from aioum.cli import session_view

    seen = asyncio.run(session_view.look(settings, reference, offline=offline))
    if settings.as_json:
        print_json(session_view.to_json(seen))
        return
    print_facts(session_view.to_facts(seen))
    if seen.calls:
        click.echo()
        print_table(session_view.CALL_COLUMNS, session_view.call_rows(seen), empty="")


@session.command(epilog=examples("aioum session heads 3 > heads.json"))
@click.argument("reference", metavar="SESSION", type=SESSION)
@common_options
def heads(settings: Settings, reference: bytes | int) -> None:
    """Print each seat's head as JSON, for `aioum verify-run --heads`.

    A head is the hash of everything that a seat asked and that the operator gave a receipt for. Somebody
    else's record of the session that lacks one of yours was cut off.
    """
    from aioum.cli.session_view import retained_heads

    print_json(asyncio.run(retained_heads(settings, reference)))


@session.command(epilog=examples("aioum session close 3 --key-store key.json"))
@click.argument("reference", metavar="SESSION", type=SESSION)
@key_options
@common_options
def close(settings: Settings, key_source: KeySource, reference: bytes | int) -> None:
    """Close a session together with its operator, and check the settlement against your record.

    The operator anchors the root of all calls, is paid what they cost, and the rest comes back to you. If it
    does not answer, `aioum session exit` ends the session without it.
    """
    from aioum.cli.market import closed_facts, closed_json, resumed

    async def run() -> None:
        async with resumed(settings, key_source, reference) as paid:
            closed = await paid.close()
            if settings.as_json:
                print_json(closed_json(closed))
            else:
                print_facts(closed_facts(closed, paid.card))

    asyncio.run(run())


@session.command("exit", epilog=examples("aioum session exit 3 --key-store key.json"))
@click.argument("reference", metavar="SESSION", type=SESSION)
@key_options
@common_options
def exit_session(settings: Settings, key_source: KeySource, reference: bytes | int) -> None:
    """End a session without its operator, by a timed withdrawal.

    Takes the contract's grace period, 900 seconds or more. Interrupted, it goes on where it stopped when it
    is started again. The operator can still settle in that time, for no more than your vouchers.
    """
    from aioum.cli.market import closed_facts, closed_json, resumed

    async def run() -> None:
        async with resumed(settings, key_source, reference) as paid:
            fact("waiting for the end of the grace period; Ctrl-C is safe, start the command again to go on")
            closed = await paid.exit()
            if settings.as_json:
                print_json(closed_json(closed))
            else:
                print_facts(closed_facts(closed, paid.card))

    asyncio.run(run())


@session.command(
    "log-proof",
    epilog=examples("aioum session log-proof 3", "aioum session log-proof 3 --out session-3.log.json"),
)
@click.argument("reference", metavar="SESSION", type=SESSION)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write the proof to this file too.",
)  # fmt: skip
@named_log_options
@common_options
def log_proof(
    settings: Settings, reference: bytes | int, out: Path | None, known_log: LogIdentity | None
) -> None:
    """Prove that a closed session is in its operator's transparency log.

    Fetches the proof from the node, checks it with the key that the session's card names and against the
    chain, and keeps it in your record: evidence packages carry it from then on. Needs no key.
    """
    from aioum.cli.log_proofs import proof_bytes, proof_facts, proof_json
    from aioum.cli.session_log_proof import keep

    proof = asyncio.run(keep(settings, reference, known_log))
    if out is not None:
        write_file(out, proof_bytes(proof))
    if settings.as_json:
        print_json(proof_json(proof))
    else:
        print_facts(proof_facts(proof))


@session.command("top-up", epilog=examples("aioum session top-up 3 2.5 --key-store key.json"))
@click.argument("reference", metavar="SESSION", type=SESSION)
@click.argument("amount", metavar="AMOUNT")
@relayer_option
@key_options
@common_options
def top_up(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    amount: str,
    relayer_key_file: Path | None,
) -> None:
    """Add AMOUNT, in whole tokens such as 2.5, to a session's deposit."""
    from aioum.cli.market import resumed, token_amount
    from aioum.core.amounts import format_token_amount
    from aioum.core.hextext import to_hex

    async def run() -> None:
        async with resumed(settings, key_source, reference, relayer_key_file=relayer_key_file) as paid:
            token = paid.card.token
            deposit = await paid.top_up(token_amount(amount, token.decimals))
            if settings.as_json:
                print_json({"channelId": to_hex(paid.channel_id), "deposit": str(deposit)})
            else:
                print_facts([("deposit", f"{format_token_amount(deposit, token.decimals)} {token.symbol}")])

    asyncio.run(run())


@session.command(
    epilog=examples(
        "aioum session export 3 > transcript.json",
        "aioum session export 3 --format gaos-replay --out session.gaos-replay.jsonl",
    )
)
@click.argument("reference", metavar="SESSION", type=SESSION)
@click.option(
    "--format", "form", type=click.Choice(["transcript", "gaos-replay"]), default="transcript",
    show_default=True, help="The calls alone, or an artifact that `aioum verify-run` judges.",
)  # fmt: skip
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write to this file instead of standard output.",
)  # fmt: skip
@common_options
def export(settings: Settings, reference: bytes | int, form: str, out: Path | None) -> None:
    """Write a session's transcript as canonical JSON, or the session as a replay artifact.

    The artifact has every signed call, hashes of the answers, and what the operator signed. It holds requests
    and no answers.
    """
    if form == "gaos-replay":
        from aioum.cli.export_replay import replay_from_record

        write_file(out, asyncio.run(replay_from_record(settings, reference)))
        return
    from aioum.cli.session_view import transcript

    write_file(out, asyncio.run(transcript(settings, reference)) + b"\n")


def _phase(record: SessionRecord) -> str:
    return f"{record.phase} ({record.purse.stopped})" if record.purse.stopped else str(record.phase)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
