"""Judging submissions: what an honest one gives, and what each way of cheating gives."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioum.core.errors import InvalidInput, Refused
from aioum.replay.facts import Profile, Verdict
from aioum.replay.model import JsonObject
from aioum.trust.bundle import Bundle, Episode, Replay
from aioum.trust.bundle_verdict import BundleVerdict, OutsideTrust
from aioum.trust.facts import FactState
from aioum.trust.manifest import EpisodePlan
from aioum.trust.policy import GAOS_RULES
from aioum.trust.replay_episodes import ReplayEpisodes
from aioum.trust.scoring import BUILT_IN, EpisodeScore, FunctionPlugin, JudgedRun
from aioum.trust.submission_facts import Fact
from tests.unit.replay.counter_adapter import recheck_replay
from tests.unit.trust.authorities import OTHER_KEY
from tests.unit.trust.comparisons import (
    MANIFEST,
    NOW,
    PLUGIN,
    TRUST,
    Steps,
    codes,
    judge,
    manifest,
    packed,
    replays,
    run,
    statement,
    timed,
    verified,
    with_statements,
)

FIRST, SECOND, THIRD = MANIFEST.plan()


def sealed(bundle: Bundle, **changes: Any) -> Bundle:
    """The bundle with changes, and digests as a submitter would compute them."""
    draft = replace(bundle, **changes)
    return replace(
        draft, manifest_digest=draft.manifest.digest_hex, content_digest=draft.computed_content_digest
    )


def with_replay(bundle: Bundle, position: int, data: bytes, **changes: Any) -> Bundle:
    """The bundle with another replay in one episode, digests and all."""
    episodes = list(bundle.episodes)
    replay = Replay(data.decode())
    episodes[position] = replace(
        episodes[position], replay=replay, replay_digest=replay.digest_hex, **changes
    )
    return sealed(bundle, episodes=tuple(episodes))


def test_an_honest_signed_submission_is_valid_and_its_scores_are_recomputed() -> None:
    verdict = verified(packed())

    assert (verdict.valid, verdict.evidence_verdict) == (True, Verdict.TRUSTED)
    assert verdict.aggregate is not None
    assert verdict.aggregate.to_json() == {
        "aggregateScore": (2.5 + 3 * 4) / 4,
        "taskScores": {"count": 2.5, "weigh": 4.0},
    }
    assert {
        name: verdict.facts[name].value for name in Fact if verdict.facts[name].value != "not-observed"
    } == {
        "replay": "verified",
        "signatures": "verified",
        "semantics": "verified",
        "evidenceComplete": "not-required",
    }


def test_scores_that_a_submitter_improved_are_found_although_all_digests_fit() -> None:
    bundle = packed()
    better = replace(bundle.episodes[0], score=99)
    prettier = replace(bundle.episodes[0], terminal_outcome={"steps": 99})
    scores: JsonObject = {"aggregateScore": 99, "taskScores": {"count": 99, "weigh": 99}}

    assert codes(verified(sealed(bundle, episodes=(better, *bundle.episodes[1:])))) == ["score-differs"]
    assert codes(verified(sealed(bundle, episodes=(prettier, *bundle.episodes[1:])))) == [
        "terminal-outcome-differs"
    ]
    verdict = verified(sealed(bundle, scores=scores))
    assert codes(verdict) == ["aggregate-differs"]
    assert verdict.evidence_verdict is Verdict.REJECTED


def test_a_submission_to_an_easier_manifest_of_its_own_is_found() -> None:
    easier = manifest(submission={"requireSignedSeats": False, "requireCompleteCoverage": False})
    bundle = packed(of=easier)

    verdict = verified(bundle)

    assert verified(bundle, by=easier).valid
    assert codes(verdict) == ["manifest-differs"]
    # The independent manifest decides what is required, not the copy.
    assert verdict.facts[Fact.SIGNATURES] is FactState.VERIFIED


def test_each_tampered_digest_is_found() -> None:
    bundle, other = packed(), "0" * 64

    assert codes(verified(replace(bundle, content_digest=other))) == ["content-digest-differs"]
    assert "manifest-differs" in codes(verified(replace(bundle, manifest_digest=other)))
    episode = replace(bundle.episodes[1], replay_digest=other)
    changed = sealed(bundle, episodes=(bundle.episodes[0], episode, bundle.episodes[2]))
    assert codes(verified(changed)) == ["replay-digest-differs"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda a, b, c: (b, c), {"episode-missing", "episode-plan-differs"}),
        (lambda a, b, c: (a, b), {"episode-missing"}),
        (lambda a, b, c: (a, b, c, c), {"episode-duplicate", "episode-plan-differs"}),
        (lambda a, b, c: (a, c, b), {"episode-plan-differs"}),
        (lambda a, b, c: (a, b, replace(c, id="other")), {"episode-missing", "episode-id-differs"}),
        (
            lambda a, b, c: (a, b, replace(c, plan=replace(c.plan, max_steps=99))),
            {"episode-plan-differs"},
        ),
        (lambda a, b, c: (), {"episode-missing", "signatures-unverified", "semantics-unverified"}),
    ],
    ids=["first dropped", "last dropped", "repeated", "reordered", "renamed", "plan", "none"],
)
def test_other_episodes_than_the_plan_has_are_found(
    change: Callable[[Episode, Episode, Episode], tuple[Episode, ...]], expected: set[str]
) -> None:
    bundle = packed()

    verdict = verified(sealed(bundle, episodes=change(*bundle.episodes)))

    assert set(codes(verdict)) == expected
    assert verdict.aggregate is None


def test_one_run_cannot_stand_for_two_episodes() -> None:
    twice = manifest(tasks=[{"id": "count", "seeds": [7], "episodes": 2, "maxSteps": 9}])
    one, other = run("session 0", 7, 3), run("session 1", 7, 3)
    bundle = packed({each.id: data for each, data in zip(twice.plan(), (one, other), strict=True)}, of=twice)

    assert verified(bundle, by=twice).valid
    assert codes(verified(with_replay(bundle, 1, one), by=twice)) == ["replay-reused"]
    respelled = one.replace(b'"kind":"header"', b'"kind": "header"')
    assert codes(verified(with_replay(bundle, 1, respelled), by=twice)) == ["session-reused"]


def rejudged(data: bytes, **options: Any) -> BundleVerdict:
    """The verdict where the first episode has another replay; nothing else says anything of it."""
    return verified(with_replay(packed(), 0, data), **options)


def test_a_run_of_another_seed_or_of_too_many_steps_is_found() -> None:
    assert codes(rejudged(run("session 0", 8, 2))) == ["seed-differs"]
    assert codes(rejudged(run("session 0", 7, 10))) == [
        "too-many-steps",
        "score-differs",
        "terminal-outcome-differs",
    ]


def test_an_altered_run_is_rejected_with_the_judges_reasons() -> None:
    data = run("session 0", 7, 2).replace(b'"amount":1}', b'"amount":2}', 1)

    verdict = rejudged(data)

    assert {"episode-rejected", "replay-failed"} <= set(codes(verdict))
    assert verdict.facts[Fact.REPLAY] is FactState.FAILED
    assert verdict.evidence_verdict is Verdict.REJECTED


def test_a_replay_that_is_none_fails_and_the_others_are_still_judged() -> None:
    verdict = rejudged(b'{"kind":"nothing"}\n')

    assert "replay-failed" in codes(verdict)
    assert [state.replay for _, state in verdict.episodes] == [
        FactState.FAILED,
        FactState.VERIFIED,
        FactState.VERIFIED,
    ]


def test_unsigned_runs_count_only_where_signatures_are_not_required() -> None:
    unsigned = replays(signed=False)
    lenient = manifest(submission={"requireSignedSeats": False, "requireCompleteCoverage": False})
    verdict = verified(packed(unsigned, of=lenient), by=lenient)

    strict = verified(packed(unsigned))

    assert codes(strict) == ["signatures-unverified"]
    assert strict.evidence_verdict is Verdict.UNVERIFIABLE
    assert verdict.valid
    assert verdict.facts[Fact.SIGNATURES] is FactState.NOT_REQUIRED
    # Valid by its manifest, and still nobody's signature stands behind it.
    assert verdict.evidence_verdict is Verdict.UNVERIFIABLE


def test_unsigned_runs_whose_signing_was_stripped_do_not_pass_as_signed() -> None:
    stripped = run("session 0", 7, 2).replace(b'"formatVersion":"1.3"', b'"formatVersion":"1.1"')

    assert "signatures-unverified" in codes(rejudged(stripped))


def test_runs_that_could_have_been_cut_off_count_only_where_that_is_not_required() -> None:
    whole = manifest(submission={"requireSignedSeats": True, "requireCompleteCoverage": True})
    bundle = packed(of=whole)

    class Knowing(Steps):
        def score(self, run: JudgedRun) -> EpisodeScore:
            return replace(super().score(run), evidence_complete=FactState.VERIFIED)

    assert codes(verified(bundle, by=whole)) == ["completeness-unverified"]
    knows = ReplayEpisodes(Knowing(), recheck_replay)
    assert verified(bundle, by=whole, judge_episode=knows).valid


def test_without_an_adapter_nothing_is_verified_and_nothing_is_called_a_fault() -> None:
    verdict = verified(packed(), judge_episode=ReplayEpisodes(Steps()))

    assert set(codes(verdict)) == {"replay-unverified", "semantics-unverified"}
    assert verdict.evidence_verdict is Verdict.UNVERIFIABLE
    assert verdict.episodes[0][1].observations[0] == "adapter-missing"


@pytest.mark.parametrize("where", ["adapter", "plugin"])
def test_code_of_the_verifier_that_fails_keeps_an_episode_from_counting(where: str) -> None:
    def fail(*_: Any) -> Any:
        raise SystemExit(0)

    if where == "adapter":
        verdict = verified(packed(), judge_episode=ReplayEpisodes(Steps(), fail))
    else:
        verdict = verified(packed(), judge_episode=ReplayEpisodes(FunctionPlugin("p", fail), recheck_replay))

    assert {"adapter": "adapter-failed", "plugin": "scoring-failed"}[where] in codes(verdict)
    assert verdict.evidence_verdict is Verdict.UNVERIFIABLE


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"score": 1},
        {"score": True, "terminalOutcome": None},
        {"score": float("nan"), "terminalOutcome": None},
        {"score": "1", "terminalOutcome": None},
        {"score": 1, "terminalOutcome": None, "evidenceComplete": "maybe"},
    ],
    ids=str,
)
def test_an_answer_of_a_plugin_that_is_no_score_is_not_taken(answer: Any) -> None:
    plugin = FunctionPlugin("p", lambda _artifact, _episode: answer)

    verdict = verified(packed(), judge_episode=ReplayEpisodes(plugin, recheck_replay))

    assert set(codes(verdict)) == {"score-invalid", "episode-not-scored"}


def test_an_outcome_without_canonical_form_is_no_outcome() -> None:
    plugin = FunctionPlugin("p", lambda _artifact, _episode: {"score": 1, "terminalOutcome": {1}})

    verdict = verified(packed(), judge_episode=ReplayEpisodes(plugin, recheck_replay))

    assert set(codes(verdict)) == {"scoring-failed", "episode-not-scored"}


def test_a_plugin_sees_plan_and_judgement_and_nothing_that_the_submitter_claims() -> None:
    seen = []

    def score(artifact: dict[str, Any], episode: dict[str, Any]) -> dict[str, Any]:
        seen.append((artifact.keys() | episode.keys(), episode["judgement"]["verdict"]))
        steps = artifact["header"]["totals"]["totalActionsUsed"]
        return {"score": steps, "terminalOutcome": {"steps": steps}}

    verdict = verified(packed(), judge_episode=ReplayEpisodes(FunctionPlugin(PLUGIN, score), recheck_replay))

    assert verdict.valid
    # Outside of paid sessions no signature covers the terms, so a single run is never more than that.
    assert seen == [({"header", "actions", "records", "plan", "judgement"}, "unverifiable")] * 3


def test_the_built_in_plugin_scores_by_rechecked_stars() -> None:
    stars = ReplayEpisodes(BUILT_IN["aioum.total-stars@1"], recheck_replay)

    found = stars(FIRST, run("session 0", 7, 2))

    assert found.score == 1
    assert found.terminal_outcome == {
        "levels": [{"level": "only", "status": "won", "stars": 1, "actionsUsed": 2}]
    }


def test_the_formats_own_rules_can_be_chosen() -> None:
    assert verified(packed(judge_episode=judge(Profile.GAOS)), judge_episode=judge(Profile.GAOS)).valid


# What outside authorities say.


def test_a_required_statement_about_the_content_digest_verifies_its_claim_and_no_other() -> None:
    by = timed()
    bundle = packed(of=by)

    verdict = verified(with_statements(bundle, statement(bundle)), by=by, trust=TRUST)

    assert verdict.valid
    assert verdict.facts[Fact.TIME] is FactState.VERIFIED
    assert verdict.facts[Fact.PUBLICATION] is FactState.NOT_OBSERVED
    [shown] = verdict.facts.authorities
    assert shown["matchedPin"] == "clock/1"


def test_a_required_statement_that_is_missing_or_not_by_the_pinned_key_keeps_the_claim_open() -> None:
    by = timed()
    bundle = packed(of=by)
    good = with_statements(bundle, statement(bundle))
    forged = with_statements(bundle, statement(bundle, key=OTHER_KEY))

    missing = verified(bundle, by=by, trust=TRUST)
    assert (codes(missing), missing.facts[Fact.TIME]) == (
        ["required-claim-unverified"],
        FactState.NOT_OBSERVED,
    )
    unknown = verified(good, by=by)
    assert (codes(unknown), unknown.facts[Fact.TIME]) == (
        ["required-claim-unverified"],
        FactState.UNVERIFIED,
    )
    assert unknown.evidence_verdict is Verdict.UNVERIFIABLE
    refuted = verified(forged, by=by, trust=TRUST)
    assert (codes(refuted), refuted.facts[Fact.TIME]) == (["required-claim-failed"], FactState.FAILED)
    assert refuted.evidence_verdict is Verdict.REJECTED


def test_a_statement_never_anchors_itself_even_under_the_public_systems_rules() -> None:
    by = timed()
    bundle = packed(of=by)
    resolving = OutsideTrust(NOW, (), TRUST.resolvers, GAOS_RULES)

    verdict = verified(with_statements(bundle, statement(bundle)), by=by, trust=resolving)

    assert codes(verdict) == ["required-claim-unverified"]


def test_an_optional_statement_changes_a_fact_and_not_the_verdict() -> None:
    by = timed(required=False)
    bundle = packed(of=by)
    forged = with_statements(bundle, statement(bundle, key=OTHER_KEY))

    assert verified(bundle, by=by, trust=TRUST).facts[Fact.TIME] is FactState.NOT_REQUIRED
    verdict = verified(forged, by=by, trust=TRUST)
    assert (verdict.valid, verdict.facts[Fact.TIME]) == (True, FactState.FAILED)


def test_a_statement_about_another_digest_does_not_belong_into_a_submission() -> None:
    bundle = packed()

    verdict = verified(with_statements(bundle, statement(bundle, subject_digest="ab" * 32)))

    assert codes(verdict) == ["attestation-subject-differs"]


# Making them.


def test_only_episodes_that_can_be_scored_are_packed() -> None:
    runs = replays()
    with pytest.raises(InvalidInput) as missing:
        packed({name: data for name, data in runs.items() if name != SECOND.id})
    with pytest.raises(InvalidInput) as binary:
        packed(runs | {SECOND.id: b"\xff\n"})
    with pytest.raises(Refused) as broken:
        packed(runs | {THIRD.id: run("session 2", 99, 2)})
    assert (missing.value.code, binary.value.code, broken.value.code) == (
        "episode-missing",
        "replay-not-utf8",
        "episode-not-scored",
    )


def test_a_judge_is_called_once_an_episode_with_the_plan_and_the_files_bytes() -> None:
    bundle, asked = packed(), []

    def judging(plan: EpisodePlan, replay: bytes) -> Any:
        asked.append((plan, replay))
        return judge()(plan, replay)

    verified(bundle, judge_episode=judging)

    assert asked == [(each.plan, each.replay.data) for each in bundle.episodes]
