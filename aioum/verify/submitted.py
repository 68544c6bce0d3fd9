"""A package's signed calls, read and laid out as the steps of a stream that `aioum.replay` can judge."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from aioum.core.canonical import JsonValue, parse_json
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.evidence_submissions import SubmissionEntry, submissions_parts
from aioum.core.problem import problem_code
from aioum.core.submission.canonical import canonical_json_text
from aioum.core.submission.chain import paid_session_id
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import MAX_COMMAND_BYTES
from aioum.core.submission.roster import Roster
from aioum.core.types import ChannelId
from aioum.replay.limits import DEFAULT_LIMITS
from aioum.replay.model import (
    CAUSE_COMPLETE,
    WRITTEN_VERSION,
    Artifact,
    Header,
    Input,
    Integrity,
    Level,
    LevelResult,
    Reference,
    Resolution,
)
from aioum.replay.paid.calls import require_command
from aioum.replay.problems import Problem

CALL: Final = "call"
"""What problems call a step: their `where` is then `call 3 input 0`."""

_NAMELESS: Final = Reference("session", "1")


@dataclass(frozen=True, slots=True)
class Step:
    """A call that was asked for: one of the package, or the one behind them that has no answer.

    Attributes:
        failure: the reason code of its recorded answer where the call failed, else None.
    """

    index: int
    tool_id: str | None
    request: bytes
    envelope: Envelope | None
    failure: str | None = None


@dataclass(slots=True)
class Submitted:
    """What the package's `submissions` say.

    Attributes:
        steps: the package's calls by index, then a signed call without an answer where there is one.
        hidden: calls of the session that the package does not show.
        unanswered: the last step is that one.
        contradicting: signed calls of an index whose recorded call is another.
    """

    roster: Roster
    steps: list[Step] = field(default_factory=list)
    hidden: int = 0
    unanswered: bool = False
    contradicting: list[SubmissionEntry] = field(default_factory=list)


def read_submitted(package: EvidencePackage, problems: list[Problem]) -> Submitted | None:
    """Read roster and entries and lay them beside the calls.

    What is malformed becomes a problem (`roster-invalid`, `submission-malformed`, `submission-repeated`,
    `submission-order-wrong`, `submission-call-unknown`) and is left out.

    Returns:
        None where nothing can be judged: there is no roster, or a call has no request.
    """
    try:
        roster_value, values = submissions_parts(package.submissions)
        submitted = Submitted(Roster.from_json(roster_value, max_seats=DEFAULT_LIMITS.seats))
    except InvalidInput as error:
        problems.append(Problem(error.code, str(error), "submissions"))
        return None
    asked = _asked(package)
    if asked is None:
        return None
    # Counted by distinct index: a call that is shown twice does not stand for another.
    submitted.hidden = max(0, package.call_count - len(asked))
    envelopes: dict[int, Envelope] = {}
    unanswered: SubmissionEntry | None = None
    previous = -1
    for position, value in enumerate(values):
        try:
            entry = SubmissionEntry.from_json(value)
            _require_place(entry, previous, asked, package.call_count)
        except InvalidInput as error:
            problems.append(Problem(error.code, str(error), f"submission {position}"))
            continue
        previous = entry.index
        if entry.request is None:
            if entry.index in envelopes:
                message = f"call {entry.index} has a submission already"
                problems.append(Problem("submission-repeated", message, f"submission {position}"))
            envelopes.setdefault(entry.index, entry.envelope)
        elif entry.index == package.call_count and unanswered is None:
            unanswered = entry
        else:
            submitted.contradicting.append(entry)
    submitted.steps = [replace(step, envelope=envelopes.get(step.index)) for step in asked.values()]
    if unanswered is not None and unanswered.request is not None:
        step = Step(unanswered.index, None, unanswered.request, unanswered.envelope)
        submitted.steps.append(step)
        submitted.unanswered = True
    return submitted


def command_problem(step: Step) -> Problem | None:
    """Why a step's request is no command that a seat could have signed for it, or None.

    Codes: `command-too-large`, `non-canonical-command`, `command-maps-differently`, `command-malformed`.
    """
    where = f"{CALL} {step.index}"
    if len(step.request) > MAX_COMMAND_BYTES:
        message = f"a command of {len(step.request)} bytes, at most {MAX_COMMAND_BYTES} can be signed"
        return Problem("command-too-large", message, where)
    try:
        command = parse_json(step.request, max_bytes=MAX_COMMAND_BYTES)
        canonical = canonical_json_text(command).encode() == step.request
    except CanonicalError as error:
        return Problem("non-canonical-command", str(error), where)
    if not canonical:
        return Problem("non-canonical-command", "the request is not canonical JSON", where)
    tool = command.get("tool") if isinstance(command, dict) else None
    if step.tool_id is not None and tool != step.tool_id:
        message = f"the request does not ask for the recorded tool {step.tool_id!r:.80}"
        return Problem("command-maps-differently", message, where)
    if step.tool_id is None:
        # Of a recorded call the transcript's check says so.
        try:
            require_command(step.request)
        except InvalidInput as error:
            return Problem(error.code, str(error), where)
    return None


def stream(channel_id: ChannelId, roster: Roster, steps: Sequence[Step]) -> Artifact:
    """The steps as an artifact whose record n is the call of index n; its form was checked before."""
    header = Header(
        format_version=WRITTEN_VERSION,
        session_id=paid_session_id(channel_id),
        game=_NAMELESS,
        adapter=_NAMELESS,
        seed=0,
        seed_policy="explicit",
        permutation=(0,),
        levels=(Level(0, "session", None, 0, {}, LevelResult("ended", None, len(steps), {}), {}),),
        total_stars=0,
        total_actions_used=len(steps),
        roster=roster,
        window_ticks=None,
        visibility=None,
        extensions={},
        json={},
    )
    return Artifact(header, tuple(map(_resolution, steps)), is_grouped=True, has_signature_material=True)


def _resolution(step: Step) -> Resolution:
    envelope = step.envelope
    seat = integrity = None
    if envelope is not None and len(step.request) <= MAX_COMMAND_BYTES:
        seat = envelope.seat
        integrity = Integrity(
            envelope.submission_id,
            step.request,
            None,
            envelope.cursor,
            envelope.client_time,
            envelope.prev_head,
            envelope.signature,
        )
    given = Input(seat, integrity, None, None, {})
    return Resolution(step.index, 0, step.index, (given,), CAUSE_COMPLETE, None, {"kind": CALL})


def _asked(package: EvidencePackage) -> dict[int, Step] | None:
    """The calls by index; None where one lacks its request. A whole package's calls count by position."""
    asked: dict[int, Step] = {}
    for position, call in enumerate(package.calls):
        index = _index(call) if package.disclosed else position
        tool_id, request = _text(call, "toolId"), _text(call, "request")
        if index is None or tool_id is None or request is None:
            return None
        failure = problem_code((_text(call, "response") or "").encode())
        asked[index] = Step(index, tool_id, request.encode(), None, failure)
    return dict(sorted(asked.items()))


def _require_place(entry: SubmissionEntry, previous: int, asked: Collection[int], call_count: int) -> None:
    if entry.index < previous:
        raise InvalidInput(
            f"the signed call {entry.index} stands behind call {previous}", code="submission-order-wrong"
        )
    # A second call of an index that is hidden may be the very one that is recorded there.
    if entry.index not in asked and (entry.request is None or entry.index != call_count):
        raise InvalidInput(
            f"the package does not show a call {entry.index}"
            + (", and the entry has no request of its own" if entry.request is None else ""),
            code="submission-call-unknown",
        )


def _index(call: JsonValue) -> int | None:
    index = call.get("index") if isinstance(call, dict) else None
    return index if type(index) is int and index >= 0 else None


def _text(call: JsonValue, name: str) -> str | None:
    text = call.get(name) if isinstance(call, dict) else None
    return text if isinstance(text, str) else None
