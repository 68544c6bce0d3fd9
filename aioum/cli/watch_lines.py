"""What happened on-chain, as lines for people and objects for programs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from aioum.chain.dispute_calls import Claim
from aioum.chain.errors import reverted
from aioum.chain.events import (
    Anchored,
    BondPaid,
    ChallengeAnswered,
    ChannelOpened,
    CloseCancelled,
    CloseRequested,
    CreditClaimed,
    Credited,
    DisputeRaised,
    Event,
    Finalized,
    Lapsed,
    LieProven,
    Rated,
    ReceiptChallenged,
    Released,
    Resolved,
    Responded,
    ResultsCommitted,
    Ruled,
    ServiceRegistered,
    ServiceRetired,
    ServiceUpdated,
    SessionOpened,
    Settled,
    SettlementSkipped,
    StatementChallenged,
    ToppedUp,
)
from aioum.client.watching import Sighting
from aioum.core.amounts import format_token_amount
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address

_LIES: Final = ("double signing", "omission", "overcharge", "an unanswered challenge")

Money = Callable[[int], str]


def to_json(seen: Sighting) -> dict[str, Any]:
    """One event for a program: amounts as decimal text, bytes as hex text, times as unix seconds."""
    event = seen.event
    return {
        "event": event.name,
        "undone": seen.undone,
        "at": seen.seconds,
        "blockNumber": event.block_number,
        "blockHash": to_hex(event.block_hash),
        "transactionHash": to_hex(event.transaction_hash),
        "contract": address_text(event.contract),
        "channelId": None if event.channel_id is None else to_hex(event.channel_id),
        "sessionId": None if seen.session is None else str(seen.session.session_id),
        "args": {name: _plain(value) for name, value in event.args.items()},
    }


def to_line(seen: Sighting, decimals: int | None, symbol: str) -> str:
    """One event for a person.

    Args:
        seen: the event.
        decimals: of the session's token; None where it is not known: then amounts are base units.
        symbol: of the token.
    """

    def money(amount: int) -> str:
        if decimals is None:
            return f"{amount} base units"
        return f"{format_token_amount(amount, decimals)} {symbol}".rstrip()

    subject = "" if seen.session is None else f"session {seen.session.session_id}: "
    undone = "UNDONE by a reorganization: " if seen.undone else ""
    return f"{_time(seen.seconds)}  {undone}{subject}{_told(seen.event.body, money)}"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return address_text(value) if len(value) == 20 else to_hex(value)
    # Amounts are beyond what JSON readers keep exactly.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _who(value: Address) -> str:
    return address_text(value)


def _told(event: Event, money: Money) -> str:
    """What happened, without when and to which session; an event that has no words of its own is named."""
    match event:
        case SessionOpened():
            deposit = money(event.deposit)
            return f"opened by {_who(event.payer)} at service {event.service_id}, deposit {deposit}"
        case ChannelOpened():
            return f"plain channel of {_who(event.payer)}, deposit {money(event.deposit)}"
        case ToppedUp():
            return f"topped up by {money(event.added)} to {money(event.deposit)}"
        case CloseRequested():
            return f"its payer leaves; it can withdraw from {_time(event.closeable_at)} on"
        case CloseCancelled():
            return "its payer stays after all"
        case ResultsCommitted():
            return f"{event.call_count} calls anchored, root {to_hex(event.root)}"
        case Settled():
            return f"settled {money(event.delta)}, {money(event.settled)} in all"
        case SettlementSkipped():
            refused = reverted(event.reason)
            return f"left out of a batch: {str(refused)[:200]} [{refused.code}]"
        case Finalized():
            return f"over: {money(event.settled)} captured, {money(event.refunded)} refunded"
        case Released():
            return f"{money(event.amount)} that was held went to the payee"
        case Resolved():
            return f"held money decided: {money(event.to_payer)} to payer, {money(event.to_payee)} to payee"
        case Credited():
            return f"a transfer of {money(event.amount)} to {_who(event.owner)} failed; it is credited"
        case CreditClaimed():
            return f"{_who(event.owner)} claimed {money(event.amount)}"
        case _:
            return _told_of_disputes(event, money) or _told_of_services(event, money) or type(event).__name__


def _told_of_disputes(event: Event, money: Money) -> str | None:
    match event:
        case DisputeRaised():
            return (
                f"disputed ({Claim(event.claim).text}), bond {money(event.bond)}, evidence "
                f"{event.evidence_uri[:200]} with hash {to_hex(event.evidence_hash)}; "
                f"{_who(event.arbitrator)} rules before {_time(event.rule_by)}"
            )
        case Responded():
            hashed = to_hex(event.response_hash)
            return f"the operator responded: {event.response_uri[:200]} with hash {hashed}"
        case Ruled():
            return f"ruled: {money(event.award)} back to the payer"
        case Lapsed():
            return "nobody ruled in time: the dispute lapsed"
        case LieProven():
            return f"LIE PROVEN ({_LIES[event.lie]}): {money(event.amount)} back to the payer"
        case ReceiptChallenged():
            return (
                f"the receipt of call {event.index} is challenged, bond {money(event.bond)}; "
                f"the operator answers before {_time(event.answer_by)}"
            )
        case StatementChallenged():
            return (
                f"the statement over {event.call_count} calls is challenged, bond {money(event.bond)}; "
                f"the operator answers before {_time(event.answer_by)}"
            )
        case ChallengeAnswered():
            return "the challenge was answered"
        case BondPaid():
            return f"bond of {money(event.amount)} to {_who(event.to)}"
        case _:
            return None


def _told_of_services(event: Event, money: Money) -> str | None:
    match event:
        case Rated():
            where = f", {event.detail_uri[:200]}" if event.detail_uri else ""
            return f"rated {event.score}/100 after {money(event.amount)}{where}"
        case Anchored():
            return f"log of {_who(event.operator)}: {event.size} entries, root {to_hex(event.root)}"
        case ServiceRegistered():
            return f"service {event.service_id} registered by {_who(event.operator)}"
        case ServiceUpdated():
            return f"service {event.service_id} has other terms"
        case ServiceRetired():
            return f"service {event.service_id} retired"
        case _:
            return None


QUIET: Final = frozenset({"Evidence", "Dispute", "MetaEvidence"})
"""ERC-1497's events say again what DisputeRaised and Responded say; a person is not told twice."""
