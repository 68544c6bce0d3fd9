"""A score from what a session met: every point that is off has its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioum.core.experience import AnsweredCall, Experience, suggest_score

QUICK = AnsweredCall(failed=False, elapsed_ms=100, timeout_ms=10_000)
FAILED = AnsweredCall(failed=True, elapsed_ms=100, timeout_ms=10_000)
UNMEASURED = AnsweredCall(failed=False, elapsed_ms=None, timeout_ms=10_000)


def slow(elapsed_ms: int) -> AnsweredCall:
    return AnsweredCall(failed=False, elapsed_ms=elapsed_ms, timeout_ms=10_000)


@pytest.mark.parametrize(
    ("met", "score", "reasons"),
    [
        (Experience(), 100, []),
        (Experience(answered=[QUICK, UNMEASURED]), 100, []),
        (Experience(answered=[QUICK, FAILED]), 75, [("calls-failed", 25)]),
        (Experience(answered=[FAILED]), 50, [("calls-failed", 50)]),
        (Experience(answered=[slow(5_000)]), 100, []),
        (Experience(answered=[slow(7_500)]), 85, [("answers-slow", 15)]),
        (Experience(answered=[slow(90_000)]), 70, [("answers-slow", 30)]),
        (Experience(answered=[QUICK, UNMEASURED, slow(10_000)]), 85, [("answers-slow", 15)]),
        (Experience(answered=[QUICK] * 3, unanswered=1), 80, [("calls-unanswered", 20)]),
        (Experience(unanswered=2), 20, [("calls-unanswered", 80)]),
        (
            Experience(answered=[QUICK], contradictions=["unanswered-call-anchored"]),
            60,
            [("answer-withheld", 40)],
        ),
        (Experience(answered=[QUICK], provable_lies=1), 0, [("operator-contradicted", 100)]),
        (
            Experience(answered=[QUICK, FAILED], contradictions=["operator-double-signed"]),
            0,
            [("operator-contradicted", 100), ("calls-failed", 25)],
        ),
        (
            Experience(answered=[FAILED, slow(10_000)], unanswered=2),
            20,
            [("calls-unanswered", 40), ("calls-failed", 25), ("answers-slow", 15)],
        ),
    ],
)
def test_each_reason_takes_off_the_points_of_the_table(
    met: Experience, score: int, reasons: list[tuple[str, int]]
) -> None:
    suggested = suggest_score(met)
    assert suggested.score == score
    assert [(reason.code, reason.points) for reason in suggested.reasons] == reasons


calls = st.builds(AnsweredCall, st.booleans(), st.none() | st.integers(0, 10**6), st.integers(1_000, 300_000))


@given(st.lists(calls, max_size=20), st.integers(0, 20), st.integers(0, 2))
def test_a_score_is_always_in_range_and_what_its_reasons_leave_of_it(
    answered: list[AnsweredCall], unanswered: int, lies: int
) -> None:
    suggested = suggest_score(Experience(answered, unanswered, provable_lies=lies))
    assert suggested.score == max(0, 100 - sum(reason.points for reason in suggested.reasons))
    assert all(1 <= reason.points <= 100 and reason.text for reason in suggested.reasons)


@given(st.lists(calls, min_size=1, max_size=10))
def test_another_failed_call_never_raises_the_score(answered: list[AnsweredCall]) -> None:
    worse = [*answered[1:], AnsweredCall(True, answered[0].elapsed_ms, answered[0].timeout_ms)]
    assert suggest_score(Experience(worse)).score <= suggest_score(Experience(answered)).score
