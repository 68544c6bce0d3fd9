"""Scores: what a plugin gives for an episode, and how they become one number (SUBMISSIONS 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.replay.adapter import AdapterArtifact
from aioum.replay.facts import Judgement
from aioum.replay.model import Artifact
from aioum.trust.facts import FactState
from aioum.trust.manifest import Aggregation, EpisodePlan, Manifest


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """What a plugin scores: an artifact that was judged, and the episode that it is submitted for.

    Nothing that the submitter says of it is here.
    """

    plan: EpisodePlan
    artifact: Artifact
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class EpisodeScore:
    """What a plugin found.

    Attributes:
        score: finite.
        terminal_outcome: how the episode ended, in the plugin's words; compared with the submitted one.
        evidence_complete: whether the run is whole, where the plugin knows better than the judge.
    """

    score: int | float
    terminal_outcome: JsonValue
    evidence_complete: FactState | None = None


class ScoringPlugin(Protocol):
    """Scores episodes: a pure function of the run. Whatever it raises keeps the episode from being scored."""

    @property
    def name(self) -> str:
        """As a manifest's `scoring.plugin` names it."""
        ...

    def score(self, run: JudgedRun) -> EpisodeScore:
        """The score of one run."""
        ...


@dataclass(frozen=True, slots=True)
class TotalStars:
    """The recorded total of stars, which the game's adapter has rechecked, and the results of all levels."""

    name: str = "aioum.total-stars@1"

    def score(self, run: JudgedRun) -> EpisodeScore:
        """The score of one run."""
        header = run.artifact.header
        results: list[JsonValue] = [
            {
                "level": level.id,
                "status": level.result.status,
                "stars": level.result.stars,
                "actionsUsed": level.result.actions_used,
            }
            for level in header.levels
        ]
        return EpisodeScore(header.total_stars, {"levels": results})


BUILT_IN: Final[Mapping[str, ScoringPlugin]] = {plugin.name: plugin for plugin in (TotalStars(),)}
"""The plugins that come with aioum, by name."""


ScoreEpisode: TypeAlias = Callable[[AdapterArtifact, dict[str, JsonValue]], Mapping[str, Any]]
"""A verifier's own function: from an artifact, and from `{"plan": …, "judgement": …}` (the report of
`verify-run --json`), to `{"score": …, "terminalOutcome": …}` and maybe `"evidenceComplete"`."""


@dataclass(frozen=True, slots=True)
class FunctionPlugin:
    """A plugin made of a function."""

    name: str
    score_episode: ScoreEpisode

    def score(self, run: JudgedRun) -> EpisodeScore:
        """The score of one run. Raises InvalidInput `score-invalid`, and whatever the function raises."""
        artifact = AdapterArtifact(run.artifact, run.judgement.profile)
        answer: Any = self.score_episode(
            artifact, {"plan": run.plan.to_json(), "judgement": run.judgement.to_json()}
        )
        if not isinstance(answer, Mapping) or not {"score", "terminalOutcome"} <= answer.keys():
            raise InvalidInput("a score is a mapping with score and terminalOutcome", code="score-invalid")
        score, complete = answer["score"], answer.get("evidenceComplete")
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise InvalidInput("score must be a finite number", code="score-invalid")
        try:
            state = None if complete is None else FactState(complete)
        except ValueError as error:
            raise InvalidInput(
                f"evidenceComplete must be a state of a fact, got {complete!r:.40}", code="score-invalid"
            ) from error
        return EpisodeScore(score, answer["terminalOutcome"], state)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The scores of all tasks, and the one number over them."""

    score: float
    task_scores: Mapping[str, float]

    def to_json(self) -> dict[str, JsonValue]:
        """The members `aggregateScore` and `taskScores`."""
        return {"aggregateScore": self.score, "taskScores": dict(self.task_scores)}


def aggregate(manifest: Manifest, scores: Iterable[tuple[EpisodePlan, int | float]]) -> Aggregate:
    """Scores of all planned episodes as one.

    Args:
        manifest: says how.
        scores: one for each episode of the plan, in its order: rounding depends on it.

    Raises:
        InvalidInput: `scores-incomplete`; `score-not-finite`, also for a sum that overflows.
    """
    by_task: dict[str, list[int | float]] = {task.id: [] for task in manifest.tasks}
    for plan, score in scores:
        by_task[plan.task_id].append(score)
    task_scores: dict[str, float] = {}
    total, total_weight = 0.0, 0.0
    for task in manifest.tasks:
        own = by_task[task.id]
        if len(own) != len(task.seeds) * task.episodes:
            raise InvalidInput(f"task {task.id:.100} lacks scores", code="scores-incomplete")
        score = _sum(own) / len(own)
        weighted = manifest.aggregation is Aggregation.WEIGHTED_MEAN and task.weight is not None
        weight = float(task.weight) if weighted and task.weight is not None else 1.0
        task_scores[task.id] = score
        total += score * weight
        total_weight += weight
    result = total if manifest.aggregation is Aggregation.SUM else total / total_weight
    if not all(map(math.isfinite, (result, *task_scores.values()))):
        raise InvalidInput("the scores have no finite sum", code="score-not-finite")
    return Aggregate(result, task_scores)


def _sum(numbers: Iterable[int | float]) -> float:
    # One double addition after the other, as everybody else adds. From Python 3.12 on, sum() does not.
    total = 0.0
    for number in numbers:
        total += number
    return total
