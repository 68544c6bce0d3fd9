"""The store against the pure ledger: whatever is asked in whatever order, both say the same."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from aioum.core import ledger
from aioum.core.errors import Refused
from aioum.core.ledger import Admitted, Call, CallRequest, Limits, Phase, Recorded, Repeat, SessionState
from aioum.core.submission.envelope import Envelope
from aioum.core.types import ChannelId
from aioum_node.store.port import MAX_EQUIVOCATIONS, SessionFacts, Store
from aioum_node.store.postgres.store import PostgresStore
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.pens import SEATS, Pen
from tests.postgres import PostgresServer, schema_of
from tests.unit.node.store.samples import (
    NOW_MS,
    PRICE,
    answer,
    channel,
    facts,
    opened,
    request,
    signed_facts,
)

LIMITS = Limits(max_in_flight=3, max_unpaid_calls=3)
NUMBERS = (1, 2)
"""Session 1 is unsigned, session 2 signed."""

numbers = st.sampled_from(NUMBERS)
texts = st.sampled_from(["a", "b"])
seats = st.sampled_from([*SEATS, "auditor"])
ids = st.sampled_from([f"id-{number}" for number in range(8)])
indexes = st.integers(-1, 6)


def facts_of(number: int) -> SessionFacts:
    return signed_facts(number) if number == 2 else facts(number)


class Model:
    """Sessions as dictionaries over the pure functions."""

    def __init__(self) -> None:
        self.states: dict[ChannelId, SessionState] = {}
        self.calls: dict[ChannelId, dict[int, Call]] = {}
        self.equivocations: dict[ChannelId, list[CallRequest]] = {}
        self.held: set[ChannelId] = set()

    def admit(self, channel_id: ChannelId, wanted: CallRequest) -> Admitted | Repeat:
        state, calls = self._session(channel_id)
        envelope = wanted.envelope
        if envelope is not None:
            existing = next((call for call in calls.values() if _claims(call, envelope)), None)
        else:
            existing = next((call for call in calls.values() if call.amount == wanted.amount), None)
        if existing is not None and envelope is not None and not ledger.is_repeat(existing, wanted):
            kept = self.equivocations.setdefault(channel_id, [])
            known = any((item.envelope, item.request) == (envelope, wanted.request) for item in kept)
            if not known and len(kept) < MAX_EQUIVOCATIONS:
                kept.append(wanted)
        step = ledger.admit(state, wanted, existing, LIMITS)
        if isinstance(step, Admitted):
            self.states[channel_id] = step.state
            calls[step.call.index] = step.call
        return step

    def record(self, channel_id: ChannelId, index: int, given: ledger.Answer) -> Recorded:
        state, calls = self._session(channel_id)
        if index not in calls:
            raise Refused("unknown", code="call-not-found")
        step = ledger.record(state, calls[index], given, LIMITS)
        self.states[channel_id] = step.state
        calls[index] = step.call
        return step

    def update(self, channel_id: ChannelId, change: Callable[[SessionState], SessionState]) -> SessionState:
        state, _ = self._session(channel_id)
        after = change(state)
        if after.phase is Phase.FINAL and state.phase is not Phase.FINAL:
            self.held.add(channel_id)
        self.states[channel_id] = after
        return after

    def delete(self, channel_id: ChannelId) -> None:
        if channel_id in self.states:
            if self.states[channel_id].phase is not Phase.FINAL:
                raise Refused("not final", code="session-not-final")
            if channel_id in self.held:
                raise Refused("money is held", code="session-held")
            del self.states[channel_id], self.calls[channel_id]
            self.equivocations.pop(channel_id, None)

    def _session(self, channel_id: ChannelId) -> tuple[SessionState, dict[int, Call]]:
        if channel_id not in self.states:
            raise Refused("unknown", code="channel-not-found")
        return self.states[channel_id], self.calls[channel_id]


def _claims(call: Call, envelope: Envelope) -> bool:
    mine = call.envelope
    return (
        mine is not None
        and mine.seat == envelope.seat
        and (mine.submission_id == envelope.submission_id or mine.prev_head == envelope.prev_head)
    )


def outcome(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except Refused as error:
        return error.code


class StoreAgainstLedger(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="aioum-store-"))
        self.runner = asyncio.Runner()
        self.model = Model()
        self.store = self.open_store()

    def open_store(self) -> Store:
        return SqliteStore(self.folder / STORE_FILE, LIMITS, max_cached_sessions=1)

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.folder)

    def agree(self, ours: Callable[[], Any], model: Callable[[], Any]) -> Any:
        expected = outcome(model)
        assert outcome(lambda: self.runner.run(ours())) == expected
        return expected

    @initialize()
    def open_all(self) -> None:
        for number in NUMBERS:
            self.open_session(number)

    @rule(number=numbers)
    def open_session(self, number: int) -> None:
        state = opened(number, deposit=60, signed=number == 2)
        self.runner.run(self.store.open(facts_of(number), state, NOW_MS))
        self.model.states.setdefault(channel(number), state)
        self.model.calls.setdefault(channel(number), {})

    @rule(number=numbers, amount=st.integers(0, 70), text=texts)
    def admit_without_an_envelope(self, number: int, amount: int, text: str) -> None:
        self._admit(number, request(amount, text=text))

    @rule(
        number=numbers,
        amount=st.integers(0, 70),
        text=texts,
        cursor=st.integers(0, 6),
        seat=seats,
        submission_id=ids,
        which=st.integers(0, 4),
    )
    def admit_an_envelope(
        self, number: int, amount: int, text: str, cursor: int, seat: str, submission_id: str, which: int
    ) -> None:
        pen = Pen(channel(number), seat)
        # Heads that this seat continued before, and its genesis.
        known = [pen.head] + [
            call.envelope.prev_head
            for call in self.model.calls.get(channel(number), {}).values()
            if call.envelope is not None and call.envelope.seat == seat
        ]
        envelope = pen.draft(
            text.encode(), cursor, submission_id=submission_id, prev_head=known[which % len(known)]
        )
        self._admit(number, request(amount, text=text, envelope=envelope))

    @rule(number=numbers, text=texts, seat=seats, submission_id=ids)
    def admit_the_next_call(self, number: int, text: str, seat: str, submission_id: str) -> None:
        state = self.model.states.get(channel(number))
        if state is not None:
            amount = max(state.accepted + 1, state.spent + state.reserved + PRICE)
            head = state.seats.head(seat)
            envelope = None
            if head is not None:
                envelope = Pen(channel(number), seat).draft(
                    text.encode(), state.admitted, submission_id=submission_id, prev_head=head
                )
            self._admit(number, request(amount, text=text, envelope=envelope))

    def _admit(self, number: int, wanted: CallRequest) -> None:
        self.agree(
            lambda: self.store.admit(channel(number), wanted, NOW_MS),
            lambda: self.model.admit(channel(number), wanted),
        )

    @rule(number=numbers, index=indexes, text=st.sampled_from(["x", "y"]), failed=st.booleans())
    def record(self, number: int, index: int, text: str, failed: bool) -> None:
        given = answer(text, failed=failed)
        self.agree(
            lambda: self.store.record(channel(number), index, given, NOW_MS),
            lambda: self.model.record(channel(number), index, given),
        )

    @rule(number=numbers, deposit=st.integers(0, 200), close_pending=st.booleans())
    def observe(self, number: int, deposit: int, close_pending: bool) -> None:
        self._update(
            number, lambda state: ledger.observe_chain(state, deposit=deposit, close_pending=close_pending)
        )

    @rule(number=numbers)
    def seal(self, number: int) -> None:
        self._update(number, lambda state: ledger.seal(state, "test"))

    @rule(number=numbers)
    def finalize(self, number: int) -> None:
        self._update(number, ledger.finalize)

    def _update(self, number: int, change: Callable[[SessionState], SessionState]) -> None:
        async def ours() -> SessionState:
            return (await self.store.update(channel(number), change, NOW_MS)).state

        self.agree(ours, lambda: self.model.update(channel(number), change))

    @rule(number=numbers)
    def release(self, number: int) -> None:
        self.runner.run(self.store.released(channel(number)))
        self.model.held.discard(channel(number))

    @rule(number=numbers)
    def delete(self, number: int) -> None:
        self.agree(lambda: self.store.delete(channel(number)), lambda: self.model.delete(channel(number)))

    @rule()
    def restart(self) -> None:
        self.runner.run(self.store.close())
        self.store = self.open_store()

    @invariant()
    def both_hold_the_same(self) -> None:
        assert set(self.runner.run(self.store.held())) == self.model.held
        for number in NUMBERS:
            stored = self.runner.run(self.store.session(channel(number)))
            calls = self.runner.run(self.store.calls(channel(number), 0, 100))
            assert (None if stored is None else stored.state) == self.model.states.get(channel(number))
            assert calls == list(self.model.calls.get(channel(number), {}).values())
            kept = self.runner.run(self.store.equivocations(channel(number)))
            assert [(item.envelope, item.request) for item in kept] == [
                (item.envelope, item.request) for item in self.model.equivocations.get(channel(number), [])
            ]
        self.unrecorded_are_found(
            [
                (channel_id, call)
                for channel_id, calls in self.model.calls.items()
                for call in calls.values()
                if not call.recorded
            ]
        )

    def unrecorded_are_found(self, expected: list[tuple[ChannelId, Call]]) -> None:
        assert sorted(self.runner.run(self.store.unrecorded()), key=str) == sorted(expected, key=str)


class SharedStoreAgainstLedger(StoreAgainstLedger):
    """The same asked of two processes that share a database, now the one, now the other."""

    postgres: PostgresServer

    def __init__(self) -> None:
        super().__init__()
        self.other = self.open_store()

    def open_store(self) -> Store:
        return PostgresStore(self.postgres.url, LIMITS, schema=schema_of(self.folder))

    def teardown(self) -> None:
        self.runner.run(self.other.close())
        super().teardown()

    def unrecorded_are_found(self, expected: list[tuple[ChannelId, Call]]) -> None:
        # Those of a process that lives are its own business; one that was restarted left some.
        assert all(found in expected for found in self.runner.run(self.store.unrecorded()))

    @rule()
    def ask_the_other_process(self) -> None:
        self.store, self.other = self.other, self.store


TestStoreAgainstLedger = StoreAgainstLedger.TestCase
TestStoreAgainstLedger.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_two_processes_that_share_a_store_are_one_ledger(postgres: PostgresServer) -> None:
    class OnThisServer(SharedStoreAgainstLedger):
        pass

    OnThisServer.postgres = postgres
    run_state_machine_as_test(
        OnThisServer, settings=settings(max_examples=10, stateful_step_count=30, deadline=None)
    )
