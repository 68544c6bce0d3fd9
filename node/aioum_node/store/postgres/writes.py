"""What a group's decisions change, collected as rows and written with one statement for each table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioum.core.ledger import Answer, Call, CallRequest, Phase, SessionState
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.roster import Roster
from aioum_node.store import rows, submissions
from aioum_node.store.port import MAX_EQUIVOCATIONS, StoredSession
from aioum_node.store.postgres.driver import Connection
from aioum_node.store.postgres.steps import Open

_DELETE_CALLS_PER_STATEMENT: Final = 10_000

LOCK: Final = """
    SELECT a.id FROM accounts AS a JOIN sessions AS s USING (id) WHERE s.channel_id = ANY($1)
    ORDER BY a.id FOR UPDATE OF a
"""
INSERT_SESSION: Final = """
    INSERT INTO sessions (channel_id, session_id, chain_id, payment_manager, payer, payee, token,
        authorized_signer, service_id, terms_hash, nonce, roster_hash, descriptor_hash, commit_required,
        terms, opened_at_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
    ON CONFLICT (channel_id) DO NOTHING RETURNING id
"""
INSERT_ACCOUNT: Final = """
    INSERT INTO accounts
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
"""
INSERT_ROSTER: Final = "INSERT INTO rosters VALUES ($1, $2) ON CONFLICT DO NOTHING"
UPDATE_ACCOUNTS: Final = """
    UPDATE accounts AS a SET
        phase = v.phase, seal_reason = v.seal_reason, signed = v.signed, close_pending = v.close_pending,
        deposit = v.deposit, accepted = v.accepted, accepted_signature = v.accepted_signature,
        admitted = v.admitted, spent = v.spent, reserved = v.reserved, failures = v.failures,
        frontier = v.frontier, ahead = v.ahead, in_flight = v.in_flight, active_at_ms = v.active_at_ms,
        finalized_at_ms = v.finalized_at_ms, transaction_hash = v.transaction_hash, seats = v.seats
    FROM unnest($1::bigint[], $2::smallint[], $3::text[], $4::boolean[], $5::boolean[], $6::bytea[],
        $7::bytea[], $8::bytea[], $9::bigint[], $10::bytea[], $11::bytea[], $12::bigint[], $13::bytea[],
        $14::bytea[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bytea[], $19::bytea[])
    AS v (id, phase, seal_reason, signed, close_pending, deposit, accepted, accepted_signature, admitted,
        spent, reserved, failures, frontier, ahead, in_flight, active_at_ms, finalized_at_ms,
        transaction_hash, seats)
    WHERE a.id = v.id
"""
INSERT_CALLS: Final = """
    INSERT INTO calls SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[], $5::bytea[],
        $6::bytea[], $7::bigint[], $8::bigint[])
"""
INSERT_ANSWERS: Final = """
    INSERT INTO answers SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::integer[], $4::text[],
        $5::boolean[], $6::bytea[], $7::bytea[], $8::bigint[])
"""
INSERT_SUBMISSIONS: Final = """
    INSERT INTO submissions SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[],
        $5::bytea[], $6::bytea[])
"""
INSERT_NAMES: Final = "INSERT INTO submission_names SELECT * FROM unnest($1::bytea[], $2::bigint[])"
INSERT_EQUIVOCATION: Final = """
    INSERT INTO equivocations (session, call_index, tool_id, request, seen_at_ms, cursor, seat,
        submission_id, client_time, prev_head, signature)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11
    WHERE (SELECT count(*) FROM equivocations WHERE session = $1) < $12
    AND NOT EXISTS (
        SELECT 1 FROM equivocations WHERE session = $1 AND tool_id = $3 AND request = $4
            AND cursor = $6 AND seat = $7 AND submission_id = $8 AND client_time = $9 AND prev_head = $10
    )
"""
SELECT_BY_AMOUNT: Final = """
    SELECT c.key, c.amount FROM unnest($1::bigint[], $2::bytea[]) AS wanted (session, amount)
    JOIN calls AS c ON c.key >> 24 = wanted.session AND c.amount = wanted.amount
"""
INSERT_HOLD: Final = "INSERT INTO holds VALUES ($1) ON CONFLICT DO NOTHING"
DELETE_CALLS: Final = (
    "DELETE FROM submissions WHERE key >= $1 AND key < $2",
    "DELETE FROM answers WHERE key >= $1 AND key < $2",
    "DELETE FROM calls WHERE key >= $1 AND key < $2",
)
DELETE_NAMES: Final = "DELETE FROM submission_names WHERE name >= $1 AND name < $2"
DELETE_SESSION: Final = (
    "DELETE FROM equivocations WHERE session = $1",
    "DELETE FROM rosters WHERE id = $1",
    "DELETE FROM accounts WHERE id = $1",
    "DELETE FROM sessions WHERE id = $1",
)


class Writes:
    """Rows of one transaction that wait to be written.

    Args:
        process: the id of this process, kept with the calls that it admits.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._calls: list[tuple[Any, ...]] = []
        self._answers: list[tuple[Any, ...]] = []
        self._submissions: list[tuple[Any, ...]] = []
        self._names: list[tuple[bytes, int]] = []
        self._equivocations: list[tuple[Any, ...]] = []
        self._rosters: list[tuple[int, bytes]] = []
        self._holds: list[int] = []

    def roster(self, row_id: int, roster: Roster) -> None:
        """A roster that was shown."""
        self._rosters.append(rows.roster_row(row_id, roster))

    def hold(self, row_id: int) -> None:
        """A session whose captured money may be held from now on."""
        self._holds.append(row_id)

    def call(self, key: int, call: Call, now_ms: int) -> None:
        """An admitted call."""
        self._calls.append((*rows.call_row(key, key, call, now_ms)[1:], self._process))
        envelope = call.envelope
        if envelope is not None:
            self._submissions.append(
                (key, envelope.seat, envelope.submission_id, envelope.client_time, envelope.prev_head,
                 envelope.signature)
            )  # fmt: skip
            self._names.extend((name, key) for name in names_of(key >> rows.CALL_BITS, envelope))

    def answer(self, key: int, call: Call, answer: Answer, now_ms: int) -> None:
        """The answer of a call, which is recorded with it."""
        self._answers.append(rows.answer_row(key, call, answer, now_ms))

    def equivocation(
        self, row_id: int, index: int, request: CallRequest, envelope: Envelope, now_ms: int
    ) -> None:
        """A refused request whose envelope contradicts the call at `index`: kept once, and not too many."""
        self._equivocations.append(
            (row_id, index, request.tool_id, request.request, now_ms, envelope.cursor, envelope.seat,
             envelope.submission_id, envelope.client_time, envelope.prev_head, envelope.signature,
             MAX_EQUIVOCATIONS)
        )  # fmt: skip

    async def flush(self, connection: Connection, sessions: Iterable[tuple[int, StoredSession]]) -> None:
        """Write everything, and the accounts of these sessions."""
        for roster in self._rosters:
            await connection.execute(INSERT_ROSTER, *roster)
        for row_id in self._holds:
            await connection.execute(INSERT_HOLD, row_id)
        for equivocation in self._equivocations:
            await connection.execute(INSERT_EQUIVOCATION, *equivocation)
        accounts = [
            rows.account_row(
                row_id, stored.state, stored.active_at_ms, stored.finalized_at_ms, stored.transaction_hash
            )
            for row_id, stored in sessions
        ]
        statements: tuple[tuple[str, Sequence[tuple[Any, ...]]], ...] = (
            (INSERT_CALLS, self._calls),
            (INSERT_SUBMISSIONS, self._submissions),
            (INSERT_NAMES, self._names),
            (INSERT_ANSWERS, self._answers),
            (UPDATE_ACCOUNTS, accounts),
        )
        for statement, values in statements:
            if values:
                await connection.execute(statement, *columns(values))


async def make_session(connection: Connection, step: Open) -> None:
    """Insert a session where its channel has none; one that is being made elsewhere is waited for."""
    row_id = await connection.fetchval(INSERT_SESSION, *rows.session_row(0, step.facts, step.now_ms)[1:])
    if row_id is None:
        return
    finalized_at_ms = step.now_ms if step.state.phase is Phase.FINAL else None
    await connection.execute(
        INSERT_ACCOUNT, *rows.account_row(row_id, step.state, step.now_ms, finalized_at_ms, None)
    )
    if finalized_at_ms is not None and step.facts.has_dispute_window:
        await connection.execute(INSERT_HOLD, row_id)
    if step.facts.roster is not None:
        await connection.execute(INSERT_ROSTER, *rows.roster_row(row_id, step.facts.roster))


async def is_held(connection: Connection, row_id: int) -> bool:
    """Whether a session's captured money may still be held."""
    held: bool = await connection.fetchval("SELECT EXISTS (SELECT FROM holds WHERE id = $1)", row_id)
    return held


async def delete_session(connection: Connection, row_id: int, state: SessionState) -> None:
    """Remove a session with everything that is kept of it."""
    first = row_id << rows.CALL_BITS
    # In pieces, so that no statement takes too long.
    for start in range(first, first + state.admitted, _DELETE_CALLS_PER_STATEMENT):
        end = min(start + _DELETE_CALLS_PER_STATEMENT, first + state.admitted)
        for statement in DELETE_CALLS:
            await connection.execute(statement, start, end)
    await connection.execute(DELETE_NAMES, *submissions.name_range(row_id))
    for statement in DELETE_SESSION:
        await connection.execute(statement, row_id)


def names_of(row_id: int, envelope: Envelope) -> tuple[bytes, bytes]:
    """What an envelope claims: its submission id, and the head that it continues."""
    return (
        submissions.id_name(row_id, envelope.seat, envelope.submission_id),
        submissions.head_name(row_id, envelope.seat, envelope.prev_head),
    )


def columns(values: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows, of which there are some, as the arrays that `unnest` takes."""
    return [list(column) for column in zip(*values, strict=True)]
