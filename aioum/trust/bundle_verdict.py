"""Judging a submission: all is computed again, what it says of itself is only compared (SUBMISSIONS 3.2).

How one episode is judged is handed in. What is common to all is here: the manifest, the digests, the exact
list of episodes, one run a place, the scores and what outside authorities say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

from aioum.core.canonical import JsonValue
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.submission.canonical import canonical_json
from aioum.replay.facts import Verdict, unique
from aioum.trust.bundle import Bundle, Episode
from aioum.trust.claims import CLAIM_FACTS, Claim
from aioum.trust.facts import FactState, Reason
from aioum.trust.manifest import EpisodePlan, Manifest
from aioum.trust.policy import AIOUM_RULES, KeyPin, Resolvers, TrustRules
from aioum.trust.requirements import RequirementResult, claim_state, evaluate_requirements
from aioum.trust.scoring import Aggregate, aggregate
from aioum.trust.submission_facts import NOTHING_OBSERVED, Fact, SubmissionFacts, combined

MAX_SHOWN: Final = 100
"""Most reasons that a report lists; all are counted."""

_UNVERIFIED: Final = "unverified"
_LACKING: Final = frozenset(
    {"adapter-failed", "adapter-result-invalid", "episode-not-scored", "score-invalid", "scoring-failed"}
)


@dataclass(frozen=True, slots=True)
class EpisodeVerdict:
    """What a judge found of one episode.

    Attributes:
        replay: whether the recorded steps give the recorded results.
        score: None where it could not be scored.
        terminal_outcome: how the episode ended.
        signatures: whether every call is signed by its seat.
        semantics: whether what was recorded is what was signed.
        evidence_complete: whether a cut-off end would have been noticed, and was not there.
        session_id: of the run, where it has one.
        reasons: what keeps it from counting, beyond these facts.
        observations: codes worth knowing that decide nothing.
    """

    replay: FactState
    score: int | float | None
    terminal_outcome: JsonValue
    signatures: FactState
    semantics: FactState
    evidence_complete: FactState
    session_id: str | None = None
    reasons: tuple[Reason, ...] = ()
    observations: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        """The facts, for a report."""
        return {
            "replay": self.replay.value,
            "score": self.score,
            "terminalOutcome": self.terminal_outcome,
            "signatures": self.signatures.value,
            "semantics": self.semantics.value,
            "evidenceComplete": self.evidence_complete.value,
            "sessionId": self.session_id,
            "observations": list(self.observations),
        }


JudgeEpisode: TypeAlias = Callable[[EpisodePlan, bytes], EpisodeVerdict]
"""Judges the bytes of a replay as one planned episode. It sees nothing that the submitter claims of it, and
reports what is wrong with it rather than raising."""


@dataclass(frozen=True, slots=True)
class OutsideTrust:
    """The verifier's own means of judging attestations.

    Attributes:
        now: with a time zone.
    """

    now: datetime
    pins: tuple[KeyPin, ...] = ()
    resolvers: Resolvers = field(default_factory=Resolvers)
    rules: TrustRules = AIOUM_RULES


@dataclass(frozen=True, slots=True)
class BundleVerdict:
    """What a verifier found of a submission.

    Attributes:
        bundle: what was judged.
        aggregate: recomputed; None where not every episode counts.
        reasons: what keeps the submission from being valid, in the order of the checks.
    """

    bundle: Bundle
    facts: SubmissionFacts
    aggregate: Aggregate | None = None
    episodes: tuple[tuple[str, EpisodeVerdict], ...] = ()
    reasons: tuple[Reason, ...] = ()

    @classmethod
    def of_another_manifest(cls, bundle: Bundle) -> BundleVerdict:
        """The verdict on a submission to another comparison: there is nothing to judge its episodes by."""
        return cls(bundle, NOTHING_OBSERVED, reasons=(_MANIFEST_DIFFERS,))

    @property
    def valid(self) -> bool:
        """Whether nothing speaks against the submission, by the manifest's own requirements."""
        return not self.reasons

    @property
    def evidence_verdict(self) -> Verdict:
        """The facts in one word: `trusted` needs signatures; `rejected` is more than lack of evidence."""
        if self.valid:
            signed = all(each.signatures is FactState.VERIFIED for _, each in self.episodes)
            return Verdict.TRUSTED if signed else Verdict.UNVERIFIABLE
        lacking = all(reason.code in _LACKING or reason.code.endswith(_UNVERIFIED) for reason in self.reasons)
        return Verdict.UNVERIFIABLE if lacking else Verdict.REJECTED

    def to_json(self) -> dict[str, JsonValue]:
        """The report, without the package's digest, which only the files have."""
        return {
            "valid": self.valid,
            "evidenceVerdict": self.evidence_verdict.value,
            "submission": self.bundle.submitter.names(),
            "manifestDigest": self.bundle.manifest.digest_hex,
            "contentDigest": self.bundle.computed_content_digest,
            "aggregate": None if self.aggregate is None else self.aggregate.to_json(),
            "episodes": [verdict.to_json() | {"id": name} for name, verdict in self.episodes],
            "facts": self.facts.to_json(),
            "reasons": [{"code": each.code, "text": each.message} for each in self.reasons[:MAX_SHOWN]],
            "reasonCount": len(self.reasons),
        }


def verify_bundle(
    bundle: Bundle, *, manifest: Manifest, judge_episode: JudgeEpisode, trust: OutsideTrust
) -> BundleVerdict:
    """Judge a submission.

    Args:
        bundle: read, and so far believed in nothing.
        manifest: from the organizer or another source of the verifier's; never taken out of the bundle
            without a digest that came from there.
        judge_episode: how one replay is judged.
        trust: for what the manifest asks of outside authorities.

    Raises:
        InvalidInput: `time-without-zone`. What is wrong with the bundle is a reason, not an exception.
    """
    reasons = list(_check_digests(bundle, manifest))
    plan = manifest.plan()
    verdicts = [(each.id, judge_episode(each.plan, each.replay.data)) for each in bundle.episodes]
    reasons += _check_coverage(bundle.episodes, plan)
    seen = _Seen()
    for position, (episode, (_, verdict)) in enumerate(zip(bundle.episodes, verdicts, strict=True)):
        expected = plan[position] if position < len(plan) else None
        reasons += [
            Reason(reason.code, f"{episode.id:.200}: {reason.message}")
            for reason in (
                *seen.check(episode, verdict),
                *_check_place(episode, expected),
                *_check_verdict(episode, verdict),
            )
        ]
    result = None
    if not reasons:
        result, found = _recompute(bundle, manifest, [verdict for _, verdict in verdicts])
        reasons += found
    required = evaluate_requirements(
        manifest.authority_requirements or (),
        bundle.submitter.attestations,
        subject_digest=bundle.computed_content_digest,
        pins=trust.pins,
        resolvers=trust.resolvers,
        now=trust.now,
        rules=trust.rules,
    )
    reasons += _check_requirements(required)
    states = _episode_facts(manifest, [verdict for _, verdict in verdicts])
    reasons += _check_facts(states)
    states |= {Fact(CLAIM_FACTS[claim]): claim_state(claim, required) for claim in Claim}
    facts = SubmissionFacts(
        states,
        tuple(each.result.to_json() for each in required if each.result is not None),
        unique(reason.code for reason in reasons),
    )
    return BundleVerdict(bundle, facts, result, tuple(verdicts), tuple(reasons))


_MANIFEST_DIFFERS: Final = Reason(
    "manifest-differs", "the submission is not to the comparison whose manifest was supplied"
)


def _check_digests(bundle: Bundle, manifest: Manifest) -> Iterator[Reason]:
    if {bundle.manifest_digest, bundle.manifest.digest_hex} != {manifest.digest_hex}:
        yield _MANIFEST_DIFFERS
    if bundle.content_digest != bundle.computed_content_digest:
        yield Reason("content-digest-differs", f"its content has the digest {bundle.computed_content_digest}")
    for attestation in bundle.submitter.attestations:
        if attestation.statement.subject_digest != bundle.computed_content_digest:
            who = attestation.statement.authority.label
            yield Reason(
                "attestation-subject-differs", f"the statement of {who:.200} is about another digest"
            )


def _check_coverage(episodes: Sequence[Episode], plan: Sequence[EpisodePlan]) -> Iterator[Reason]:
    shown = {episode.id for episode in episodes}
    for expected in plan:
        if expected.id not in shown:
            yield Reason("episode-missing", f"{expected.id} is missing")


class _Seen:
    """What earlier episodes used up: one run must not be shown as many."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._replays: set[str] = set()
        self._sessions: set[str] = set()

    def check(self, episode: Episode, verdict: EpisodeVerdict) -> Iterator[Reason]:
        """Hold an episode against the earlier ones, and remember it."""
        replay, session = episode.replay.digest_hex, verdict.session_id
        if episode.id in self._ids:
            yield Reason("episode-duplicate", "it is there already")
        elif replay in self._replays:
            yield Reason("replay-reused", "another episode has this very replay")
        elif session in self._sessions:
            yield Reason("session-reused", "another episode has a replay of this very session")
        self._ids.add(episode.id)
        self._replays.add(replay)
        if session is not None:
            self._sessions.add(session)


def _check_place(episode: Episode, expected: EpisodePlan | None) -> Iterator[Reason]:
    if expected is None or episode.plan != expected:
        yield Reason("episode-plan-differs", "the plan has another episode at this place, or none")
    if episode.id != episode.plan.id:
        yield Reason("episode-id-differs", f"by its plan it is {episode.plan.id:.200}")
    digest = episode.replay.digest_hex
    if episode.replay_digest != digest:
        yield Reason("replay-digest-differs", f"its replay has the digest {digest}")


def _check_verdict(episode: Episode, verdict: EpisodeVerdict) -> Iterator[Reason]:
    yield from verdict.reasons
    if verdict.replay is not FactState.VERIFIED:
        yield Reason(_lack("replay", verdict.replay), "its replay was not verified")
    if verdict.score is None:
        yield Reason("episode-not-scored", "it has no score")
        return
    if verdict.score != episode.score:
        yield Reason("score-differs", f"its score is {verdict.score}, it says {episode.score}")
    try:
        same = canonical_json(verdict.terminal_outcome) == canonical_json(episode.terminal_outcome)
    except CanonicalError:
        same = False
    if not same:
        yield Reason("terminal-outcome-differs", "it did not end as it says")


def _recompute(
    bundle: Bundle, manifest: Manifest, verdicts: Sequence[EpisodeVerdict]
) -> tuple[Aggregate | None, list[Reason]]:
    scores = [verdict.score for verdict in verdicts if verdict.score is not None]
    try:
        result = aggregate(manifest, zip(manifest.plan(), scores, strict=True))
        same = canonical_json(result.to_json()) == canonical_json(bundle.scores)
    except InvalidInput as error:
        return None, [Reason(error.code, str(error))]
    if same:
        return result, []
    return result, [Reason("aggregate-differs", f"the aggregate is {result.score}")]


def _check_requirements(results: Sequence[RequirementResult]) -> Iterator[Reason]:
    for each in results:
        if each.blocks:
            asked, why = each.requirement, ", ".join(reason.code for reason in each.reasons)
            yield Reason(
                _lack("required-claim", each.state),
                f"{asked.claim.value} by {asked.authority_id:.200}: {why}",
            )


def _episode_facts(manifest: Manifest, verdicts: Sequence[EpisodeVerdict]) -> dict[Fact, FactState]:
    states = {
        Fact.REPLAY: combined(each.replay for each in verdicts),
        Fact.SIGNATURES: combined(each.signatures for each in verdicts),
        Fact.SEMANTICS: combined(each.semantics for each in verdicts),
        Fact.EVIDENCE_COMPLETE: combined(each.evidence_complete for each in verdicts),
    }
    if not manifest.require_signed_seats:
        states[Fact.SIGNATURES] = FactState.NOT_REQUIRED
    if not manifest.require_complete_coverage:
        states[Fact.EVIDENCE_COMPLETE] = FactState.NOT_REQUIRED
    return states


def _check_facts(states: dict[Fact, FactState]) -> Iterator[Reason]:
    for fact, name in (
        (Fact.SIGNATURES, "signatures"),
        (Fact.EVIDENCE_COMPLETE, "completeness"),
        (Fact.SEMANTICS, "semantics"),
    ):
        if states[fact] not in (FactState.VERIFIED, FactState.NOT_REQUIRED):
            yield Reason(_lack(name, states[fact]), f"{fact.value} is required of every episode")


def _lack(name: str, state: FactState) -> str:
    return f"{name}-{state.value if state is FactState.FAILED else _UNVERIFIED}"
