"""Facts beside the verdict: each has a state of its own, and none is folded into `trusted`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from aioum.replay.problems import Problem


class FactState(StrEnum):
    """`unverified`: part of the evidence is missing. `not_checked`: there was nothing to check it with."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    FAILED = "failed"
    NOT_APPLICABLE = "not_applicable"
    NOT_CHECKED = "not_checked"


@dataclass(frozen=True, slots=True)
class Fact:
    """A state, and what speaks against or for less than `verified`."""

    state: FactState
    problems: Sequence[Problem] = ()
