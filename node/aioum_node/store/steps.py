"""The steps of sessions inside one transaction: decide on the state in memory, write once at the end.

Everything here runs on the writer's thread. A step changes memory only after its decision stood, so one that
is refused leaves no trace, and `write` puts the outcome of all steps of a group into the file with few
statements. The memory mirrors the file: after a rollback it is dropped and read again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from aioum.core import ledger, suspicion
from aioum.core.errors import Refused
from aioum.core.hextext import to_hex
from aioum.core.ledger import (
    Admitted,
    Answer,
    Call,
    CallRequest,
    Limits,
    Phase,
    Recorded,
    Repeat,
    SessionState,
)
from aioum.core.types import Bytes32, ChannelId
from aioum_node.store import incarnations, rows
from aioum_node.store.incarnations import Beginning, StoreMark
from aioum_node.store.live import Live, Snapshot
from aioum_node.store.port import MAX_CALLS, SessionFacts, StoredSession
from aioum_node.store.submissions import (
    INSERT_NAMES,
    INSERT_SUBMISSIONS,
    NAME_WIDTH,
    SUBMISSION_WIDTH,
    SubmissionSteps,
)

_MOST_CALLS_WITHOUT_INDEX: Final = 2_000
_DELETE_CALLS_PER_STATEMENT: Final = 10_000
_DELETE_CALLS: Final = (
    "DELETE FROM submissions WHERE seq IN (SELECT seq FROM call_index WHERE key >= ? AND key < ?)",
    "DELETE FROM answers WHERE seq IN (SELECT seq FROM call_index WHERE key >= ? AND key < ?)",
    "DELETE FROM calls WHERE seq IN (SELECT seq FROM call_index WHERE key >= ? AND key < ?)",
    "DELETE FROM call_index WHERE key >= ? AND key < ?",
)


class SessionSteps:
    """Sessions' steps over one connection; the caller begins and ends its transactions.

    Args:
        connection: in autocommit mode, used by this thread only.
        limits: bounds of every session.
        max_cached_sessions: how many sessions are kept in memory between transactions.
    """

    def __init__(self, connection: sqlite3.Connection, limits: Limits, max_cached_sessions: int) -> None:
        self._connection = connection
        self._limits = limits
        self._max_cached_sessions = max_cached_sessions
        self._live: dict[ChannelId, Live] = {}
        self._touched: dict[int, Live] = {}
        self._dirty: dict[int, Live] = {}
        self._calls: list[tuple[Any, ...]] = []
        self._answers: list[tuple[Any, ...]] = []
        self._submissions = SubmissionSteps(connection, rows.CALL_BITS)
        self._gone: list[ChannelId] = []
        self._last_seq = self._indexed_seq = 0
        self._positions_known = False
        self._sequence = self._folded = 0
        self._changes = 0
        self._answers_something = False
        self.answered_sequence = 0

    def begin(self) -> None:
        """A transaction has begun."""
        if not self._positions_known:
            positions = self._connection.execute(rows.SELECT_POSITIONS).fetchone()
            last, self._indexed_seq, self._sequence, self._folded = positions
            # Numbers of deleted calls are not given again: the index would take their successors for known.
            self._last_seq = max(last, self._indexed_seq)
            self._submissions.load(self._indexed_seq)
            self._positions_known = True
        self._changes = self._connection.total_changes

    def open(self, facts: SessionFacts, state: SessionState, now_ms: int) -> StoredSession:
        """`SessionWriter.open`."""
        known = self._find(facts.channel_id)
        if known is not None:
            if known.facts.roster is None and facts.roster is not None:
                self._connection.execute(rows.INSERT_ROSTER, rows.roster_row(known.row_id, facts.roster))
                known.facts = replace(known.facts, roster=facts.roster)
                known.state = replace(known.state, seats=state.seats)
                self._touch(known)
            return known.stored()
        (row_id,) = self._connection.execute("SELECT coalesce(max(id), 0) + 1 FROM sessions").fetchone()
        self._connection.execute(rows.INSERT_SESSION, rows.session_row(row_id, facts, now_ms))
        if facts.roster is not None:
            self._connection.execute(rows.INSERT_ROSTER, rows.roster_row(row_id, facts.roster))
        finalized_at_ms = now_ms if state.phase is Phase.FINAL else None
        live = Live(row_id, StoredSession(facts, state, now_ms, now_ms, finalized_at_ms))
        self._live[facts.channel_id] = live
        if finalized_at_ms is not None:
            self._hold(live)
        self._touch(live)
        # A statement that fails takes the whole transaction with it, so the row above never stays alone.
        self.write()
        return live.stored()

    def admit(self, channel_id: ChannelId, request: CallRequest, now_ms: int) -> Admitted | Repeat:
        """`SessionWriter.admit`."""
        live = self._get(channel_id)
        earlier = self._earlier_call(live, request)
        if earlier is not None and not ledger.is_repeat(earlier, request):
            # The request is refused, and stays as evidence of who contradicted himself.
            self._submissions.keep_equivocation(live.row_id, earlier.index, request, now_ms)
        decision = ledger.admit(live.state, request, earlier, self._limits)
        if isinstance(decision, Repeat):
            return decision
        call = decision.call
        if call.index >= MAX_CALLS:
            raise Refused(f"the session holds {MAX_CALLS} calls already", code="too-many-calls")
        live.in_flight[call.index] = (self._add_call(live, call, now_ms), call)
        live.state = decision.state
        live.active_at_ms = now_ms
        self._touch(live)
        return decision

    def record(self, channel_id: ChannelId, index: int, answer: Answer, now_ms: int) -> Recorded:
        """`SessionWriter.record`."""
        live = self._get(channel_id)
        found = live.in_flight.get(index) or self._stored_call(live, index)
        if found is None:
            raise Refused(f"no call {index} was admitted", code="call-not-found")
        seq, call = found
        decision = ledger.record(live.state, call, answer, self._limits)
        if not decision.won:
            return decision
        self._answers.append(rows.answer_row(seq, decision.call, answer, now_ms))
        live.in_flight.pop(index, None)
        live.state = decision.state
        live.active_at_ms = now_ms
        self._touch(live)
        self._answers_something = True
        return decision

    def reimport(self, channel_id: ChannelId, calls: Sequence[Call], now_ms: int) -> StoredSession:
        """`IncarnationStore.reimport`."""
        live = self._get(channel_id)
        state = live.state
        taken: list[tuple[int | None, suspicion.Reimported]] = []
        for call in calls:
            seq, known = self._stored_call(live, call.index) or (None, None)
            step = suspicion.reimport(state, known, call, self._limits)
            state = step.state
            taken.append((seq, step))
        for seq, step in taken:
            if step.admitted:
                seq = self._add_call(live, step.call, now_ms)
            if step.recorded and seq is not None and step.call.answer is not None:
                self._answers.append(rows.answer_row(seq, step.call, step.call.answer, now_ms))
                live.in_flight.pop(step.call.index, None)
        if state != live.state:
            live.state = state
            self._touch(live)
            self._answers_something = True
        return live.stored()

    def begin_incarnation(self, beginning: Beginning) -> tuple[int, StoreMark]:
        """`IncarnationStore.begin`, and the store's mark then."""
        self.write()
        suspects = incarnations.begin(self._connection, beginning)
        self._sequence = max(self._sequence, beginning.sequence)
        # The file changed under what is kept in memory.
        self._gone.extend(self._live)
        self._live.clear()
        return suspects, incarnations.read_mark(self._connection)

    def update(
        self,
        channel_id: ChannelId,
        change: Callable[[SessionState], SessionState],
        now_ms: int,
        transaction_hash: Bytes32 | None,
    ) -> StoredSession:
        """`SessionWriter.update`."""
        live = self._get(channel_id)
        after = change(live.state)
        final = after.phase is Phase.FINAL
        known_now = final and live.transaction_hash is None and transaction_hash is not None
        if after != live.state or known_now:
            if final and live.finalized_at_ms is None:
                live.finalized_at_ms = now_ms
                self._hold(live)
            if known_now:
                live.transaction_hash = transaction_hash
            live.state = after
            self._touch(live)
            self._answers_something = True
        return live.stored()

    def delete(self, channel_id: ChannelId) -> None:
        """`SessionWriter.delete`."""
        live = self._find(channel_id)
        if live is None:
            return
        if live.state.phase is not Phase.FINAL:
            raise Refused(f"the session {to_hex(channel_id)} is not final", code="session-not-final")
        if self._connection.execute(rows.SELECT_HOLD, (live.row_id,)).fetchone():
            raise Refused(f"money of the session {to_hex(channel_id)} is held", code="session-held")
        # Rows of this session that still wait would otherwise be written after it is gone.
        self.write()
        self._index_calls()
        first = self._key(live, 0)
        for start in range(first, first + live.state.admitted, _DELETE_CALLS_PER_STATEMENT):
            keys = (start, min(start + _DELETE_CALLS_PER_STATEMENT, first + live.state.admitted))
            for statement in _DELETE_CALLS:
                self._connection.execute(statement, keys)
        self._submissions.delete(live.row_id)
        self._connection.execute("DELETE FROM accounts WHERE id = ?", (live.row_id,))
        self._connection.execute("DELETE FROM sessions WHERE id = ?", (live.row_id,))
        self._forget(live)

    def released(self, channel_id: ChannelId) -> None:
        """`HeldSessions.released`."""
        self._connection.execute(rows.DELETE_HOLD, (channel_id,))

    def put_card(self, descriptor_hash: bytes, card: bytes) -> None:
        """`CardStore.put_card`."""
        self._connection.execute("INSERT OR IGNORE INTO cards VALUES (?, ?)", (descriptor_hash, card))

    def put_position(self, name: str, block_number: int, block_hash: bytes) -> None:
        """`CardStore.put_position`."""
        self._connection.execute(
            "INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", (name, block_number, block_hash)
        )

    def write(self) -> None:
        """Write what the steps so far decided."""
        self._insert(rows.INSERT_CALLS, rows.CALL_WIDTH, self._calls)
        self._insert(INSERT_SUBMISSIONS, SUBMISSION_WIDTH, self._submissions.rows)
        self._insert(rows.INSERT_ANSWERS, rows.ANSWER_WIDTH, self._answers)
        accounts = [
            rows.account_row(
                row_id, live.state, live.active_at_ms, live.finalized_at_ms, live.transaction_hash
            )
            for row_id, live in self._dirty.items()
        ]
        self._insert(rows.UPSERT_ACCOUNTS, rows.ACCOUNT_WIDTH, accounts)
        if self._last_seq - self._indexed_seq > _MOST_CALLS_WITHOUT_INDEX:
            self._index_calls()
        self._calls.clear()
        self._submissions.rows.clear()
        self._answers.clear()
        self._dirty.clear()

    def finish(self) -> None:
        """Write, and number the transaction where it changes something."""
        self.write()
        if self._connection.total_changes == self._changes:
            return
        self._sequence += 1
        self._connection.execute("UPDATE node SET sequence = ?, folded = ?", (self._sequence, self._folded))

    def folded(self) -> None:
        """The database file holds everything that was committed, without its log."""
        self._folded = self._sequence

    def rolled_back(self) -> None:
        """The transaction is undone: forget everything, the file knows better."""
        self._answers_something = False
        self._gone.extend(self._live)
        for kept in (self._live, self._touched, self._dirty, self._calls, self._answers):
            kept.clear()
        self._submissions.clear()
        self._positions_known = False

    def committed(self) -> tuple[list[Snapshot], list[ChannelId]]:
        """The transaction is durable: the sessions it changed, and those that are in memory no longer."""
        if self._answers_something:
            # Clients are told of it now. What only waits for its answer nobody has heard of.
            self._answers_something = False
            self.answered_sequence = self._sequence
        for live in [live for live in self._touched.values() if live.state.phase is Phase.FINAL]:
            self._forget(live)
        changed = [live.snapshot() for live in self._touched.values()]
        self._touched.clear()
        while len(self._live) > self._max_cached_sessions:
            # The one that came in first: it is read again when it is needed.
            channel_id = next(iter(self._live))
            del self._live[channel_id]
            self._gone.append(channel_id)
        return changed, self.take_gone()

    def take_gone(self) -> list[ChannelId]:
        """Sessions that left memory since this was asked last."""
        gone = self._gone
        self._gone = []
        return gone

    def _add_call(self, live: Live, call: Call, now_ms: int) -> int:
        self._last_seq += 1
        key = self._key(live, call.index)
        self._calls.append(rows.call_row(self._last_seq, key, call, now_ms))
        if call.envelope is not None:
            self._submissions.add(self._last_seq, key, call.envelope)
        return self._last_seq

    def _index_calls(self) -> None:
        self._connection.execute(
            "INSERT INTO call_index SELECT key, seq FROM calls WHERE seq > ? ORDER BY key",
            (self._indexed_seq,),
        )
        self._insert(INSERT_NAMES, NAME_WIDTH, self._submissions.take_names())
        self._connection.execute("UPDATE node SET indexed_seq = ?", (self._last_seq,))
        self._indexed_seq = self._last_seq

    def _insert(self, statement: str, width: int, values: Sequence[tuple[Any, ...]]) -> None:
        for text, parameters in rows.statements(statement, width, values):
            self._connection.execute(text, parameters)

    def _hold(self, live: Live) -> None:
        if live.facts.has_dispute_window:
            self._connection.execute(rows.INSERT_HOLD, (live.row_id,))

    def _touch(self, live: Live) -> None:
        self._dirty[live.row_id] = live
        self._touched[live.row_id] = live

    def _forget(self, live: Live) -> None:
        self._live.pop(live.facts.channel_id, None)
        self._dirty.pop(live.row_id, None)
        self._touched.pop(live.row_id, None)
        self._gone.append(live.facts.channel_id)

    def _get(self, channel_id: ChannelId) -> Live:
        live = self._find(channel_id)
        if live is None:
            raise Refused(f"no session {to_hex(channel_id)}", code="channel-not-found")
        return live

    def _find(self, channel_id: ChannelId) -> Live | None:
        live = self._live.get(channel_id)
        if live is None:
            row = self._connection.execute(
                "SELECT * FROM stored_sessions WHERE channel_id = ?", (channel_id,)
            ).fetchone()
            if row is None:
                return None
            live = self._live[channel_id] = Live(*rows.read_session(row))
        return live

    def _earlier_call(self, live: Live, request: CallRequest) -> Call | None:
        if live.state.signed != (request.envelope is not None):
            # A form that the session does not take contradicts nothing in it.
            return None
        if request.envelope is not None:
            index = self._submissions.claimed(live.row_id, request.envelope, live.state.seats)
            found = None if index is None else self._stored_call(live, index)
            return None if found is None else found[1]
        # Amounts of an unsigned session rise with every call: above the highest there is nothing to find, and
        # below it halving finds the call, the newest first because that is what is repeated.
        if request.amount > live.state.accepted:
            return None
        low, high = 0, live.state.admitted
        middle = high - 1
        while low < high:
            found = self._stored_call(live, middle)
            if found is None:
                return None
            if found[1].amount == request.amount:
                return found[1]
            if found[1].amount < request.amount:
                low = middle + 1
            else:
                high = middle
            middle = (low + high) // 2
        return None

    def _stored_call(self, live: Live, index: int) -> tuple[int, Call] | None:
        if not 0 <= index < live.state.admitted:
            return None
        self.write()
        key = self._key(live, index)
        row = self._connection.execute(
            rows.SELECT_CALLS, {"first": key, "end": key + 1, "limit": 1}
        ).fetchone()
        return None if row is None else rows.read_call(row)

    @staticmethod
    def _key(live: Live, index: int) -> int:
        return live.row_id << rows.CALL_BITS | index
