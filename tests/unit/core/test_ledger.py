"""The operator's accounting: admission, recording, sealing (PROTOCOL 3.1, 3.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aioum.core.errors import AioumError
from aioum.core.ledger import (
    Admitted,
    Answer,
    Call,
    CallRequest,
    Limits,
    Phase,
    Repeat,
    SessionState,
    admit,
    finalize,
    observe_chain,
    receipt_of,
    record,
    seal,
    settlement_of,
    statement_of,
)
from aioum.core.problem import problem_bytes
from aioum.core.transcript import Entry, transcript_root
from aioum.core.types import ChannelId

CHANNEL = ChannelId(b"\x11" * 32)
LIMITS = Limits(max_in_flight=4, max_unpaid_calls=3)
OPEN = SessionState(CHANNEL, deposit=1_000)
SIGNED = replace(OPEN, signed=True)
OK = Answer(b"fine", 200, "text/plain", failed=False)
FAILED = Answer(problem_bytes(500, "tool-failed", "no"), 500, "application/problem+json", failed=True)


def _request(amount: int, *, text: str = "a", price: int = 100, cursor: int | None = None) -> CallRequest:
    return CallRequest("echo", f'{{"t":"{text}"}}'.encode(), price, amount, b"sig%d" % amount, cursor)


def _admitted(
    state: SessionState, request: CallRequest, existing: Call | None = None
) -> tuple[SessionState, Call]:
    result = admit(state, request, existing, LIMITS)
    assert isinstance(result, Admitted)
    return result.state, result.call


def _refused(state: SessionState, request: CallRequest, existing: Call | None = None) -> AioumError:
    with pytest.raises(AioumError) as caught:
        admit(state, request, existing, LIMITS)
    return caught.value


def test_a_paid_call_is_admitted_recorded_and_charged_once() -> None:
    state, call = _admitted(OPEN, _request(100))
    assert (state.accepted, state.reserved, state.spent, state.admitted) == (100, 100, 0, 1)
    done = record(state, call, OK, LIMITS)
    assert done.won
    assert (done.state.spent, done.state.reserved, done.call.charge) == (100, 0, 100)
    again = record(done.state, done.call, FAILED, LIMITS)
    assert not again.won
    assert again.call == done.call
    assert again.state == done.state


def test_a_failed_call_is_recorded_and_not_charged_and_does_not_wedge_the_session() -> None:
    state, call = _admitted(OPEN, _request(100))
    state = record(state, call, FAILED, LIMITS).state
    assert (state.spent, state.failures, state.frontier.size) == (0, 1, 1)
    state, call = _admitted(state, _request(101, text="b"))
    assert record(state, call, OK, LIMITS).state.spent == 100


def test_the_same_amount_and_request_is_a_retry_even_after_sealing() -> None:
    state, call = _admitted(OPEN, _request(100))
    for phase in (state, seal(state, "test"), finalize(state)):
        assert admit(phase, _request(100), call, LIMITS) == Repeat(call)


def test_the_same_amount_with_another_request_is_a_conflict() -> None:
    state, call = _admitted(OPEN, _request(100))
    assert _refused(state, _request(100, text="b"), call).code == "request-conflict"


def test_a_voucher_above_the_deposit_is_refused_and_the_last_good_one_still_settles() -> None:
    state, call = _admitted(OPEN, _request(100))
    state = record(state, call, OK, LIMITS).state
    assert _refused(state, _request(1_001)).code == "amount-exceeds-deposit"
    settlement = settlement_of(seal(state, "test"))
    assert (settlement.voucher_amount, settlement.capture, settlement.signature) == (100, 100, b"sig100")


def test_an_equal_or_lower_voucher_buys_no_new_call() -> None:
    state, call = _admitted(OPEN, _request(100))
    state = record(state, call, OK, LIMITS).state
    error = _refused(state, _request(99, text="b", price=0))
    assert error.code == "amount-not-increasing"
    assert error.details["acceptedCumulative"] == "100"


def test_a_voucher_that_does_not_cover_the_price_is_refused() -> None:
    error = _refused(OPEN, _request(99))
    assert error.code == "payment-insufficient"
    assert error.details["requiredCumulative"] == "100"


def test_an_unsigned_session_has_one_call_in_flight() -> None:
    state, _ = _admitted(OPEN, _request(100))
    assert _refused(state, _request(300, text="b")).code == "too-many-in-flight"


def test_a_signed_session_admits_in_index_order_up_to_its_limit() -> None:
    state = SIGNED
    assert _refused(state, _request(100, cursor=1)).details == {"expectedIndex": 0}
    for index in range(4):
        state, _ = _admitted(state, _request(100 * (index + 1), cursor=index))
    assert _refused(state, _request(500, cursor=4)).code == "too-many-in-flight"
    assert _refused(state, _request(500, cursor=5)).code == "cursor-out-of-order"


def test_a_signed_session_may_repeat_the_amount_after_a_failure() -> None:
    state, call = _admitted(SIGNED, _request(100, cursor=0))
    state = record(state, call, FAILED, LIMITS).state
    state, _ = _admitted(state, _request(100, cursor=1))
    assert (state.accepted, state.reserved) == (100, 100)


def test_another_request_at_an_admitted_position_is_a_conflict() -> None:
    state, call = _admitted(SIGNED, _request(100, cursor=0))
    assert _refused(state, _request(100, text="b", cursor=0), call).code == "cursor-conflict"


def test_calls_recorded_out_of_order_join_the_root_over_the_contiguous_prefix() -> None:
    state = SIGNED
    calls = []
    for index in range(3):
        state, call = _admitted(state, _request(100 * (index + 1), text=str(index), cursor=index))
        calls.append(call)
    state = record(state, calls[2], OK, LIMITS).state
    state = record(state, calls[1], FAILED, LIMITS).state
    assert (state.frontier.size, state.spent, state.prefix_spent, state.in_flight) == (0, 100, 0, 1)
    state = record(state, calls[0], OK, LIMITS).state
    answers = [OK, FAILED, OK]
    entries = [Entry(i, "echo", calls[i].request.decode(), answers[i].response.decode()) for i in range(3)]
    statement = statement_of(state)
    assert (statement.call_count, statement.root, statement.spent) == (3, transcript_root(entries), 200)
    assert state.ahead == ()


def test_nothing_is_admitted_once_sealed_finalized_or_closing() -> None:
    assert _refused(seal(OPEN, "idle"), _request(100)).code == "session-sealed"
    assert _refused(finalize(OPEN), _request(100)).code == "session-finalized"
    closing = observe_chain(OPEN, deposit=1_000, close_pending=True)
    assert _refused(closing, _request(100)).code == "session-close-pending"


def test_sealing_is_never_undone_and_keeps_its_first_reason() -> None:
    sealed = seal(OPEN, "idle")
    assert seal(sealed, "client") == sealed
    assert seal(finalize(sealed), "client").phase is Phase.FINAL


def test_too_many_failures_seal_the_session() -> None:
    state = OPEN
    for number in range(3):
        state, call = _admitted(state, _request(100 + number, text=str(number)))
        state = record(state, call, FAILED, LIMITS).state
    assert (state.phase, state.seal_reason) == (Phase.SEALED, "too-many-unpaid-calls")


def test_an_open_or_undrained_session_has_no_settlement() -> None:
    state, _ = _admitted(OPEN, _request(100))
    with pytest.raises(AioumError) as open_session:
        settlement_of(state)
    assert open_session.value.code == "session-not-sealed"
    with pytest.raises(AioumError) as undrained:
        settlement_of(seal(state, "test"))
    assert undrained.value.code == "session-not-drained"


def test_a_session_without_charges_settles_with_no_voucher() -> None:
    empty = settlement_of(seal(OPEN, "idle"))
    assert (empty.call_count, empty.root, empty.capture, empty.signature) == (0, bytes(32), 0, b"")
    state, call = _admitted(OPEN, _request(100))
    failed = settlement_of(seal(record(state, call, FAILED, LIMITS).state, "idle"))
    assert (failed.call_count, failed.voucher_amount, failed.capture, failed.signature) == (1, 0, 0, b"")


def test_words_are_derived_only_from_recorded_state() -> None:
    state, call = _admitted(OPEN, _request(100))
    with pytest.raises(AioumError) as receipt:
        receipt_of(CHANNEL, call)
    assert receipt.value.code == "call-not-recorded"
    with pytest.raises(AioumError) as statement:
        statement_of(state)
    assert statement.value.code == "nothing-recorded"
    done = record(state, call, OK, LIMITS)
    assert receipt_of(CHANNEL, done.call).charge == 100
