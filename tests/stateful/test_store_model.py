"""The store against the pure ledger: whatever is asked in whatever order, both say the same."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aioum.core import ledger
from aioum.core.errors import Refused
from aioum.core.ledger import Admitted, Call, CallRequest, Limits, Phase, Recorded, Repeat, SessionState
from aioum.core.types import ChannelId
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request

LIMITS = Limits(max_in_flight=3, max_unpaid_calls=3)
NUMBERS = (1, 2)
"""Session 1 is unsigned, session 2 signed."""

numbers = st.sampled_from(NUMBERS)
indexes = st.integers(-1, 6)


class Model:
    """Sessions as dictionaries over the pure functions."""

    def __init__(self) -> None:
        self.states: dict[ChannelId, SessionState] = {}
        self.calls: dict[ChannelId, dict[int, Call]] = {}

    def admit(self, channel_id: ChannelId, wanted: CallRequest) -> Admitted | Repeat:
        state, calls = self._session(channel_id)
        if state.signed:
            existing = calls.get(-1 if wanted.cursor is None else wanted.cursor)
        else:
            existing = next((call for call in calls.values() if call.amount == wanted.amount), None)
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
        self.states[channel_id] = change(state)
        return self.states[channel_id]

    def delete(self, channel_id: ChannelId) -> None:
        if channel_id in self.states:
            if self.states[channel_id].phase is not Phase.FINAL:
                raise Refused("not final", code="session-not-final")
            del self.states[channel_id], self.calls[channel_id]

    def _session(self, channel_id: ChannelId) -> tuple[SessionState, dict[int, Call]]:
        if channel_id not in self.states:
            raise Refused("unknown", code="channel-not-found")
        return self.states[channel_id], self.calls[channel_id]


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

    def open_store(self) -> SqliteStore:
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
        self.runner.run(self.store.open(facts(number), state, NOW_MS))
        self.model.states.setdefault(channel(number), state)
        self.model.calls.setdefault(channel(number), {})

    @rule(number=numbers, amount=st.integers(0, 70), text=st.sampled_from(["a", "b"]), cursor=indexes)
    def admit(self, number: int, amount: int, text: str, cursor: int) -> None:
        self._admit(number, request(amount, text=text, cursor=cursor))

    @rule(number=numbers, text=st.sampled_from(["a", "b"]))
    def admit_the_next_call(self, number: int, text: str) -> None:
        state = self.model.states.get(channel(number))
        if state is not None:
            amount = max(state.accepted + 1, state.spent + state.reserved + PRICE)
            self._admit(number, request(amount, text=text, cursor=state.admitted))

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
    def delete(self, number: int) -> None:
        self.agree(lambda: self.store.delete(channel(number)), lambda: self.model.delete(channel(number)))

    @rule()
    def restart(self) -> None:
        self.runner.run(self.store.close())
        self.store = self.open_store()

    @invariant()
    def both_hold_the_same(self) -> None:
        for number in NUMBERS:
            stored = self.runner.run(self.store.session(channel(number)))
            calls = self.runner.run(self.store.calls(channel(number), 0, 100))
            assert (None if stored is None else stored.state) == self.model.states.get(channel(number))
            assert calls == list(self.model.calls.get(channel(number), {}).values())
        unrecorded = [
            (channel_id, call)
            for channel_id, calls in self.model.calls.items()
            for call in calls.values()
            if not call.recorded
        ]
        assert sorted(self.runner.run(self.store.unrecorded()), key=str) == sorted(unrecorded, key=str)


TestStoreAgainstLedger = StoreAgainstLedger.TestCase
TestStoreAgainstLedger.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
