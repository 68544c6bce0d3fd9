"""From a reference to a judgment: each fact on its own, and nothing runs unless the caller named it."""

from pathlib import Path

import pytest

from aioum.core.canonical import JsonValue
from aioum.kits.cache import KitCache
from aioum.kits.execution import RunnerUnavailable, RunResult
from aioum.kits.reference import KitReference, artifact_subject
from aioum.kits.resolution import Resolution, judge, kit_in_hand, resolve_kit
from tests.unit.kits.samples import ScriptedRunner, make_artifact, make_kit, reference_to, response
from tests.unit.kits.test_fetch import Mirrors, urls

KIT = make_kit()
REFERENCE = reference_to(KIT, *urls("a"))
ARTIFACT = make_artifact(REFERENCE)
SUBJECT = artifact_subject(ARTIFACT)


@pytest.fixture
def cache(tmp_path: Path) -> KitCache:
    return KitCache(tmp_path / "kits")


def facts(found: Resolution) -> tuple[str, ...]:
    return (found.reference, found.retrieval, found.integrity, found.authorization, found.execution)


def codes(found: Resolution) -> list[str]:
    return [diagnostic.code for diagnostic in found.diagnostics]


async def test_an_artifact_that_names_no_kit_leaves_every_fact_open(cache: KitCache) -> None:
    found = await resolve_kit(None, cache=cache, fetcher=Mirrors(), authorized=frozenset())
    assert facts(found) == ("absent", "not_attempted", "unchecked", "unknown", "not_run")


async def test_a_kit_is_fetched_once_and_then_cached(cache: KitCache) -> None:
    mirrors = Mirrors(a=KIT.archive)
    first = await resolve_kit(REFERENCE, cache=cache, fetcher=mirrors, authorized={KIT.digest})
    assert facts(first) == ("present", "fetched", "matched", "accepted", "not_run")
    assert first.source == REFERENCE.mirrors[0]
    second = await resolve_kit(REFERENCE, cache=cache, fetcher=mirrors, authorized={KIT.digest})
    assert facts(second) == ("present", "cached", "matched", "accepted", "not_run")
    assert second.kit == first.kit == KIT
    assert mirrors.asked == list(REFERENCE.mirrors)


async def test_a_corrupted_cache_is_mismatched_and_nothing_is_fetched_in_its_place(cache: KitCache) -> None:
    cache.store(KIT).write_bytes(b"changed")
    mirrors = Mirrors(a=KIT.archive)
    found = await resolve_kit(REFERENCE, cache=cache, fetcher=mirrors, authorized={KIT.digest})
    assert facts(found) == ("present", "cached", "mismatched", "accepted", "not_run")
    assert (codes(found), found.kit, mirrors.asked) == (["kit-cache-mismatch"], None, [])
    judged = judge(found, ARTIFACT, SUBJECT, [ScriptedRunner(RunResult(response()))])
    assert (judged.execution, judged.verdict) == ("not_run", "unverifiable")


async def test_without_a_fetcher_nothing_is_attempted(cache: KitCache) -> None:
    found = await resolve_kit(REFERENCE, cache=cache, fetcher=None, authorized=None)
    assert facts(found) == ("present", "not_attempted", "unchecked", "unknown", "not_run")


async def test_mirrors_without_the_kit_make_it_unavailable(cache: KitCache) -> None:
    found = await resolve_kit(REFERENCE, cache=cache, fetcher=Mirrors(a=b"?"), authorized={KIT.digest})
    assert facts(found) == ("present", "unavailable", "unchecked", "accepted", "not_run")
    assert codes(found) == ["kit-mirror-mismatch"]
    assert cache.load(KIT.digest) is None


async def test_a_kit_that_the_caller_refuses_is_not_fetched(cache: KitCache) -> None:
    mirrors = Mirrors(a=KIT.archive)
    found = await resolve_kit(REFERENCE, cache=cache, fetcher=mirrors, authorized=frozenset())
    assert facts(found) == ("present", "not_attempted", "unchecked", "rejected", "not_run")
    assert mirrors.asked == []


async def test_a_reference_that_lies_about_the_size_does_not_match(cache: KitCache) -> None:
    cache.store(KIT)
    lying = KitReference(KIT.digest, len(KIT.archive) + 1, ())
    found = await resolve_kit(lying, cache=cache, fetcher=None, authorized={KIT.digest})
    assert (found.integrity, codes(found), found.kit) == ("mismatched", ["kit-size-mismatch"], None)


@pytest.mark.parametrize(
    "authorized, state", [(None, "unknown"), (frozenset({"sha256:" + "0" * 64}), "rejected")]
)
def test_only_the_caller_s_list_lets_a_kit_run(authorized: frozenset[str] | None, state: str) -> None:
    runner = ScriptedRunner(RunResult(response("trusted")))
    found = kit_in_hand(KIT, source="file", reference=REFERENCE, authorized=authorized)
    judged = judge(found, ARTIFACT, SUBJECT, [runner])
    assert (judged.authorization, judged.execution, judged.verdict) == (state, "not_run", "unverifiable")
    assert codes(judged) == ["kit-not-authorized"]
    assert runner.seen == []


def authorized() -> Resolution:
    return kit_in_hand(KIT, source="file", reference=REFERENCE, authorized={KIT.digest})


@pytest.mark.parametrize("verdict", ["trusted", "unverifiable", "rejected"])
def test_the_kit_s_verdict_is_passed_on(verdict: str) -> None:
    runner = ScriptedRunner(RunResult(response(verdict, "a remark")))
    judged = judge(authorized(), ARTIFACT, SUBJECT, [runner])
    assert (judged.execution, judged.verdict, judged.remarks) == ("passed", verdict, ("a remark",))
    assert [artifact for _, artifact in runner.seen] == [ARTIFACT]


def test_a_kit_for_another_game_is_not_run() -> None:
    runner = ScriptedRunner(RunResult(response("trusted")))
    other: JsonValue = {"id": "other", "version": "1", "adapter": {"id": "creator/demo", "version": "1.0.0"}}
    judged = judge(authorized(), ARTIFACT, artifact_subject(make_artifact(game=other)), [runner])
    assert (judged.execution, codes(judged), runner.seen) == ("not_run", ["kit-for-another-game"], [])


def test_a_kit_in_hand_that_the_artifact_does_not_name_is_remarked_on() -> None:
    other = make_kit(program=b"another")
    found = kit_in_hand(other, source="file", reference=REFERENCE, authorized={other.digest})
    assert codes(found) == ["kit-not-the-referenced-one"]


@pytest.mark.parametrize(
    "runners, code",
    [
        ([], "kit-runner-missing"),
        ([ScriptedRunner(RunResult(response()), frozenset({"node-esm"}))], "kit-runner-missing"),
        ([ScriptedRunner(RunnerUnavailable("no engine"))], "kit-runner-unavailable"),
    ],
)
def test_without_a_sandbox_the_kit_is_restricted_and_the_verdict_stays_unverifiable(
    runners: list[ScriptedRunner], code: str
) -> None:
    judged = judge(authorized(), ARTIFACT, SUBJECT, runners)
    assert (judged.execution, judged.verdict, codes(judged)) == ("restricted", "unverifiable", [code])


def test_the_next_sandbox_is_taken_where_one_cannot_be_used_but_no_run_is_repeated() -> None:
    broken = ScriptedRunner(RunnerUnavailable("no engine"))
    failing = ScriptedRunner(RunResult(b"", "kit-run-timeout", "too slow"))
    eager = ScriptedRunner(RunResult(response("trusted")))
    judged = judge(authorized(), ARTIFACT, SUBJECT, [broken, failing, eager])
    assert (judged.execution, judged.verdict, codes(judged)) == (
        "failed",
        "unverifiable",
        ["kit-run-timeout"],
    )
    assert (len(broken.seen), len(failing.seen), len(eager.seen)) == (1, 1, 0)


def test_the_facts_are_told_as_json_without_the_kit() -> None:
    told = judge(authorized(), ARTIFACT, SUBJECT, []).to_json()
    assert told == {
        "reference": "present",
        "retrieval": "not_attempted",
        "integrity": "matched",
        "authorization": "accepted",
        "execution": "restricted",
        "digest": KIT.digest,
        "source": "file",
        "diagnostics": [
            {"code": "kit-runner-missing", "message": "no sandbox for wasi-preview1 was offered"}
        ],
        "verdict": "unverifiable",
        "remarks": [],
    }
