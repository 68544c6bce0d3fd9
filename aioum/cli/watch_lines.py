"""What happened on-chain, as lines for people and objects for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from aioum.chain.dispute_calls import Claim
from aioum.client.watching import Sighting
from aioum.core.amounts import format_token_amount
from aioum.core.hextext import address_text, to_hex

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
    told = _TOLD.get(seen.event.name)
    text = seen.event.name if told is None else told(seen.event.args, money)
    undone = "UNDONE by a reorganization: " if seen.undone else ""
    return f"{_time(seen.seconds)}  {undone}{subject}{text}"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return address_text(value) if len(value) == 20 else to_hex(value)
    # Amounts are beyond what JSON readers keep exactly.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _who(value: Any) -> str:
    return address_text(value)


_Args = Mapping[str, Any]
_TOLD: Final[Mapping[str, Callable[[_Args, Money], str]]] = {
    "SessionOpened": lambda a, m: (
        f"opened by {_who(a['payer'])} at service {a['serviceId']}, deposit {m(a['deposit'])}"
    ),
    "ChannelOpened": lambda a, m: f"plain channel of {_who(a['payer'])}, deposit {m(a['deposit'])}",
    "ToppedUp": lambda a, m: f"topped up by {m(a['added'])} to {m(a['deposit'])}",
    "CloseRequested": lambda a, _: f"its payer leaves; it can withdraw from {_time(a['closeableAt'])} on",
    "CloseCancelled": lambda _a, _m: "its payer stays after all",
    "ResultsCommitted": lambda a, _: f"{a['callCount']} calls anchored, root {to_hex(a['root'])}",
    "Settled": lambda a, m: f"settled {m(a['delta'])}, {m(a['settled'])} in all",
    "SettlementSkipped": lambda a, _: f"left out of a batch, reason {to_hex(a['reason'])}",
    "Finalized": lambda a, m: f"over: {m(a['settled'])} captured, {m(a['refunded'])} refunded",
    "Released": lambda a, m: f"{m(a['amount'])} that was held went to the payee",
    "Resolved": lambda a, m: f"held money decided: {m(a['toPayer'])} to payer, {m(a['toPayee'])} to payee",
    "Credited": lambda a, m: f"a transfer of {m(a['amount'])} to {_who(a['owner'])} failed; it is credited",
    "CreditClaimed": lambda a, m: f"{_who(a['owner'])} claimed {m(a['amount'])}",
    "DisputeRaised": lambda a, m: (
        f"disputed ({Claim(a['claim']).text}), bond {m(a['bond'])}, evidence {a['evidenceURI'][:200]} "
        f"with hash {to_hex(a['evidenceHash'])}; {_who(a['arbitrator'])} rules before {_time(a['ruleBy'])}"
    ),
    "Responded": lambda a, _: (
        f"the operator responded: {a['responseURI'][:200]} with hash {to_hex(a['responseHash'])}"
    ),
    "Ruled": lambda a, m: f"ruled: {m(a['award'])} back to the payer",
    "Lapsed": lambda _a, _m: "nobody ruled in time: the dispute lapsed",
    "LieProven": lambda a, m: f"LIE PROVEN ({_LIES[a['lie']]}): {m(a['amount'])} back to the payer",
    "ReceiptChallenged": lambda a, m: (
        f"the receipt of call {a['index']} is challenged, bond {m(a['bond'])}; "
        f"the operator answers before {_time(a['answerBy'])}"
    ),
    "StatementChallenged": lambda a, m: (
        f"the statement over {a['callCount']} calls is challenged, bond {m(a['bond'])}; "
        f"the operator answers before {_time(a['answerBy'])}"
    ),
    "ChallengeAnswered": lambda _a, _m: "the challenge was answered",
    "BondPaid": lambda a, m: f"bond of {m(a['amount'])} to {_who(a['to'])}",
    "Rated": lambda a, m: (
        f"rated {a['score']}/100 after {m(a['amount'])}"
        + (f", {a['detailURI'][:200]}" * bool(a["detailURI"]))
    ),
    "Anchored": lambda a, _: f"log of {_who(a['operator'])}: {a['size']} entries, root {to_hex(a['root'])}",
    "ServiceRegistered": lambda a, _: f"service {a['serviceId']} registered by {_who(a['operator'])}",
    "ServiceUpdated": lambda a, _: f"service {a['serviceId']} has other terms",
    "ServiceRetired": lambda a, _: f"service {a['serviceId']} retired",
}

QUIET: Final = frozenset({"Evidence", "Dispute", "MetaEvidence"})
"""ERC-1497's events say again what DisputeRaised and Responded say; a person is not told twice."""
