"""What is to be done next for a session's money: pure functions of session, chain and time (PROTOCOL 3.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aioum.chain.model import BlockRef, ChainSession
from aioum.core import ledger, suspicion
from aioum.core.ledger import Phase, SessionState, Settlement
from aioum.core.transcript import frontier_root
from aioum_node.settlement.kept_vouchers import KeptVoucher
from aioum_node.store.port import StoredSession


@dataclass(frozen=True, slots=True)
class SettlePolicy:
    """When an operator settles.

    Attributes:
        idle_seconds: a session without a call for so long is settled.
        drain_seconds: how long a sealed session waits for calls in flight; more than a tool's longest timeout
            (300 s).
        exit_margin_seconds: a client may withdraw in so many seconds of chain time: stop waiting for calls.
        exit_alert_seconds: a client may withdraw in so many seconds and its session is not settled: alert.
        settle_unpaid: also send a transaction for a session that earned nothing, so that its client has the
            deposit back at once; else the client withdraws it.
    """

    idle_seconds: int = 86_400
    drain_seconds: int = 330
    exit_margin_seconds: int = 300
    exit_alert_seconds: int = 400
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
class Cover:
    """The deposit no longer covers the voucher that was accepted; an earlier one may do: see `covered`.

    Attributes:
        settlement: what was to be settled.
        deposit: base units, at the newest block.
        settled: base units that are the payee's already.
        is_last_chance: the client may withdraw before there is another.
    """

    settlement: Settlement
    deposit: int
    settled: int
    is_last_chance: bool


@dataclass(frozen=True, slots=True)
class Finalize:
    """The chain is done with the session.

    Attributes:
        final: the channel at finality depth.
    """

    final: ChainSession


@dataclass(frozen=True, slots=True)
class Stop:
    """A person must look: nothing this node may send would be right.

    Attributes:
        code: `root-conflict`, another history is anchored; `settled-above-spent`, more was captured than was
            earned; `deposit-below-voucher`, the deposit covers no voucher that pays for what was served.
    """

    code: str


Step = Wait | Seal | Interrupt | Settle | Cover | Finalize | Stop


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
        return Finalize(view.final)
    if newest.is_finalized:
        return Wait("finalization-not-deep-enough")
    if state.phase is Phase.SUSPECT:
        return Wait("session-suspect")
    if state.abandoned:
        return _settle_step(state, view, newest, replace(policy, settle_unpaid=True))
    if state.phase is Phase.OPEN:
        return _open_step(session, newest, now_ms, policy)
    if not state.drained:
        return _drain_step(session, view, newest, now_ms, policy)
    return _settle_step(state, view, newest, policy)


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
    return Interrupt() if _is_last_chance(view, newest, policy) else Wait("draining")


def _is_last_chance(view: ChainView, newest: ChainSession, policy: SettlePolicy) -> bool:
    withdrawable_at = newest.close_requested_at + view.grace_period_seconds
    return newest.is_closing and view.head.timestamp >= withdrawable_at - policy.exit_margin_seconds


def _settle_step(state: SessionState, view: ChainView, newest: ChainSession, policy: SettlePolicy) -> Step:
    settlement = ledger.settlement_of(state)
    if state.abandoned and newest.has_root:
        # A process before the store was restored anchored it, and a root is written once.
        settlement = replace(settlement, root=newest.root, call_count=newest.call_count)
    if newest.has_root and (newest.root, newest.call_count) != (settlement.root, settlement.call_count):
        return Stop("root-conflict")
    if newest.settled > settlement.capture:
        return Stop("settled-above-spent")
    if newest.deposit < settlement.voucher_amount and newest.settled < settlement.capture:
        is_last_chance = _is_last_chance(view, newest, policy)
        return Cover(settlement, newest.deposit, newest.settled, is_last_chance)
    if settlement.capture == 0 and not policy.settle_unpaid:
        return Wait("nothing-earned")
    return Settle(settlement)


def covered(cover: Cover, voucher: KeptVoucher | None) -> Settle | Stop:
    """What to settle where a top-up that a voucher relied on was reorganized away.

    Args:
        cover: what was to be settled.
        voucher: the highest one that the deposit covers, or None.

    Returns:
        a settlement for all that was spent, where the voucher pays for it. Else nothing is settled, because
        that would give up the rest for good and the top-up may come back; only when the client is about to
        withdraw, a part is better than nothing.
    """
    if voucher is None or voucher.amount <= cover.settled:
        return Stop("deposit-below-voucher")
    if voucher.amount < cover.settlement.capture and not cover.is_last_chance:
        return Stop("deposit-below-voucher")
    return Settle(
        replace(
            cover.settlement,
            voucher_amount=voucher.amount,
            capture=min(cover.settlement.capture, voucher.amount),
            signature=voucher.signature,
        )
    )


def final_alert(state: SessionState, final: ChainSession) -> str | None:
    """Why a person must look at a session that the chain is done with.

    Args:
        state: before it becomes final.
        final: the finalized channel.

    Returns:
        None where the chain holds what this node would have put there. Else `settled-above-spent`, more was
        captured than was earned; `settled-below-spent`, the client withdrew before all of it was captured;
        `root-conflict`, another history is anchored.
    """
    if state.phase is Phase.SUSPECT or state.abandoned:
        # What the chain holds and this record does not was put there before the store was restored.
        return None
    if final.settled > state.spent:
        return "settled-above-spent"
    if final.settled < state.spent:
        return "settled-below-spent"
    if state.drained and final.has_root:
        own = (state.admitted, frontier_root(state.frontier))
        if (final.call_count, final.root) != own:
            return "root-conflict"
    return None


def observed(state: SessionState, *, newest: ChainSession | None, final: ChainSession | None) -> SessionState:
    """What a look at the chain changes: deposit, pending close, and no more calls once a root is anchored.

    An open session of which more is anchored or captured than is recorded becomes suspect: whoever put that
    there had a newer store.

    Args:
        state: before.
        newest: the channel at the newest block.
        final: the channel at finality depth; a deposit that is not there yet does not count.
    """
    if newest is not None and _chain_knows_more(state, newest):
        state = suspicion.suspect(state)
    after = ledger.observe_chain(
        state,
        deposit=0 if final is None else final.deposit,
        close_pending=newest is not None and (newest.is_closing or newest.is_finalized),
    )
    if newest is not None and newest.has_root:
        after = ledger.seal(after, "root-anchored")
    return after


def _chain_knows_more(state: SessionState, newest: ChainSession) -> bool:
    """An operator seals before he anchors, so of an open session nothing can be there."""
    return state.phase is Phase.OPEN and (newest.call_count > state.admitted or newest.settled > state.spent)
