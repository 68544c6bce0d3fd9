from typing import Any

import pytest

from aioum.replay.windows import check_windows
from tests.unit.replay.recorded import ACTION, Run, amount, honest


def problems(run: Run) -> list[str]:
    return [problem.code for problem in check_windows(run.artifact())]


def test_honest_runs_of_every_kind_pass() -> None:
    run = Run(goals=(9, 9), window_ticks=3)
    run.interest()
    run.call()
    run.interaction({"look": 1})
    run.commit(run.commitment(7))
    run.mismatch(8)
    run.reveal(7)
    run.time_out()
    run.call(sign=False)
    run.sign_head()
    run.next_level()
    run.call()
    assert problems(run) == []


INJECTED: dict[str, dict[str, Any]] = {
    "without a submission": {"seat": "alpha"},
    "without a seat": {"submissionId": "x", "canonicalCommand": '{"amount":100}', "cursor": 1},
    "without either": {},
}


@pytest.mark.parametrize("fields", INJECTED.values(), ids=INJECTED)
def test_an_input_that_no_seat_submitted_is_refused(fields: dict[str, Any]) -> None:
    run = honest()
    run.lines[1]["inputs"].append(ACTION | {"payload": amount(100)} | fields)
    assert problems(run) == ["input-uncovered"]


def test_a_fabricated_action_is_refused() -> None:
    run = Run(goals=(5,))
    run.add("action", tick=0, seat="alpha", payload=amount(5), **ACTION)
    assert problems(run) == ["input-uncovered"]


def test_a_step_by_timeout_has_one_input_of_the_system() -> None:
    run = Run(window_ticks=3)
    run.time_out()
    step = run.lines[-1]
    step["inputs"].append(dict(step["systemInput"]))
    assert problems(run) == ["input-uncovered"]


def test_a_step_by_timeout_has_its_record_just_before() -> None:
    run = Run(window_ticks=3)
    run.system_step()
    assert problems(run) == ["timeout-record-missing"]


def test_another_step_between_a_timeout_and_its_step_is_refused() -> None:
    run = Run(window_ticks=3, goals=(9,))
    run.time_out()
    run.lines.insert(1, {"kind": "interest", "levelIndex": 0} | run.interest())
    run.lines.pop()
    assert "timeout-record-missing" in problems(run)


def test_what_is_never_authenticated_may_stand_between_a_timeout_and_its_step() -> None:
    run = Run(window_ticks=3)
    run.time_out()
    run.add("checkpoint", tick=0, digest=7)
    run.lines.insert(1, run.lines.pop())
    assert problems(run) == []


def test_a_timeout_of_the_level_before_does_not_count() -> None:
    run = Run(window_ticks=3, goals=(1, 1))
    run.time_out()
    run.lines.pop()
    run.next_level()
    run.system_step()
    assert problems(run) == ["timeout-record-missing"]


def test_a_timeout_names_the_open_window() -> None:
    run = Run(window_ticks=3)
    run.time_out(window=100)
    assert problems(run) == ["timeout-window-wrong"]


@pytest.mark.parametrize(
    "tick, expected", [(4, ["tick-not-position"]), (5, ["timeout-missing"]), (50, ["timeout-missing"])]
)
def test_a_window_that_stays_open_too_long_times_out(tick: int, expected: list[str]) -> None:
    run = Run(window_ticks=3, goals=(2,))
    run.call()
    run.step(run.given("alpha", 1, tick=tick), tick=tick)
    assert problems(run) == expected


@pytest.mark.parametrize("cursor", [0, 50])
def test_a_cursor_is_the_position_that_was_signed(cursor: int) -> None:
    run = Run(goals=(2,))
    run.call()
    run.call(cursor=cursor)
    assert problems(run) == ["cursor-not-position"]


def test_two_windows_cannot_be_merged() -> None:
    run = honest()
    run.lines[0]["inputs"] += run.lines.pop(1)["inputs"]
    assert problems(run) == ["cursor-not-position", "tick-not-position", "cursor-not-position"]


def test_records_beside_the_steps_stand_at_the_open_window() -> None:
    run = Run(goals=(9,))
    run.call()
    run.interest()
    run.lines[-1] |= {"tick": 5, "cursor": 5}
    assert problems(run) == ["tick-not-position", "cursor-not-position"]


def test_an_action_without_tick_stands_at_the_first_window() -> None:
    run = Run(goals=(2,))
    del run.action()["tick"]
    run.action(tick=0)
    del run.lines[-1]["tick"]
    assert problems(run) == ["tick-not-position"]
