"""Judging an episode of a published comparison whose replay is a `gaos.replay` artifact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.errors import AioumError, CanonicalError
from aioum.core.submission.canonical import canonical_json
from aioum.replay.adapter import AdapterFailed, RecheckReplay
from aioum.replay.facts import Completeness, Judgement, Lane, Profile, SignatureState, Verdict
from aioum.replay.limits import Limits
from aioum.replay.model import Artifact
from aioum.replay.profiles import is_paid_session_id
from aioum.replay.reading import ArtifactInvalid, read_artifact
from aioum.replay.verdict import judge
from aioum.trust.bundle_verdict import EpisodeVerdict
from aioum.trust.facts import FactState, Reason
from aioum.trust.manifest import EpisodePlan
from aioum.trust.package import MAX_REPLAY_BYTES
from aioum.trust.scoring import EpisodeScore, JudgedRun, ScoringPlugin

_LIMITS: Final = Limits(artifact_bytes=MAX_REPLAY_BYTES)
_COMPLETENESS: Final = {
    Completeness.ANCHORED: FactState.VERIFIED,
    Completeness.RETAINED_HEADS: FactState.VERIFIED,
    Completeness.FAILED: FactState.FAILED,
    Completeness.NOT_CHECKED: FactState.UNVERIFIED,
}
_SIGNATURES: Final = {
    SignatureState.SIGNED: FactState.VERIFIED,
    SignatureState.PARTIAL: FactState.FAILED,
    SignatureState.UNSIGNED: FactState.UNVERIFIED,
}


@dataclass(frozen=True, slots=True)
class ReplayEpisodes:
    """A `JudgeEpisode`: the judge of artifacts, and then the scoring plugin.

    Attributes:
        plugin: scores what was judged.
        recheck_replay: the game's adapter, or None: then no replay is verified.
        paid_recheck: the adapter of paid sessions, for where there is no other.
        profile: the rules. Scores are worth cheating for, so those of paid sessions judge every artifact
            unless a verifier says otherwise.
    """

    plugin: ScoringPlugin
    recheck_replay: RecheckReplay | None = None
    paid_recheck: RecheckReplay | None = None
    profile: Profile = Profile.PAID

    def __call__(self, plan: EpisodePlan, replay: bytes) -> EpisodeVerdict:
        """Judge the bytes of a replay as one planned episode; see `JudgeEpisode`."""
        try:
            artifact = read_artifact(replay, limits=_LIMITS)
        except ArtifactInvalid as error:
            return _not_judged(FactState.FAILED, Reason(error.code, str(error)))
        session_id = artifact.header.session_id
        adapter = self.recheck_replay or (self.paid_recheck if is_paid_session_id(session_id) else None)
        try:
            judgement = judge(artifact, profile=self.profile, recheck_replay=adapter)
        except AdapterFailed as error:
            return _not_judged(FactState.UNVERIFIED, Reason(error.code, str(error)), session_id)
        reasons = list(_place(plan, artifact))
        if judgement.verdict is Verdict.REJECTED:
            reasons.append(Reason("episode-rejected", ", ".join(judgement.reasons)))
        found = None
        try:
            found = self.plugin.score(JudgedRun(plan, artifact, judgement))
            canonical_json([found.score, found.terminal_outcome])
        except CanonicalError as error:
            found = None
            reasons.append(Reason("scoring-failed", f"the score has no canonical form: {error}"))
        except (Exception, SystemExit) as error:
            # A plugin that leaves the process would leave with a verdict's exit code.
            code = error.code if isinstance(error, AioumError) else "scoring-failed"
            reasons.append(Reason(code, f"{type(error).__name__}: {error}"))
        return _verdict(judgement, found, reasons)


def _place(plan: EpisodePlan, artifact: Artifact) -> list[Reason]:
    """Whether the run is of the planned seed and length; the judge does not know of a plan."""
    header, reasons = artifact.header, []
    if header.seed != plan.seed:
        reasons.append(Reason("seed-differs", f"the run has the seed {header.seed}"))
    if header.total_actions_used > plan.max_steps:
        reasons.append(Reason("too-many-steps", f"the run has {header.total_actions_used} actions"))
    return reasons


def _verdict(judgement: Judgement, found: EpisodeScore | None, reasons: list[Reason]) -> EpisodeVerdict:
    complete = found.evidence_complete if found is not None else None
    return EpisodeVerdict(
        replay=_replay_state(judgement),
        score=None if found is None else found.score,
        terminal_outcome=None if found is None else found.terminal_outcome,
        signatures=FactState.FAILED
        if judgement.signatures.problems
        else _SIGNATURES[judgement.signatures.state],
        semantics=_semantics_state(judgement),
        evidence_complete=_COMPLETENESS[judgement.completeness] if complete is None else complete,
        session_id=judgement.session_id,
        reasons=tuple(reasons),
        observations=judgement.reasons,
    )


def _replay_state(judgement: Judgement) -> FactState:
    if judgement.replay_ok is False or judgement.problems:
        return FactState.FAILED
    return FactState.UNVERIFIED if judgement.replay_ok is None else FactState.VERIFIED


def _semantics_state(judgement: Judgement) -> FactState:
    lanes = judgement.semantics.lanes
    if Lane.FAILED in lanes:
        return FactState.FAILED
    return FactState.UNVERIFIED if Lane.UNAVAILABLE in lanes else FactState.VERIFIED


def _not_judged(state: FactState, reason: Reason, session_id: str | None = None) -> EpisodeVerdict:
    return EpisodeVerdict(state, None, None, state, state, state, session_id, (reason,))
