"""Manifests of published comparisons: what is read, refused, planned and hashed."""

from typing import Any

import pytest

from aioum.core.errors import InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.trust.manifest import MAX_EPISODES, MAX_TASKS, Manifest, percent_encoded
from aioum.trust.scoring import aggregate
from tests.unit.trust.comparisons import MANIFEST, manifest, manifest_json

TASK = {"id": "count", "seeds": [1], "episodes": 1, "maxSteps": 1}
REQUIREMENT: dict[str, Any] = {
    "claim": "time",
    "purpose": "timestamp",
    "authorityId": "clock",
    "acceptedSchemas": ["s"],
    "required": True,
}


def refused(value: Any) -> str:
    with pytest.raises(InvalidInput) as refusal:
        Manifest.from_json(value)
    return refusal.value.code


def test_episodes_are_planned_by_task_then_seed_then_count() -> None:
    tasks = [TASK | {"id": "a", "seeds": [5, 2], "episodes": 2}, TASK | {"id": "b", "maxSteps": 4}]

    plan = manifest(tasks=tasks).plan()

    assert [each.id for each in plan] == [
        "a-seed-5-episode-0",
        "a-seed-5-episode-1",
        "a-seed-2-episode-0",
        "a-seed-2-episode-1",
        "b-seed-1-episode-0",
    ]
    assert [(each.index, each.max_steps) for each in plan] == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 4)]


def test_a_manifest_is_written_as_it_was_read_and_any_spelling_has_one_digest() -> None:
    value = manifest_json(
        observationModalities=["text"], agentInterface="http", authorityRequirements=[REQUIREMENT]
    )

    read = Manifest.from_json(value)

    assert read.to_json() == value
    assert Manifest.from_bytes(b"  " + canonical_json(value) + b"\n\n").digest_hex == read.digest_hex
    assert read.digest_hex != MANIFEST.digest_hex


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "gaos.benchmark-manifest.v2"},
        {"unknown": 1},
        {"benchmark": {"id": "a", "version": "1"}},
        {"benchmark": {"id": "", "version": "1", "adapter": "a"}},
        {"scoring": {"plugin": "p", "aggregation": "median"}},
        {"submission": {"requireSignedSeats": 1, "requireCompleteCoverage": False}},
        {"observationModalities": [""]},
        {"observationModalities": None},
        {"agentInterface": None},
        {"authorityRequirements": [REQUIREMENT, REQUIREMENT]},
        {"authorityRequirements": [REQUIREMENT | {"claim": "fame"}]},
        {"tasks": []},
        {"tasks": [TASK, TASK]},
        {"tasks": [TASK | {"seeds": []}]},
        {"tasks": [TASK | {"seeds": [1, 1]}]},
        {"tasks": [TASK | {"seeds": [2**32]}]},
        {"tasks": [TASK | {"seeds": [True]}]},
        {"tasks": [TASK | {"episodes": 0}]},
        {"tasks": [TASK | {"maxSteps": 0}]},
        {"tasks": [TASK | {"maxSteps": 1.0}]},
        {"tasks": [TASK | {"weight": -1}]},
        {"tasks": [TASK | {"weight": None}]},
        {"tasks": [TASK | {"weight": float("inf")}]},
        {"tasks": [TASK | {"weight": 0}]},
        {"tasks": [TASK | {"id": "\ud800"}]},
    ],
    ids=str,
)
def test_what_no_organizer_may_publish_is_refused(changes: dict[str, Any]) -> None:
    assert refused(manifest_json(**changes)) == "manifest-invalid"


@pytest.mark.parametrize(
    "tasks",
    [
        [TASK | {"id": "x" * 181}],
        [TASK | {"id": "ä" * 31}],
        [TASK | {"episodes": MAX_EPISODES + 1}],
        [TASK | {"id": f"t{n}", "episodes": MAX_EPISODES // 2} for n in range(3)],
        [TASK | {"id": f"t{n}"} for n in range(MAX_TASKS + 1)],
    ],
    ids=["long id", "id that is long in a file's name", "episodes", "episodes together", "tasks"],
)
def test_what_is_beyond_the_limits_is_refused(tasks: list[Any]) -> None:
    assert refused(manifest_json(tasks=tasks)) == "manifest-invalid"


def test_a_manifest_of_other_types_is_refused() -> None:
    values: tuple[Any, ...] = (None, [], "manifest", 1, {})
    for value in values:
        assert refused(value) == "manifest-invalid"


def test_ids_become_names_of_files_without_separators() -> None:
    assert percent_encoded("a/../ü b!*'()~") == "a%2F..%2F%C3%BC%20b!*'()~"


def scored(aggregation: str, scores: list[float], **first_task: Any) -> Any:
    tasks = [TASK | {"id": "a", "seeds": [1, 2], **first_task}, TASK | {"id": "b"}]
    made = manifest(tasks=tasks, scoring={"plugin": "p", "aggregation": aggregation})
    return aggregate(made, zip(made.plan(), scores, strict=True)).to_json()


def test_scores_of_tasks_are_means_of_episodes_and_become_one_as_the_manifest_says() -> None:
    tasks = {"a": 3, "b": 6}
    assert scored("mean", [2, 4, 6]) == {"aggregateScore": 4.5, "taskScores": tasks}
    assert scored("sum", [2, 4, 6]) == {"aggregateScore": 9, "taskScores": tasks}
    assert scored("weighted-mean", [2, 4, 6], weight=0.5) == {"aggregateScore": 5, "taskScores": tasks}
    # Only one of the three asks for weights.
    assert scored("mean", [2, 4, 6], weight=0.5)["aggregateScore"] == 4.5


def test_scores_are_added_one_after_the_other_as_doubles() -> None:
    made = manifest(tasks=[TASK | {"episodes": 10}], scoring={"plugin": "p", "aggregation": "mean"})

    found = aggregate(made, [(each, 0.1) for each in made.plan()])

    # A sum that compensates for rounding, as Python's has been since 3.12, gives 0.1.
    assert found.score == 0.09999999999999999


def test_scores_without_a_finite_sum_are_refused() -> None:
    with pytest.raises(InvalidInput) as refusal:
        scored("mean", [1.7e308, 1.7e308, 0])
    assert refusal.value.code == "score-not-finite"


def test_scores_of_too_few_episodes_are_refused() -> None:
    with pytest.raises(InvalidInput) as refusal:
        aggregate(MANIFEST, [(MANIFEST.plan()[0], 1)])
    assert refusal.value.code == "scores-incomplete"
