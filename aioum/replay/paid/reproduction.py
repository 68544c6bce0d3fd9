"""Running a deterministic service's calls again (PROTOCOL 7.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aioum.core.errors import AioumError, ConfigError
from aioum.core.hashing import keccak256
from aioum.replay.paid.facts import Fact, FactState
from aioum.replay.paid.session import PaidSession
from aioum.replay.paid.steps import Calls, PaidCall
from aioum.replay.problems import Problem

Runner: TypeAlias = Callable[[bytes, int], bytes]
"""Runs a call again: canonical request, and most bytes of interest, to the response.

Raises AioumError where there is no response to compare, ConfigError where it cannot run at all.
"""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Whether calls give the recorded responses again, and how many did."""

    fact: Fact
    reproduced: int = 0
    skipped: int = 0


def check_reproduction(calls: Calls, session: PaidSession, runner: Runner | None) -> Reproduction:
    """Run what the card declares deterministic. A service that declares nothing is never judged by this.

    Failed calls and exempted tools are skipped. An artifact does not tell a failed call from a free one, so a
    call that was charged nothing and gives something else counts as skipped.

    Codes: `re-execution-diverged`, and those of the runner.

    Raises:
        ConfigError: as the runner.
    """
    if session.card.deterministic is None:
        return Reproduction(Fact(FactState.NOT_APPLICABLE))
    if runner is None:
        return Reproduction(Fact(FactState.NOT_CHECKED))
    reproduced = skipped = 0
    unrun: list[Problem] = []
    for call in calls.calls:
        if not session.card.reexecutable(call.tool_id):
            skipped += 1
            continue
        where = f"call {call.index}"
        try:
            gives_the_same = _gives_the_same(call, runner, session.card.limits.max_response_bytes)
        except ConfigError:
            raise
        except AioumError as error:
            if call.result.charge == 0:
                skipped += 1
            else:
                unrun.append(Problem(error.code, str(error), where))
            continue
        if gives_the_same:
            reproduced += 1
        elif call.result.charge == 0:
            skipped += 1
        else:
            message = f"{call.tool_id} gives another response when it is run again"
            diverged = Problem("re-execution-diverged", message, where)
            return Reproduction(Fact(FactState.FAILED, [diverged]), reproduced, skipped)
    if unrun:
        return Reproduction(Fact(FactState.UNVERIFIED, unrun), reproduced, skipped)
    state = FactState.VERIFIED if reproduced else FactState.NOT_APPLICABLE
    return Reproduction(Fact(state), reproduced, skipped)


def _gives_the_same(call: PaidCall, runner: Runner, max_response_bytes: int) -> bool:
    output = runner(call.request, max_response_bytes + 1)
    if keccak256(output) == call.result.response_hash:
        return True
    return output.endswith(b"\n") and keccak256(output[:-1]) == call.result.response_hash
