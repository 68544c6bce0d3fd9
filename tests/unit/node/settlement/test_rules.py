from dataclasses import replace

import pytest

from aioum.chain.model import BlockRef, ChainSession
from aioum.core import ledger, suspicion
from aioum.core.ledger import Admitted, Limits, Phase, SessionState
from aioum.core.types import ZERO_BYTES32, Address, Bytes32
from aioum_node.settlement import rules
from aioum_node.settlement.kept_vouchers import KeptVoucher
from aioum_node.settlement.rules import ChainView, SettlePolicy
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


def below_the_voucher(*, requested_ago_seconds: int | None = None) -> rules.Cover:
    """Three calls were paid, and the deposit covers two and a half."""
    requested_at = 0 if requested_ago_seconds is None else CHAIN_TIME - requested_ago_seconds
    newest = on_chain(deposit=5 * PRICE // 2, close_requested_at=requested_at)
    decided = step(stored(sealed(played(3))), view(newest))
    assert isinstance(decided, rules.Cover)
    return decided


def test_a_deposit_below_the_accepted_voucher_asks_for_one_that_it_covers() -> None:
    cover = below_the_voucher()
    assert cover.settlement == ledger.settlement_of(sealed(played(3)))
    assert (cover.deposit, cover.settled, cover.is_last_chance) == (5 * PRICE // 2, 0, False)
    assert below_the_voucher(requested_ago_seconds=600).is_last_chance
    assert not below_the_voucher(requested_ago_seconds=599).is_last_chance


def test_what_is_settled_already_needs_no_voucher_and_no_deposit() -> None:
    state = sealed(played(3))
    newest = on_chain(deposit=5 * PRICE // 2, settled=3 * PRICE)
    assert step(stored(state), view(newest)) == rules.Settle(ledger.settlement_of(state))


def test_an_earlier_voucher_that_pays_for_everything_settles_everything() -> None:
    free_call = replace(played(3), spent=2 * PRICE, failures=1)
    look = view(on_chain(deposit=5 * PRICE // 2))
    cover = step(stored(sealed(free_call)), look)
    assert isinstance(cover, rules.Cover)
    decided = rules.covered(cover, KeptVoucher(2 * PRICE, b"two"))
    assert isinstance(decided, rules.Settle)
    settlement = decided.settlement
    assert (settlement.voucher_amount, settlement.capture, settlement.signature) == (
        2 * PRICE,
        2 * PRICE,
        b"two",
    )
    assert (settlement.root, settlement.call_count) == (cover.settlement.root, 3)


def test_an_earlier_voucher_that_pays_for_a_part_settles_it_only_when_the_client_is_about_to_withdraw() -> (
    None
):
    voucher = KeptVoucher(2 * PRICE, b"two")
    for early in (below_the_voucher(), below_the_voucher(requested_ago_seconds=599)):
        assert rules.covered(early, voucher) == rules.Stop("deposit-below-voucher")
    late = below_the_voucher(requested_ago_seconds=600)
    decided = rules.covered(late, voucher)
    assert isinstance(decided, rules.Settle)
    assert (decided.settlement.voucher_amount, decided.settlement.capture) == (2 * PRICE, 2 * PRICE)
    assert (decided.settlement.root, decided.settlement.call_count) == (late.settlement.root, 3)


def test_without_a_voucher_that_brings_anything_nothing_is_settled() -> None:
    late = below_the_voucher(requested_ago_seconds=600)
    assert rules.covered(late, None) == rules.Stop("deposit-below-voucher")
    paid_before = replace(late, settled=2 * PRICE)
    assert rules.covered(paid_before, KeptVoucher(2 * PRICE, b"two")) == rules.Stop("deposit-below-voucher")


def test_a_channel_that_the_chain_does_not_know_is_never_settled_nor_sealed() -> None:
    for state in (played(3), sealed(played(3))):
        waiting = step(stored(state, idle_seconds=1_000), view(None))
        assert waiting == rules.Wait("channel-not-on-chain")


def test_a_finalization_counts_at_depth_only() -> None:
    state = sealed(played(3))
    newest = on_chain(settled=3 * PRICE, finalized_at=1)
    shallow = view(newest, final=on_chain())
    assert step(stored(state), shallow) == rules.Wait("finalization-not-deep-enough")
    assert step(stored(state), view(newest)) == rules.Finalize(newest)
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
        assert step(stored(state), view(final)) == rules.Finalize(final)
        assert rules.final_alert(state, final) == alert


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


# --- restored stores ---


def test_a_suspect_session_waits_for_its_evidence_whatever_the_chain_or_the_clock_says() -> None:
    state = suspicion.suspect(played(3))
    for newest in (on_chain(), on_chain(close_requested_at=CHAIN_TIME - 800), on_chain(settled=PRICE)):
        assert step(stored(state, idle_seconds=10_000), view(newest)) == rules.Wait("session-suspect")


def test_a_suspect_session_that_is_over_on_the_chain_is_over_and_no_alert() -> None:
    state = suspicion.suspect(played(3))
    over = on_chain(settled=9 * PRICE, finalized_at=CHAIN_TIME, root=Bytes32(b"\x07" * 32), call_count=9)
    assert step(stored(state), view(over)) == rules.Finalize(over)
    assert rules.final_alert(state, over) is None


def test_an_abandoned_session_is_settled_for_nothing_with_calls_under_way_and_where_unpaid_ones_are_not() -> (
    None
):
    state = suspicion.abandon(suspicion.suspect(in_flight(played(3))))
    policy = replace(POLICY, settle_unpaid=False)
    decided = rules.next_step(stored(state), view(on_chain()), NOW_MS, policy)
    assert isinstance(decided, rules.Settle)
    settlement = decided.settlement
    assert (settlement.capture, settlement.call_count, settlement.root) == (0, 0, ZERO_BYTES32)
    over = on_chain(finalized_at=CHAIN_TIME)
    assert rules.next_step(stored(state), view(over), NOW_MS, policy) == rules.Finalize(over)
    assert rules.final_alert(state, over) is None


def test_an_abandoned_session_keeps_the_root_that_a_newer_store_had_anchored() -> None:
    state = suspicion.abandon(suspicion.suspect(played(3)))
    decided = step(stored(state), view(on_chain(root=Bytes32(b"\x07" * 32), call_count=9)))
    assert isinstance(decided, rules.Settle)
    settlement = decided.settlement
    assert (settlement.capture, settlement.call_count, settlement.root) == (0, 9, Bytes32(b"\x07" * 32))


@pytest.mark.parametrize(
    ("newest", "phase"),
    [
        (on_chain(root=Bytes32(b"\x07" * 32), call_count=4), Phase.SUSPECT),
        (on_chain(settled=3 * PRICE + 1), Phase.SUSPECT),
        (on_chain(settled=3 * PRICE), Phase.OPEN),
        (on_chain(root=Bytes32(b"\x07" * 32), call_count=3), Phase.SEALED),
    ],
)
def test_an_open_session_of_which_the_chain_holds_more_than_the_record_is_suspect(
    newest: ChainSession, phase: Phase
) -> None:
    assert rules.observed(played(3), newest=newest, final=newest).phase is phase
    if phase is Phase.SUSPECT:
        # One that was sealed here is a person's to look at, as before.
        assert rules.observed(sealed(played(3)), newest=newest, final=newest).phase is Phase.SEALED
