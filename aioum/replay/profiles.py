"""The two profiles of judging: the format's own rules, and those that paid sessions are held to."""

from __future__ import annotations

import re
from typing import Final

from aioum.replay.facts import Profile, place
from aioum.replay.model import (
    Action,
    Artifact,
    CommitMismatch,
    Interaction,
    Interest,
    Record,
    Resolution,
    SeatSignature,
    Timeout,
)
from aioum.replay.problems import Problem
from aioum.replay.signatures import SignatureRules

PAID_SESSION_PREFIX: Final = "aioum:"

_PAID_SESSION_ID: Final = re.compile(r"aioum:0x[0-9a-f]{64}")


def profile_for(session_id: str) -> Profile:
    """The profile of an artifact for which nobody chose one: `paid` for what says it is a paid session."""
    return Profile.PAID if session_id.startswith(PAID_SESSION_PREFIX) else Profile.GAOS


def is_paid_session_id(session_id: str) -> bool:
    """Whether the id has the form of a channel id, which is a digest of the session's terms and roster."""
    return _PAID_SESSION_ID.fullmatch(session_id) is not None


def signature_rules(profile: Profile, session_id: str) -> SignatureRules:
    """What the profile asks of signatures beyond the scheme."""
    if profile is Profile.GAOS:
        return SignatureRules()
    return SignatureRules(submissions_needed=True, sound_keys=True, all_direct=is_paid_session_id(session_id))


def check_paid_records(artifact: Artifact) -> tuple[Problem, ...]:
    """Refuse what a paid session never has: other records than its calls, and a second level (PROTOCOL 5)."""
    problems = [
        Problem("record-not-paid", "a paid session has no such record", place(line))
        for line in artifact.lines
        if not _may_be_paid(line)
    ]
    levels = len(artifact.header.levels)
    if levels != 1:
        message = f"{levels} levels; the terms of a paid session cannot change, so it has one"
        problems.append(Problem("level-not-paid", message, "header.levels"))
    return tuple(problems)


def _may_be_paid(line: Record) -> bool:
    match line:
        case Timeout() | Interest() | Interaction() | SeatSignature() | CommitMismatch():
            return False
        case Action(input=each):
            return not each.is_direct
        case Resolution():
            return line.system_input is None and not any(each.is_direct for each in line.inputs)
        case _:
            return True
