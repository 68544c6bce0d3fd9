"""How records become rows of the journal and back. Amounts are text: they reach 2^128 - 1, SQLite's integers
do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aioum.client.records import CallPhase, CallRecord, Evidence, SessionFacts, SessionPhase, SessionRecord
from aioum.client.sqlite_writer import JournalError
from aioum.core.canonical import JsonValue, canonical_text, parse_json
from aioum.core.evidence import ChannelFacts, ServiceTerms, statement_to_json, terms_to_json
from aioum.core.hextext import address, bytes32
from aioum.core.merkle import Frontier
from aioum.core.payment import Domain, Terms
from aioum.core.prefix import AheadLeaf
from aioum.core.purse import Outstanding, PurseState
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.roster import Roster
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement
from aioum.log.membership import read_membership

FIXED_COLUMNS: Final = (
    "channel_id", "chain_id", "payment_manager", "node_url", "payer", "authorized_signer", "nonce",
    "roster_hash", "terms_hash", "terms", "card", "opened_at_ms", "roster",
)  # fmt: skip
MUTABLE_COLUMNS: Final = (
    "phase", "adopted", "opening_transaction", "session_id", "call_limit", "deposit", "spend_limit",
    "highest", "spent", "frontier", "since_statement", "stopped", "statement", "log_proof",
)  # fmt: skip
ENVELOPE_COLUMNS: Final = ("seat", "submission_id", "client_time", "prev_head", "submission_signature")
CALL_COLUMNS: Final = (
    "number", "amount", "call_index", "tool_id", "request", "price", "signature", "phase", "status",
    "response", "receipt", "elapsed_ms", *ENVELOPE_COLUMNS,
)  # fmt: skip

_MAX_ROW_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """Calls of a session beyond the prefix that its frontier is over: without an answer, and with one."""

    open: tuple[Outstanding, ...] = ()
    ahead: tuple[AheadLeaf, ...] = ()


def ahead_leaf(call: CallRecord) -> AheadLeaf:
    """An answered call as it waits for an earlier one. Raises JournalError `journal-damaged`."""
    if call.receipt is None:
        raise JournalError("an answered call has no receipt", code="journal-damaged")
    receipt = call.receipt.receipt
    return AheadLeaf(call.call.index, receipt.leaf, receipt.charge)


def fixed_values(record: SessionRecord) -> tuple[Any, ...]:
    """Values of FIXED_COLUMNS."""
    facts = record.facts
    channel = facts.channel
    return (
        facts.channel_id, facts.domain.chain_id, facts.domain.payment_manager, facts.node_url, channel.payer,
        channel.authorized_signer, channel.nonce, channel.roster_hash, channel.terms_hash,
        canonical_text(terms_to_json(facts.service)), facts.card_json, record.opened_at_ms,
        None if facts.roster is None else canonical_text(facts.roster.to_json()),
    )  # fmt: skip


def mutable_values(record: SessionRecord) -> tuple[Any, ...]:
    """Values of MUTABLE_COLUMNS."""
    purse, signed = record.purse, record.statement
    statement = (
        None if signed is None else canonical_text(statement_to_json(signed.statement, signed.signature))
    )
    return (
        record.phase.value, int(record.adopted), record.opening_transaction, str(record.session_id),
        _optional_text(record.call_limit), str(purse.deposit), _optional_text(purse.spend_limit),
        str(purse.highest), str(purse.spent), purse.frontier.to_bytes(), purse.since_statement, purse.stopped,
        statement, None if record.logged is None else canonical_text(record.logged.to_json()),
    )  # fmt: skip


def record_from_row(row: dict[str, Any], calls: OpenCalls, evidence: tuple[Evidence, ...]) -> SessionRecord:
    """A session from its row and what belongs to it."""
    channel_id = ChannelId(row["channel_id"])
    service = _service_terms(row["terms"])
    roster = None if row["roster"] is None else Roster.from_json(_parse(row["roster"]))
    facts = SessionFacts(
        channel_id=channel_id,
        domain=Domain(row["chain_id"], Address(row["payment_manager"])),
        node_url=row["node_url"],
        channel=ChannelFacts(
            payer=Address(row["payer"]),
            payee=service.terms.payee,
            token=service.terms.token,
            authorized_signer=Address(row["authorized_signer"]),
            nonce=Bytes32(row["nonce"]),
            terms_hash=Bytes32(row["terms_hash"]),
            roster_hash=Bytes32(row["roster_hash"]),
        ),
        service=service,
        card_json=row["card"],
        roster=roster,
    )
    purse = PurseState(
        channel_id=channel_id,
        deposit=int(row["deposit"]),
        signed=roster is not None,
        spend_limit=_optional_int(row["spend_limit"]),
        highest=int(row["highest"]),
        spent=int(row["spent"]),
        frontier=Frontier.from_bytes(row["frontier"]),
        ahead=calls.ahead,
        open=calls.open,
        since_statement=row["since_statement"],
        stopped=row["stopped"],
    )
    opening, statement, logged = row["opening_transaction"], row["statement"], row["log_proof"]
    return SessionRecord(
        facts=facts,
        phase=SessionPhase(row["phase"]),
        purse=purse,
        opened_at_ms=row["opened_at_ms"],
        version=row["version"],
        adopted=bool(row["adopted"]),
        opening_transaction=None if opening is None else Bytes32(opening),
        session_id=int(row["session_id"]),
        call_limit=_optional_int(row["call_limit"]),
        statement=None if statement is None else SignedStatement.from_json(_parse(statement), channel_id),
        evidence=evidence,
        logged=None if logged is None else read_membership(_parse(logged)),
    )


def call_values(record: CallRecord) -> tuple[Any, ...]:
    """Values of CALL_COLUMNS."""
    call, envelope = record.call, record.envelope
    return (
        str(record.number), str(call.amount), call.index, call.tool_id, call.request, str(call.price),
        record.signature, record.phase.value, record.status, record.response,
        None if record.receipt is None else record.receipt.header(), record.elapsed_ms,
        *((None,) * len(ENVELOPE_COLUMNS) if envelope is None else (
            envelope.seat, envelope.submission_id, envelope.client_time, envelope.prev_head,
            envelope.signature,
        )),
    )  # fmt: skip


def call_from_row(row: tuple[Any, ...]) -> CallRecord:
    """A call from the values of CALL_COLUMNS."""
    _, amount, index, tool_id, request, price, signature, phase, status, response, *rest = row
    receipt, elapsed_ms, *envelope = rest
    return CallRecord(
        call=Outstanding(index, tool_id, request, int(price), int(amount)),
        signature=signature,
        phase=CallPhase(phase),
        status=status,
        response=response,
        receipt=None if receipt is None else SignedReceipt.from_header(receipt),
        envelope=_envelope(index, *envelope),
        elapsed_ms=elapsed_ms,
    )


def _envelope(
    index: int, seat: str | None, submission_id: str, client_time: int, prev_head: bytes, signature: bytes
) -> Envelope | None:
    if seat is None:
        return None
    return Envelope(seat, submission_id, index, client_time, Bytes32(prev_head), signature)


def evidence_values(evidence: Evidence) -> tuple[Any, ...]:
    """Values of the evidence table's columns after `session`."""
    receipts: list[JsonValue] = [receipt.header() for receipt in evidence.receipts]
    return (
        evidence.code, evidence.message, evidence.at_ms, canonical_text(evidence.detail),
        canonical_text(receipts),
    )  # fmt: skip


def evidence_from_row(row: tuple[Any, ...]) -> Evidence:
    """A piece of evidence from those values."""
    code, message, at_ms, detail, receipts = row
    facts, headers = _parse(detail), _parse(receipts)
    if not isinstance(facts, dict) or not isinstance(headers, list):
        raise JournalError("a row of the evidence table is damaged", code="journal-damaged")
    return Evidence(
        code, message, at_ms, facts, tuple(SignedReceipt.from_header(str(header)) for header in headers)
    )


def _service_terms(text: str) -> ServiceTerms:
    value: Any = _parse(text)
    terms = Terms(
        operator=address(value["operator"]),
        payee=address(value["payee"]),
        token=address(value["token"]),
        receipt_signer=address(value["receiptSigner"]),
        arbitrator=address(value["arbitrator"]),
        descriptor_hash=bytes32(value["descriptorHash"]),
        commit_required=value["commitRequired"],
        dispute_window_seconds=value["disputeWindow"],
        ruling_period_seconds=value["rulingPeriod"],
        dispute_bond=int(value["disputeBond"]),
    )
    return ServiceTerms(address(value["registry"]), int(value["serviceId"]), terms)


def _parse(text: str) -> JsonValue:
    return parse_json(text, max_bytes=_MAX_ROW_BYTES)


def _optional_text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _optional_int(text: str | None) -> int | None:
    return None if text is None else int(text)
