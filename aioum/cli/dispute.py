"""`aioum dispute`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from aioum.cli.evidence import CLAIMS
from aioum.cli.keys import KeySource, key_options
from aioum.cli.output import fact, print_facts, print_json
from aioum.cli.references import CALL_INDEXES, SESSION
from aioum.cli.settings import Settings, common_options, examples
from aioum.options.common import Command
from aioum.options.publishing import TARGETS, publisher_of, target_options

if TYPE_CHECKING:
    from aioum.client.held_money import HeldMoney, Step
    from aioum.core.types import ChannelId

_yes_option = click.option("--yes", is_flag=True, help="Do not ask before a transaction is sent.")


def _session_argument(function: Command) -> Command:
    return click.argument("reference", metavar="SESSION", type=SESSION)(function)


@click.group()
def dispute() -> None:
    """Dispute what a session captured, or prove a lie.

    What a session under a dispute window captured is held on-chain until the window ends. Until then its
    payer may dispute it before the arbitrator, or show that its operator's own words prove a lie. Each
    command says what it costs and asks before it sends anything.
    """


@dispute.command(
    "raise",
    epilog=examples(
        'aioum dispute raise 3 --claim wrong-result --narrative "the sum is off" --to data',
        "aioum dispute raise 3 --claim quality --disclose 1,2 --to ipfs --ipfs-api http://127.0.0.1:5001",
    ),
)
@_session_argument
@click.option("--claim", type=click.Choice(CLAIMS), required=True, help="What you claim.")
@click.option("--narrative", default="", metavar="TEXT", help="What happened, in your words.")
@click.option(
    "--disclose",
    type=CALL_INDEXES,
    metavar="INDEXES",
    help="Show these calls alone, such as 1,2,5 or 0-3; the others stay hidden behind the root.",
)
@click.option("--to", "target", type=click.Choice(TARGETS), required=True, help="Where the evidence goes.")
@target_options
@_yes_option
@key_options
@common_options
def raise_command(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    claim: str,
    narrative: str,
    disclose: tuple[int, ...] | None,
    target: str,
    yes: bool,
    **options: Any,
) -> None:
    """Publish the evidence of a closed session and put it before the arbitrator.

    A session is disputed once. The bond comes back if anything is awarded to you. Interrupted, start it
    again: if the dispute was raised meanwhile, that is said, and nothing is paid twice.
    """
    publisher = publisher_of(target, options)
    from aioum.cli import disputing

    raised, money = asyncio.run(
        disputing.raise_dispute(
            settings, key_source, reference, claim, narrative, disclose, target, publisher, yes=yes
        )
    )
    if settings.as_json:
        print_json(disputing.raised_json(raised))
        return
    print_facts(disputing.raised_facts(raised, money))


@dispute.command(epilog=examples("aioum dispute status 3", "aioum dispute status 3 --wait --json"))
@_session_argument
@click.option("--wait", is_flag=True, help="Follow a pending dispute until it is decided.")
@common_options
def status(settings: Settings, reference: bytes | int, wait: bool) -> None:
    """Show what is held for a session, and what was raised over it. Needs no key and no record."""
    from aioum.cli import disputing

    standing, raised, money = asyncio.run(disputing.look(settings, reference, wait=wait))
    if settings.as_json:
        print_json(disputing.standing_json(standing, raised))
        return
    print_facts(disputing.standing_facts(standing, raised, money))


@dispute.command(epilog=examples("aioum dispute prove 3 --or-challenge --key-store key.json"))
@_session_argument
@click.option("--or-challenge", is_flag=True, help="Where nothing is provable at once, challenge a word.")
@_yes_option
@key_options
@common_options
def prove(
    settings: Settings, key_source: KeySource, reference: bytes | int, or_challenge: bool, yes: bool
) -> None:
    """Prove a lie by what the operator signed; everything that is held comes back at once.

    Looks through all receipts and statements of your record: two that contradict each other, one that
    contradicts what was anchored, calls that were left out of it, or a capture above all charges.
    """
    from aioum.cli import disputing

    outcome, money = asyncio.run(
        disputing.prove(settings, key_source, reference, or_challenge=or_challenge, yes=yes)
    )
    if settings.as_json:
        print_json(disputing.outcome_json(outcome))
        return
    print_facts(disputing.outcome_facts(outcome, money))


@dispute.command(
    epilog=examples(
        "aioum dispute challenge 3 --key-store key.json", "aioum dispute challenge 3 --call 7 --yes"
    )
)
@_session_argument
@click.option("--call", "call_index", type=click.IntRange(0), metavar="N", help="The receipt of call N.")
@click.option(
    "--statement", "call_count", type=click.IntRange(1), metavar="N", help="The statement over N calls."
)
@_yes_option
@key_options
@common_options
def challenge(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    call_index: int | None,
    call_count: int | None,
    yes: bool,
) -> None:
    """Make the operator prove that what it signed is part of what it anchored.

    It has 24 hours. Unanswered, `aioum dispute claim` gives everything that is held back to you; answered,
    the bond is lost. By default the word that covers most calls is challenged, and only where what is
    anchored differs from your record.
    """
    if call_index is not None and call_count is not None:
        raise click.UsageError("--call and --statement are two words; give one")
    from aioum.cli import disputing

    outcome, money = asyncio.run(
        disputing.challenge(
            settings, key_source, reference, call_index=call_index, call_count=call_count, yes=yes
        )
    )
    if settings.as_json:
        print_json(disputing.outcome_json(outcome))
        return
    print_facts(disputing.outcome_facts(outcome, money))


@dispute.command(epilog=examples("aioum dispute claim 3 --key-store key.json"))
@_session_argument
@_yes_option
@key_options
@common_options
def claim(settings: Settings, key_source: KeySource, reference: bytes | int, yes: bool) -> None:
    """Give everything held back to the payer: the operator did not answer a challenge. By anyone."""
    _end(settings, key_source, reference, _claim, "Claim the challenge unanswered", yes)


@dispute.command(epilog=examples("aioum dispute lapse 3 --key-store key.json"))
@_session_argument
@_yes_option
@key_options
@common_options
def lapse(settings: Settings, key_source: KeySource, reference: bytes | int, yes: bool) -> None:
    """End a dispute that the arbitrator did not rule on in time. By anyone."""
    _end(settings, key_source, reference, _lapse, "End the dispute without a ruling", yes)


@dispute.command(
    epilog=examples(
        "aioum dispute rule 3 --award 1.5 --key-store arbitrator.json",
        "aioum dispute rule 0x51c5…e1b2 --award 50% --yes",
    )
)
@_session_argument
@click.option(
    "--award",
    required=True,
    metavar="AMOUNT",
    help="What of the held money goes back to the payer: whole tokens such as 1.5, or a share such as 50%.",
)
@_yes_option
@key_options
@common_options
def rule(settings: Settings, key_source: KeySource, reference: bytes | int, award: str, yes: bool) -> None:
    """Rule on a dispute, as its arbitrator. The rest of what is held goes to the payee.

    Judge the evidence first: `aioum dispute status` names it, and `verify-evidence` checks it. A share is
    rounded down to base units.
    """
    from aioum.cli import disputing

    async def step(held: HeldMoney, channel_id: ChannelId, money: Any) -> Step:
        return await disputing.ruling(held, channel_id, money, award)

    _end(settings, key_source, reference, step, f"Award {award} to the payer", yes)


@dispute.command(epilog=examples("aioum dispute release 3 --key-store key.json"))
@_session_argument
@_yes_option
@key_options
@common_options
def release(settings: Settings, key_source: KeySource, reference: bytes | int, yes: bool) -> None:
    """Pay what is held to the payee, after the dispute window. By anyone."""
    _end(settings, key_source, reference, _release, "Pay the payee", yes)


@dispute.command(
    epilog=examples("aioum dispute credits --key-store key.json", "aioum dispute credits --pull")
)
@click.option(
    "--token", "token_hex", metavar="ADDRESS", help="The token; by default the deployment's only one."
)
@click.option("--pull", is_flag=True, help="Send them.")
@click.option("--to", "to_hex_text", metavar="ADDRESS", help="With --pull: where to; by default the account.")
@_yes_option
@key_options
@common_options
def credits(
    settings: Settings,
    key_source: KeySource,
    token_hex: str | None,
    pull: bool,
    to_hex_text: str | None,
    yes: bool,
) -> None:
    """Show, or pull, what could not be paid to your account when it was due."""
    if to_hex_text is not None and not pull:
        raise click.UsageError("--to belongs to --pull")
    from aioum.cli import disputing
    from aioum.core.errors import InvalidInput
    from aioum.core.hextext import address

    try:
        tokens = [address(token_hex)] if token_hex else list(settings.deployment().tokens.values())
        to = None if to_hex_text is None else address(to_hex_text)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    if len(tokens) != 1:
        raise click.UsageError("name the token with --token")
    (payments, bonds), money = asyncio.run(
        disputing.credits_of(settings, key_source, tokens[0], to, pull=pull, yes=yes)
    )
    if settings.as_json:
        print_json({"fromPayments": str(payments), "fromBonds": str(bonds), "pulled": pull})
        return
    print_facts([("from payments", money.text(payments)), ("from bonds", money.text(bonds))])
    if pull:
        fact("sent")


async def _claim(held: HeldMoney, channel_id: ChannelId, _: Any) -> Step:
    return await held.claim_unanswered(channel_id)


async def _lapse(held: HeldMoney, channel_id: ChannelId, _: Any) -> Step:
    return await held.lapse(channel_id)


async def _release(held: HeldMoney, channel_id: ChannelId, _: Any) -> Step:
    return await held.release(channel_id)


def _end(
    settings: Settings, key_source: KeySource, reference: bytes | int, step: Any, question: str, yes: bool
) -> None:
    from aioum.cli import disputing

    standing, money = asyncio.run(disputing.end(settings, key_source, reference, step, question, yes=yes))
    if settings.as_json:
        print_json(disputing.standing_json(standing, None))
        return
    print_facts(disputing.standing_facts(standing, None, money))
