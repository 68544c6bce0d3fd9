"""Signed calls that are no steps: without an answer, or second ones of an index (PROTOCOL 5, 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.evidence_submissions import SubmissionEntry
from aioum.core.submission.chain import Submission, genesis, paid_session_id
from aioum.core.submission.roster import Roster
from aioum.core.types import Bytes32, ChannelId
from aioum.replay.facts import place
from aioum.replay.model import Artifact, Resolution
from aioum.replay.paid.seat_keys import SeatKeys
from aioum.replay.paid.steps import Calls
from aioum.replay.problems import Problem

EQUIVOCATION: Final = "submission-equivocation"


@dataclass(slots=True)
class Outside:
    """What they prove.

    Attributes:
        unanswered: index of the call that was signed and has no answer, or None.
        equivocations: calls that a seat validly signed beside the recorded ones. They speak against the
            client alone, and change nothing about what was recorded.
    """

    unanswered: int | None = None
    equivocations: list[Problem] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def contradiction(
    entry: SubmissionEntry, recorded: Submission | None, channel_id: ChannelId, keys: SeatKeys, where: str
) -> Problem:
    """What a signed call says whose index has a recorded call.

    Codes: `submission-equivocation`, its seat signed two calls of one index; `submission-repeated`, it is the
    recorded one; or why its signature does not count.
    """
    second = entry.envelope.submission(channel_id, entry.request or b"")
    if second == recorded:
        return Problem("submission-repeated", "the submission of this call stands here twice", where)
    seat = entry.envelope.seat
    try:
        keys.verify(seat, second.preimage(), entry.envelope.signature)
    except SignatureInvalid as error:
        return Problem(error.code, f"a second submission of this index: {error}", where)
    message = f"seat {seat} signed another call of this index: proof against the client"
    return Problem(EQUIVOCATION, message, where)


def check_outside(artifact: Artifact, calls: Calls, channel_id: ChannelId) -> Outside:
    """Judge the records of the submission lane.

    Codes: `submission-malformed`, `roster-missing`, `submission-call-unknown`, `submission-repeated`,
    `chain-mismatch`, those of `SeatKeys.verify` and of `contradiction`.
    """
    found = Outside()
    if not calls.beside:
        return found
    roster = artifact.header.roster
    if roster is None:
        message = "signed calls need a roster"
        found.problems.append(Problem("roster-missing", message, place(calls.beside[0])))
        return found
    steps = _submissions(artifact, channel_id)
    keys = SeatKeys(roster)
    for line in calls.beside:
        where = place(line)
        try:
            entry = SubmissionEntry.from_json(line.record)
        except InvalidInput as error:
            found.problems.append(Problem(error.code, str(error), where))
            continue
        if entry.request is None or entry.index > calls.steps or found.unanswered == entry.index:
            message = f"nothing stands behind a signed call of index {entry.index} here"
            found.problems.append(Problem("submission-call-unknown", message, where))
        elif entry.index < calls.steps:
            said = contradiction(entry, steps.get(entry.index), channel_id, keys, where)
            (found.equivocations if said.code == EQUIVOCATION else found.problems).append(said)
        else:
            _take_unanswered(entry, entry.request, steps, roster, channel_id, keys, found, where)
    return found


def _take_unanswered(
    entry: SubmissionEntry,
    request: bytes,
    steps: Mapping[int, Submission],
    roster: Roster,
    channel_id: ChannelId,
    keys: SeatKeys,
    found: Outside,
    where: str,
) -> None:
    envelope = entry.envelope
    try:
        keys.verify(envelope.seat, envelope.submission(channel_id, request).preimage(), envelope.signature)
    except SignatureInvalid as error:
        found.problems.append(Problem(error.code, str(error), where))
        return
    if envelope.prev_head != _head(envelope.seat, steps, roster, channel_id):
        message = f"it does not follow the last call of seat {envelope.seat}"
        found.problems.append(Problem("chain-mismatch", message, where))
        return
    found.unanswered = entry.index


def _head(seat: str, steps: Mapping[int, Submission], roster: Roster, channel_id: ChannelId) -> Bytes32:
    last = max((index for index, step in steps.items() if step.seat == seat), default=None)
    return genesis(paid_session_id(channel_id), seat, roster.hash) if last is None else steps[last].head()


def _submissions(artifact: Artifact, channel_id: ChannelId) -> dict[int, Submission]:
    """What was signed for each step, by position."""
    found: dict[int, Submission] = {}
    resolutions = (line for line in artifact.lines if isinstance(line, Resolution))
    for position, line in enumerate(resolutions):
        given = line.inputs[0] if len(line.inputs) == 1 else None
        if given is None or given.seat is None or given.integrity is None:
            continue
        integrity = given.integrity
        if integrity.client_time is not None and integrity.prev_head is not None:
            found[position] = Submission(
                paid_session_id(channel_id),
                given.seat,
                integrity.submission_id,
                integrity.cursor,
                line.tick,
                integrity.client_time,
                integrity.command,
                integrity.prev_head,
            )
    return found
