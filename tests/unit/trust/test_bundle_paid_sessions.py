"""A comparison of services: its episodes are paid sessions, judged by the project's own adapter."""

from typing import Any

from aioum.replay.paid import recheck_replay
from aioum.trust.bundle import Bundle
from aioum.trust.bundle_verdict import BundleVerdict
from aioum.trust.facts import FactState
from aioum.trust.replay_episodes import ReplayEpisodes
from aioum.trust.scoring import FunctionPlugin
from aioum.trust.submission_facts import Fact
from tests.unit.replay.paid.artifacts import at, edited, exported
from tests.unit.trust.comparisons import codes, manifest, packed, verified

BY_SPEND = manifest(
    tasks=[{"id": "errand", "seeds": [0], "episodes": 1, "maxSteps": 50}],
    scoring={"plugin": "spend@1", "aggregation": "sum"},
)
[EPISODE] = BY_SPEND.plan()


def score(_artifact: dict[str, Any], episode: dict[str, Any]) -> dict[str, Any]:
    """The less it cost, the better; receipts of the operator must stand behind the number."""
    judgement = episode["judgement"]
    assert judgement["facts"]["receipts"] == "verified"
    replayed = judgement["replayed"]
    return {
        "score": -int(replayed["spent"]),
        "terminalOutcome": {"calls": replayed["calls"], "root": replayed["root"]},
    }


JUDGE = ReplayEpisodes(FunctionPlugin("spend@1", score), paid_recheck=recheck_replay)


def submission(data: bytes) -> Bundle:
    return packed({EPISODE.id: data}, of=BY_SPEND, judge_episode=JUDGE)


def judged(bundle: Bundle) -> BundleVerdict:
    return verified(bundle, by=BY_SPEND, judge_episode=JUDGE)


def test_a_paid_session_is_judged_and_scored_without_any_adapter_of_the_verifiers() -> None:
    verdict = judged(submission(exported()))

    assert codes(verdict) == []
    assert verdict.aggregate is not None
    assert verdict.aggregate.score < 0
    assert verdict.facts[Fact.SIGNATURES] is FactState.VERIFIED


def test_a_session_that_claims_to_have_cost_less_does_not_count() -> None:
    cheap = edited(exported(), at(0, "levels", 0, "result", "extensions", "spent", value="1"))

    found = JUDGE(EPISODE, cheap)

    assert "episode-rejected" in [reason.code for reason in found.reasons]
    assert found.replay is FactState.FAILED
