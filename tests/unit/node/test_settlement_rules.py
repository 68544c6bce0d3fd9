from dataclasses import replace

import pytest

from aioum.chain.model import BlockRef, ChainSession
from aioum.core import ledger
from aioum.core.ledger import Admitted, Limits, Phase, SessionState
from aioum.core.types import ZERO_BYTES32, Address, Bytes32
from aioum_node import settlement_rules as rules
from aioum_node.settlement_rules import ChainView, SettlePolicy
from aioum_node.store.port import StoredSession
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request

POLICY = SettlePolicy(idle_seconds=100, drain_seconds=330, exit_margin_seconds=300)
GRACE_SECONDS = 900
CHAIN_TIME = 5_000_000
ADDRESS = Address(b"\x01" * 20)


def played(calls: int, *, failed: bool = False) -> SessionState:
    state = opened(1)
    for index in range(calls):
        step = ledger.admit(state, request((index + 1) * PRICE), None, Limits())
        assert isinstance(step, Admitted)
        state = ledger.record(step.state, step.call, answer(failed=failed), Limits()).state
    return state


def in_flight(state: SessionState) -> SessionState:
    step = ledger.admit(state, request(state.accepted + PRICE), None, Limits())
    assert isinstance(step, Admitted)
    return step.state


def sealed(state: SessionState) -> SessionState:
    return ledger.seal(state, "test")


def stored(state: SessionState, *, idle_seconds: int = 0) -> StoredSession:
    return StoredSession(facts(1), state, NOW_MS, NOW_MS - idle_seconds * 1_000)


def on_chain(
    *,
    deposit: int = opened(1).deposit,
    settled: int = 0,
    close_requested_at: int = 0,
    finalized_at: int = 0,
    root: Bytes32 = ZERO_BYTES32,
    call_count: int = 0,
) -> ChainSession:
    return ChainSession(
        session_id=1,
        channel_id=channel(1),
        payer=ADDRESS,
        payee=ADDRESS,
        token=ADDRESS,
        authorized_signer=ADDRESS,
        operator=ADDRESS,
        service_id=1,
        terms_hash=Bytes32(b"\x16" * 32),
        deposit=deposit,
        settled=settled,
        refunded=0,
        opened_at=1,
        close_requested_at=close_requested_at,
        finalized_at=finalized_at,
        root=root,
        call_count=call_count,
        commit_required=True,
        dispute_window_seconds=0,
    )


def view(newest: ChainSession | None, final: ChainSession | None = None) -> ChainView:
    head = BlockRef(9, Bytes32(b"\x09" * 32), CHAIN_TIME)
    return ChainView(head, newest, newest if final is None else final, GRACE_SECONDS)


def step(session: StoredSession, look: ChainView, policy: SettlePolicy = POLICY) -> rules.Step:
    return rules.next_step(session, look, NOW_MS, policy)


def test_a_session_in_use_is_left_alone() -> None:
    assert step(stored(played(2), idle_seconds=99), view(on_chain())) == rules.Wait("in-use")


@pytest.mark.parametrize(
    "session, newest, reason",
    [
        (stored(played(2), idle_seconds=100), on_chain(), "idle"),
        (stored(played(0), idle_seconds=100), on_chain(), "idle"),
        (stored(played(2)), on_chain(close_requested_at=1), "client-exit"),
        (stored(played(2)), on_chain(root=Bytes32(b"\x01" * 32), call_count=9), "root-anchored"),
    ],
)
def test_idle_leaving_and_anchored_sessions_are_sealed(
    session: StoredSession, newest: ChainSession, reason: str
) -> None:
    assert step(session, view(newest)) == rules.Seal(reason)


def test_a_sealed_session_waits_for_its_calls() -> None:
    session = stored(sealed(in_flight(played(1))), idle_seconds=329)
    assert step(session, view(on_chain())) == rules.Wait("draining")


def test_calls_that_outlast_the_drain_time_are_interrupted() -> None:
    session = stored(sealed(in_flight(played(1))), idle_seconds=330)
    assert step(session, view(on_chain())) == rules.Interrupt()


@pytest.mark.parametrize(
    "requested_ago_seconds, expected", [(599, rules.Wait("draining")), (600, rules.Interrupt())]
)
def test_calls_are_interrupted_before_the_clients_exit_runs_out_by_the_chains_clock(
    requested_ago_seconds: int, expected: rules.Step
) -> None:
    session = stored(sealed(in_flight(played(1))))
    newest = on_chain(close_requested_at=CHAIN_TIME - requested_ago_seconds)
    assert step(session, view(newest)) == expected


def test_a_drained_session_is_settled_for_exactly_what_was_spent() -> None:
    state = sealed(played(3))
    expected = rules.Settle(ledger.settlement_of(state))
    assert step(stored(state), view(on_chain())) == expected
    assert expected.settlement.capture == 3 * PRICE


def test_a_session_without_calls_is_settled_with_nothing_so_that_the_deposit_goes_back() -> None:
    decided = step(stored(sealed(played(0))), view(on_chain()))
    assert isinstance(decided, rules.Settle)
    settlement = decided.settlement
    assert (settlement.capture, settlement.call_count, settlement.root) == (0, 0, ZERO_BYTES32)
    assert (settlement.voucher_amount, settlement.signature) == (0, b"")


def test_policy_may_leave_what_earned_nothing_to_the_client() -> None:
    thrifty = replace(POLICY, settle_unpaid=False)
    failed_only = stored(sealed(played(2, failed=True)))
    assert step(failed_only, view(on_chain()), thrifty) == rules.Wait("nothing-earned")
    assert isinstance(step(failed_only, view(on_chain())), rules.Settle)


def test_an_equal_root_on_the_chain_is_settled_and_another_one_stops() -> None:
    state = sealed(played(3))
    settlement = ledger.settlement_of(state)
    equal = on_chain(root=settlement.root, call_count=3)
    assert step(stored(state), view(equal)) == rules.Settle(settlement)
    for other in (replace(equal, call_count=2), replace(equal, root=Bytes32(b"\x01" * 32))):
        assert step(stored(state), view(other)) == rules.Stop("root-conflict")


def test_more_settled_than_spent_stops() -> None:
    look = view(on_chain(settled=3 * PRICE + 1))
    assert step(stored(sealed(played(3))), look) == rules.Stop("settled-above-spent")


def test_a_deposit_below_the_accepted_voucher_stops() -> None:
    look = view(on_chain(deposit=3 * PRICE - 1))
    assert step(stored(sealed(played(3))), look) == rules.Stop("deposit-below-voucher")


def test_a_channel_that_the_chain_does_not_know_is_never_settled_nor_sealed() -> None:
    for state in (played(3), sealed(played(3))):
        waiting = step(stored(state, idle_seconds=1_000), view(None))
        assert waiting == rules.Wait("channel-not-on-chain")


def test_a_finalization_counts_at_depth_only() -> None:
    state = sealed(played(3))
    newest = on_chain(settled=3 * PRICE, finalized_at=1)
    shallow = view(newest, final=on_chain())
    assert step(stored(state), shallow) == rules.Wait("finalization-not-deep-enough")
    assert step(stored(state), view(newest)) == rules.Finalize(None)
    assert step(stored(ledger.finalize(state)), view(newest)) == rules.Wait("final")


@pytest.mark.parametrize(
    "final, alert",
    [
        (on_chain(settled=0, finalized_at=1), "settled-below-spent"),
        (on_chain(settled=99_999, finalized_at=1), "settled-above-spent"),
        (
            on_chain(settled=3 * PRICE, finalized_at=1, root=Bytes32(b"\x01" * 32), call_count=3),
            "root-conflict",
        ),
    ],
)
def test_a_final_channel_that_holds_something_else_is_an_alert(final: ChainSession, alert: str) -> None:
    for state in (played(3), sealed(played(3))):
        assert step(stored(state), view(final)) == rules.Finalize(alert)


def test_only_a_deposit_at_depth_counts_and_a_pending_close_counts_at_once() -> None:
    newest = on_chain(deposit=500, close_requested_at=7)
    after = rules.observed(played(1), newest=newest, final=on_chain(deposit=100))
    assert (after.deposit, after.close_pending, after.phase) == (100, True, Phase.OPEN)
    assert rules.observed(after, newest=newest, final=None).deposit == 0
    taken_back = rules.observed(after, newest=on_chain(deposit=500), final=on_chain(deposit=500))
    assert (taken_back.deposit, taken_back.close_pending) == (500, False)


def test_an_anchored_root_seals_at_once() -> None:
    anchored = on_chain(root=Bytes32(b"\x01" * 32), call_count=1)
    after = rules.observed(played(1), newest=anchored, final=on_chain())
    assert (after.phase, after.seal_reason) == (Phase.SEALED, "root-anchored")
