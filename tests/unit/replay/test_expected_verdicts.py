"""The 93 replays that GAOS's own tools judged (`generated/expected.json`), under both profiles."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from aioum.replay.facts import Judgement, Profile, Verdict
from aioum.replay.game import Game
from aioum.replay.problems import ArtifactInvalid
from aioum.replay.reading import read_artifact
from aioum.replay.verdict import judge
from tests.unit.replay.counter_adapter import Counter as CounterRules
from tests.unit.replay.counter_adapter import recheck_replay

# Where the two reference tools differ, the one that is right.
PYTHON_IS_RIGHT = {
    "divergence-mixed-order-key",
    "divergence-mixed-order-key-k8",
    "divergence-cursor-float-spelling",
}

CODES = {
    r"invalid Ed25519 signature": "bad-signature",
    r"names seat outside": "unknown-seat",
    r"missing RFC-010 chain": "missing-chain-fields",
    r"requires a tier-\d signature": "direct-signature-required",
    r"does not sign seat .* current chain head": "head-mismatch",
    r"no signed chain head covering": "uncovered-submission",
    r"crosses a level boundary": "level-boundary-unsigned",
    r"exceeds signingTier": "tier-exceeded",
    r"attempted reveal matches": "mismatch-actually-matches",
    r"maps to a different reveal$": "reveal-maps-differently",
    r"command maps to a different replay": "command-maps-differently",
    r"timeout .* maps to a different": "timeout-maps-differently",
    r"status: recorded": "status-mismatch",
    r"stars: recorded": "stars-mismatch",
    r"total\w+: recorded": "totals-mismatch",
    r"does not reproduce seat .* chain": "chain-broken",
}

HOLES = {
    "hole-action-only-semantics-skipped": "command-maps-differently",
    "hole-commitment-replayed-in-next-level": "commitment-repeated",
    "hole-cursor-not-bound-to-position": "cursor-not-position",
    "hole-fabricated-run-empty-chain": "input-uncovered",
    "hole-game-version-seed-swapped": "session-terms-unbound",
    "hole-injected-input-without-seat": "input-uncovered",
    "hole-injected-input-without-submission-id": "input-uncovered",
    "hole-level-config-and-truncation": "session-terms-unbound",
    "hole-tail-truncated": "session-terms-unbound",
    "hole-timeout-forged-action": "timeout-record-missing",
    "hole-timeout-record-missing": "timeout-record-missing",
    "hole-timeout-suppressed": "timeout-missing",
    "hole-timeout-windowref-free": "timeout-window-wrong",
}


@pytest.fixture(scope="module")
def folder(shared_vectors_dir: Path) -> Path:
    return shared_vectors_dir / "gaos" / "generated"


@pytest.fixture(scope="module")
def cases(folder: Path) -> dict[str, dict[str, Any]]:
    listed = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["cases"]
    found = {case["name"]: case for case in listed}
    assert len(found) == 93
    return found


def judged(data: bytes, profile: Profile, adapter: Any) -> Judgement | None:
    """The judgement, or None where the artifact's form is wrong (exit code 2)."""
    try:
        return judge(read_artifact(data), profile=profile, recheck_replay=adapter)
    except ArtifactInvalid:
        return None


def code_of(text: str) -> str:
    return next(code for pattern, code in CODES.items() if re.search(pattern, text))


def told(judgement: Judgement) -> list[str]:
    """The codes; of a broken chain the reference tools say the same at its start and after it."""
    return [
        "chain-broken" if problem.code == "chain-mismatch" else problem.code
        for problem in judgement.all_problems()
    ]


def test_gaos_profile_gives_verdict_facts_and_exit_code_of_every_artifact(
    folder: Path, cases: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    groups: dict[str, Counter[str]] = {}
    for name, case in cases.items():
        expected = case["python" if name in PYTHON_IS_RIGHT else "typescript"]
        found = judged((folder / case["file"]).read_bytes(), Profile.GAOS, recheck_replay)
        counts = groups.setdefault(case["group"], Counter())
        counts["exit 2" if found is None else found.verdict.value] += 1
        if found is None:
            assert expected["exit"] == 2, name
            continue
        report = found.to_json()
        facts = {
            "exit": report["exitCode"],
            "verdict": report["verdict"],
            "replayOk": report["replayOk"],
            "signatures": report["signatures"]["state"],
            "semantics": {lane: report["semantics"][lane] for lane in ("submissions", "timeouts")},
        }
        assert facts == {key: expected[key] for key in facts}, name
        assert sorted(told(found)) == sorted(map(code_of, expected["problems"])), name
        if "seats" in expected:
            assert report["signatures"]["seats"] == expected["seats"], name
    with capsys.disabled():
        print("\nprofile gaos:")
        for group, counts in groups.items():
            print(f"  {group}: {', '.join(f'{count} {what}' for what, count in counts.items())}")
    assert sum(sum(counts.values()) for counts in groups.values()) == 93


def test_gaos_profile_gives_the_verdict_without_semantic_mappings_too(
    folder: Path, cases: dict[str, Any]
) -> None:
    for name, case in cases.items():
        tool = "python" if name in PYTHON_IS_RIGHT else "typescript"
        expected = case[f"{tool}WithoutSemanticAdapter"]
        found = judged((folder / case["file"]).read_bytes(), Profile.GAOS, Game(CounterRules()).recheck)
        if found is None:
            assert expected["exit"] == 2, name
        else:
            assert (found.exit_code, found.verdict) == (expected["exit"], expected["verdict"]), name


def test_without_an_adapter_only_signatures_and_commitments_reject(
    folder: Path, cases: dict[str, Any]
) -> None:
    for name, case in cases.items():
        found = judged((folder / case["file"]).read_bytes(), Profile.GAOS, None)
        if found is None:
            continue
        full = judged((folder / case["file"]).read_bytes(), Profile.GAOS, recheck_replay)
        assert full is not None
        assert found.signatures == full.signatures, name
        needs_adapter = {"replayed", "status-mismatch"} | {
            code for code in full.reasons if code.endswith("maps-differently") or code == "stars-mismatch"
        }
        expected = full.verdict is Verdict.REJECTED and set(full.reasons[:1]) - needs_adapter
        assert found.verdict is (Verdict.REJECTED if expected else Verdict.UNVERIFIABLE), name


def test_paid_profile_lets_no_hole_pass_and_says_why(
    folder: Path, cases: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    groups: dict[str, Counter[str]] = {}
    assert HOLES.keys() == {name for name in cases if name.startswith("hole-")}
    for name, case in cases.items():
        found = judged((folder / case["file"]).read_bytes(), Profile.PAID, recheck_replay)
        counts = groups.setdefault(case["group"], Counter())
        counts["exit 2" if found is None else found.verdict.value] += 1
        if found is None:
            continue
        assert found.verdict is not Verdict.TRUSTED, name
        assert found.terms == "unbound"
        if name in HOLES:
            assert HOLES[name] in found.reasons, name
            strict = HOLES[name] != "session-terms-unbound"
            assert found.verdict is (Verdict.REJECTED if strict else Verdict.UNVERIFIABLE), name
        elif name.startswith("trusted-"):
            # The rules refuse nothing that honest hosts write; what is missing is a digest of the terms.
            assert found.reasons == ("session-terms-unbound",), name
    with capsys.disabled():
        print("\nprofile paid:")
        for group, counts in groups.items():
            print(f"  {group}: {', '.join(f'{count} {what}' for what, count in counts.items())}")


def test_a_retained_head_catches_the_truncated_artifact(folder: Path, cases: dict[str, Any]) -> None:
    # The whole of a session that was not cut off, by the one head that its seat kept at the end.
    whole = read_artifact((folder / "trusted-direct.gaos-replay.jsonl").read_bytes())
    kept = {seat.seat: [seat.chain_head] for seat in judge(whole).signatures.seats}
    assert judge(whole, retained_heads=kept).verdict is Verdict.UNVERIFIABLE
    data = b"".join((folder / "trusted-direct.gaos-replay.jsonl").read_bytes().splitlines(keepends=True)[:-1])
    cut = judge(read_artifact(data), retained_heads=kept)
    assert (cut.verdict, cut.reasons[0]) == (Verdict.REJECTED, "retained-head-missing")


def test_published_replays_are_unverifiable(shared_vectors_dir: Path) -> None:
    for path in sorted((shared_vectors_dir / "gaos" / "replay").glob("*.jsonl")):
        found = judge(read_artifact(path.read_bytes()))
        assert (found.verdict, found.reasons) == (Verdict.UNVERIFIABLE, ("unsigned", "adapter-missing"))
