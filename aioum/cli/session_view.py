"""A session as `aioum session show` and `export` present it: the client's record beside the chain's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aioum.chain.client import Chain
from aioum.chain.model import ChainSession
from aioum.cli.record import money, record_json, recorded_session
from aioum.cli.settings import Settings
from aioum.client.book import Book
from aioum.client.records import CallRecord, SessionRecord
from aioum.core.canonical import canonical_bytes
from aioum.core.errors import ChainError
from aioum.core.hextext import address_text, to_hex
from aioum.core.problem import problem_code
from aioum.core.submission.framing import encode_base64
from aioum.core.transcript import entry_to_json
from aioum.core.types import Bytes32

CALL_COLUMNS: Final = ("index", "tool", "outcome", "charge", "request bytes", "response bytes")


@dataclass(frozen=True, slots=True)
class SeenSession:
    """What is known of a session.

    Attributes:
        calls: the answered calls by index.
        heads: each seat's head after them, in the roster's order; none in an unsigned session.
        chain: what the chain says, or None.
        chain_problem: why `chain` is None, or None.
    """

    record: SessionRecord
    calls: tuple[CallRecord, ...]
    heads: dict[str, Bytes32]
    chain: ChainSession | None
    chain_problem: str | None


async def look(settings: Settings, reference: bytes | int, *, offline: bool) -> SeenSession:
    """Read a session from the record and, unless `offline`, from the chain.

    A chain that cannot be asked is a fact of the result, not an error: the record is shown all the same.

    Raises:
        InvalidInput: `session-unknown` or `session-ambiguous`.
    """
    book = await _recorded(settings, reference)
    session, problem = None, None
    if offline:
        problem = "not asked"
    else:
        try:
            session = await _on_chain(settings, book.record)
            problem = None if session else "the chain does not know it"
        except ChainError as error:
            problem = f"{error} [{error.code}]"
    return SeenSession(book.record, tuple(book.answered), book.retained_heads, session, problem)


async def transcript(settings: Settings, reference: bytes | int) -> bytes:
    """The transcript of a session as canonical JSON.

    Raises:
        InvalidInput: `session-unknown` or `session-ambiguous`.
    """
    book = await _recorded(settings, reference)
    record, calls = book.record, book.answered
    return canonical_bytes(
        {
            "channelId": to_hex(record.channel_id),
            "sessionId": str(record.session_id) if record.session_id else None,
            "chainId": record.facts.domain.chain_id,
            "paymentManager": address_text(record.facts.domain.payment_manager),
            "callCount": len(calls),
            "root": to_hex(record.purse.root) if calls else None,
            "calls": [entry_to_json(call.entry()) for call in calls],
        }
    )


async def retained_heads(settings: Settings, reference: bytes | int) -> dict[str, str]:
    """Each seat's head, base64; empty for an unsigned session.

    Raises:
        InvalidInput: `session-unknown` or `session-ambiguous`.
    """
    return _heads_text((await _recorded(settings, reference)).retained_heads)


def to_json(seen: SeenSession) -> dict[str, Any]:
    """The session for a program; amounts are base units as text."""
    chain, roster = seen.chain, seen.record.facts.roster
    return {
        **record_json(seen.record),
        "results": [
            {
                "index": call.call.index,
                "toolId": call.call.tool_id,
                "seat": call.envelope.seat if call.envelope else None,
                "failure": problem_code(call.response or b""),
                "charge": _charge(call),
            }
            for call in seen.calls
        ],
        "seats": None
        if roster is None
        else [{"id": entry.id, "publicKey": encode_base64(entry.public_key)} for entry in roster.entries],
        "heads": _heads_text(seen.heads),
        "chain": None
        if chain is None
        else {
            "sessionId": str(chain.session_id),
            "deposit": str(chain.deposit),
            "captured": str(chain.settled),
            "refunded": str(chain.refunded),
            "openedAt": chain.opened_at,
            "closeRequestedAt": chain.close_requested_at or None,
            "finalizedAt": chain.finalized_at or None,
            "anchoredRoot": to_hex(chain.root) if chain.has_root else None,
            "anchoredCalls": chain.call_count,
        },
        "chainProblem": seen.chain_problem,
    }


def to_facts(seen: SeenSession) -> list[tuple[str, str]]:
    """The session for print."""
    record, chain = seen.record, seen.chain
    purse, facts = record.purse, record.facts
    rows = [
        ("session", str(record.session_id or "not on the chain yet")),
        ("channel", to_hex(record.channel_id)),
        ("service", f"{facts.card.name} ({facts.service.service_id}) at {facts.node_url}"),
        ("phase", record.phase.value),
        ("stopped", purse.stopped or ""),
        ("contradictions", ", ".join(item.code for item in record.evidence)),
        ("deposit", money(record, purse.deposit)),
        ("spent", money(record, purse.spent)),
        ("authorized", f"{money(record, purse.highest)}: the most that the operator could capture"),
        (
            "calls",
            f"{purse.next_index}" + (f", and {len(purse.open)} without an answer yet" if purse.open else ""),
        ),
        ("root", to_hex(purse.root) if purse.next_index else ""),
        ("calls signed by", ", ".join(seen.heads) or "nobody: only vouchers are signed"),
        *((f"head of {seat}", head) for seat, head in _heads_text(seen.heads).items()),
    ]
    if chain is None:
        return [*rows, ("on chain", seen.chain_problem or "")]
    return [
        *rows,
        ("on chain", _chain_state(chain)),
        ("captured", money(record, chain.settled)),
        ("refunded", money(record, chain.refunded)),
        ("anchored", _anchored(record, chain)),
    ]


def call_rows(seen: SeenSession) -> list[tuple[str, ...]]:
    """The calls as rows under CALL_COLUMNS."""
    return [
        (
            str(call.call.index),
            call.call.tool_id,
            problem_code(call.response or b"") or "answered",
            money(seen.record, int(_charge(call))),
            str(len(call.call.request)),
            str(len(call.response or b"")),
        )
        for call in seen.calls
    ]


async def _recorded(settings: Settings, reference: bytes | int) -> Book:
    async with recorded_session(settings.data_dir, reference) as (journal, record):
        return await Book.load(journal, record.channel_id, _never_written)


def _heads_text(heads: Mapping[str, Bytes32]) -> dict[str, str]:
    return {seat: encode_base64(head) for seat, head in heads.items()}


def _never_written() -> int:
    raise AssertionError("a book that is only read keeps no evidence")


@asynccontextmanager
async def chain_of(settings: Settings, record: SessionRecord) -> AsyncIterator[Chain]:
    """The settings' chain, where a session of the record is.

    Raises:
        ChainError: `session-elsewhere`, or as `Chain.connect`.
    """
    async with Chain.connect(settings.deployment()) as chain:
        if chain.domain != record.facts.domain:
            raise ChainError(
                f"the session is on chain {record.facts.domain.chain_id}, in another PaymentManager than the "
                "deployments file names",
                code="session-elsewhere",
                hint="name the right file with --deployment",
            )
        yield chain


async def _on_chain(settings: Settings, record: SessionRecord) -> ChainSession | None:
    async with chain_of(settings, record) as chain:
        return await chain.session(record.channel_id)


def _charge(call: CallRecord) -> str:
    return str(call.receipt.receipt.charge) if call.receipt is not None else "0"


def _chain_state(chain: ChainSession) -> str:
    if chain.is_finalized:
        return "finalized"
    return "closing" if chain.is_closing else "open"


def _anchored(record: SessionRecord, chain: ChainSession) -> str:
    if not chain.has_root:
        return "no root"
    same = (chain.root, chain.call_count) == (record.purse.root, record.purse.next_index)
    verdict = "equal to your record" if same else f"NOT equal to your record: {to_hex(chain.root)}"
    return f"{chain.call_count} calls, {verdict}"
