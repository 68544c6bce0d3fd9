"""Signed calls of a package that hides others: signatures one by one, links where neighbors are shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from aioum.core.errors import SignatureInvalid
from aioum.core.submission.chain import genesis, head_after, paid_session_id
from aioum.core.submission.framing import MAX_COMMAND_BYTES
from aioum.core.types import Bytes32, ChannelId
from aioum.replay.paid.seat_keys import SeatKeys
from aioum.replay.problems import Problem
from aioum.verify.submitted import CALL, Step, Submitted


@dataclass(slots=True)
class DisclosedSignatures:
    """What can be told without the hidden calls.

    Attributes:
        valid: signatures that hold.
        linked: of those, how many are shown to follow the seat's call before; the rest follow hidden ones.
    """

    valid: int = 0
    linked: int = 0
    problems: list[Problem] = field(default_factory=list)


def check_disclosed(submitted: Submitted, channel_id: ChannelId) -> DisclosedSignatures:
    """Judge each signed call that is shown. Time is linear in their number."""
    found = DisclosedSignatures()
    keys = SeatKeys(submitted.roster)
    session_id = paid_session_id(channel_id)
    # Heads are known from the first call on until a call is hidden; then, of a seat, from its next one.
    heads = {seat: genesis(session_id, seat, submitted.roster.hash) for seat in submitted.roster.seats}
    expected = 0
    for step in submitted.steps:
        if step.index != expected:
            heads.clear()
        expected = step.index + 1
        _check_step(step, channel_id, keys, heads, found)
    return found


def _check_step(
    step: Step, channel_id: ChannelId, keys: SeatKeys, heads: dict[str, Bytes32], found: DisclosedSignatures
) -> None:
    where = f"{CALL} {step.index}"
    envelope = step.envelope
    if envelope is None or len(step.request) > MAX_COMMAND_BYTES:
        found.problems.append(Problem("input-uncovered", "no signed submission asked for it", where))
        return
    preimage = envelope.submission(channel_id, step.request).preimage()
    known = heads.get(envelope.seat)
    heads[envelope.seat] = head_after(preimage)
    try:
        keys.verify(envelope.seat, preimage, envelope.signature)
    except SignatureInvalid as error:
        found.problems.append(Problem(error.code, str(error), where))
        return
    found.valid += 1
    if known is None:
        return
    if envelope.prev_head != known:
        message = f"it does not follow the call of seat {envelope.seat} before it"
        found.problems.append(Problem("chain-mismatch", message, where))
    else:
        found.linked += 1
