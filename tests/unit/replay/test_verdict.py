from typing import Any

import pytest

from aioum.replay.facts import Completeness, Judgement, Lane, Profile, SignatureState, Terms, Verdict
from aioum.replay.profiles import is_paid_session_id, profile_for
from aioum.replay.verdict import judge
from tests.unit.replay.counter_adapter import recheck_replay
from tests.unit.replay.recorded import PAID, Run, heads, honest

TRUSTED, UNVERIFIABLE, REJECTED = Verdict.TRUSTED, Verdict.UNVERIFIABLE, Verdict.REJECTED


def judged(run: Run, profile: Profile | None = None, *, answer: Any = None, **changes: Any) -> Judgement:
    adapter = recheck_replay if answer is None else lambda artifact: answer
    return judge(run.artifact(**changes), profile=profile, recheck_replay=adapter)


def answer(**members: Any) -> dict[str, Any]:
    lanes = {"submissions": "verified", "timeouts": "not_applicable"}
    return {"ok": True, "semantics": lanes, "facts": {"terms": "verified"}} | members


def diagnostics(judgement: Judgement) -> list[str]:
    return [problem.code for problem in judgement.diagnostics]


def test_a_run_that_is_consistent_signed_and_mapped_is_trusted() -> None:
    found = judged(honest())
    assert (found.verdict, found.reasons, found.exit_code) == (TRUSTED, (), 0)


@pytest.mark.parametrize(
    "ok, submissions, timeouts, verdict, reason",
    [
        (True, "verified", "verified", TRUSTED, None),
        (True, "not_applicable", "not_applicable", TRUSTED, None),
        (True, "unavailable", "verified", UNVERIFIABLE, "submissions-not-mapped"),
        (True, "verified", "unavailable", UNVERIFIABLE, "timeouts-not-mapped"),
        (None, "verified", "verified", UNVERIFIABLE, "replay-not-checked"),
        (True, "failed", "unavailable", REJECTED, "semantics-failed"),
        (True, "verified", "failed", REJECTED, "semantics-failed"),
        (False, "verified", "verified", REJECTED, "replay-inconsistent"),
        (False, "unavailable", "unavailable", REJECTED, "replay-inconsistent"),
    ],
)
def test_the_verdict_follows_from_consistency_and_lanes(
    ok: bool | None, submissions: str, timeouts: str, verdict: Verdict, reason: str | None
) -> None:
    lanes = {"submissions": submissions, "timeouts": timeouts}
    found = judged(honest(), answer={"ok": ok, "semantics": lanes})
    assert found.verdict is verdict
    assert found.reasons[:1] == (() if reason is None else (reason,))
    assert found.replay_ok is ok


def test_the_verdict_follows_from_signatures() -> None:
    run = honest()
    assert judged(run, signed=False).verdict is UNVERIFIABLE
    del run.lines[2]["inputs"][0]["sig"]
    found = judged(run)
    assert (found.verdict, found.reasons) == (REJECTED, ("uncovered-submission", "signatures-partial"))


def test_without_an_adapter_nothing_is_trusted_and_lanes_are_unavailable() -> None:
    found = judge(honest().artifact())
    assert (found.verdict, found.reasons, found.replay_ok) == (UNVERIFIABLE, ("adapter-missing",), None)
    assert found.semantics.lanes == (Lane.UNAVAILABLE, Lane.UNAVAILABLE)
    assert not found.adapter_ran


def test_without_an_adapter_bad_signatures_reject_all_the_same() -> None:
    run = honest()
    del run.lines[1]
    assert judge(run.artifact()).verdict is REJECTED


def test_without_an_adapter_a_commitment_that_does_not_open_rejects_all_the_same() -> None:
    run = Run(goals=(1,))
    run.commit(run.commitment(7))
    run.reveal(8)
    found = judge(run.artifact())
    assert (found.verdict, found.replay_ok) == (REJECTED, False)
    assert found.reasons[0] == "commitment-mismatch"


@pytest.mark.parametrize(
    "declared, ok",
    [({"algorithm": "dmath-1"}, True), ({"algorithm": "dmath-2"}, False), (1, False), (None, False)],
)
def test_a_run_declares_the_one_known_arithmetic_or_none(declared: Any, ok: bool) -> None:
    found = judged(honest(), extensions={"dmath": declared})
    assert (found.replay_ok, found.dmath) == (ok, declared)
    assert ("dmath-unknown" in found.reasons) is not ok


@pytest.mark.parametrize(
    "session_id, profile", [(PAID, Profile.PAID), ("aioum:anything", Profile.PAID), ("run-7", Profile.GAOS)]
)
def test_the_session_id_chooses_the_profile_where_nobody_does(session_id: str, profile: Profile) -> None:
    assert profile_for(session_id) is profile
    found = judged(honest(session_id))
    assert (found.profile, found.profile_by) == (profile, "session-id")
    chosen = judged(honest(session_id), Profile.GAOS)
    assert (chosen.profile, chosen.profile_by) == (Profile.GAOS, "caller")


@pytest.mark.parametrize(
    "session_id", ["aioum:0x" + "AB" * 32, "aioum:" + "ab" * 32, PAID + "0", "aioum:", PAID + "\n"]
)
def test_only_a_channel_id_in_its_one_spelling_makes_a_paid_session(session_id: str) -> None:
    assert not is_paid_session_id(session_id)


def test_a_foreign_session_is_judged_to_the_end_under_the_paid_profile_and_is_not_trusted() -> None:
    found = judged(honest(), Profile.PAID)
    assert (found.verdict, found.reasons) == (UNVERIFIABLE, ("session-terms-unbound",))
    assert (found.terms, found.replay_ok, found.signatures.state) == (
        Terms.UNBOUND,
        True,
        SignatureState.SIGNED,
    )
    assert found.semantics.submissions is Lane.VERIFIED


def test_a_paid_session_is_trusted_once_an_adapter_held_its_terms_against_its_id() -> None:
    run = honest(PAID)
    found = judged(run)
    assert (found.verdict, found.reasons, found.terms) == (
        UNVERIFIABLE,
        ("session-terms-unproven",),
        Terms.CLAIMED,
    )
    found = judged(run, answer=answer())
    assert (found.verdict, found.reasons, found.terms) == (TRUSTED, (), Terms.BOUND)


def test_terms_that_an_adapter_could_not_verify_are_not_bound() -> None:
    found = judged(honest(PAID), answer=answer(facts={"terms": "failed"}))
    assert (found.verdict, found.terms) == (UNVERIFIABLE, Terms.CLAIMED)


def test_an_adapter_cannot_bind_the_terms_of_a_foreign_session() -> None:
    assert judged(honest(), Profile.PAID, answer=answer()).terms is Terms.UNBOUND


@pytest.mark.parametrize("lane", ["submissions", "timeouts"])
def test_lanes_that_an_adapter_skips_are_not_thereby_without_meaning(lane: str) -> None:
    run = Run(goals=(1,), window_ticks=3)
    run.time_out()
    run.call()
    lanes = {"submissions": "verified", "timeouts": "verified"} | {lane: "not_applicable"}
    assert judged(run, Profile.GAOS, answer=answer(semantics=lanes)).verdict is TRUSTED
    found = judged(run, Profile.PAID, answer=answer(semantics=lanes))
    assert f"{lane}-not-mapped" in found.reasons


def test_a_run_without_submissions_is_unsigned_under_the_paid_profile() -> None:
    run = Run(goals=(0,), window_ticks=3)
    run.time_out()
    run.goals = (1,)
    assert judged(run, Profile.GAOS, answer=answer()).verdict is TRUSTED
    found = judged(run, Profile.PAID, answer=answer())
    assert (found.verdict, found.signatures.state) == (UNVERIFIABLE, SignatureState.UNSIGNED)


def with_timeout() -> Run:
    run = Run(session_id=PAID, window_ticks=3)
    run.time_out()
    return run


def with_interest() -> Run:
    run = Run(session_id=PAID)
    run.interest()
    return run


def with_interaction() -> Run:
    run = Run(session_id=PAID)
    run.interaction({"look": 1})
    return run


def with_commitment() -> Run:
    run = Run(session_id=PAID)
    run.commit(run.commitment(7))
    return run


def with_periodic_signature() -> Run:
    run = honest(PAID)
    run.sign_head()
    return run


@pytest.mark.parametrize(
    "make", [with_timeout, with_interest, with_interaction, with_commitment, with_periodic_signature]
)
def test_a_paid_session_has_calls_and_nothing_else(make: Any) -> None:
    found = judged(make(), answer=answer())
    assert found.verdict is REJECTED
    assert "record-not-paid" in found.reasons


def test_a_paid_session_has_one_level() -> None:
    run = Run(session_id=PAID, goals=(1, 1))
    run.call()
    run.next_level()
    run.call()
    assert "level-not-paid" in judged(run, answer=answer()).reasons


def test_every_call_of_a_paid_session_carries_its_own_signature() -> None:
    run = Run(session_id=PAID, goals=(2,))
    run.call(sign=False)
    run.call()
    assert judged(run, answer=answer()).reasons == ("direct-signature-required", "signatures-partial")


def test_signatures_that_no_roster_covers_are_worth_a_note() -> None:
    for changes in ({"signed": False}, {"version": "1.1"}):
        found = judged(honest(), **changes)
        assert found.verdict is UNVERIFIABLE
        assert "signature-material-ignored" in diagnostics(found)
    assert "signature-material-ignored" not in diagnostics(judged(honest()))


def test_the_report_says_whether_a_missing_end_would_have_shown() -> None:
    run = honest()
    without = judge(run.artifact())
    assert without.completeness is Completeness.NOT_CHECKED
    assert "completeness-not-checked" in diagnostics(without)
    kept = judge(run.artifact(), retained_heads=heads(run))
    assert kept.completeness is Completeness.RETAINED_HEADS
    assert "completeness-not-checked" not in diagnostics(kept)
    anchored = judged(run, answer=answer(facts={"anchored": "verified"}))
    assert anchored.completeness is Completeness.ANCHORED


def test_a_retained_head_catches_a_truncated_tail() -> None:
    run = honest()
    run.lines.pop()
    found = judge(run.artifact(), retained_heads=heads(run))
    assert (found.verdict, found.completeness) == (REJECTED, Completeness.FAILED)
    assert found.reasons[0] == "retained-head-missing"


def test_facts_of_an_adapter_never_change_the_verdict() -> None:
    facts = {"receipts": "failed", "payment": "failed", "anchored": "failed", "terms": "verified"}
    found = judged(honest(PAID), answer=answer(facts=facts))
    assert (found.verdict, found.facts) == (TRUSTED, facts)


def test_a_report_lists_a_hundred_problems_and_counts_all() -> None:
    found = judged(honest(), answer={"ok": False, "problems": [f"problem {n}" for n in range(250)]}).to_json()
    assert (len(found["problems"]), found["problemCount"]) == (100, 250)
