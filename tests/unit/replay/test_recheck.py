from typing import Any

import pytest

from aioum.replay.adapter import AdapterArtifact, AdapterResult, run_adapter
from aioum.replay.facts import Lane, Profile
from aioum.replay.game import Game, SubmissionContext, TimeoutContext
from tests.unit.replay.counter_adapter import Counter, command_to_action, recheck_replay, timeout_to_action
from tests.unit.replay.recorded import ACTION, Run, amount, honest

VERIFIED, UNAVAILABLE = Lane.VERIFIED, Lane.UNAVAILABLE
NOT_APPLICABLE, FAILED = Lane.NOT_APPLICABLE, Lane.FAILED


def rechecked(
    run: Run, game: Game | None = None, *, profile: Profile = Profile.GAOS, **changes: Any
) -> AdapterResult:
    function = recheck_replay if game is None else game.recheck
    return run_adapter(function, run.artifact(**changes), profile)


def codes(result: AdapterResult) -> list[str]:
    return [problem.code for problem in result.problems]


def lane_codes(result: AdapterResult) -> list[str]:
    return [problem.code for problem in result.semantics.problems]


def test_an_honest_run_reproduces_and_maps() -> None:
    result = rechecked(honest())
    assert (result.ok, result.problems) == (True, ())
    assert result.semantics.lanes == (VERIFIED, NOT_APPLICABLE)
    assert result.replayed == {"statuses": ["won"], "totalStars": 1, "totalActionsUsed": 3}


@pytest.mark.parametrize(
    "result, expected",
    [
        ({"status": "failed", "stars": 1, "actionsUsed": 3}, "status-mismatch"),
        ({"status": "won", "stars": 2, "actionsUsed": 3}, "stars-mismatch"),
        ({"status": "won", "stars": None, "actionsUsed": 3}, "stars-mismatch"),
        ({"status": "won", "stars": 1, "actionsUsed": 4}, "actions-used-mismatch"),
    ],
)
def test_a_recorded_result_is_the_one_that_the_run_gives(result: dict[str, Any], expected: str) -> None:
    run = honest()
    levels = run.header()["levels"]
    levels[0]["result"] = result
    stars = result["stars"] or 0 if result["status"] == "won" else 0
    totals = {"totalStars": stars, "totalActionsUsed": result["actionsUsed"]}
    found = rechecked(run, levels=levels, totals=totals)
    assert found.ok is False
    assert codes(found)[0] == expected


def test_a_step_after_the_end_of_a_level_is_refused() -> None:
    run = honest()
    run.goals = (2,)
    assert codes(rechecked(run))[0] == "after-terminal"


class Strict(Counter):
    def advance(self, state: Any, inputs: list[dict[str, Any]]) -> Any:
        raise ValueError("no such move")


def test_a_step_against_the_rules_is_refused() -> None:
    assert codes(rechecked(honest(), Game(Strict())))[0] == "reducer-rejected"


class Bottomless(Counter):
    def advance(self, state: Any, inputs: list[dict[str, Any]]) -> Any:
        return self.advance(state, inputs)


def test_rules_that_run_out_of_stack_say_nothing_about_the_run() -> None:
    with pytest.raises(Exception, match="RecursionError") as caught:
        rechecked(honest(), Game(Bottomless()))
    assert getattr(caught.value, "code", None) == "adapter-failed"


class Unstartable(Counter):
    def init(self, level: Any, seed: int) -> Any:
        raise KeyError("goal")


def test_a_level_that_the_rules_cannot_start_is_refused() -> None:
    assert codes(rechecked(honest(), Game(Unstartable()))) == ["reducer-rejected"]


def test_a_game_that_the_adapter_does_not_know_is_not_judged() -> None:
    game = Game(reducer_of_level=lambda header, level: None)
    found = rechecked(honest(), game)
    assert found.ok is None
    assert [each.code for each in found.diagnostics] == ["reducer-missing"]


def test_rules_can_differ_by_level() -> None:
    game = Game(reducer_of_level=lambda header, level: Counter() if level.id == "level 0" else None)
    assert rechecked(honest(), game).ok is True


def test_missing_mappings_leave_their_lanes_unavailable() -> None:
    run = Run(goals=(1,), window_ticks=3)
    run.time_out()
    run.call()
    found = rechecked(run, Game(Counter()))
    assert found.ok is True
    assert found.semantics.lanes == (UNAVAILABLE, UNAVAILABLE)


def test_an_action_that_is_not_what_was_signed_fails_the_lane() -> None:
    run = honest()
    run.lines[2]["inputs"][0]["payload"] = amount(9)
    found = rechecked(run)
    assert found.semantics.submissions is FAILED
    assert lane_codes(found) == ["command-maps-differently"]


@pytest.mark.parametrize("spelling", [1, 1.0])
def test_actions_are_compared_as_canonical_json(spelling: float) -> None:
    run = honest()
    run.lines[0]["inputs"][0]["payload"] = {"amount": spelling}
    assert rechecked(run).semantics.submissions is VERIFIED


def test_true_is_not_one() -> None:
    run = honest()
    run.lines[0]["inputs"][0]["payload"] = {"amount": True}
    assert rechecked(run).semantics.submissions is FAILED


def test_a_refused_reveal_maps_to_what_was_signed() -> None:
    run = Run(goals=(1,))
    run.commit(run.commitment(7))
    run.mismatch(8)["attemptedReveal"]["payload"] = 9
    run.call()
    found = rechecked(run)
    assert (found.semantics.submissions, lane_codes(found)) == (FAILED, ["reveal-maps-differently"])


def test_commitments_and_reveals_map() -> None:
    run = Run(goals=(1,))
    run.commit(run.commitment(7))
    run.mismatch(8)
    run.reveal(7)
    run.call()
    found = rechecked(run)
    assert (found.ok, found.semantics.submissions) == (True, VERIFIED)


def test_a_timeout_maps_to_the_step_of_the_system() -> None:
    run = Run(goals=(1,), window_ticks=3)
    run.time_out()
    run.call()
    assert rechecked(run).semantics.timeouts is VERIFIED
    step = run.lines[1]
    step["inputs"][0]["payload"] = step["systemInput"]["payload"] = amount(1)
    found = rechecked(run)
    assert (found.semantics.timeouts, lane_codes(found)) == (FAILED, ["timeout-maps-differently"])


def test_a_mapping_that_raises_fails_its_lane() -> None:
    def broken(*_: Any) -> dict[str, Any]:
        raise KeyError("kind")

    run = Run(goals=(1,), window_ticks=3)
    run.time_out()
    run.call()
    found = rechecked(run, Game(Counter(), broken, broken))
    assert found.semantics.lanes == (FAILED, FAILED)
    assert lane_codes(found) == ["mapping-failed"] * 2


@pytest.mark.parametrize("given", [None, [], "Action 1", {"id": {1, 2}}])
def test_a_mapping_that_gives_no_action_fails_its_lane(given: Any) -> None:
    found = rechecked(honest(calls=1), Game(Counter(), lambda command, context: given))
    assert lane_codes(found) == ["mapping-failed"]


def test_mappings_are_told_where_a_command_and_a_timeout_stand() -> None:
    told: list[Any] = []

    def command(value: Any, context: SubmissionContext) -> dict[str, Any]:
        told.append(context)
        return command_to_action(value, context)

    def timeout(context: TimeoutContext, record: dict[str, Any]) -> dict[str, Any]:
        told.append((context, record["reason"]))
        return timeout_to_action(context, record)

    run = Run(goals=(1,), window_ticks=3)
    run.time_out()
    run.call()
    rechecked(run, Game(Counter(), command, timeout))
    submission, (window, reason) = told
    assert submission == SubmissionContext("run-7", 1, 1, "alpha", "alpha-1")
    assert (window.level, window.level_id, window.participant_id, window.window_ref) == (
        {"goal": 1},
        "level 0",
        "alpha",
        0,
    )
    assert reason == "elapsed"


def test_rules_get_what_a_reveal_opens_and_not_what_the_artifact_says_beside_it() -> None:
    seen: list[Any] = []

    class Watching(Counter):
        def advance(self, state: Any, inputs: list[dict[str, Any]]) -> Any:
            seen.extend(inputs)
            return super().advance(state, inputs)

    run = Run(goals=(1,))
    run.commit(run.commitment(7))
    run.reveal(7)["inputs"][0]["verifiedPayload"] = 99
    run.call()
    rechecked(run, Game(Watching()))
    assert seen[1]["verifiedPayload"] == 7
    assert not {"sig", "wireId"} & seen[1].keys()


def interacting(*, cursor: int = 0) -> Run:
    run = Run(goals=(5,))
    run.interaction({"add": 2})["cursor"] = cursor
    run.call(3)
    return run


def add(state: Any, command: Any, context: SubmissionContext) -> Any:
    state["total"] += command["add"]
    return state


def test_interactions_change_the_state_and_take_no_step() -> None:
    found = rechecked(interacting(), Game(Counter(), command_to_action, interact=add))
    assert (found.ok, found.semantics.submissions) == (True, VERIFIED)


def test_interactions_of_a_game_without_their_function_leave_the_run_unchecked() -> None:
    found = rechecked(interacting())
    assert (found.ok, found.semantics.submissions) == (None, UNAVAILABLE)
    assert [each.code for each in found.diagnostics] == ["interaction-unsupported"]


def test_an_interaction_stands_at_the_count_of_steps() -> None:
    found = rechecked(interacting(cursor=1), Game(Counter(), command_to_action, interact=add))
    assert codes(found)[0] == "interaction-cursor"
    assert codes(rechecked(interacting(cursor=1)))[0] == "interaction-cursor"


def test_an_interaction_that_the_game_refuses_is_a_problem() -> None:
    def refuse(*_: Any) -> Any:
        raise ValueError("that is a move")

    found = rechecked(interacting(), Game(Counter(), command_to_action, interact=refuse))
    assert codes(found)[0] == "interaction-rejected"


def test_actions_alone_are_mapped_under_the_paid_profile_only() -> None:
    run = Run(goals=(2,))
    run.action()
    run.action()["payload"] = amount(1.0)
    run.lines[0]["payload"] = amount(30)
    assert rechecked(run).semantics.submissions is NOT_APPLICABLE
    assert rechecked(run, profile=Profile.PAID).semantics.submissions is FAILED


def test_the_artifact_of_an_adapter_is_the_decoded_one_with_the_checked_one_beside_it() -> None:
    run = honest()
    handed: list[AdapterArtifact] = []

    def adapter(artifact: AdapterArtifact) -> dict[str, Any]:
        handed.append(artifact)
        return {"ok": True}

    run_adapter(adapter, run.artifact(), Profile.PAID)
    (artifact,) = handed
    assert isinstance(artifact, dict)
    assert list(artifact) == ["header", "actions", "records"]
    assert artifact["records"] == run.lines
    assert [each["n"] for each in artifact["actions"]] == [0, 1, 2]
    assert artifact["header"]["sessionId"] == artifact.parsed.header.session_id
    assert artifact.profile is Profile.PAID


def test_steps_without_a_submission_are_run_and_not_mapped() -> None:
    run = Run(goals=(5,))
    run.step(ACTION | {"payload": amount(5)})
    found = rechecked(run, signed=False)
    assert (found.ok, found.semantics.submissions) == (True, NOT_APPLICABLE)
