from dataclasses import replace

import pytest

from aioum.chain.decisions import Case, DisputeState
from aioum.chain.model import BlockRef, ChainSession
from aioum.core.types import Address, Bytes32, ChannelId
from aioum_node.disputes import rules
from aioum_node.disputes.book import NO_CASE
from aioum_node.disputes.rules import HoldView

NOW = 5_000_000
WINDOW = 604_800
WORD = Bytes32(b"\x0a" * 32)
ADDRESS = Address(b"\x01" * 20)

SESSION = ChainSession(
    session_id=1,
    channel_id=ChannelId(b"\x01" * 32),
    payer=ADDRESS,
    payee=ADDRESS,
    token=ADDRESS,
    authorized_signer=ADDRESS,
    operator=ADDRESS,
    service_id=1,
    terms_hash=Bytes32(b"\x16" * 32),
    deposit=100,
    settled=70,
    refunded=30,
    opened_at=1,
    close_requested_at=0,
    finalized_at=NOW - 1_000,
    root=Bytes32(b"\x02" * 32),
    call_count=7,
    commit_required=True,
    dispute_window_seconds=WINDOW,
    held=70,
)
CHALLENGED = replace(NO_CASE, answer_by=NOW + 10, challenged_word=WORD)
DISPUTED = replace(NO_CASE, dispute=DisputeState.PENDING, raised_at=NOW - 5, rule_by=NOW + 20)


def step(
    case: Case = NO_CASE,
    newest: ChainSession | None = SESSION,
    final: ChainSession | None = SESSION,
    *,
    now: int = NOW,
) -> rules.Step:
    return rules.next_step(HoldView(BlockRef(9, Bytes32(b"\x09" * 32), now), newest, case, final))


def test_held_money_waits_for_the_end_of_its_window_and_is_released_from_then_on() -> None:
    until = SESSION.finalized_at + WINDOW
    assert step() == rules.Wait("window-open", until)
    assert step(now=until - 1) == rules.Wait("window-open", until)
    assert step(now=until) == rules.Release()


def test_challenge_is_answered_at_once_and_never_after_its_time() -> None:
    assert step(CHALLENGED) == rules.AnswerChallenge(WORD)
    assert step(CHALLENGED, now=NOW + 9) == rules.AnswerChallenge(WORD)
    assert step(CHALLENGED, now=NOW + 10) == rules.Wait("answer-too-late")


def test_challenge_is_answered_before_its_session_is_final_and_after_its_window() -> None:
    assert step(CHALLENGED, final=None) == rules.AnswerChallenge(WORD)
    assert step(CHALLENGED, final=replace(SESSION, finalized_at=0)) == rules.AnswerChallenge(WORD)
    late = replace(SESSION, finalized_at=NOW - WINDOW - 1)
    assert step(CHALLENGED, late, late) == rules.AnswerChallenge(WORD)


def test_challenge_comes_before_the_dispute_that_waits_for_it() -> None:
    both = replace(DISPUTED, rule_by=NOW, answer_by=NOW + 10, challenged_word=WORD)
    assert step(both) == rules.AnswerChallenge(WORD)


def test_dispute_is_waited_for_also_after_the_window_and_lapsed_when_its_time_is_over() -> None:
    late = replace(SESSION, finalized_at=NOW - WINDOW - 1)
    assert step(DISPUTED, late, late) == rules.Wait("dispute-pending", NOW + 20)
    assert step(DISPUTED, now=NOW + 19) == rules.Wait("dispute-pending", NOW + 20)
    assert step(DISPUTED, now=NOW + 20) == rules.Lapse()


@pytest.mark.parametrize("state", [DisputeState.LAPSED, DisputeState.NONE])
def test_nothing_pending_leaves_the_window_alone(state: DisputeState) -> None:
    case = replace(NO_CASE, dispute=state, raised_at=NOW - 9, rule_by=NOW - 1)
    assert step(case) == rules.Wait("window-open", SESSION.finalized_at + WINDOW)


def test_hold_is_over_at_finality_depth_and_not_before() -> None:
    gone = replace(SESSION, held=0, awarded=30)
    assert step(newest=gone, final=SESSION) == rules.Wait("not-deep-enough")
    assert step(newest=gone, final=None) == rules.Wait("not-deep-enough")
    assert step(newest=gone, final=gone) == rules.Over(30)


def test_session_that_captured_nothing_is_over_at_once() -> None:
    nothing = replace(SESSION, settled=0, held=0)
    assert step(newest=nothing, final=nothing) == rules.Over(0)


@pytest.mark.parametrize("newest", [None, replace(SESSION, finalized_at=0)])
def test_nothing_is_sent_where_the_endpoint_does_not_show_the_finalization(
    newest: ChainSession | None,
) -> None:
    assert step(CHALLENGED, newest, newest) == rules.Wait("finalization-missing")
