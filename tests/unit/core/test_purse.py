"""The client's accounting: what it signs next, what it believes, when it stops."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.errors import Divergence, PolicyRefused
from aioum.core.ledger import (
    Admitted,
    Answer,
    Call,
    CallRequest,
    Limits,
    SessionState,
    admit,
    receipt_of,
    record,
    seal,
    settlement_of,
    statement_of,
)
from aioum.core.payment import CallReceipt, Statement
from aioum.core.problem import PROBLEM_CONTENT_TYPE, problem_bytes
from aioum.core.purse import (
    STATEMENT_INTERVAL_CALLS,
    Outstanding,
    PurseState,
    abandon_call,
    accept_answer,
    accept_settlement,
    accept_statement,
    adopt_answer,
    begin_call,
    missed_call,
    observe_deposit,
    stop_paying,
)
from aioum.core.transcript import Entry, leaf_hash, transcript_root
from aioum.core.types import Bytes32, ChannelId

CHANNEL = ChannelId(b"\x01" * 32)
OTHER = Bytes32(b"\x02" * 32)
FAILED = problem_bytes(500, "tool-failed", "It failed")


def receipt_for(call: Outstanding, response: bytes, charge: int) -> CallReceipt:
    leaf = Bytes32(leaf_hash(call.index, call.request, response, call.tool_id.encode()))
    return CallReceipt(CHANNEL, call.index, leaf, charge)


def answered(state: PurseState, price: int = 100, response: bytes = b"ok") -> PurseState:
    state, call = begin_call(state, "echo", b"{}", price)
    return accept_answer(state, call, response, receipt_for(call, response, price))


def test_each_call_is_signed_for_what_is_spent_and_its_price() -> None:
    state, first = begin_call(PurseState(CHANNEL, deposit=1_000), "echo", b"{}", 100)
    assert (first.index, first.amount) == (0, 100)
    state = accept_answer(state, first, b"ok", receipt_for(first, b"ok", 100))
    _, second = begin_call(state, "echo", b"{}", 30)
    assert (second.index, second.amount) == (1, 130)


def test_a_failed_call_costs_nothing_and_the_next_signs_at_least_one_more() -> None:
    state, call = begin_call(PurseState(CHANNEL, deposit=1_000), "echo", b"{}", 100)
    state = accept_answer(state, call, FAILED, receipt_for(call, FAILED, 0))
    assert (state.spent, state.next_index) == (0, 1)
    _, retry = begin_call(state, "echo", b"{}", 100)
    assert retry.amount == 101


def test_a_free_answer_is_accepted() -> None:
    state, call = begin_call(PurseState(CHANNEL, deposit=1_000), "echo", b"{}", 100)
    assert accept_answer(state, call, b"ok", receipt_for(call, b"ok", 0)).spent == 0


def test_a_signed_call_after_a_failed_one_goes_with_the_same_amount() -> None:
    state, call = begin_call(PurseState(CHANNEL, deposit=1_000, signed=True), "echo", b"{}", 100)
    state = accept_answer(state, call, FAILED, receipt_for(call, FAILED, 0))
    state, again = begin_call(state, "echo", b"{}", 100)
    assert (again.index, again.amount) == (1, 100)
    state = accept_answer(state, again, b"ok", receipt_for(again, b"ok", 100))
    state, cheaper = begin_call(state, "echo", b"{}", 0)
    assert (cheaper.amount, state.highest) == (100, 100)


def test_a_signed_call_is_never_given_up() -> None:
    state, _ = begin_call(PurseState(CHANNEL, deposit=1_000, signed=True), "echo", b"{}", 100)
    with pytest.raises(PolicyRefused) as caught:
        abandon_call(state)
    assert caught.value.code == "signed-call-outstanding"


def test_the_answer_of_a_signed_call_that_was_refused_is_taken_over_and_that_of_another_is_not() -> None:
    state, call = begin_call(PurseState(CHANNEL, deposit=1_000, signed=True), "echo", b"{}", 100)
    adopted = adopt_answer(state, call, b"ok", receipt_for(call, b"ok", 100))
    assert (adopted.spent, adopted.outstanding) == (100, None)
    other = replace(call, request=b"[]")
    with pytest.raises(PolicyRefused) as caught:
        adopt_answer(state, other, b"ok", receipt_for(other, b"ok", 100))
    assert caught.value.code == "call-outstanding"


def test_a_call_that_another_copy_of_the_record_made_gives_the_state_that_the_other_has() -> None:
    state = PurseState(CHANNEL, deposit=1_000, signed=True, spend_limit=1)
    free = replace(state, spend_limit=None)
    for response, charge in ((b"ok", 100), (FAILED, 0), (b"ok", 70)):
        free, made = begin_call(free, "echo", b"{}", 100 if charge != 70 else 70)
        state, missed = missed_call(state, "echo", b"{}", made.price)
        assert missed == made
        free = accept_answer(free, made, response, receipt_for(made, response, charge))
        state = adopt_answer(state, missed, response, receipt_for(made, response, charge))
    assert replace(state, spend_limit=None) == free
    state, _ = missed_call(state, "echo", b"{}", 1)
    with pytest.raises(PolicyRefused) as caught:
        missed_call(state, "echo", b"{}", 1)
    assert caught.value.code == "call-outstanding"


def test_one_call_at_a_time() -> None:
    state, _ = begin_call(PurseState(CHANNEL, deposit=1_000), "echo", b"{}", 100)
    with pytest.raises(PolicyRefused) as caught:
        begin_call(state, "echo", b"{}", 100)
    assert caught.value.code == "call-outstanding"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (PurseState(CHANNEL, deposit=99), "deposit-exhausted"),
        (PurseState(CHANNEL, deposit=1_000, spend_limit=99), "spend-limit-exceeded"),
        (PurseState(CHANNEL, deposit=1_000, stopped="divergence"), "paying-stopped"),
        (PurseState(CHANNEL, deposit=1_000, since_statement=STATEMENT_INTERVAL_CALLS), "statement-due"),
    ],
)
def test_nothing_is_signed_beyond_the_limits(state: PurseState, code: str) -> None:
    with pytest.raises(PolicyRefused) as caught:
        begin_call(state, "echo", b"{}", 100)
    assert caught.value.code == code


def test_a_raised_deposit_lets_a_session_go_on() -> None:
    state = observe_deposit(PurseState(CHANNEL, deposit=99), 100)
    assert begin_call(state, "echo", b"{}", 100)[1].amount == 100


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"index": 1}, "receipt-index-mismatch"),
        ({"channel_id": ChannelId(bytes(32))}, "receipt-index-mismatch"),
        ({"leaf": OTHER}, "receipt-leaf-mismatch"),
        ({"charge": 101}, "receipt-charge-mismatch"),
        ({"charge": 50}, "receipt-charge-mismatch"),
    ],
)
def test_a_receipt_that_contradicts_our_record_is_a_divergence(change: dict[str, object], code: str) -> None:
    state, call = begin_call(PurseState(CHANNEL, deposit=1_000), "echo", b"{}", 100)
    with pytest.raises(Divergence) as caught:
        accept_answer(state, call, b"ok", replace(receipt_for(call, b"ok", 100), **change))  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_failed_call_that_is_charged_is_a_divergence() -> None:
    state, call = begin_call(PurseState(CHANNEL, deposit=1_000), "echo", b"{}", 100)
    with pytest.raises(Divergence) as caught:
        accept_answer(state, call, FAILED, receipt_for(call, FAILED, 100))
    assert caught.value.code == "receipt-charge-mismatch"


def test_statements_agree_with_our_record_or_are_a_divergence() -> None:
    state = answered(PurseState(CHANNEL, deposit=1_000))
    right = Statement(CHANNEL, 1, state.root, 100)
    assert accept_statement(state, right).since_statement == 0
    for change, code in (
        ({"call_count": 2}, "statement-count-mismatch"),
        ({"root": OTHER}, "statement-root-mismatch"),
        ({"spent": 99}, "statement-spent-mismatch"),
    ):
        with pytest.raises(Divergence) as caught:
            accept_statement(state, replace(right, **change))
        assert caught.value.code == code


def test_an_abandoned_call_keeps_its_amount_signed() -> None:
    state, _ = begin_call(PurseState(CHANNEL, deposit=1_000), "echo", b"{}", 100)
    state = abandon_call(state)
    _, call = begin_call(state, "echo", b"{}", 10)
    assert (call.index, call.amount) == (0, 101)


def test_an_abandoned_call_that_was_recorded_after_all_becomes_the_next_of_our_record() -> None:
    state = answered(PurseState(CHANNEL, deposit=1_000))
    state, call = begin_call(state, "echo", b"{}", 100)
    state = answered(abandon_call(state))
    moved = replace(call, index=2)
    adopted = adopt_answer(state, call, b"late", receipt_for(moved, b"late", 100))
    assert (adopted.spent, adopted.next_index) == (300, 3)
    busy, _ = begin_call(state, "echo", b"{}", 100)
    with pytest.raises(PolicyRefused) as caught:
        adopt_answer(busy, call, b"late", receipt_for(moved, b"late", 100))
    assert caught.value.code == "call-outstanding"


def test_the_first_reason_to_stop_stays() -> None:
    state = stop_paying(PurseState(CHANNEL, deposit=1), Divergence("first", code="first"))
    assert stop_paying(state, Divergence("second", code="second")).stopped == "first"


def test_a_settlement_for_what_was_spent_is_accepted_and_ends_paying() -> None:
    state = answered(PurseState(CHANNEL, deposit=1_000))
    done = accept_settlement(state, root=state.root, call_count=1, settled=100, refunded=900, deposit=1_000)
    assert done.stopped == "session-closed"
    withdrawn = accept_settlement(
        state, root=Bytes32(bytes(32)), call_count=0, settled=0, refunded=1_000, deposit=1_000
    )
    assert withdrawn.stopped == "session-closed"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"root": OTHER}, "anchored-root-mismatch"),
        ({"call_count": 2}, "anchored-root-mismatch"),
        ({"settled": 101, "refunded": 899}, "captured-above-spent"),
        ({"refunded": 899}, "refund-mismatch"),
    ],
)
def test_a_settlement_that_contradicts_our_record_is_a_divergence(
    change: dict[str, object], code: str
) -> None:
    state = answered(PurseState(CHANNEL, deposit=1_000))
    right = {"root": state.root, "call_count": 1, "settled": 100, "refunded": 900, "deposit": 1_000}
    with pytest.raises(Divergence) as caught:
        accept_settlement(state, **(right | change))  # type: ignore[arg-type]
    assert caught.value.code == code


def test_an_anchored_call_whose_answer_never_came_is_named_as_such() -> None:
    state, _ = begin_call(answered(PurseState(CHANNEL, deposit=1_000)), "echo", b"{}", 100)
    with pytest.raises(Divergence) as caught:
        accept_settlement(state, root=OTHER, call_count=2, settled=200, refunded=800, deposit=1_000)
    assert caught.value.code == "unanswered-call-anchored"


def serve(
    operator: SessionState, known: dict[int, Call], call: Outstanding, *, fails: bool
) -> tuple[SessionState, Call]:
    request = CallRequest(call.tool_id, call.request, call.price, call.amount, b"")
    step = admit(operator, request, known.get(call.amount), Limits(max_unpaid_calls=10**6))
    if not isinstance(step, Admitted):
        return operator, step.call
    answer = (
        Answer(FAILED, 500, PROBLEM_CONTENT_TYPE, failed=True)
        if fails
        else Answer(str(call.index).encode(), 200, "text/plain", failed=False)
    )
    recorded = record(step.state, step.call, answer, Limits(max_unpaid_calls=10**6))
    known[call.amount] = recorded.call
    return recorded.state, recorded.call


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans(), st.integers(1, 3)), max_size=40))
def test_purse_and_ledger_agree_whatever_fails_or_is_repeated(steps: list[tuple[int, bool, int]]) -> None:
    purse = PurseState(CHANNEL, deposit=10_000)
    operator = SessionState(CHANNEL, deposit=10_000)
    known: dict[int, Call] = {}
    entries: list[Entry] = []
    for price, fails, repeats in steps:
        if purse.statement_due:
            purse = accept_statement(purse, statement_of(operator))
        purse, call = begin_call(purse, "echo", b"{}", price)
        for _ in range(repeats):
            operator, stored = serve(operator, known, call, fails=fails)
        assert stored.answer is not None
        purse = accept_answer(purse, call, stored.answer.response, receipt_of(CHANNEL, stored))
        entries.append(Entry(call.index, "echo", "{}", stored.answer.response.decode()))
    assert purse.root == transcript_root(entries)
    assert (purse.spent, purse.frontier) == (operator.spent, operator.frontier)
    settlement = settlement_of(seal(operator, "closed"))
    accept_settlement(
        purse,
        root=settlement.root,
        call_count=settlement.call_count,
        settled=settlement.capture,
        refunded=10_000 - settlement.capture,
        deposit=10_000,
    )
