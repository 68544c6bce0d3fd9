"""The judge: every check that needs no product code, an adapter's where there is one, and the verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from aioum.core.types import Bytes32
from aioum.replay.adapter import AdapterResult, RecheckReplay, run_adapter
from aioum.replay.commitments import check_commitments
from aioum.replay.facts import (
    Completeness,
    Judgement,
    Lane,
    Profile,
    Semantics,
    SignatureReport,
    SignatureState,
    Terms,
    Verdict,
    unique,
)
from aioum.replay.model import CAUSE_TIMEOUT, Artifact, Resolution
from aioum.replay.problems import Problem
from aioum.replay.profiles import (
    check_paid_records,
    is_paid_session_id,
    profile_for,
    signature_rules,
)
from aioum.replay.signatures import HEAD_MISSING, check_signatures
from aioum.replay.windows import check_windows

DMATH: Final = "dmath-1"
"""The one arithmetic that an artifact may declare."""

TERMS_FACT: Final = "terms"
"""Name of the fact by which an adapter says that it held the terms against the session id."""

ANCHORED_FACT: Final = "anchored"
"""Name of the fact by which an adapter says that an anchor fixes where the session ends."""

VERIFIED_FACT: Final = "verified"

NOT_COMPLETE: Final = "completeness-not-checked"

_NO_ADAPTER: Final = AdapterResult(None, (), Semantics(Lane.UNAVAILABLE, Lane.UNAVAILABLE))


def judge(
    artifact: Artifact,
    *,
    profile: Profile | None = None,
    recheck_replay: RecheckReplay | None = None,
    retained_heads: Mapping[str, Collection[Bytes32]] | None = None,
) -> Judgement:
    """Judge an artifact whose form is right.

    Args:
        artifact: as `read_artifact` gives it.
        profile: the rules; None takes `paid` for paid sessions and `gaos` for all others.
        recheck_replay: the game's adapter; without one nothing is run again or mapped.
        retained_heads: heads by seat, kept by the seats when they signed; they show a cut-off tail.

    Raises:
        AdapterFailed: `adapter-failed` or `adapter-result-invalid`.
    """
    header = artifact.header
    profile_by = "caller" if profile else "session-id"
    profile = profile or profile_for(header.session_id)
    strict = profile is Profile.PAID
    signatures = check_signatures(
        artifact,
        rules=signature_rules(profile, header.session_id),
        retained_heads=retained_heads,
    )
    commitments = check_commitments(artifact, refuse_repeated=strict)
    inconsistent = list(commitments.problems) if strict or artifact.is_grouped else []
    dmath = header.extensions.get("dmath")
    if "dmath" in header.extensions and not (isinstance(dmath, dict) and dmath.get("algorithm") == DMATH):
        message = f"extensions.dmath.algorithm must be {DMATH}"
        inconsistent.append(Problem("dmath-unknown", message, "header.extensions"))
    broken_rules: list[Problem] = []
    if strict and header.roster is not None:
        broken_rules += check_windows(artifact)
    if strict and is_paid_session_id(header.session_id):
        broken_rules += check_paid_records(artifact)

    found = _NO_ADAPTER if recheck_replay is None else run_adapter(recheck_replay, artifact, profile)
    semantics = _required_lanes(artifact, signatures, found.semantics) if strict else found.semantics
    replay_ok = False if inconsistent else found.ok
    terms = _terms(header.session_id, found)
    problems = (*found.problems, *inconsistent, *broken_rules)
    if found.ok is False and not found.problems:
        problems = (Problem("replay-inconsistent", "the adapter gave no reason", "replay"), *problems)
    rejecting = [each.code for each in problems] if replay_ok is False else [p.code for p in broken_rules]
    rejecting += [each.code for each in signatures.problems]
    if signatures.state is SignatureState.PARTIAL:
        rejecting.append("signatures-partial")
    if Lane.FAILED in semantics.lanes:
        rejecting += [each.code for each in semantics.problems] or ["semantics-failed"]
    missing = _missing(signatures, semantics, replay_ok, has_adapter=recheck_replay is not None)
    if strict and terms is not Terms.BOUND:
        missing.append("session-terms-unbound" if terms is Terms.UNBOUND else "session-terms-unproven")
    completeness = _completeness(found, signatures, has_heads=bool(retained_heads))
    diagnostics = [*found.diagnostics, *commitments.diagnostics]
    if signatures.state is SignatureState.UNSIGNED and artifact.has_signature_material:
        message = (
            "the lines carry signatures, and the header declares no roster that they could be held against"
        )
        diagnostics.append(Problem("signature-material-ignored", message, "header"))
    if completeness is Completeness.NOT_CHECKED:
        message = "no retained head and no anchor was held against the end: a cut-off tail would not show"
        diagnostics.append(Problem(NOT_COMPLETE, message, "artifact"))
    return Judgement(
        verdict=Verdict.REJECTED if rejecting else Verdict.UNVERIFIABLE if missing else Verdict.TRUSTED,
        profile=profile,
        profile_by=profile_by,
        format_version=header.format_version,
        session_id=header.session_id,
        adapter_ran=recheck_replay is not None,
        replay_ok=replay_ok,
        signatures=signatures,
        semantics=semantics,
        terms=terms,
        completeness=completeness,
        problems=problems,
        reasons=unique([*rejecting, *missing]),
        diagnostics=tuple(diagnostics),
        facts=found.facts,
        replayed=found.replayed,
        dmath=dmath,
    )


def _required_lanes(artifact: Artifact, signatures: SignatureReport, found: Semantics) -> Semantics:
    # What an adapter skipped is not thereby without meaning (SUBMISSIONS 2.9 A).
    submissions, timeouts = found.lanes
    if submissions is Lane.NOT_APPLICABLE and signatures.submissions:
        submissions = Lane.UNAVAILABLE
    by_timeout = any(isinstance(line, Resolution) and line.cause == CAUSE_TIMEOUT for line in artifact.lines)
    if timeouts is Lane.NOT_APPLICABLE and by_timeout:
        timeouts = Lane.UNAVAILABLE
    return Semantics(submissions, timeouts, found.problems)


def _missing(
    signatures: SignatureReport, semantics: Semantics, replay_ok: bool | None, *, has_adapter: bool
) -> list[str]:
    """Codes of the evidence that is not there."""
    missing = []
    if signatures.state is SignatureState.UNSIGNED:
        missing.append("unsigned")
    if not has_adapter:
        return [*missing, "adapter-missing"]
    if replay_ok is None:
        missing.append("replay-not-checked")
    if semantics.submissions is Lane.UNAVAILABLE:
        missing.append("submissions-not-mapped")
    if semantics.timeouts is Lane.UNAVAILABLE:
        missing.append("timeouts-not-mapped")
    return missing


def _terms(session_id: str, found: AdapterResult) -> Terms:
    if not is_paid_session_id(session_id):
        return Terms.UNBOUND
    return Terms.BOUND if found.facts.get(TERMS_FACT) == VERIFIED_FACT else Terms.CLAIMED


def _completeness(found: AdapterResult, signatures: SignatureReport, *, has_heads: bool) -> Completeness:
    if any(each.code == HEAD_MISSING for each in signatures.problems):
        return Completeness.FAILED
    if found.facts.get(ANCHORED_FACT) == VERIFIED_FACT:
        return Completeness.ANCHORED
    return Completeness.RETAINED_HEADS if has_heads else Completeness.NOT_CHECKED
