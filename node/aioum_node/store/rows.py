"""How sessions and calls lie in the SQLite store's rows: both directions in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cache, lru_cache
from typing import Any, Final

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.ledger import Answer, Call, Phase, SessionState
from aioum.core.merkle import Frontier
from aioum.core.payment import Terms
from aioum.core.prefix import AheadLeaf
from aioum.core.submission.roster import Roster
from aioum.core.types import Address, Bytes32, ChannelId
from aioum_node.store.port import SessionFacts, StoredSession
from aioum_node.store.submissions import read_envelope, seats_from_bytes, seats_to_bytes

CALL_BITS: Final = 24
"""A call's key is its session's row id, shifted by this, and its index."""

_PHASES: Final = (Phase.OPEN, Phase.SEALED, Phase.FINAL, Phase.SUSPECT)
PHASE_NUMBERS: Final = {phase: number for number, phase in enumerate(_PHASES)}

INSERT_SESSION: Final = "INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

# Statements of many rows: `{rows}` stands for as many groups of WIDTH question marks.
ACCOUNT_WIDTH: Final = 19
UPSERT_ACCOUNTS: Final = """
    INSERT INTO accounts VALUES {rows} ON CONFLICT (id) DO UPDATE SET
        phase = excluded.phase, seal_reason = excluded.seal_reason, close_pending = excluded.close_pending,
        deposit = excluded.deposit, accepted = excluded.accepted,
        accepted_signature = excluded.accepted_signature, admitted = excluded.admitted,
        spent = excluded.spent, reserved = excluded.reserved, failures = excluded.failures,
        frontier = excluded.frontier, ahead = excluded.ahead, in_flight = excluded.in_flight,
        active_at_ms = excluded.active_at_ms, finalized_at_ms = excluded.finalized_at_ms,
        transaction_hash = excluded.transaction_hash, seats = excluded.seats
"""
INSERT_ROSTER: Final = "INSERT INTO rosters VALUES (?, ?)"
INSERT_HOLD: Final = "INSERT OR IGNORE INTO holds VALUES (?)"
SELECT_HOLD: Final = "SELECT 1 FROM holds WHERE id = ?"
DELETE_HOLD: Final = "DELETE FROM holds WHERE id = (SELECT id FROM sessions WHERE channel_id = ?)"
SELECT_POSITIONS: Final = (
    "SELECT (SELECT coalesce(max(seq), 0) FROM calls), indexed_seq, sequence, folded FROM node"
)
CALL_WIDTH: Final = 8
INSERT_CALLS: Final = "INSERT INTO calls VALUES {rows}"
ANSWER_WIDTH: Final = 8
INSERT_ANSWERS: Final = "INSERT INTO answers VALUES {rows}"

SELECT_CALLS: Final = """
    SELECT * FROM stored_calls WHERE seq IN (
        SELECT seq FROM call_index WHERE key >= :first AND key < :end
        UNION ALL
        SELECT seq FROM calls WHERE seq > (SELECT indexed_seq FROM node) AND key >= :first AND key < :end
    ) ORDER BY key LIMIT :limit
"""
"""Calls whose keys lie in [first, end)."""

_MOST_ROWS_PER_STATEMENT: Final = 64
_AMOUNT_BYTES = 16
_INDEX_BYTES = 8
_AHEAD_BYTES = _INDEX_BYTES + 32 + _AMOUNT_BYTES
_TERMS_WORD_BYTES = 32
_MAX_ROSTER_BYTES = 65_536
# The order of PROTOCOL 4.1, which is the dataclass's: addresses, a hash, then a flag and numbers.
_TERMS_TYPES: Final = (Address, Address, Address, Address, Address, Bytes32, bool, int, int, int)


def statements(
    template: str, width: int, values: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[str, list[Any]]]:
    """Statements that insert `values`, each with its parameters.

    Each gives up the interpreter lock once, and getting it back from a busy loop can take milliseconds; so
    many rows share one. Power-of-two sizes keep the set of prepared statements small.
    """
    position = 0
    while position < len(values):
        count = min(_MOST_ROWS_PER_STATEMENT, 1 << ((len(values) - position).bit_length() - 1))
        chunk = values[position : position + count]
        yield _statement_of(template, width, count), [value for item in chunk for value in item]
        position += count


@cache
def _statement_of(template: str, width: int, count: int) -> str:
    row = f"({', '.join('?' * width)})"
    return template.format(rows=", ".join([row] * count))


def amount_bytes(value: int) -> bytes:
    """An amount as 16 bytes, big-endian."""
    return value.to_bytes(_AMOUNT_BYTES, "big")


def _amount(data: bytes) -> int:
    return int.from_bytes(data, "big")


def session_row(row_id: int, facts: SessionFacts, opened_at_ms: int) -> tuple[Any, ...]:
    """Parameters of INSERT_SESSION."""
    return (
        row_id,
        facts.channel_id,
        str(facts.session_id),
        facts.chain_id,
        facts.payment_manager,
        facts.payer,
        facts.payee,
        facts.token,
        facts.authorized_signer,
        str(facts.service_id),
        facts.terms_hash,
        facts.nonce,
        facts.roster_hash,
        facts.descriptor_hash,
        facts.commit_required,
        None if facts.terms is None else _terms_to_bytes(facts.terms),
        opened_at_ms,
    )


def account_row(
    row_id: int,
    state: SessionState,
    active_at_ms: int,
    finalized_at_ms: int | None,
    transaction_hash: bytes | None,
) -> tuple[Any, ...]:
    """One row of UPSERT_ACCOUNTS."""
    ahead = state.ahead
    return (
        row_id,
        PHASE_NUMBERS[state.phase],
        state.seal_reason,
        state.signed,
        state.close_pending,
        state.deposit.to_bytes(_AMOUNT_BYTES, "big"),
        state.accepted.to_bytes(_AMOUNT_BYTES, "big"),
        state.accepted_signature,
        state.admitted,
        state.spent.to_bytes(_AMOUNT_BYTES, "big"),
        state.reserved.to_bytes(_AMOUNT_BYTES, "big"),
        state.failures,
        state.frontier.to_bytes(),
        b"".join(map(_ahead_to_bytes, ahead)) if ahead else b"",
        state.in_flight,
        active_at_ms,
        finalized_at_ms,
        transaction_hash,
        seats_to_bytes(state.seats),
    )


def roster_row(row_id: int, roster: Roster) -> tuple[int, bytes]:
    """Parameters of INSERT_ROSTER."""
    return row_id, canonical_bytes(roster.to_json())


def read_session(row: Sequence[Any]) -> tuple[int, StoredSession]:
    """A row of `stored_sessions`: the row id and the session."""
    channel_id = ChannelId(row[1])
    facts = SessionFacts(
        channel_id=channel_id,
        session_id=int(row[2]),
        chain_id=row[3],
        payment_manager=Address(row[4]),
        payer=Address(row[5]),
        payee=Address(row[6]),
        token=Address(row[7]),
        authorized_signer=Address(row[8]),
        service_id=int(row[9]),
        terms_hash=Bytes32(row[10]),
        nonce=Bytes32(row[11]),
        roster_hash=Bytes32(row[12]),
        descriptor_hash=Bytes32(row[13]),
        commit_required=bool(row[14]),
        terms=None if row[15] is None else _terms_from_bytes(row[15]),
        roster=None if row[34] is None else _roster_from_bytes(row[34]),
    )
    state = SessionState(
        channel_id=channel_id,
        phase=_PHASES[row[17]],
        seal_reason=row[18],
        signed=bool(row[19]),
        close_pending=bool(row[20]),
        deposit=_amount(row[21]),
        accepted=_amount(row[22]),
        accepted_signature=row[23],
        admitted=row[24],
        spent=_amount(row[25]),
        reserved=_amount(row[26]),
        failures=row[27],
        frontier=Frontier.from_bytes(row[28]),
        ahead=_ahead_from_bytes(row[29]),
        seats=seats_from_bytes(row[33]),
    )
    transaction_hash = None if row[32] is None else Bytes32(row[32])
    return row[0], StoredSession(facts, state, row[16], row[30], row[31], transaction_hash)


def call_row(seq: int, key: int, call: Call, now_ms: int) -> tuple[Any, ...]:
    """One row of INSERT_CALLS."""
    return (
        seq,
        key,
        call.tool_id,
        call.request,
        call.price.to_bytes(_AMOUNT_BYTES, "big"),
        call.amount.to_bytes(_AMOUNT_BYTES, "big"),
        call.signature,
        now_ms,
    )


def answer_row(seq: int, call: Call, answer: Answer, now_ms: int) -> tuple[Any, ...]:
    """One row of INSERT_ANSWERS; `call` is recorded, with `answer`."""
    return (
        seq,
        answer.response,
        answer.status,
        answer.content_type,
        answer.failed,
        call.leaf,
        call.charge.to_bytes(_AMOUNT_BYTES, "big"),
        now_ms,
    )


def read_call(row: Sequence[Any]) -> tuple[int, Call]:
    """A row of `stored_calls`: its seq and the call."""
    (
        seq,
        key,
        tool_id,
        request,
        price,
        amount,
        signature,
        response,
        status,
        content_type,
        failed,
        leaf,
        charge,
        *signed,
    ) = row
    index = key & ((1 << CALL_BITS) - 1)
    envelope = None if signed[0] is None else read_envelope(signed, index)
    admitted = Call(index, tool_id, request, _amount(price), _amount(amount), signature, envelope=envelope)
    if leaf is None:
        return seq, admitted
    answer = Answer(response, status, content_type, bool(failed))
    return seq, replace(admitted, answer=answer, leaf=Bytes32(leaf), charge=_amount(charge))


def _ahead_to_bytes(item: AheadLeaf) -> bytes:
    return item.index.to_bytes(_INDEX_BYTES, "big") + item.leaf + amount_bytes(item.charge)


def _ahead_from_bytes(data: bytes) -> tuple[AheadLeaf, ...]:
    items = (data[start : start + _AHEAD_BYTES] for start in range(0, len(data), _AHEAD_BYTES))
    return tuple(
        AheadLeaf(
            int.from_bytes(item[:_INDEX_BYTES], "big"),
            Bytes32(item[_INDEX_BYTES:-_AMOUNT_BYTES]),
            _amount(item[-_AMOUNT_BYTES:]),
        )
        for item in items
    )


# The same few clients come again and again.
@lru_cache(maxsize=1_024)
def _roster_from_bytes(data: bytes) -> Roster:
    return Roster.from_json(parse_json(data, max_bytes=_MAX_ROSTER_BYTES))


def _terms_to_bytes(terms: Terms) -> bytes:
    words = (getattr(terms, field.name) for field in fields(terms))
    return b"".join(
        word.rjust(_TERMS_WORD_BYTES, b"\0")
        if isinstance(word, bytes)
        else int(word).to_bytes(_TERMS_WORD_BYTES, "big")
        for word in words
    )


def _terms_from_bytes(data: bytes) -> Terms:
    values: list[Any] = []
    for position, kind in enumerate(_TERMS_TYPES):
        word = data[position * _TERMS_WORD_BYTES : (position + 1) * _TERMS_WORD_BYTES]
        if kind is Address:
            values.append(Address(word[-20:]))
        elif kind is Bytes32:
            values.append(Bytes32(word))
        else:
            values.append(kind(int.from_bytes(word, "big")))
    return Terms(*values)
