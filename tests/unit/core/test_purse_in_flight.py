"""The client's accounting with several calls open: any order of answers, and never more than is reserved."""

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
    accept_answer,
    accept_settlement,
    accept_statement,
    adopt_answer,
    begin_call,
    missed_call,
    open_call,
)
from aioum.core.seats import Seats
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.keys import SubmissionKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.transcript import Entry, leaf_hash, transcript_root
from aioum.core.types import Bytes32, ChannelId

CHANNEL = ChannelId(b"\x01" * 32)
FAILED = problem_bytes(500, "tool-failed", "It failed")
KEY = SubmissionKey(b"\x21" * 32)
ROSTER = Roster((RosterEntry("client", KEY.public_key),))
MAX_OPEN = 5


def receipt_for(call: Outstanding, response: bytes = b"ok") -> CallReceipt:
    leaf = Bytes32(leaf_hash(call.index, call.request, response, call.tool_id.encode()))
    return CallReceipt(CHANNEL, call.index, leaf, 0 if response == FAILED else call.price)


def opened(count: int, deposit: int = 1_000) -> tuple[PurseState, list[Outstanding]]:
    state, calls = PurseState(CHANNEL, deposit=deposit, signed=True), []
    for _ in range(count):
        state, call = begin_call(state, "echo", b"{}", 100, MAX_OPEN)
        calls.append(call)
    return state, calls


def answer(state: PurseState, call: Outstanding, response: bytes = b"ok") -> PurseState:
    return accept_answer(state, call, response, receipt_for(call, response))


def root_of(calls: list[Outstanding]) -> Bytes32:
    return Bytes32(transcript_root([Entry(call.index, "echo", "{}", "ok") for call in calls]))


def test_each_open_call_is_funded_beside_all_others() -> None:
    state, calls = opened(3)
    assert [(call.index, call.amount) for call in calls] == [(0, 100), (1, 200), (2, 300)]
    assert (state.next_index, state.made, state.outstanding) == (0, 3, calls[0])
    # What failed is there for the next.
    state = answer(state, calls[1], FAILED)
    _, fourth = begin_call(state, "echo", b"{}", 100, MAX_OPEN)
    assert (fourth.index, fourth.amount) == (3, 300)


def test_an_unsigned_session_has_one_call_open_whatever_is_allowed() -> None:
    state, _ = begin_call(PurseState(CHANNEL, deposit=1_000), "echo", b"{}", 100, MAX_OPEN)
    with pytest.raises(PolicyRefused) as caught:
        begin_call(state, "echo", b"{}", 100, MAX_OPEN)
    assert caught.value.code == "call-outstanding"


def test_more_calls_than_allowed_or_than_the_deposit_covers_are_not_begun() -> None:
    state, _ = opened(5)
    with pytest.raises(PolicyRefused) as caught:
        begin_call(state, "echo", b"{}", 1, MAX_OPEN)
    assert caught.value.code == "call-outstanding"
    state, _ = opened(2, deposit=250)
    with pytest.raises(PolicyRefused) as refused:
        begin_call(state, "echo", b"{}", 100, MAX_OPEN)
    assert refused.value.code == "deposit-exhausted"


def test_answers_join_the_root_once_no_earlier_one_is_missing() -> None:
    state, calls = opened(4)
    state = answer(answer(state, calls[3]), calls[1])
    assert (state.next_index, state.root, state.spent, state.prefix_spent) == (0, bytes(32), 200, 0)
    assert [item.index for item in state.ahead] == [1, 3]
    state = answer(state, calls[0])
    assert (state.next_index, state.root, state.prefix_spent) == (2, root_of(calls[:2]), 200)
    state = answer(state, calls[2])
    assert (state.next_index, state.root, state.ahead, state.open) == (4, root_of(calls), (), ())


def test_a_statement_is_due_for_answered_and_open_calls_together() -> None:
    state = PurseState(CHANNEL, deposit=10_000, signed=True)
    for _ in range(STATEMENT_INTERVAL_CALLS):
        assert not state.statement_due
        state, _ = begin_call(state, "echo", b"{}", 1, 99)
    assert state.statement_due
    with pytest.raises(PolicyRefused) as caught:
        begin_call(state, "echo", b"{}", 1, 99)
    assert caught.value.code == "statement-due"


def test_a_statement_is_about_the_calls_before_the_first_open_one() -> None:
    state, calls = opened(3)
    state = answer(answer(state, calls[0]), calls[2])
    right = Statement(CHANNEL, 1, root_of(calls[:1]), 100)
    assert accept_statement(state, right).since_statement == 1
    with pytest.raises(Divergence) as caught:
        accept_statement(state, replace(right, spent=200))
    assert caught.value.code == "statement-spent-mismatch"


def test_a_call_decided_before_an_answer_came_holds_after_it() -> None:
    state, calls = opened(2)
    _, third = begin_call(state, "echo", b"{}", 100, MAX_OPEN)
    for response in (b"ok", FAILED):
        after = open_call(answer(state, calls[0], response), third)
        assert after.highest >= after.spent + sum(call.price for call in after.open)


def test_an_open_call_is_adopted_at_its_own_index_and_nothing_is_missed_beside_it() -> None:
    state, calls = opened(2)
    adopted = adopt_answer(state, calls[1], b"ok", receipt_for(calls[1]))
    assert (adopted.open, adopted.next_index) == ((calls[0],), 0)
    for step in (
        lambda: missed_call(state, "echo", b"{}", 100),
        lambda: adopt_answer(state, replace(calls[0], request=b"[]"), b"ok", receipt_for(calls[0])),
    ):
        with pytest.raises(PolicyRefused) as caught:
            step()
        assert caught.value.code == "call-outstanding"


@pytest.mark.parametrize(
    ("call_count", "code"),
    [
        (1, "anchored-root-mismatch"), (2, "anchored-root-mismatch"), (3, "unanswered-call-anchored"),
        (4, "unanswered-call-anchored"), (5, "anchored-root-mismatch"),
    ],
)  # fmt: skip
def test_an_end_without_answered_calls_or_with_unanswered_ones_is_told_apart(
    call_count: int, code: str
) -> None:
    # 0 and 2 are answered, 1 and 3 are not.
    state, calls = opened(4)
    state = answer(answer(state, calls[0]), calls[2])
    root = root_of(calls[:call_count])
    with pytest.raises(Divergence) as caught:
        accept_settlement(state, root=root, call_count=call_count, settled=100, refunded=900, deposit=1_000)
    assert caught.value.code == code


def test_an_end_before_the_unanswered_calls_is_as_our_record_has_it() -> None:
    state, calls = opened(3)
    state = answer(state, calls[0])
    after = accept_settlement(state, root=state.root, call_count=1, settled=100, refunded=900, deposit=1_000)
    assert after.stopped == "session-closed"


def operator_call(call: Outstanding, operator: SessionState) -> CallRequest:
    head = operator.seats.head("client")
    assert head is not None
    envelope = Envelope.sign(
        KEY, CHANNEL, call.request, seat="client", submission_id=f"id-{call.index}", cursor=call.index,
        client_time=1, prev_head=head,
    )  # fmt: skip
    return CallRequest(call.tool_id, call.request, call.price, call.amount, b"s", envelope)


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "admit", "run", "learn"]), st.integers(0, 99), st.booleans()),
        max_size=80,
    )
)
def test_whatever_order_calls_are_sent_run_and_answered_in_both_sides_end_alike(
    steps: list[tuple[str, int, bool]],
) -> None:
    deposit = 2_000
    purse = PurseState(CHANNEL, deposit=deposit, signed=True)
    operator = SessionState(CHANNEL, deposit=deposit, signed=True, seats=Seats.at_genesis(CHANNEL, ROSTER))
    limits = Limits(max_in_flight=MAX_OPEN, max_unpaid_calls=1_000)
    sent: list[Outstanding] = []
    running: list[Call] = []
    recorded: list[Call] = []
    by_index: dict[int, Outstanding] = {}

    def step(kind: str, number: int, good: bool) -> None:
        nonlocal purse, operator
        if kind == "begin":
            if purse.statement_due and not purse.open:
                purse = accept_statement(purse, statement_of(operator))
            try:
                purse, call = begin_call(purse, "echo", b"{}", number, MAX_OPEN)
            except PolicyRefused:
                return
            sent.append(call)
            by_index[call.index] = call
        elif kind == "admit" and sent:
            # Whatever is under way on either side, the voucher covers it.
            admitted = admit(operator, operator_call(sent.pop(0), operator), None, limits)
            assert isinstance(admitted, Admitted)
            operator = admitted.state
            running.append(admitted.call)
        elif kind == "run" and running:
            ran = running.pop(number % len(running))
            given = (
                Answer(b"ok", 200, "text/plain", failed=False)
                if good
                else Answer(FAILED, 500, PROBLEM_CONTENT_TYPE, failed=True)
            )
            after = record(operator, ran, given, limits)
            operator = after.state
            recorded.append(after.call)
        elif kind == "learn" and recorded:
            done = recorded.pop(number % len(recorded))
            assert done.answer is not None
            purse = accept_answer(
                purse, by_index[done.index], done.answer.response, receipt_of(CHANNEL, done)
            )
        assert purse.spent <= operator.spent + operator.reserved
        assert operator.spent <= operator.accepted <= purse.highest <= deposit

    for item in steps:
        step(*item)
    for kind in ("admit", "run", "learn"):
        for _ in range(MAX_OPEN):
            step(kind, 0, True)
    assert (purse.root, purse.spent, purse.next_index) == (
        settlement_of(seal(operator, "closed")).root, operator.spent, operator.admitted,
    )  # fmt: skip
    assert (purse.open, purse.ahead) == ((), ())
