"""The public system's own cases for submissions to published comparisons."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aioum.trust.bundle import Bundle
from aioum.trust.bundle_verdict import BundleVerdict, EpisodeVerdict, OutsideTrust, verify_bundle
from aioum.trust.facts import FactState
from aioum.trust.manifest import EpisodePlan, Manifest
from aioum.trust.package import README, bundle_files, package_digest, read_package

NOW = datetime(2026, 7, 1, tzinfo=UTC)

# Words that occur in one of the public system's texts each, and our code for it; None where ours need no code
# of its own, since another reason says the same.
REASONS = {
    "independently supplied manifest": "manifest-differs",
    "content digest mismatch": "content-digest-differs",
    "missing required episode": "episode-missing",
    "episode set is incompatible": None,
    "exactly match the authored plan": "episode-plan-differs",
    "duplicate episode": "episode-duplicate",
    "replay digest mismatch": "replay-digest-differs",
    "carried episode score": "score-differs",
    "signed-seat evidence is required": "signatures-unverified",
}


def codes(texts: list[str]) -> list[str]:
    found = [code for text in texts for words, code in REASONS.items() if words in text]
    assert len(found) == len(texts)
    return [code for code in found if code is not None]


@pytest.fixture(scope="module")
def document(shared_vectors_dir: Path) -> dict[str, Any]:
    path = shared_vectors_dir / "gaos" / "generated" / "benchmark-bundle.cases.json"
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def files(document: dict[str, Any]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in document["files"].items()}


def judged(case: dict[str, Any]) -> BundleVerdict:
    outcomes = {
        (each["plan"]["taskId"], each["plan"]["seed"], each["plan"]["episode"]): each["terminalOutcome"]
        for each in case["bundle"]["episodes"]
    }

    def judge_episode(plan: EpisodePlan, _replay: bytes) -> EpisodeVerdict:
        outcome = outcomes[plan.task_id, plan.seed, plan.episode]
        good = FactState.VERIFIED
        return EpisodeVerdict(good, outcome["score"], outcome, FactState.UNVERIFIED, good, good)

    return verify_bundle(
        Bundle.from_json(case["bundle"]),
        manifest=Manifest.from_json(case["manifest"]),
        judge_episode=judge_episode,
        trust=OutsideTrust(NOW),
    )


def test_every_case_gives_the_verdict_facts_and_reasons_of_the_public_system(
    document: dict[str, Any], files: dict[str, bytes]
) -> None:
    assert len(document["cases"]) == 12
    original = document["cases"][0]["bundle"]["contentDigest"].encode()
    for case in document["cases"]:
        verdict, expected = judged(case), case["expected"]
        found = None if verdict.aggregate is None else verdict.aggregate.to_json()
        assert (verdict.valid, found) == (expected["valid"], expected["aggregate"]), case["name"]
        assert [each.code for each in verdict.reasons] == codes(expected["facts"]["reasons"]), case["name"]
        facts = verdict.facts.to_json() | {"reasons": None}
        assert facts == expected["facts"] | {"reasons": None}, case["name"]
        readme = files[README].replace(original, verdict.bundle.content_digest.encode())
        assert package_digest(bundle_files(verdict.bundle, readme)) == expected["bundleDigest"], case["name"]


def test_manifest_digest_and_plan_are_those_of_the_public_system(document: dict[str, Any]) -> None:
    manifest = Manifest.from_json(document["cases"][0]["manifest"])

    assert manifest.digest_hex == document["manifestDigest"]
    assert [plan.to_json() for plan in manifest.plan()] == document["plan"]


def test_its_files_are_read_and_written_with_the_same_bytes(
    document: dict[str, Any], files: dict[str, bytes]
) -> None:
    package = read_package(files)

    assert package.digest_hex == document["packageDigest"]
    assert package.bundle.to_json() == document["cases"][0]["bundle"]
    assert bundle_files(package.bundle, files[README]) == files


def test_cases_written_as_files_are_read_as_what_they_were(
    document: dict[str, Any],
) -> None:
    for case in document["cases"]:
        bundle = Bundle.from_json(case["bundle"])
        if case["name"] == "duplicate-episode":
            continue  # two episodes with one file
        assert read_package(bundle_files(bundle)).bundle == bundle, case["name"]
