"""Suspect sessions: what they refuse, how they stop to be suspect, what is left of one that is given up."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.errors import Refused
from aioum.core.ledger import (
    Admitted,
    Limits,
    Phase,
    SessionState,
    admit,
    finalize,
    observe_chain,
    record,
    require_turn,
    seal,
    settlement_of,
    statement_of,
)
from aioum.core.suspicion import abandon, clear, reimport, suspect
from aioum.core.types import ZERO_BYTES32
from tests.unit.node.store.samples import PRICE, answer, opened, request

LIMITS = Limits()


def served(calls: int) -> SessionState:
    state = opened(1)
    for index in range(calls):
        step = admit(state, request((index + 1) * PRICE), None, LIMITS)
        assert isinstance(step, Admitted)
        state = record(step.state, step.call, answer(), LIMITS).state
    return state


def refused(step: Callable[[], Any]) -> str:
    with pytest.raises(Refused) as caught:
        step()
    return caught.value.code


@pytest.mark.parametrize(
    "state",
    [
        suspect(served(2)),
        abandon(suspect(served(2))),
        # over on the chain before anybody could tell what the record lacked
        finalize(suspect(served(2))),
    ],
    ids=["suspect", "abandoned", "final"],
)
def test_nothing_is_served_or_said_from_a_record_that_may_lack_something(state: SessionState) -> None:
    step = admit(served(2), request(3 * PRICE), None, LIMITS)
    assert isinstance(step, Admitted)
    recorded = record(step.state, step.call, answer(), LIMITS).call
    assert not state.trusted
    assert refused(lambda: require_turn(state, None)) == "session-suspect"
    assert refused(lambda: admit(state, request(3 * PRICE), None, LIMITS)) == "session-suspect"
    # Neither a retry of what is recorded, nor whoever lost the race to record it.
    assert refused(lambda: admit(state, request(3 * PRICE), step.call, LIMITS)) == "session-suspect"
    assert refused(lambda: record(state, recorded, answer(), LIMITS)) == "session-suspect"
    assert refused(lambda: statement_of(state)) == "session-suspect"


def test_a_suspect_session_settles_nothing_and_an_abandoned_one_settles_for_nothing() -> None:
    state = suspect(seal(served(2), "idle"))
    assert refused(lambda: settlement_of(state)) == "session-suspect"
    settlement = settlement_of(abandon(state))
    assert (settlement.capture, settlement.voucher_amount, settlement.signature) == (0, 0, b"")
    assert (settlement.call_count, settlement.root) == (0, ZERO_BYTES32)


@pytest.mark.parametrize("before", [served(2), seal(served(2), "idle")], ids=["open", "sealed"])
def test_a_session_that_is_cleared_is_what_it_was_before(before: SessionState) -> None:
    assert clear(suspect(before)) == before
    assert suspect(suspect(before)) == suspect(before)
    assert clear(before) == before


def test_suspicion_ends_neither_by_sealing_nor_by_what_the_chain_shows() -> None:
    state = observe_chain(seal(suspect(served(1)), "idle"), deposit=5, close_pending=True)
    assert (state.phase, state.seal_reason, state.close_pending) == (Phase.SUSPECT, None, True)


def test_what_is_over_or_given_up_does_not_become_suspect() -> None:
    over, given_up = finalize(served(1)), abandon(suspect(served(1)))
    assert (suspect(over), suspect(given_up)) == (over, given_up)
    assert over.trusted


def test_only_a_suspect_session_is_given_up_or_gets_calls_back() -> None:
    step = admit(served(0), request(PRICE), None, LIMITS)
    assert isinstance(step, Admitted)
    call = record(step.state, step.call, answer(), LIMITS).call
    for state in (served(0), seal(served(0), "idle"), finalize(served(0))):
        assert refused(lambda state=state: abandon(state)) == "session-not-suspect"  # type: ignore[misc]
        assert refused(lambda state=state: reimport(state, None, call, LIMITS)) == "session-not-suspect"  # type: ignore[misc]


def test_failures_that_come_back_seal_the_session_as_they_did() -> None:
    limits = Limits(max_unpaid_calls=1)
    step = admit(served(0), request(PRICE), None, limits)
    assert isinstance(step, Admitted)
    whole = record(step.state, step.call, answer("no", failed=True), limits)
    back = reimport(suspect(served(0)), None, whole.call, limits)
    assert (back.admitted, back.recorded, back.state.phase) == (True, True, Phase.SUSPECT)
    assert clear(back.state) == whole.state
    assert whole.state.seal_reason == "too-many-unpaid-calls"


def test_a_call_that_is_known_whole_is_left_as_it_is() -> None:
    state = suspect(served(1))
    step = admit(served(0), request(PRICE), None, LIMITS)
    assert isinstance(step, Admitted)
    call = record(step.state, step.call, answer(), LIMITS).call
    again = reimport(state, call, replace(call, amount=9 * PRICE), LIMITS)
    assert (again.state, again.call, again.admitted, again.recorded) == (state, call, False, False)
