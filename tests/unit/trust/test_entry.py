"""Entries: what a submitter may say, what is thrown away, and what a verifier's result changes."""

from dataclasses import replace
from typing import Any

import pytest

from aioum.core.errors import InvalidInput, Refused
from aioum.trust.entry import Decision, Eligibility, LeaderboardEntry, ranked
from aioum.trust.facts import FactState
from aioum.trust.package import bundle_files, package_digest
from aioum.trust.replay_episodes import ReplayEpisodes
from aioum.trust.submission_facts import Fact
from tests.unit.trust.comparisons import Steps, packed, replays, verified

Json = dict[str, Any]

BUNDLE = packed()
DIGEST = package_digest(bundle_files(BUNDLE))
VERDICT = verified(BUNDLE)
BROKEN = verified(replace(BUNDLE, content_digest="0" * 64))
ELIGIBLE = Eligibility("house", "1", Decision.ELIGIBLE)


def sent(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "gaos.leaderboard-entry.v2",
        "benchmarkId": "counters",
        "benchmarkVersion": "1",
        "submissionId": "2026-07",
        "agentName": "Shop Seven",
        "modality": "text",
        "aggregateScore": 99,
        "taskScores": {"count": 99, "weigh": 99},
        "artifactDigest": DIGEST,
    } | changes


def submitted(**changes: Any) -> LeaderboardEntry:
    return LeaderboardEntry.submitted(sent(**changes), package_digest=DIGEST)


def test_a_new_entry_is_unverifiable_and_nothing_is_observed() -> None:
    entry: Json = submitted(modelClaim="m", uncertainty=0.5).to_json()

    assert (entry["evidenceVerdict"], entry["reproduced"]) == ("unverifiable", False)
    assert {entry["verification"][fact.value] for fact in Fact} == {"not-observed"}
    assert entry["verification"]["reasons"] == ["verification-pending"]
    assert (entry["modelClaim"], entry["uncertainty"]) == ("m", 0.5)
    assert "eligibility" not in entry


def test_what_a_submitter_says_of_verification_is_thrown_away() -> None:
    boast = {
        "evidenceVerdict": "trusted",
        "reproduced": True,
        "verification": {"replay": "verified"},
        "eligibility": {"decision": "eligible"},
    }
    assert submitted(**boast) == submitted()


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "gaos.leaderboard-entry.v1"},
        {"unknown": 1},
        {"agentName": ""},
        {"aggregateScore": "99"},
        {"aggregateScore": float("inf")},
        {"taskScores": []},
        {"taskScores": {"count": None}},
        {"taskScores": {f"t{n}": 1 for n in range(1_001)}},
        {"uncertainty": "much"},
        {"openSourceUrl": 1},
        {"artifactDigest": "00"},
        {"artifactDigest": "0" * 64},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_is_no_entry_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        submitted(**changes)
    assert refusal.value.code == "entry-invalid"


def test_a_verifiers_result_brings_facts_and_recomputed_scores() -> None:
    entry = submitted().posted(
        VERDICT, package_digest=DIGEST, observed={Fact.ORGANIZER_REPRODUCED: FactState.VERIFIED}
    )

    shown: Json = entry.to_json()
    assert VERDICT.aggregate is not None
    assert (shown["aggregateScore"], shown["taskScores"]) == (
        VERDICT.aggregate.score,
        VERDICT.aggregate.task_scores,
    )
    assert (shown["evidenceVerdict"], shown["reproduced"]) == ("trusted", True)
    assert shown["verification"]["signatures"] == "verified"
    assert shown["verification"]["reasons"] == []
    assert shown["verification"]["availabilityObserved"] == "not-observed"


def test_a_later_result_replaces_an_earlier_one_and_a_decision_on_it() -> None:
    entry = submitted().posted(VERDICT, package_digest=DIGEST).decided(ELIGIBLE)

    later: Json = entry.posted(BROKEN, package_digest=DIGEST).to_json()

    assert later["evidenceVerdict"] == "rejected"
    assert later["verification"]["reasons"] == ["content-digest-differs"]
    assert "eligibility" not in later


def test_a_result_about_another_submission_is_not_posted() -> None:
    for entry, digest in (
        (submitted(), "0" * 64),
        (submitted(submissionId="another"), DIGEST),
        (submitted(benchmarkVersion="2"), DIGEST),
    ):
        with pytest.raises(Refused) as refusal:
            entry.posted(VERDICT, package_digest=digest)
        assert refusal.value.code == "entry-of-another"


def test_a_computed_fact_cannot_be_observed_by_hand() -> None:
    with pytest.raises(InvalidInput) as refusal:
        submitted().posted(VERDICT, package_digest=DIGEST, observed={Fact.REPLAY: FactState.VERIFIED})
    assert refusal.value.code == "fact-not-observable"


def test_only_what_a_verifier_supports_is_eligible() -> None:
    judged = submitted().posted(VERDICT, package_digest=DIGEST)
    rejected = submitted().posted(BROKEN, package_digest=DIGEST)

    assert judged.decided(ELIGIBLE).to_json()["eligibility"] == {
        "policyId": "house",
        "policyVersion": "1",
        "decision": "eligible",
        "reasons": [],
    }
    for entry in (submitted(), rejected):
        with pytest.raises(Refused) as refusal:
            entry.decided(ELIGIBLE)
        assert refusal.value.code == "entry-not-verified"
        assert entry.decided(replace(ELIGIBLE, decision=Decision.INELIGIBLE)).facts == entry.facts


def test_a_decision_is_within_limits() -> None:
    for policy, reasons in (("", ()), ("house", ("",)), ("house", ("r",) * 65)):
        with pytest.raises(InvalidInput) as refusal:
            Eligibility(policy, "1", Decision.PENDING, reasons)
        assert refusal.value.code == "entry-invalid"


def test_no_claimed_score_stands_above_a_verified_one() -> None:
    judged = submitted(aggregateScore=1).posted(VERDICT, package_digest=DIGEST)
    rejected = submitted(aggregateScore=1_000).posted(BROKEN, package_digest=DIGEST)
    unsigned = submitted(aggregateScore=2).posted(
        verified(packed(replays(signed=False))), package_digest=DIGEST
    )
    adapterless = verified(BUNDLE, judge_episode=ReplayEpisodes(Steps()))
    unsupported = submitted(aggregateScore=700).posted(adapterless, package_digest=DIGEST)
    high, low, same = submitted(aggregateScore=500), submitted(aggregateScore=3), submitted(aggregateScore=3)
    same = replace(same, submission_id="2026-08")

    assert unsigned.score == judged.score
    assert ranked([rejected, low, high, same, unsupported, unsigned, judged]) == [
        judged,
        unsigned,
        unsupported,
        high,
        low,
        same,
        rejected,
    ]
