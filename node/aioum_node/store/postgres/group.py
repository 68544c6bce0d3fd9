"""The steps of many sessions in one transaction: lock, read, decide in memory, write.

Decisions are those of `aioum.core.ledger`. Every statement serves all steps of the group, so a group costs
about as many messages as one step does. Sessions are locked in the order of their rows, and new ones are made
before that in the order of their channels: so groups of several processes wait for each other, and never in a
circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from aioum.core import ledger, suspicion
from aioum.core.errors import AioumError, Refused
from aioum.core.hextext import to_hex
from aioum.core.ledger import Admitted, Call, CallRequest, Limits, Phase, Recorded, Repeat, SessionState
from aioum.core.types import ChannelId
from aioum_node.store import rows
from aioum_node.store.port import MAX_CALLS, StoredSession
from aioum_node.store.postgres.driver import DRIVER_ERRORS, Connection
from aioum_node.store.postgres.steps import Admit, Delete, Open, Record, Reimport, Result, Step, Update
from aioum_node.store.postgres.writes import (
    LOCK,
    SELECT_BY_AMOUNT,
    Writes,
    columns,
    delete_session,
    is_held,
    make_session,
    names_of,
)


@dataclass(slots=True)
class _Live:
    """A locked session in memory."""

    row_id: int
    stored: StoredSession
    changed: bool = False

    @property
    def state(self) -> SessionState:
        return self.stored.state

    def key(self, index: int) -> int:
        return self.row_id << rows.CALL_BITS | index

    def change(self, state: SessionState, **facts_and_times: Any) -> None:
        self.stored = replace(self.stored, state=state, **facts_and_times)
        self.changed = True


class Group:
    """One transaction's steps.

    Args:
        connection: in a transaction, which the caller ends.
        limits: bounds of every session.
        process: the id of this process, kept with the calls that it admits.

    Attributes:
        answers_something: whether clients are told of what the group changes, not only of what waits.
    """

    def __init__(self, connection: Connection, limits: Limits, process: int) -> None:
        self._connection = connection
        self._limits = limits
        self._writes = Writes(process)
        self.answers_something = False
        self._live: dict[ChannelId, _Live] = {}
        # What was read, and what this group adds to it.
        self._calls: dict[int, Call] = {}
        self._names: dict[bytes, int] = {}
        self._amounts: dict[tuple[int, int], int] = {}

    async def perform(self, steps: Sequence[Step]) -> list[Result | Exception]:
        """Decide the steps in their order and write what they change.

        Returns:
            for each step its result, or what its decision raised; one that is refused harms no other.

        Raises:
            Exception: the transaction is lost; nothing of the group may be committed.
        """
        await self._make(steps)
        await self._lock(steps)
        await self._read(steps)
        outcomes: list[Result | Exception] = []
        for step in steps:
            try:
                outcomes.append(await self._decide(step))
            except DRIVER_ERRORS:
                raise
            except Exception as error:
                outcomes.append(error)
        changed = [(live.row_id, live.stored) for live in self._live.values() if live.changed]
        await self._writes.flush(self._connection, changed)
        return outcomes

    # --- before any decision ---

    async def _make(self, steps: Sequence[Step]) -> None:
        opened: dict[ChannelId, Open] = {}
        for step in steps:
            if isinstance(step, Open):
                opened.setdefault(step.channel_id, step)
        for _, step in sorted(opened.items()):
            await make_session(self._connection, step)

    async def _lock(self, steps: Sequence[Step]) -> None:
        channels = list({step.channel_id for step in steps})
        await self._connection.fetch(LOCK, channels)
        # Only a statement that begins after the locks are held sees what those who held them before wrote.
        found = await self._connection.fetch(
            "SELECT * FROM stored_sessions WHERE channel_id = ANY($1)", channels
        )
        for row_id, stored in map(rows.read_session, map(tuple, found)):
            self._live[stored.facts.channel_id] = _Live(row_id, stored)

    async def _read(self, steps: Sequence[Step]) -> None:
        """Everything that the decisions may ask for."""
        keys: set[int] = set()
        names: set[bytes] = set()
        amounts: set[tuple[int, bytes]] = set()
        for step in steps:
            live = self._live.get(step.channel_id)
            if live is None:
                continue
            if isinstance(step, Record | Reimport):
                indexes = [step.index] if isinstance(step, Record) else [call.index for call in step.calls]
                keys.update(live.key(index) for index in indexes if 0 <= index < live.state.admitted)
            elif isinstance(step, Admit) and live.state.signed == (step.request.envelope is not None):
                if step.request.envelope is not None:
                    names.update(names_of(live.row_id, step.request.envelope))
                elif 0 <= step.request.amount <= live.state.accepted:
                    amounts.add((live.row_id, rows.amount_bytes(step.request.amount)))
        if names:
            found = await self._connection.fetch(
                "SELECT name, key FROM submission_names WHERE name = ANY($1)", list(names)
            )
            self._names.update((name, key) for name, key in found)
            keys.update(self._names.values())
        if amounts:
            found = await self._connection.fetch(SELECT_BY_AMOUNT, *columns(list(amounts)))
            for key, amount in found:
                self._amounts[key >> rows.CALL_BITS, int.from_bytes(amount, "big")] = key
                keys.add(key)
        if keys:
            found = await self._connection.fetch(
                "SELECT * FROM stored_calls WHERE key = ANY($1)", sorted(keys)
            )
            self._calls.update(map(rows.read_call, map(tuple, found)))

    # --- decisions ---

    async def _decide(self, step: Step) -> Result:
        match step:
            case Open():
                return self._open(step)
            case Admit():
                return self._admit(step)
            case Record():
                return self._record(step)
            case Update():
                return self._update(step)
            case Reimport():
                return self._reimport(step)
            case Delete():
                await self._delete(step)
                return None

    def _open(self, step: Open) -> StoredSession:
        live = self._live.get(step.channel_id)
        if live is None:
            # It was there when it should have been made, and another process removed it since.
            raise AioumError("the session is being removed", code="store-busy", hint="repeat the request")
        roster = step.facts.roster
        if live.stored.facts.roster is None and roster is not None:
            self._writes.roster(live.row_id, roster)
            facts = replace(live.stored.facts, roster=roster)
            live.change(replace(live.state, seats=step.state.seats), facts=facts)
        return live.stored

    def _admit(self, step: Admit) -> Admitted | Repeat:
        live = self._get(step.channel_id)
        request = step.request
        earlier = self._earlier_call(live, request)
        if earlier is not None and request.envelope is not None and not ledger.is_repeat(earlier, request):
            # The request is refused, and stays as evidence of who contradicted himself.
            self._writes.equivocation(live.row_id, earlier.index, request, request.envelope, step.now_ms)
        decision = ledger.admit(live.state, request, earlier, self._limits)
        if isinstance(decision, Repeat):
            return decision
        call = decision.call
        if call.index >= MAX_CALLS:
            raise Refused(f"the session holds {MAX_CALLS} calls already", code="too-many-calls")
        self._add(live, call, step.now_ms)
        live.change(decision.state, active_at_ms=step.now_ms)
        return decision

    def _add(self, live: _Live, call: Call, now_ms: int) -> None:
        key = live.key(call.index)
        self._writes.call(key, call, now_ms)
        self._calls[key] = call
        if call.envelope is None:
            self._amounts[live.row_id, call.amount] = key
        else:
            self._names.update(dict.fromkeys(names_of(live.row_id, call.envelope), key))

    def _record(self, step: Record) -> Recorded:
        live = self._get(step.channel_id)
        known = 0 <= step.index < live.state.admitted
        call = self._calls.get(live.key(step.index)) if known else None
        if call is None:
            raise Refused(f"no call {step.index} was admitted", code="call-not-found")
        decision = ledger.record(live.state, call, step.answer, self._limits)
        if decision.won:
            key = live.key(step.index)
            self._writes.answer(key, decision.call, step.answer, step.now_ms)
            self._calls[key] = decision.call
            live.change(decision.state, active_at_ms=step.now_ms)
            self.answers_something = True
        return decision

    def _update(self, step: Update) -> StoredSession:
        live = self._get(step.channel_id)
        stored = live.stored
        after = step.change(stored.state)
        final = after.phase is Phase.FINAL
        known_now = final and stored.transaction_hash is None and step.transaction_hash is not None
        if after != stored.state or known_now:
            first = final and stored.finalized_at_ms is None
            if first and stored.facts.has_dispute_window:
                self._writes.hold(live.row_id)
            live.change(
                after,
                finalized_at_ms=step.now_ms if first else stored.finalized_at_ms,
                transaction_hash=step.transaction_hash if known_now else stored.transaction_hash,
            )
            self.answers_something = True
        return live.stored

    def _reimport(self, step: Reimport) -> StoredSession:
        live = self._get(step.channel_id)
        state = live.state
        taken = []
        for call in step.calls:
            known = self._calls.get(live.key(call.index)) if call.index < live.state.admitted else None
            taken.append(suspicion.reimport(state, known, call, self._limits))
            state = taken[-1].state
        for decision in taken:
            call = decision.call
            if decision.admitted:
                self._add(live, call, step.now_ms)
            if decision.recorded and call.answer is not None:
                self._writes.answer(live.key(call.index), call, call.answer, step.now_ms)
                self._calls[live.key(call.index)] = call
        if state != live.state:
            live.change(state)
            self.answers_something = True
        return live.stored

    async def _delete(self, step: Delete) -> None:
        live = self._live.get(step.channel_id)
        if live is None:
            return
        if live.state.phase is not Phase.FINAL:
            raise Refused(f"the session {to_hex(step.channel_id)} is not final", code="session-not-final")
        if await is_held(self._connection, live.row_id):
            raise Refused(f"money of the session {to_hex(step.channel_id)} is held", code="session-held")
        await delete_session(self._connection, live.row_id, live.state)
        del self._live[step.channel_id]

    def _get(self, channel_id: ChannelId) -> _Live:
        live = self._live.get(channel_id)
        if live is None:
            raise Refused(f"no session {to_hex(channel_id)}", code="channel-not-found")
        return live

    def _earlier_call(self, live: _Live, request: CallRequest) -> Call | None:
        if live.state.signed != (request.envelope is not None):
            # A form that the session does not take contradicts nothing in it.
            return None
        if request.envelope is None:
            # Amounts of an unsigned session rise with every call, so one call at most has this one.
            key = self._amounts.get((live.row_id, request.amount))
        else:
            id_name, head_name = names_of(live.row_id, request.envelope)
            key = self._names.get(id_name)
            # A head that is still its seat's was continued by no call.
            if key is None and request.envelope.prev_head != live.state.seats.head(request.envelope.seat):
                key = self._names.get(head_name)
        return None if key is None else self._calls[key]
