from typing import Any

import pytest

from aioum.replay.adapter import MAX_PROBLEMS, AdapterFailed, AdapterResult, run_adapter
from aioum.replay.facts import Lane, Profile
from aioum.replay.problems import Problem
from tests.unit.replay.recorded import Run, honest


def answered(answer: Any, run: Run | None = None) -> AdapterResult:
    return run_adapter(lambda artifact: answer, (run or honest()).artifact(), Profile.GAOS)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "trusted",
        {},
        {"ok": 1},
        {"ok": "true"},
        {"ok": True, "problems": "none"},
        {"ok": True, "problems": [1]},
        {"ok": True, "problems": [{"code": "x"}]},
        {"ok": True, "problems": ["p"] * (MAX_PROBLEMS + 1)},
        {"ok": True, "diagnostics": {"code": "x", "text": "y"}},
        {"ok": True, "semantics": []},
        {"ok": True, "facts": []},
        {"ok": True, "facts": {1: 2}},
        {"ok": True, "facts": {"a": {1, 2}}},
        {"ok": True, "replayed": float("nan")},
    ],
)
def test_an_answer_of_another_form_is_no_answer(answer: Any) -> None:
    with pytest.raises(AdapterFailed) as caught:
        answered(answer)
    assert caught.value.code == "adapter-result-invalid"


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError(), SystemExit(0)])
def test_an_adapter_that_raises_or_leaves_gives_no_answer(error: BaseException) -> None:
    def adapter(artifact: Any) -> Any:
        raise error

    with pytest.raises(AdapterFailed) as caught:
        run_adapter(adapter, honest().artifact(), Profile.GAOS)
    assert caught.value.code == "adapter-failed"
    assert caught.value.__cause__ is error


def test_an_interruption_is_no_answer_of_an_adapter() -> None:
    def adapter(artifact: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_adapter(adapter, honest().artifact(), Profile.GAOS)


def test_problems_are_texts_or_have_codes() -> None:
    given = ["it differs", {"code": "other", "text": "so", "where": "level 0"}, Problem("a", "b", "c")]
    found = answered({"ok": False, "problems": given, "diagnostics": ["by the way"]})
    assert [(each.code, each.where) for each in found.problems] == [
        ("replay-inconsistent", "replay"),
        ("other", "level 0"),
        ("a", "c"),
    ]
    assert [each.code for each in found.diagnostics] == ["adapter-diagnostic"]


def test_what_an_adapter_does_not_say_of_commands_and_timeouts_is_unavailable_where_there_are_any() -> None:
    run = Run(window_ticks=3)
    run.time_out()
    run.call()
    assert answered({"ok": True}, run).semantics.lanes == (Lane.UNAVAILABLE, Lane.UNAVAILABLE)
    assert answered({"ok": True, "semantics": {}}).semantics.lanes == (Lane.UNAVAILABLE, Lane.UNAVAILABLE)
    assert answered({"ok": True}, Run()).semantics.lanes == (Lane.NOT_APPLICABLE, Lane.NOT_APPLICABLE)


def test_a_lane_in_no_known_state_has_failed() -> None:
    found = answered({"ok": True, "semantics": {"submissions": "fine", "timeouts": "verified"}})
    assert found.semantics.lanes == (Lane.FAILED, Lane.VERIFIED)
    assert [each.code for each in found.semantics.problems] == ["lane-invalid"]


def test_facts_and_what_the_run_gave_are_passed_on() -> None:
    found = answered({"ok": None, "facts": {"receipts": "verified"}, "replayed": {"totalStars": 1}})
    assert (found.ok, found.facts, found.replayed) == (None, {"receipts": "verified"}, {"totalStars": 1})
