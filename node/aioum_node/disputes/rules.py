"""What is to be done next for held money: a pure function of the chain and its clock (PROTOCOL 4.2, 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.chain.decisions import Case, DisputeState
from aioum.chain.model import BlockRef, ChainSession
from aioum.core.types import Bytes32

ANSWER_TOO_LATE: Final = "answer-too-late"
"""Why nothing is done about a challenge any more."""


@dataclass(frozen=True, slots=True)
class HoldView:
    """One look at a session that was finalized with a dispute window.

    Attributes:
        head: the newest block; deadlines are judged by its timestamp.
        newest, case: at that block; newest is None where the channel is unknown there.
        final: the channel at finality depth, or None.
    """

    head: BlockRef
    newest: ChainSession | None
    case: Case
    final: ChainSession | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do; `reason` says why.

    Attributes:
        until: unix seconds of the chain's clock; unless something happens there is nothing to do before. 0:
            look again soon.
    """

    reason: str
    until: int = 0


@dataclass(frozen=True, slots=True)
class AnswerChallenge:
    """Prove the challenged word."""

    word: Bytes32


@dataclass(frozen=True, slots=True)
class Lapse:
    """End the dispute that nobody ruled on."""


@dataclass(frozen=True, slots=True)
class Release:
    """Have what is held paid to the payee."""


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing is held any more, for good. `awarded`: base units that went back to the payer."""

    awarded: int


Step = Wait | AnswerChallenge | Lapse | Release | Over


def next_step(view: HoldView) -> Step:
    """Decide for one session."""
    newest, case, now = view.newest, view.case, view.head.timestamp
    if newest is None or not newest.is_finalized:
        # The store saw it final: an endpoint lags, or a deep reorganization took it.
        return Wait("finalization-missing")
    if view.final is not None and view.final.is_finalized and view.final.held == 0:
        return Over(view.final.awarded)
    if newest.held == 0:
        return Wait("not-deep-enough")
    if case.is_challenged:
        # From then on every answer reverts, and anybody may claim for the payer.
        return Wait(ANSWER_TOO_LATE) if now >= case.answer_by else AnswerChallenge(case.challenged_word)
    if case.dispute is DisputeState.PENDING:
        return Lapse() if now >= case.rule_by else Wait("dispute-pending", case.rule_by)
    held_until = newest.finalized_at + newest.dispute_window_seconds
    return Release() if now >= held_until else Wait("window-open", held_until)
