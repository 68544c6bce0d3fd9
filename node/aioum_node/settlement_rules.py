"""What is to be done next for a session's money: pure functions of session, chain and time (PROTOCOL 3.2)."""

from __future__ import annotations

from dataclasses import dataclass

from aioum.chain.model import BlockRef, ChainSession
from aioum.core import ledger
from aioum.core.ledger import Phase, SessionState, Settlement
from aioum.core.transcript import frontier_root
from aioum_node.store.port import StoredSession


@dataclass(frozen=True, slots=True)
class SettlePolicy:
    """When an operator settles.

    Attributes:
        idle_seconds: a session without a call for so long is settled.
        drain_seconds: how long a sealed session waits for calls in flight; more than a tool's longest timeout
            (300 s).
        exit_margin_seconds: a client may withdraw in so many seconds of chain time: stop waiting for calls.
        settle_unpaid: also send a transaction for a session that earned nothing, so that its client has the
            deposit back at once; else the client withdraws it.
    """

    idle_seconds: int = 86_400
    drain_seconds: int = 330
    exit_margin_seconds: int = 300
    settle_unpaid: bool = True


@dataclass(frozen=True, slots=True)
class ChainView:
    """One look at a channel.

    Attributes:
        head: the newest block; deadlines are judged by its timestamp.
        newest: the channel at that block, or None where it is unknown there.
        final: the channel at finality depth, or None.
        grace_period_seconds: between a payer's request to close and its withdrawal.
    """

    head: BlockRef
    newest: ChainSession | None
    final: ChainSession | None
    grace_period_seconds: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Seal:
    """Stop admission, for good."""

    reason: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Record the calls that are still in flight as failed."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Commit, capture and refund in one transaction."""

    settlement: Settlement


@dataclass(frozen=True, slots=True)
class Finalize:
    """The chain is done with the session.

    Attributes:
        alert: a code where the chain does not hold what this node would have put there.
    """

    alert: str | None


@dataclass(frozen=True, slots=True)
class Stop:
    """A person must look: nothing this node may send would be right.

    Attributes:
        code: `root-conflict`, another history is anchored; `settled-above-spent`, more was captured than was
            earned; `deposit-below-voucher`, the deposit does not cover the voucher that was accepted.
    """

    code: str


Step = Wait | Seal | Interrupt | Settle | Finalize | Stop


def next_step(session: StoredSession, view: ChainView, now_ms: int, policy: SettlePolicy) -> Step:
    """Decide for one session.

    Args:
        session: as stored.
        view: a look at the chain that is not older than the session's newest observation.
        now_ms: unix milliseconds, for idleness and draining only.
        policy: the operator's.
    """
    state, newest = session.state, view.newest
    if state.phase is Phase.FINAL:
        return Wait("final")
    if newest is None:
        return Wait("channel-not-on-chain")
    if view.final is not None and view.final.is_finalized:
        return Finalize(_alert(state, view.final))
    if newest.is_finalized:
        return Wait("finalization-not-deep-enough")
    if state.phase is Phase.OPEN:
        return _open_step(session, newest, now_ms, policy)
    if not state.drained:
        return _drain_step(session, view, newest, now_ms, policy)
    return _settle_step(state, newest, policy)


def _open_step(session: StoredSession, newest: ChainSession, now_ms: int, policy: SettlePolicy) -> Step:
    if newest.is_closing:
        return Seal("client-exit")
    if newest.has_root:
        # A client that sees a root stops paying, so a call served from here on would be for nothing.
        return Seal("root-anchored")
    if now_ms - session.active_at_ms >= policy.idle_seconds * 1_000:
        return Seal("idle")
    return Wait("in-use")


def _drain_step(
    session: StoredSession, view: ChainView, newest: ChainSession, now_ms: int, policy: SettlePolicy
) -> Step:
    if now_ms - session.active_at_ms >= policy.drain_seconds * 1_000:
        return Interrupt()
    if newest.is_closing:
        withdrawable_at = newest.close_requested_at + view.grace_period_seconds
        if view.head.timestamp >= withdrawable_at - policy.exit_margin_seconds:
            return Interrupt()
    return Wait("draining")


def _settle_step(state: SessionState, newest: ChainSession, policy: SettlePolicy) -> Step:
    settlement = ledger.settlement_of(state)
    if newest.has_root and (newest.root, newest.call_count) != (settlement.root, settlement.call_count):
        return Stop("root-conflict")
    if newest.settled > settlement.capture:
        return Stop("settled-above-spent")
    if newest.deposit < settlement.voucher_amount:
        return Stop("deposit-below-voucher")
    if settlement.capture == 0 and not policy.settle_unpaid:
        return Wait("nothing-earned")
    return Settle(settlement)


def _alert(state: SessionState, final: ChainSession) -> str | None:
    if final.settled > state.spent:
        return "settled-above-spent"
    if final.settled < state.spent:
        # The client withdrew before the operator settled.
        return "settled-below-spent"
    if state.drained and final.has_root:
        own = (state.admitted, frontier_root(state.frontier))
        if (final.call_count, final.root) != own:
            return "root-conflict"
    return None


def observed(state: SessionState, *, newest: ChainSession | None, final: ChainSession | None) -> SessionState:
    """What a look at the chain changes: deposit, pending close, and no more calls once a root is anchored.

    Args:
        state: before.
        newest: the channel at the newest block.
        final: the channel at finality depth; a deposit that is not there yet does not count.
    """
    after = ledger.observe_chain(
        state,
        deposit=0 if final is None else final.deposit,
        close_pending=newest is not None and (newest.is_closing or newest.is_finalized),
    )
    if newest is not None and newest.has_root:
        after = ledger.seal(after, "root-anchored")
    return after
