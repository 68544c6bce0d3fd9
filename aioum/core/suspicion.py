"""Sessions whose record may lack what was signed: pure changes of their state (PROTOCOL 3.2).

A store that is older than what the node answered is right about every call that it holds. What it does not
know of is the danger: another answer for an index that has one is double signing. So such a session neither
admits, records nor signs, until the calls that it lacks came back from the client's evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aioum.core.errors import Refused
from aioum.core.ledger import ABANDONED, Call, Limits, Phase, SessionState, record


@dataclass(frozen=True, slots=True)
class Reimported:
    """What taking over a signed call comes to.

    Attributes:
        call: as it is to be stored, recorded.
        admitted, recorded: whether the store lacked the call, or only its answer; neither where it had both.
    """

    state: SessionState
    call: Call
    admitted: bool
    recorded: bool


def suspect(state: SessionState) -> SessionState:
    """Stop everything but the chain's own end; a session that is over, or given up, stays as it is."""
    if state.phase is Phase.FINAL or state.abandoned:
        return state
    return replace(state, phase=Phase.SUSPECT)


def clear(state: SessionState) -> SessionState:
    """The record holds all that was signed: the session is again what it was before."""
    if state.phase is not Phase.SUSPECT:
        return state
    return replace(state, phase=Phase.OPEN if state.seal_reason is None else Phase.SEALED)


def abandon(state: SessionState) -> SessionState:
    """Give a suspect session up: it is settled for nothing, and never serves or signs again.

    Raises:
        Refused: `session-not-suspect`.
    """
    require_suspect(state)
    return replace(state, phase=Phase.SEALED, seal_reason=ABANDONED)


def require_suspect(state: SessionState) -> None:
    """Raises Refused `session-not-suspect`."""
    if state.phase is not Phase.SUSPECT:
        raise Refused(
            f"the session is {state.phase.value}, not suspect",
            code="session-not-suspect",
            hint="after restoring a backup start the node once: it notices which sessions are",
        )


def reimport(state: SessionState, known: Call | None, call: Call, limits: Limits) -> Reimported:
    """Take over a call that this node had answered, in the order of indexes.

    Args:
        state: of a suspect session.
        known: what the store has under the call's index.
        call: with answer, charge and what the client signed for it; all of it proven. `price` is `charge`,
            or what the tool costs where the call failed.
        limits: bounds of the session.

    Raises:
        Refused: `session-not-suspect`; `recovery-conflict`, the store or an earlier call says otherwise.
    """
    require_suspect(state)
    if call.answer is None:
        raise Refused(f"call {call.index} has no answer", code="recovery-conflict")
    if known is not None and known.recorded:
        _require(_said(known) == _said(call), call.index, "the store has another call or answer")
        return Reimported(state, known, admitted=False, recorded=False)
    if known is not None:
        _require(_asked(known) == _asked(call), call.index, "the store has another request")
        _require(call.charge == (0 if call.answer.failed else known.price), call.index, "it costs otherwise")
        admitted = known
    else:
        _require(call.index == state.admitted, call.index, f"the next call is {state.admitted}")
        admitted = replace(call, answer=None, leaf=None, charge=0)
        state = _admitted(state, admitted)
    # Recording refuses suspect sessions, and this is how one stops to be suspect.
    decision = record(replace(state, phase=Phase.OPEN), admitted, call.answer, limits)
    after = replace(decision.state, phase=Phase.SUSPECT)
    _require(decision.call.charge == call.charge, call.index, "it costs otherwise")
    return Reimported(after, decision.call, admitted=known is None, recorded=True)


def _admitted(state: SessionState, call: Call) -> SessionState:
    seats = state.seats
    _require((call.envelope is not None) == state.signed, call.index, "it is signed, or the session is")
    if call.envelope is not None:
        follows = seats.head(call.envelope.seat) == call.envelope.prev_head
        _require(follows, call.index, "its seat asked something else before")
        seats = seats.after(call.envelope.submission(state.channel_id, call.request))
    higher = call.amount > state.accepted
    return replace(
        state,
        accepted=call.amount if higher else state.accepted,
        accepted_signature=call.signature if higher else state.accepted_signature,
        admitted=state.admitted + 1,
        reserved=state.reserved + call.price,
        seats=seats,
    )


def _asked(call: Call) -> tuple[object, ...]:
    envelope = None if call.envelope is None else replace(call.envelope, signature=b"")
    return call.tool_id, call.request, envelope


def _said(call: Call) -> tuple[object, ...]:
    # Status and content type are covered by no signature, so what the store has of them stands.
    response = None if call.answer is None else (call.answer.response, call.answer.failed)
    return (*_asked(call), response, call.charge)


def _require(holds: bool, index: int, what: str) -> None:
    if not holds:
        raise Refused(
            f"call {index} of the package contradicts the record: {what}",
            code="recovery-conflict",
            hint="nothing was changed; compare store and package, one of them is of another history",
        )
