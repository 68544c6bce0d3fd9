"""Entries of a published comparison: the submitter's names, and a verifier's facts (SUBMISSIONS 3.2).

Whatever a submitter says about verification is thrown away. An entry starts with nothing observed, and only
the result of a verifier that judged the very same package changes that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput, Refused
from aioum.replay import fields
from aioum.replay.facts import Verdict
from aioum.trust.bundle import digest_hex
from aioum.trust.bundle_verdict import BundleVerdict
from aioum.trust.facts import FactState
from aioum.trust.manifest import MAX_TASKS
from aioum.trust.reading import placed
from aioum.trust.submission_facts import Fact, SubmissionFacts

SCHEMA: Final = "gaos.leaderboard-entry.v2"

PENDING: Final = "verification-pending"
"""The reason of an entry that nobody has judged."""

MAX_REASONS: Final = 64
"""Most reasons of a decision on eligibility."""

_CODE: Final = "entry-invalid"
_PENDING: Final = SubmissionFacts(reasons=(PENDING,))
_CLAIMS: Final = frozenset(
    {
        "benchmarkId",
        "benchmarkVersion",
        "submissionId",
        "agentName",
        "modality",
        "aggregateScore",
        "taskScores",
        "artifactDigest",
    }
)
_OPTIONAL_CLAIMS: Final = frozenset({"modelClaim", "strategyName", "uncertainty", "openSourceUrl"})
_DISCARDED: Final = frozenset({"evidenceVerdict", "reproduced", "verification", "eligibility"})
_ORGANIZERS: Final = frozenset({Fact.ORGANIZER_REPRODUCED, Fact.IMPLEMENTATION_OPEN, Fact.AVAILABILITY})


class Decision(StrEnum):
    """Whether an entry takes part, by an organizer's policy."""

    ELIGIBLE = "eligible"
    INELIGIBLE = "ineligible"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Eligibility:
    """An organizer's decision. It is no fact about the evidence, and changes none.

    Raises:
        InvalidInput: `entry-invalid`.
    """

    policy_id: str
    policy_version: str
    decision: Decision
    reasons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the limits."""
        with placed("eligibility", _CODE):
            for text in (self.policy_id, self.policy_version, *self.reasons):
                fields.text({"text": text}, "text")
        if len(self.reasons) > MAX_REASONS:
            raise InvalidInput(f"eligibility: at most {MAX_REASONS} reasons", code=_CODE)

    def to_json(self) -> dict[str, JsonValue]:
        """The four members."""
        return {
            "policyId": self.policy_id,
            "policyVersion": self.policy_version,
            "decision": self.decision.value,
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class LeaderboardEntry:
    """A row of a published comparison.

    Attributes:
        package_digest: hex; names the submission's files.
        score: the submitter's claim, or a verifier's where `recomputed`.
        task_scores: likewise.
        remarks: names that the submitter gives: model, strategy, uncertainty, source. Never verified here.
        verdict: the facts in one word.
        facts: a verifier's.
        judged: whether a verifier's result was posted.
        recomputed: whether that result gave the scores.
        eligibility: the organizer's decision, or None.
    """

    benchmark_id: str
    benchmark_version: str
    submission_id: str
    agent_name: str
    modality: str
    package_digest: str
    score: int | float
    task_scores: Mapping[str, int | float]
    remarks: Mapping[str, JsonValue] = field(default_factory=dict)
    verdict: Verdict = Verdict.UNVERIFIABLE
    facts: SubmissionFacts = _PENDING
    judged: bool = False
    recomputed: bool = False
    eligibility: Eligibility | None = None

    @classmethod
    def submitted(cls, value: JsonValue, *, package_digest: str) -> LeaderboardEntry:
        """A new entry from what a submitter sends. Verdict, facts and eligibility in it are thrown away.

        Args:
            value: an entry's members; those about verification may be absent.
            package_digest: hex; computed over the files that came with it.

        Raises:
            InvalidInput: `entry-invalid`, also where it names other files.
        """
        with placed("entry", _CODE):
            known = _CLAIMS | _OPTIONAL_CLAIMS | _DISCARDED | {"schema"}
            entry = fields.members(value, known, _CLAIMS | {"schema"})
            fields.one_of(entry, "schema", (SCHEMA,), _CODE)
            digest = digest_hex(entry, "artifactDigest")
            if digest != package_digest:
                raise InvalidInput("it names other files than came with it", code=_CODE)
            return cls(
                benchmark_id=fields.text(entry, "benchmarkId"),
                benchmark_version=fields.text(entry, "benchmarkVersion"),
                submission_id=fields.text(entry, "submissionId"),
                agent_name=fields.text(entry, "agentName"),
                modality=fields.text(entry, "modality"),
                package_digest=package_digest,
                score=_finite(entry, "aggregateScore"),
                task_scores=_task_scores(entry),
                remarks={name: _remark(entry, name) for name in sorted(_OPTIONAL_CLAIMS & entry.keys())},
            )

    def posted(
        self,
        verdict: BundleVerdict,
        *,
        package_digest: str,
        observed: Mapping[Fact, FactState] | None = None,
    ) -> LeaderboardEntry:
        """The entry with a verifier's own result in place of whatever was known before.

        Args:
            verdict: on the submission's bundle.
            package_digest: hex, of the files that the verifier judged.
            observed: what only an organizer can know: whether they reproduced it, whether the implementation
                is open, whether it was available.

        Raises:
            Refused: `entry-of-another`, the result is about another submission.
            InvalidInput: `fact-not-observable`, `observed` has a fact that is computed.
        """
        manifest = verdict.bundle.manifest
        judged = (
            package_digest,
            verdict.bundle.submitter.submission_id,
            manifest.benchmark_id,
            manifest.version,
        )
        if judged != (self.package_digest, self.submission_id, self.benchmark_id, self.benchmark_version):
            raise Refused("the result is about another submission", code="entry-of-another")
        extra = dict(observed or {})
        if not extra.keys() <= _ORGANIZERS:
            raise InvalidInput("only the organizer's facts can be observed", code="fact-not-observable")
        facts = replace(verdict.facts, states={**verdict.facts.states, **extra})
        found = verdict.aggregate
        return replace(
            self,
            verdict=verdict.evidence_verdict,
            facts=facts,
            judged=True,
            recomputed=found is not None,
            score=self.score if found is None else found.score,
            task_scores=self.task_scores if found is None else found.task_scores,
            eligibility=None,
        )

    def decided(self, eligibility: Eligibility) -> LeaderboardEntry:
        """The entry with an organizer's decision.

        Raises:
            Refused: `entry-not-verified`, nothing that nobody judged, or that was rejected, is eligible.
        """
        supported = self.judged and self.verdict is not Verdict.REJECTED
        if eligibility.decision is Decision.ELIGIBLE and not supported:
            raise Refused("no verifier's result supports the entry", code="entry-not-verified")
        return replace(self, eligibility=eligibility)

    def to_json(self) -> dict[str, JsonValue]:
        """All members that are present. `reproduced` repeats the organizer's fact for older readers."""
        entry: dict[str, JsonValue] = {
            "schema": SCHEMA,
            "benchmarkId": self.benchmark_id,
            "benchmarkVersion": self.benchmark_version,
            "submissionId": self.submission_id,
            "agentName": self.agent_name,
            "modality": self.modality,
            "aggregateScore": self.score,
            "taskScores": dict(self.task_scores),
            "artifactDigest": self.package_digest,
            "evidenceVerdict": self.verdict.value,
            "reproduced": self.facts[Fact.ORGANIZER_REPRODUCED] is FactState.VERIFIED,
            "verification": self.facts.to_json(),
            **self.remarks,
        }
        return entry if self.eligibility is None else entry | {"eligibility": self.eligibility.to_json()}


_PLACES: Final = {Verdict.TRUSTED: 0, Verdict.UNVERIFIABLE: 1, Verdict.REJECTED: 2}


def ranked(entries: Iterable[LeaderboardEntry]) -> list[LeaderboardEntry]:
    """Entries in order: by verdict, recomputed scores before claimed ones, then by score from the top.

    So no claim stands above a verifier's number, unless that number was rejected.
    """
    return sorted(
        entries,
        key=lambda entry: (_PLACES[entry.verdict], not entry.recomputed, -entry.score, entry.submission_id),
    )


def _finite(entry: dict[str, Any], name: str) -> int | float:
    number = fields.number(entry, name)
    if not math.isfinite(number):
        raise InvalidInput(f"{name} must be finite", code=_CODE)
    return number


def _task_scores(entry: dict[str, Any]) -> dict[str, int | float]:
    scores = fields.optional_object(entry, "taskScores") or {}
    if len(scores) > MAX_TASKS:
        raise InvalidInput(f"taskScores has over {MAX_TASKS} members", code=_CODE)
    return {name: _finite(scores, name) for name in scores}


def _remark(entry: dict[str, Any], name: str) -> JsonValue:
    return _finite(entry, name) if name == "uncertainty" else fields.text(entry, name)
