"""Fees: what is paid, what a replacement pays, and what is never paid."""

from hypothesis import given
from hypothesis import strategies as st

from aioum.chain.fees import FeePolicy, Fees, Market

wei = st.integers(0, 10**15)
markets = st.builds(Market, wei, wei)


@given(market=markets)
def test_a_new_transaction_outlasts_six_full_blocks(market: Market) -> None:
    fees = FeePolicy().first(market)
    assert fees is not None
    assert fees.max_fee >= market.base_fee * 9**5 // 8**5 + market.priority_fee
    assert fees.max_priority_fee == market.priority_fee


@given(paid=st.tuples(wei, wei), market=markets)
def test_a_replacement_raises_both_fees_by_an_eighth_at_least(paid: tuple[int, int], market: Market) -> None:
    old = Fees(max(paid), min(paid))
    new = FeePolicy().replacement(old, market)
    assert new is not None
    assert new.max_fee * 8 >= old.max_fee * 9
    assert new.max_priority_fee * 8 >= old.max_priority_fee * 9
    # Some endpoints want more, however little it is.
    assert new.max_fee > old.max_fee
    assert new.max_priority_fee > old.max_priority_fee
    assert new.max_fee >= market.fees.max_fee


@given(paid=st.tuples(wei, wei), market=markets, cap=wei)
def test_nothing_is_signed_above_the_cap_or_below_what_a_block_takes(
    paid: tuple[int, int], market: Market, cap: int
) -> None:
    policy, old = FeePolicy(max_fee_per_gas_wei=cap), Fees(max(paid), min(paid))
    for fees in (policy.first(market), policy.replacement(old, market)):
        if fees is not None:
            assert market.base_fee <= fees.max_fee <= cap
            assert fees.max_priority_fee <= fees.max_fee
    replaced = policy.replacement(old, market)
    if replaced is not None:
        assert replaced.max_fee * 8 >= old.max_fee * 9
        assert replaced.max_priority_fee * 8 >= old.max_priority_fee * 9
    assert (policy.first(market) is None) == (cap < market.base_fee)
