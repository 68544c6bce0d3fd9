"""What a session was like, as a score from 0 to 100 with its reasons (PROTOCOL 4.4).

Pure, and a suggestion only: the payer rates. It begins at 100; every reason takes points off.

| reason | points off |
|---|---|
| `operator-contradicted` | 100: its signed words or its settlement contradict the record, or prove a lie |
| `calls-unanswered` | up to 80, times the share of calls that never got an answer |
| `answer-withheld` | 40: a call was anchored whose answer never came |
| `calls-failed` | up to 50, times the share of answered calls that failed |
| `answers-slow` | up to 30, times the mean lateness: 0 up to half of what the card allows, 1 at all of it |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

BEST_SCORE: Final = 100
WITHHELD_CODES: Final = frozenset({"unanswered-call-anchored"})
"""Divergences that a network alone can have caused."""

_UNANSWERED_POINTS: Final = 80
_WITHHELD_POINTS: Final = 40
_FAILED_POINTS: Final = 50
_SLOW_POINTS: Final = 30


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """One answered call as a client met it.

    Attributes:
        failed: the tool failed.
        elapsed_ms: from sending to the answer, or None where nobody measured it.
        timeout_ms: what the card allows the tool.
    """

    failed: bool
    elapsed_ms: int | None
    timeout_ms: int

    @property
    def lateness(self) -> float | None:
        """0 up to half of the allowed time, rising to 1 at all of it and beyond; None: not measured."""
        if self.elapsed_ms is None or self.timeout_ms <= 0:
            return None
        return min(1.0, max(0.0, 2 * self.elapsed_ms / self.timeout_ms - 1))


@dataclass(frozen=True, slots=True)
class Experience:
    """All that a session met.

    Attributes:
        answered: its answered calls.
        unanswered: how many calls never got an answer.
        contradictions: reason codes of the operator's contradictions.
        provable_lies: how many lies its words prove.
    """

    answered: Sequence[AnsweredCall] = ()
    unanswered: int = 0
    contradictions: Sequence[str] = ()
    provable_lies: int = 0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why points are off. `code` is stable; `points` is 1 to 100."""

    code: str
    points: int
    text: str


@dataclass(frozen=True, slots=True)
class SuggestedScore:
    """A score, 0 to 100, and why it is not 100; the weightiest reason first."""

    score: int
    reasons: tuple[Reason, ...]


def suggest_score(met: Experience) -> SuggestedScore:
    """The score of a session by the table above; points are rounded to whole ones, halves up."""
    reasons = [reason for reason in _reasons(met) if reason.points > 0]
    reasons.sort(key=lambda reason: -reason.points)
    return SuggestedScore(max(0, BEST_SCORE - sum(reason.points for reason in reasons)), tuple(reasons))


def _reasons(met: Experience) -> Iterable[Reason]:
    accusing = sorted(set(met.contradictions) - WITHHELD_CODES)
    if met.provable_lies:
        accusing.append(f"{met.provable_lies} provable lies")
    if accusing:
        text = f"the operator contradicted itself: {', '.join(accusing)}"
        yield Reason("operator-contradicted", BEST_SCORE, text)
    calls = len(met.answered) + met.unanswered
    if met.unanswered:
        points = _share(_UNANSWERED_POINTS, met.unanswered / calls)
        yield Reason("calls-unanswered", points, f"{met.unanswered} of {calls} calls got no answer")
    if WITHHELD_CODES & set(met.contradictions):
        text = "a call was anchored whose answer never came"
        yield Reason("answer-withheld", _WITHHELD_POINTS, text)
    if not met.answered:
        return
    failed = sum(call.failed for call in met.answered)
    points = _share(_FAILED_POINTS, failed / len(met.answered))
    yield Reason("calls-failed", points, f"{failed} of {len(met.answered)} answered calls failed")
    late = [call.lateness for call in met.answered if call.lateness is not None]
    if late:
        slow = sum(value > 0 for value in late)
        text = f"{slow} of {len(late)} answers took more than half of what the card allows"
        yield Reason("answers-slow", _share(_SLOW_POINTS, sum(late) / len(late)), text)


def _share(points: int, share: float) -> int:
    return int(points * share + 0.5)
