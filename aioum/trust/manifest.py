"""The manifest of a published comparison: which episodes are run, and how they are scored (SUBMISSIONS 3.2).

Whoever judges brings the manifest, or its digest, from a source of their own. The copy inside a submission
can only be found to be the same.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.replay import fields
from aioum.trust.reading import flag, items, placed
from aioum.trust.requirements import MAX_REQUIREMENTS, AuthorityRequirement

SCHEMA: Final = "gaos.benchmark-manifest.v1"

MAX_MANIFEST_BYTES: Final = 1024 * 1024
MAX_TASKS: Final = 1_000
MAX_SEEDS: Final = 10_000
"""Most seeds of one task."""

MAX_EPISODES: Final = 10_000
"""Most episodes of all tasks together."""

MAX_MODALITIES: Final = 64
MAX_ENCODED_TASK_ID: Final = 180
"""Most bytes of a task's id in percent encoding, so that an episode's file has a name of at most 255."""

_CODE: Final = "manifest-invalid"
_UNESCAPED: Final = "!*'()~"
_REQUIRED: Final = frozenset({"schema", "benchmark", "tasks", "scoring", "submission"})
_OPTIONAL: Final = frozenset({"observationModalities", "agentInterface", "authorityRequirements"})
_BENCHMARK: Final = frozenset({"id", "version", "adapter"})
_TASK: Final = frozenset({"id", "seeds", "episodes", "maxSteps"})
_PLAN: Final = frozenset({"index", "taskId", "seed", "episode", "maxSteps"})
_SCORING: Final = frozenset({"plugin", "aggregation"})
_SUBMISSION: Final = frozenset({"requireSignedSeats", "requireCompleteCoverage"})


class Aggregation(StrEnum):
    """How the scores of tasks become one. A task's score is always the mean of its episodes'."""

    MEAN = "mean"
    WEIGHTED_MEAN = "weighted-mean"
    SUM = "sum"


@dataclass(frozen=True, slots=True)
class EpisodePlan:
    """One episode that a manifest asks for.

    Attributes:
        index: position among all episodes, from 0.
        seed: u32.
        episode: count of episodes with this task and seed, from 0.
        max_steps: most actions, at least 1.
    """

    index: int
    task_id: str
    seed: int
    episode: int
    max_steps: int

    @property
    def id(self) -> str:
        """Unique in a manifest."""
        return f"{self.task_id}-seed-{self.seed}-episode-{self.episode}"

    @classmethod
    def from_json(cls, value: JsonValue) -> EpisodePlan:
        """Read exactly the five members. Raises InvalidInput, with a code of `aioum.replay.fields`."""
        plan = fields.members(value, _PLAN, _PLAN)
        return cls(
            fields.count(plan, "index"),
            fields.text(plan, "taskId"),
            fields.u32(plan, "seed"),
            fields.count(plan, "episode"),
            fields.count(plan, "maxSteps"),
        )

    def to_json(self) -> dict[str, JsonValue]:
        """The five members."""
        return {
            "index": self.index,
            "taskId": self.task_id,
            "seed": self.seed,
            "episode": self.episode,
            "maxSteps": self.max_steps,
        }


@dataclass(frozen=True, slots=True)
class Task:
    """What is run: `episodes` times with each seed.

    Attributes:
        seeds: u32, each once.
        weight: of the task's score under `weighted-mean`; None counts as 1.
    """

    id: str
    seeds: tuple[int, ...]
    episodes: int
    max_steps: int
    weight: int | float | None = None

    @classmethod
    def from_json(cls, value: JsonValue) -> Task:
        """Read a task. Raises InvalidInput `manifest-invalid` or a code of `aioum.replay.fields`."""
        task = fields.members(value, _TASK | {"weight"}, _TASK)
        task_id = fields.text(task, "id")
        if len(percent_encoded(task_id)) > MAX_ENCODED_TASK_ID:
            raise InvalidInput(f"the id has over {MAX_ENCODED_TASK_ID} bytes in percent encoding", code=_CODE)
        seeds = items(task["seeds"], "seeds", _seed, least=1, most=MAX_SEEDS, code=_CODE)
        if len(set(seeds)) != len(seeds):
            raise InvalidInput("a seed occurs twice", code=_CODE)
        episodes, max_steps = fields.count(task, "episodes"), fields.count(task, "maxSteps")
        if not episodes or not max_steps:
            raise InvalidInput("episodes and maxSteps must be at least 1", code=_CODE)
        return cls(task_id, tuple(seeds), episodes, max_steps, _weight(task))

    def to_json(self) -> dict[str, JsonValue]:
        """The members that are present."""
        task: dict[str, JsonValue] = {
            "id": self.id,
            "seeds": list(self.seeds),
            "episodes": self.episodes,
            "maxSteps": self.max_steps,
        }
        if self.weight is not None:
            task["weight"] = self.weight
        return task


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a comparison's organizer publishes.

    Attributes:
        benchmark_id: the comparison.
        adapter: what judges an episode, usually `id@version`.
        plugin: what scores an episode, usually `name@version`.
        require_signed_seats: an episode whose calls are not all signed does not count.
        require_complete_coverage: an episode that could have been cut off at its end does not count.
        digest_hex: hex SHA-256 of the canonical JSON.
    """

    benchmark_id: str
    version: str
    adapter: str
    tasks: tuple[Task, ...]
    plugin: str
    aggregation: Aggregation
    require_signed_seats: bool
    require_complete_coverage: bool
    modalities: tuple[str, ...] | None = None
    agent_interface: str | None = None
    authority_requirements: tuple[AuthorityRequirement, ...] | None = None
    digest_hex: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Hash it, once."""
        digest = hashlib.sha256(canonical_json(self.to_json())).hexdigest()
        object.__setattr__(self, "digest_hex", digest)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read JSON text, canonical or not. Raises InvalidInput `manifest-invalid` or as `parse_json`."""
        return cls.from_json(parse_json(data, max_bytes=MAX_MANIFEST_BYTES))

    @classmethod
    def from_json(cls, value: JsonValue) -> Manifest:
        """Read a manifest; unknown members and explicit nulls are refused.

        Raises:
            InvalidInput: `manifest-invalid`.
        """
        with placed("manifest", _CODE):
            return _read(value)

    def to_json(self) -> dict[str, JsonValue]:
        """The members that are present."""
        manifest: dict[str, JsonValue] = {
            "schema": SCHEMA,
            "benchmark": {"id": self.benchmark_id, "version": self.version, "adapter": self.adapter},
            "tasks": [task.to_json() for task in self.tasks],
            "scoring": {"plugin": self.plugin, "aggregation": self.aggregation.value},
            "submission": {
                "requireSignedSeats": self.require_signed_seats,
                "requireCompleteCoverage": self.require_complete_coverage,
            },
        }
        if self.modalities is not None:
            manifest["observationModalities"] = list(self.modalities)
        if self.agent_interface is not None:
            manifest["agentInterface"] = self.agent_interface
        if self.authority_requirements is not None:
            manifest["authorityRequirements"] = [each.to_json() for each in self.authority_requirements]
        return manifest

    def plan(self) -> tuple[EpisodePlan, ...]:
        """Every episode: by task, then by seed as listed, then by count."""
        runs = [
            (task, seed, episode)
            for task in self.tasks
            for seed in task.seeds
            for episode in range(task.episodes)
        ]
        return tuple(
            EpisodePlan(index, task.id, seed, episode, task.max_steps)
            for index, (task, seed, episode) in enumerate(runs)
        )


def percent_encoded(text: str) -> str:
    """A text as part of a file's name: ASCII, without separators. It is what encodeURIComponent gives."""
    # An unpaired surrogate has no canonical JSON, so whatever holds one is refused for that.
    return quote(text, safe=_UNESCAPED, errors="surrogatepass")


def _read(value: JsonValue) -> Manifest:
    manifest = fields.members(value, _REQUIRED | _OPTIONAL, _REQUIRED)
    fields.one_of(manifest, "schema", (SCHEMA,), _CODE)
    with placed("benchmark", _CODE):
        benchmark = fields.members(manifest["benchmark"], _BENCHMARK, _BENCHMARK)
        benchmark_id, version, adapter = (
            fields.text(benchmark, each) for each in ("id", "version", "adapter")
        )
    with placed("scoring", _CODE):
        scoring = fields.members(manifest["scoring"], _SCORING, _SCORING)
        plugin = fields.text(scoring, "plugin")
        aggregation = Aggregation(fields.one_of(scoring, "aggregation", tuple(Aggregation), _CODE))
    with placed("submission", _CODE):
        submission = fields.members(manifest["submission"], _SUBMISSION, _SUBMISSION)
        signed = flag(submission, "requireSignedSeats")
        complete = flag(submission, "requireCompleteCoverage")
    try:
        return Manifest(
            benchmark_id,
            version,
            adapter,
            _tasks(manifest["tasks"], aggregation),
            plugin,
            aggregation,
            signed,
            complete,
            _modalities(manifest),
            fields.optional_text(manifest, "agentInterface"),
            _requirements(manifest),
        )
    except CanonicalError as error:
        raise InvalidInput(str(error), code=_CODE) from error


def _tasks(value: Any, aggregation: Aggregation) -> tuple[Task, ...]:
    tasks = items(value, "tasks", Task.from_json, least=1, most=MAX_TASKS, code=_CODE)
    if len({task.id for task in tasks}) != len(tasks):
        raise InvalidInput("two tasks have one id", code=_CODE)
    episodes = sum(len(task.seeds) * task.episodes for task in tasks)
    if episodes > MAX_EPISODES:
        raise InvalidInput(f"{episodes} episodes, at most {MAX_EPISODES} are judged", code=_CODE)
    if aggregation is Aggregation.WEIGHTED_MEAN and all(task.weight == 0 for task in tasks):
        raise InvalidInput("every task has the weight 0", code=_CODE)
    return tuple(tasks)


def _seed(value: Any) -> int:
    return fields.u32({"seed": value}, "seed")


def _weight(task: dict[str, Any]) -> int | float | None:
    if "weight" not in task:
        return None
    weight = fields.number(task, "weight")
    if not 0 <= weight < math.inf:
        raise InvalidInput(f"weight must be a finite number from 0, got {weight}", code=_CODE)
    return weight


def _modalities(manifest: dict[str, Any]) -> tuple[str, ...] | None:
    if "observationModalities" not in manifest:
        return None
    listed = manifest["observationModalities"]
    return tuple(items(listed, "observationModalities", _modality, most=MAX_MODALITIES, code=_CODE))


def _modality(value: Any) -> str:
    return fields.text({"modality": value}, "modality")


def _requirements(manifest: dict[str, Any]) -> tuple[AuthorityRequirement, ...] | None:
    name = "authorityRequirements"
    if name not in manifest:
        return None
    read = AuthorityRequirement.from_json
    requirements = items(manifest[name], name, read, most=MAX_REQUIREMENTS, code=_CODE)
    if len({(each.claim, each.authority_id) for each in requirements}) != len(requirements):
        raise InvalidInput("two requirements have one claim and one authority", code=_CODE)
    return tuple(requirements)
