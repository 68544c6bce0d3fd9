"""The operator's accounting: admission, recording, sealing (PROTOCOL 3.1, 3.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
from aioum.core.seats import NO_SEATS, Seats
from aioum.core.submission.framing import encode_base64
from aioum.core.transcript import Entry, transcript_root
from aioum.core.types import ChannelId
from tests.pens import ROSTER, Pen

CHANNEL = ChannelId(b"\x11" * 32)
LIMITS = Limits(max_in_flight=4, max_unpaid_calls=3)
OPEN = SessionState(CHANNEL, deposit=1_000)
SIGNED = replace(OPEN, signed=True, seats=Seats.at_genesis(CHANNEL, ROSTER))
OK = Answer(b"fine", 200, "text/plain", failed=False)
FAILED = Answer(problem_bytes(500, "tool-failed", "no"), 500, "application/problem+json", failed=True)


def _request(amount: int, *, text: str = "a", price: int = 100) -> CallRequest:
    return CallRequest("echo", f'{{"t":"{text}"}}'.encode(), price, amount, b"sig%d" % amount)


def _signed(pen: Pen, cursor: int, amount: int, *, text: str = "a", **changes: Any) -> CallRequest:
    request = _request(amount, text=text)
    return replace(request, envelope=pen.draft(request.request, cursor, **changes))


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


def _next(state: SessionState, pen: Pen, amount: int, text: str = "a") -> tuple[SessionState, Call]:
    request = _signed(pen, state.admitted, amount, text=text)
    after = _admitted(state, request)
    assert request.envelope is not None
    pen.head = pen.after(request.envelope, request.request)
    return after


def test_a_signed_session_admits_in_index_order_up_to_its_limit() -> None:
    state, pen = SIGNED, Pen(CHANNEL)
    for _ in range(4):
        state, _ = _next(state, pen, 400)
    assert _refused(state, _signed(pen, 4, 500)).code == "too-many-in-flight"
    assert _refused(state, _signed(pen, 5, 500)).code == "cursor-out-of-order"


def test_calls_that_were_overtaken_hold_the_session_up_only_when_many_wait_for_them() -> None:
    limits, state, pen = Limits(max_in_flight=4, max_ahead=3), SIGNED, Pen(CHANNEL)
    state, first = _next(state, pen, 900)
    for _ in range(3):
        assert len(state.ahead) < limits.max_ahead
        state, call = _next(state, pen, 900)
        state = record(state, call, OK, limits).state
    with pytest.raises(AioumError) as caught:
        admit(state, _signed(pen, 4, 900), None, limits)
    assert (caught.value.code, state.in_flight) == ("too-many-in-flight", 1)
    state = record(state, first, OK, limits).state
    assert isinstance(admit(state, _signed(pen, 4, 900), None, limits), Admitted)


def test_a_seat_that_is_out_of_turn_hears_index_and_head_that_were_expected() -> None:
    genesis = Pen(CHANNEL).head
    expected = {"expectedIndex": 0, "expectedHead": encode_base64(genesis)}
    early = _refused(SIGNED, _signed(Pen(CHANNEL), 1, 100))
    assert (early.code, early.details) == ("cursor-out-of-order", expected)
    elsewhere = _refused(SIGNED, _signed(Pen(CHANNEL), 0, 100, prev_head=bytes(32)))
    assert (elsewhere.code, elsewhere.details) == ("head-mismatch", expected)
    assert _refused(SIGNED, _signed(Pen(CHANNEL), 0, 100, seat="auditor")).code == "seat-unknown"


def test_an_admitted_call_moves_the_head_of_its_seat_alone() -> None:
    pen, other = Pen(CHANNEL), Pen(CHANNEL, "researcher")
    state, call = _next(SIGNED, pen, 100)
    assert call.envelope is not None
    assert (state.seats.head("client"), state.seats.head("researcher")) == (pen.head, other.head)
    assert _refused(OPEN, _signed(pen, 0, 100)).code == "session-unsigned"
    assert _refused(SIGNED, _request(100)).code == "signature-required"
    assert _refused(replace(SIGNED, seats=NO_SEATS), _signed(pen, 0, 100)).code == "roster-required"


def test_a_signed_session_may_repeat_the_amount_after_a_failure() -> None:
    pen = Pen(CHANNEL)
    state, call = _next(SIGNED, pen, 100)
    state = record(state, call, FAILED, LIMITS).state
    state, _ = _next(state, pen, 100)
    assert (state.accepted, state.reserved) == (100, 100)


def test_the_same_submission_is_a_retry_and_another_under_its_names_a_conflict() -> None:
    pen = Pen(CHANNEL)
    first = _signed(pen, 0, 100)
    state, call = _admitted(SIGNED, first)
    assert admit(seal(state, "test"), first, call, LIMITS) == Repeat(call)
    assert first.envelope is not None
    signed_again = replace(first, envelope=replace(first.envelope, signature=b"\x01" * 64), amount=7)
    assert admit(state, signed_again, call, LIMITS) == Repeat(call)
    assert _refused(state, _signed(pen, 0, 100, text="b"), call).code == "submission-conflict"
    later = _signed(pen, 0, 100, client_time=1_800_000_000_001)
    assert _refused(state, later, call).code == "submission-conflict"


def test_calls_recorded_out_of_order_join_the_root_over_the_contiguous_prefix() -> None:
    state, pen = SIGNED, Pen(CHANNEL)
    calls = []
    for index in range(3):
        state, call = _next(state, pen, 100 * (index + 1), str(index))
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
