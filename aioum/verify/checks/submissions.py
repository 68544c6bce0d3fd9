"""Submissions: what the client's seats signed, judged as `verify-run` judges it (PROTOCOL 5, 7)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from aioum.core.canonical import JsonValue
from aioum.core.card import parse_card
from aioum.core.errors import InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.submission.framing import MAX_COMMAND_BYTES, encode_base64
from aioum.core.types import Bytes32, ChannelId
from aioum.replay.adapter import MAX_PROBLEMS
from aioum.replay.facts import Judgement, Lane, Profile, Verdict
from aioum.replay.paid.outside import EQUIVOCATION, Recorded, contradiction
from aioum.replay.paid.seat_keys import SeatKeys
from aioum.replay.problems import Problem
from aioum.replay.signatures import HEAD_MISSING
from aioum.replay.verdict import ANCHORED_FACT, TERMS_FACT, VERIFIED_FACT, judge
from aioum.verify.checks.transcript import Transcript
from aioum.verify.disclosed_submissions import check_disclosed
from aioum.verify.grounds import Grounds
from aioum.verify.report import Check, Finding, Findings, Status, failed, not_applicable
from aioum.verify.submitted import CALL, Submitted, command_problem, read_submitted, stream

NAME: Final = "submissions"

RetainedHeads: TypeAlias = Mapping[str, Collection[Bytes32]]

_POSITION: Final = re.compile(r"(?:call|submission) ([0-9]{1,15})")


def check_submissions(
    package: EvidencePackage, transcript: Transcript, grounds: Grounds, retained_heads: RetainedHeads
) -> Check | None:
    """Judge the signed calls; no row for a session without any.

    Args:
        package: whole or disclosed.
        transcript: of that package.
        grounds: fix the session's id, and the hash of its roster.
        retained_heads: heads by seat that the client kept; they show a tail that was cut off.
    """
    if package.submissions is None:
        if any(retained_heads.values()):
            # As in verify-run: whoever kept a head is not answered by leaving all signed calls out.
            message = "The client kept heads of signed calls, and the package carries none."
            return failed(NAME, [Finding(HEAD_MISSING, message)])
        if grounds.roster_hash is None or not any(grounds.roster_hash):
            return None
        return not_applicable(
            NAME,
            "submissions-absent",
            "The session was opened with a roster, so its calls were signed; the package leaves that out.",
        )
    if grounds.channel_id is None:
        _, reason = grounds.missing_session
        return not_applicable(
            NAME, "submission-session-unknown", f"Nothing fixes the session's id that was signed: {reason}."
        )
    found = _Found()
    submitted = read_submitted(package, found.problems)
    if submitted is None and not found.problems:
        return not_applicable(
            NAME, "transcript-invalid", "A call lacks its request, so what was signed for it cannot be told."
        )
    if submitted is None:
        return _rejected(found.problems, {"verdict": Verdict.REJECTED.value})
    found.look_at(submitted, grounds, grounds.channel_id)
    if submitted.hidden:
        return _disclosed_row(submitted, found, grounds.channel_id)
    found.anchored = grounds.anchor is not None and grounds.anchor == (transcript.root, package.call_count)
    judgement = judge(
        stream(grounds.channel_id, submitted.roster, submitted.steps),
        profile=Profile.PAID,
        recheck_replay=found.recheck,
        retained_heads=retained_heads,
    )
    return _row(judgement, submitted, found.equivocations)


@dataclass(slots=True)
class _Found:
    """What the package says beside signatures and chains: what a product's adapter tells the judge."""

    problems: list[Problem] = field(default_factory=list)
    mapping: list[Problem] = field(default_factory=list)
    equivocations: list[Problem] = field(default_factory=list)
    roster_bound: bool = False
    anchored: bool = False

    def look_at(self, submitted: Submitted, grounds: Grounds, channel_id: ChannelId) -> None:
        """Hold the roster against the session, requests against tools, and second calls of an index."""
        self.roster_bound = submitted.roster.hash == grounds.roster_hash
        if grounds.roster_hash is not None and not self.roster_bound:
            message = "the session was opened with another roster, or with none"
            self.problems.append(Problem("roster-mismatch", message, "submissions"))
        tools = _tools(grounds)
        for step in submitted.steps:
            problem = command_problem(step)
            # Whoever signs a call of a tool that does not exist has exactly that recorded (PROTOCOL 5).
            known = tools is None or step.tool_id in tools or step.failure == "tool-unknown"
            if problem is None and not known:
                message = f"the session's card has no tool {step.tool_id!r:.80}"
                problem = Problem("tool-unknown", message, f"{CALL} {step.index}")
            if problem is not None:
                maps = problem.code in ("command-maps-differently", "tool-unknown")
                (self.mapping if maps else self.problems).append(problem)
        for said in _contradictions(submitted, channel_id):
            (self.equivocations if said.code == EQUIVOCATION else self.problems).append(said)
        _check_repeated_ids(submitted, self.problems)

    def recheck(self, _artifact: object) -> dict[str, Any]:
        """See `RecheckReplay`."""
        facts = {}
        if self.roster_bound:
            facts[TERMS_FACT] = VERIFIED_FACT
        if self.anchored:
            facts[ANCHORED_FACT] = VERIFIED_FACT
        return {
            "ok": not self.problems,
            "problems": self.problems[:MAX_PROBLEMS],
            "semantics": {
                "submissions": (Lane.FAILED if self.mapping else Lane.VERIFIED).value,
                "timeouts": Lane.NOT_APPLICABLE.value,
                "problems": self.mapping[:MAX_PROBLEMS],
            },
            "facts": facts,
        }


def _tools(grounds: Grounds) -> frozenset[str | None] | None:
    """What may be called: the tools of the session's card, or None where no card is proven."""
    try:
        if grounds.card is None:
            return None
        # An unanswered call has no recorded tool.
        return frozenset([None, *(tool.id for tool in parse_card(grounds.card).tools)])
    except InvalidInput:
        return None


def _contradictions(submitted: Submitted, channel_id: ChannelId) -> list[Problem]:
    """What signed calls beside the recorded ones say: one that holds proves that its seat signed twice."""
    keys = SeatKeys(submitted.roster)
    recorded = {
        step.index: Recorded(step.envelope.submission(channel_id, step.request), step.envelope.signature)
        for step in submitted.steps
        if step.envelope is not None and len(step.request) <= MAX_COMMAND_BYTES
    }
    return [
        contradiction(entry, recorded.get(entry.index), channel_id, keys, f"{CALL} {entry.index}")
        for entry in submitted.contradicting
    ]


def _check_repeated_ids(submitted: Submitted, problems: list[Problem]) -> None:
    seen: set[tuple[str, str]] = set()
    for step in submitted.steps:
        if step.envelope is None:
            continue
        identity = step.envelope.seat, step.envelope.submission_id
        if identity in seen:
            message = f"seat {identity[0]} used the submissionId {identity[1]} before"
            problems.append(Problem("duplicate-submission-id", message, f"{CALL} {step.index}"))
        seen.add(identity)


def _row(judgement: Judgement, submitted: Submitted, equivocations: Sequence[Problem]) -> Check:
    signatures, semantics = judgement.signatures, judgement.semantics
    details: dict[str, JsonValue] = {
        "verdict": judgement.verdict.value,
        "sessionId": judgement.session_id,
        "ok": judgement.replay_ok,
        "signatures": {
            "state": signatures.state.value,
            "seats": [seat.to_json() for seat in signatures.seats],
        },
        "semantics": {"submissions": semantics.submissions.value, "timeouts": semantics.timeouts.value},
        "terms": judgement.terms.value,
        "completeness": judgement.completeness.value,
        "equivocations": len(equivocations),
        **_common(submitted),
    }
    if judgement.verdict is Verdict.REJECTED:
        return _rejected(
            judgement.all_problems() or [Problem(judgement.reasons[0], "no more is known", NAME)], details
        )
    seats = ", ".join(f"{seat.seat} {seat.submissions}" for seat in signatures.seats)
    limits = [each.code for each in judgement.diagnostics if each.code == "completeness-not-checked"]
    end = "whether more calls followed was not checked" if limits else "where they end is proven as well"
    if submitted.unanswered:
        limits.append("call-unanswered")
        asked = submitted.steps[-1].index
        end += (
            f"; call {asked} was signed and has no answer here, which proves what was asked, not that it came"
        )
    if equivocations:
        limits.append(EQUIVOCATION)
        end += f"; against the client: {equivocations[0].message}"
    if judgement.verdict is Verdict.TRUSTED:
        summary = f"Seats of the session's roster signed these calls, whole and in order ({seats}); {end}."
        return Check(NAME, Status.PASS, summary, tuple(limits), details)
    return Check(
        NAME,
        Status.NOT_APPLICABLE,
        "Nothing contradicts the signed calls, but evidence is missing, so they are not proven: "
        f"{', '.join(judgement.reasons)}.",
        (*judgement.reasons, *limits),
        details,
    )


def _disclosed_row(submitted: Submitted, found: _Found, channel_id: ChannelId) -> Check:
    signatures = check_disclosed(submitted, channel_id)
    problems = [*found.problems, *found.mapping, *signatures.problems]
    details: dict[str, JsonValue] = {
        "verdict": (Verdict.REJECTED if problems else Verdict.UNVERIFIABLE).value,
        "validSignatures": signatures.valid,
        "linked": signatures.linked,
        **_common(submitted),
    }
    if problems:
        return _rejected(problems, details)
    codes = ["submissions-hidden", *([] if found.roster_bound else ["session-terms-unproven"])]
    codes += [EQUIVOCATION] if found.equivocations else []
    whose = "seats of the session's roster" if found.roster_bound else "seats of a roster that nothing fixes"
    return Check(
        NAME,
        Status.NOT_APPLICABLE,
        f"All {signatures.valid} signed calls that are shown were signed by {whose}; the chains run through "
        f"{submitted.hidden} calls that are not disclosed and cannot be followed.",
        tuple(codes),
        details,
    )


def _common(submitted: Submitted) -> dict[str, JsonValue]:
    unanswered = submitted.steps[-1].index if submitted.unanswered else None
    return {
        "rosterHash": encode_base64(submitted.roster.hash),
        "submissions": sum(step.envelope is not None for step in submitted.steps),
        "unanswered": unanswered,
    }


def _rejected(problems: Collection[Problem], details: dict[str, JsonValue]) -> Check:
    return failed(NAME, Findings(map(_finding, problems)), details=details)


def _finding(problem: Problem) -> Finding:
    position = _POSITION.match(problem.where)
    where = problem.where.removesuffix(" input 0")
    text = f"{where[:1].upper()}{where[1:]}: {problem.message}."
    return Finding(problem.code, text, int(position[1]) if position else None)
