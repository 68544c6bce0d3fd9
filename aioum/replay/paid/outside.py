"""Signed calls that are no steps: without an answer, or second ones of an index (PROTOCOL 5, 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.evidence_submissions import SubmissionEntry
from aioum.core.submission.chain import Submission, genesis, paid_session_id
from aioum.core.submission.envelope import Envelope
from aioum.core.types import Bytes32, ChannelId
from aioum.replay.facts import place
from aioum.replay.model import Artifact, Resolution
from aioum.replay.paid.calls import require_command
from aioum.replay.paid.seat_keys import SeatKeys
from aioum.replay.paid.steps import Calls
from aioum.replay.problems import Problem

EQUIVOCATION: Final = "submission-equivocation"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What stands as the call of an index, and the signature beside it; neither is believed yet."""

    submission: Submission
    signature: bytes


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
    entry: SubmissionEntry, recorded: Recorded | None, channel_id: ChannelId, keys: SeatKeys, where: str
) -> Problem:
    """What a signed call says whose index has a recorded call.

    Codes: `submission-equivocation`, seats signed two calls of one index; `submission-displaced`, nobody
    signed the recorded one, only this one was asked for; `submission-repeated`, it is the recorded one; or
    why its signature does not count.
    """
    second = entry.envelope.submission(channel_id, entry.request or b"")
    if recorded is not None and second == recorded.submission:
        return Problem("submission-repeated", "the submission of this call stands here twice", where)
    seat = entry.envelope.seat
    try:
        keys.verify(seat, second.preimage(), entry.envelope.signature)
    except SignatureInvalid as error:
        return Problem(error.code, f"a second submission of this index: {error}", where)
    try:
        _require_signed(recorded, entry.index, keys)
    except SignatureInvalid:
        # Nobody contradicts himself by what another made up.
        message = f"seat {seat} signed this call of the index, and nobody the one that is recorded"
        return Problem("submission-displaced", message, where)
    message = f"seat {seat} signed another call of this index: proof against the client"
    return Problem(EQUIVOCATION, message, where)


def check_outside(artifact: Artifact, calls: Calls, channel_id: ChannelId) -> Outside:
    """Judge the records of the submission lane; time is linear in the artifact.

    Codes: `submission-malformed`, `roster-missing`, `submission-call-unknown`, `chain-mismatch`, those of
    `require_command`, of `SeatKeys.verify` and of `contradiction`.
    """
    found = Outside()
    if not calls.beside:
        return found
    roster = artifact.header.roster
    if roster is None:
        message = "signed calls need a roster"
        found.problems.append(Problem("roster-missing", message, place(calls.beside[0])))
        return found
    steps = _recorded(artifact, channel_id)
    heads = {seat: genesis(paid_session_id(channel_id), seat, roster.hash) for seat in roster.seats}
    heads.update((step.submission.seat, step.submission.head()) for step in steps.values())
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
            try:
                _require_next(entry.envelope, entry.request, heads, channel_id, keys)
            except (InvalidInput, SignatureInvalid) as error:
                found.problems.append(Problem(error.code, str(error), where))
            else:
                found.unanswered = entry.index
    return found


def _require_signed(recorded: Recorded | None, index: int, keys: SeatKeys) -> None:
    if recorded is None or recorded.submission.cursor != index:
        raise SignatureInvalid("nothing was signed for this index", code="bad-signature")
    keys.verify(recorded.submission.seat, recorded.submission.preimage(), recorded.signature)


def _require_next(
    envelope: Envelope, request: bytes, heads: Mapping[str, Bytes32], channel_id: ChannelId, keys: SeatKeys
) -> None:
    """Require what would have been the next call, or raise InvalidInput or SignatureInvalid."""
    require_command(request)
    keys.verify(envelope.seat, envelope.submission(channel_id, request).preimage(), envelope.signature)
    if envelope.prev_head != heads[envelope.seat]:
        raise InvalidInput(f"it does not follow the last call of seat {envelope.seat}", code="chain-mismatch")


def _recorded(artifact: Artifact, channel_id: ChannelId) -> dict[int, Recorded]:
    """What was signed for each step, by position and in their order."""
    found: dict[int, Recorded] = {}
    resolutions = (line for line in artifact.lines if isinstance(line, Resolution))
    for position, line in enumerate(resolutions):
        given = line.inputs[0] if len(line.inputs) == 1 else None
        if given is None or given.seat is None or given.integrity is None:
            continue
        integrity = given.integrity
        if integrity.client_time is not None and integrity.prev_head is not None:
            submission = Submission(
                paid_session_id(channel_id),
                given.seat,
                integrity.submission_id,
                integrity.cursor,
                line.tick,
                integrity.client_time,
                integrity.command,
                integrity.prev_head,
            )
            found[position] = Recorded(submission, integrity.signature or b"")
    return found
