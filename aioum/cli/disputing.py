"""What the commands of `aioum dispute` do, and what they print."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aioum.chain.client import Chain
from aioum.chain.decisions import Decisions, DisputeState
from aioum.chain.dispute_calls import Claim
from aioum.cli.confirming import Money, agree, moment
from aioum.cli.keys import KeySource
from aioum.cli.market import market, resumed, token_amount
from aioum.cli.output import fact
from aioum.cli.settings import Settings
from aioum.client.dispute import Dispute, Raised, find_raised
from aioum.client.held_money import HeldMoney, Standing, Step, standing_of
from aioum.client.publication import Publisher, publish_evidence
from aioum.client.recourse import Challenged, Proven, Recourse
from aioum.client.settings import ClientSettings
from aioum.core.errors import ChainError, PolicyRefused
from aioum.core.hextext import address_text, to_hex
from aioum.core.lies import ProvableLie
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.core.wire import SignedReceipt

_URI_BYTES = {"data": 8_192}
_USUAL_URI_BYTES = 256

Facts = list[tuple[str, str]]


async def raise_dispute(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    claim: str,
    narrative: str,
    disclose: tuple[int, ...] | None,
    target: str,
    publisher: Publisher,
    *,
    yes: bool,
) -> tuple[Raised, Money]:
    """Build, publish, hash, raise."""
    async with _session(settings, key_source, reference) as (recourse, money):
        standing = await recourse.standing()
        # Nothing is published before somebody agreed; its URI is not known yet, so a long one is assumed.
        assumed = "-" * _URI_BYTES.get(target, _USUAL_URI_BYTES)
        step = await recourse.held.dispute(standing, Claim.of(claim), assumed, Bytes32(b"\1" * 32))
        fact(f"held: {money.text(standing.session.held)}, until {moment(standing.held_until)}")
        await agree(recourse.held, step, money, "Publish the evidence and raise the dispute", yes=yes)
        data = await recourse.package(claim, narrative, disclose, ())
        published = await publish_evidence(data, publisher)
        fact(f"published {published.size_bytes} bytes with hash {to_hex(published.evidence_hash)}")
        return (await recourse.raise_published(Claim.of(claim), published)).raised, money


async def prove(
    settings: Settings, key_source: KeySource, reference: bytes | int, *, or_challenge: bool, yes: bool
) -> tuple[Proven | Challenged, Money]:
    """Prove a lie; with `or_challenge`, challenge a word where none is provable."""
    async with _session(settings, key_source, reference) as (recourse, money):
        standing = await recourse.standing()
        try:
            lie, step = await recourse.proof(standing)
        except PolicyRefused as error:
            if error.code != "nothing-provable" or not or_challenge:
                raise
            fact(f"{error}; a challenge may show more")
            return await _challenge(recourse, standing, money, None, yes=yes), money
        fact(lie_text(lie))
        await agree(recourse.held, step, money, f"Prove it and get {_held(standing, money)} back", yes=yes)
        return await recourse.proven(lie, await recourse.held.make(step)), money


async def challenge(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    *,
    call_index: int | None,
    call_count: int | None,
    yes: bool,
) -> tuple[Challenged, Money]:
    """Challenge a word; the one that covers most where none is named."""
    async with _session(settings, key_source, reference) as (recourse, money):
        named = None if call_index is None and call_count is None else (call_index, call_count)
        return await _challenge(recourse, await recourse.standing(), money, named, yes=yes), money


async def end(
    settings: Settings,
    key_source: KeySource,
    reference: bytes | int,
    step_of: Callable[[HeldMoney, ChannelId, Money], Awaitable[Step]],
    question: str,
    *,
    yes: bool,
) -> tuple[Standing, Money]:
    """Send a step that needs no record: `claim`, `lapse`, `rule`, `release`. What is held after it."""
    async with market(settings, key_source) as connected:
        held = await connected.held_money()
        decisions = await held.decisions()
        channel_id = await channel_of(decisions.chain, reference)
        standing = await held.standing(channel_id)
        money = await Money.of(decisions.chain, standing.session.token)
        step = await step_of(held, channel_id, money)
        await agree(held, step, money, f"{question} ({_held(standing, money)} are held)", yes=yes)
        await held.make(step)
        return await held.standing(channel_id), money


async def ruling(held: HeldMoney, channel_id: ChannelId, money: Money, award: str) -> Step:
    """The step of `rule`; `award` is in whole tokens, or a share such as 50%."""
    if not award.endswith("%"):
        return await held.rule(channel_id, token_amount(award, money.decimals))
    percent = token_amount(award.removesuffix("%"), 2)
    standing = await held.standing(channel_id)
    return await held.rule(channel_id, standing.session.held * percent // 10_000)


async def credits_of(
    settings: Settings, key_source: KeySource, token: Address, to: Address | None, *, pull: bool, yes: bool
) -> tuple[tuple[int, int], Money]:
    """What waits for the key's account, or did before it was sent with `pull`."""
    async with market(settings, key_source) as connected:
        held = await connected.held_money()
        waiting = await held.credits(token)
        money = await Money.of((await held.decisions()).chain, token)
        for step in await held.pull(token, to) if pull else ():
            what = "bonds" if step.purpose == "claim-bond-credit" else "payments"
            await agree(held, step, money, f"Pull what is credited from {what}", yes=yes)
            await held.make(step)
        return waiting, money


async def look(
    settings: Settings, reference: bytes | int, *, wait: bool
) -> tuple[Standing, Raised | None, Money]:
    """What is held for a session and what was raised over it; with `wait`, once its dispute is decided."""
    async with Chain.connect(settings.deployment()) as chain:
        decisions = await Decisions.of(chain)
        channel_id = await channel_of(chain, reference)
        raised = await find_raised(decisions, channel_id)
        if wait and raised is not None:
            async for event in Dispute(decisions, raised, ClientSettings()):
                fact(f"block {event.block_number}: {event.name}")
        standing = await standing_of(decisions, channel_id)
        return standing, raised, await Money.of(chain, standing.session.token)


async def channel_of(chain: Chain, reference: bytes | int) -> ChannelId:
    """The channel id of a session that is named by it, or by the chain's number.

    Raises:
        ChainError: `session-not-on-chain`.
    """
    if isinstance(reference, bytes):
        return ChannelId(reference)
    session = await chain.session_by_id(reference)
    if session is None:
        raise ChainError(f"the chain has no session {reference}", code="session-not-on-chain")
    return session.channel_id


def standing_json(standing: Standing, raised: Raised | None) -> dict[str, Any]:
    """What is held, for a program. Amounts are base units as text, times unix seconds."""
    session, case = standing.session, standing.case
    return {
        "channelId": to_hex(session.channel_id),
        "captured": str(session.settled),
        "held": str(session.held),
        "awarded": str(session.awarded),
        "heldUntil": standing.held_until or None,
        "windowOpen": standing.is_window_open,
        "releasable": standing.is_releasable,
        "arbitrator": None if standing.arbitrator is None else address_text(standing.arbitrator),
        "bond": str(standing.bond),
        "dispute": case.dispute.name.lower(),
        "ruleBy": case.rule_by or None,
        "challengePending": case.is_challenged,
        "answerBy": case.answer_by or None,
        "chainTime": standing.head.timestamp,
        "raised": None if raised is None else raised_json(raised),
    }


def standing_facts(standing: Standing, raised: Raised | None, money: Money) -> Facts:
    """What is held, for print."""
    session, case = standing.session, standing.case
    window = "open" if standing.is_window_open else "over"
    return [
        ("channel", to_hex(session.channel_id)),
        ("captured", money.text(session.settled)),
        ("held", money.text(session.held)),
        ("given back", money.text(session.awarded) if session.awarded else ""),
        (
            "dispute window",
            f"{window}, until {moment(standing.held_until)}" if standing.held_until else "none, or not begun",
        ),
        ("arbitrator", address_text(standing.arbitrator) if standing.arbitrator else "none"),
        ("bond", money.text(standing.bond)),
        ("dispute", case.dispute.name.lower()),
        ("rules before", moment(case.rule_by) if case.dispute is DisputeState.PENDING else ""),
        ("answers before", moment(case.answer_by)),
        *(raised_facts(raised, money) if raised is not None else []),
        ("chain's clock", moment(standing.head.timestamp)),
    ]


def raised_json(raised: Raised) -> dict[str, Any]:
    """A dispute, for a program."""
    return {
        "channelId": to_hex(raised.channel_id),
        "claim": raised.claim.text,
        "payer": address_text(raised.payer),
        "arbitrator": address_text(raised.arbitrator),
        "evidenceUri": raised.evidence_uri,
        "evidenceHash": to_hex(raised.evidence_hash),
        "ruleBy": raised.rule_by,
        "bond": str(raised.bond),
        "transaction": to_hex(raised.transaction_hash),
    }


def raised_facts(raised: Raised, money: Money) -> Facts:
    """A dispute, for print."""
    return [
        ("claim", raised.claim.text),
        ("evidence", raised.evidence_uri),
        ("evidence hash", to_hex(raised.evidence_hash)),
        ("rules", f"{address_text(raised.arbitrator)}, before {moment(raised.rule_by)}"),
        ("bond paid", money.text(raised.bond)),
    ]


def outcome_json(outcome: Proven | Challenged) -> dict[str, Any]:
    """What a proof or a challenge came to, for a program."""
    transaction = to_hex(outcome.mined.transaction_hash)
    if isinstance(outcome, Proven):
        return {
            "lie": type(outcome.lie).__name__,
            "awarded": str(outcome.awarded),
            "transaction": transaction,
        }
    return {"challenged": word_text(outcome), "answerBy": outcome.answer_by, "transaction": transaction}


def outcome_facts(outcome: Proven | Challenged, money: Money) -> Facts:
    """What a proof or a challenge came to, for print."""
    if isinstance(outcome, Proven):
        return [("proven", lie_text(outcome.lie)), ("given back", money.text(outcome.awarded))]
    return [("challenged", word_text(outcome)), ("answers before", moment(outcome.answer_by))]


def lie_text(lie: ProvableLie) -> str:
    """A lie in words: the first line of its own description."""
    return (type(lie).__doc__ or "").splitlines()[0].removesuffix(".")


def word_text(outcome: Challenged) -> str:
    """Which word was challenged."""
    word = outcome.word
    if isinstance(word, SignedReceipt):
        return f"receipt of call {word.receipt.index}"
    return f"statement over {word.statement.call_count} calls"


async def _challenge(
    recourse: Recourse,
    standing: Standing,
    money: Money,
    named: tuple[int | None, int | None] | None,
    *,
    yes: bool,
) -> Challenged:
    word = None
    if named is not None:
        word = await recourse.word(call_index=named[0], call_count=named[1])
    chosen, step = await recourse.challenge_of(standing, word)
    what = (
        f"the receipt of call {chosen.receipt.index}"
        if isinstance(chosen, SignedReceipt)
        else f"the statement over {chosen.statement.call_count} calls"
    )
    await agree(recourse.held, step, money, f"Challenge {what}", yes=yes)
    return await recourse.challenged(chosen, await recourse.held.make(step))


@asynccontextmanager
async def _session(
    settings: Settings, key_source: KeySource, reference: bytes | int
) -> AsyncIterator[tuple[Recourse, Money]]:
    async with resumed(settings, key_source, reference) as paid:
        token = paid.card.token
        yield paid.recourse, Money(token.decimals, token.symbol)


def _held(standing: Standing, money: Money) -> str:
    return money.text(standing.session.held)
