"""Disputes from the client's side, on a real chain whose time passes."""

from typing import Any

import pytest

from aioum.chain.decisions import DisputeState
from aioum.chain.dispute_calls import Claim
from aioum.client import Marketplace, PaidSession
from aioum.client.publication import DataUriPublisher, FetchPolicy, Placed, fetch_evidence
from aioum.core.errors import ChainError, OutcomeUnknown, PolicyRefused
from aioum.core.evidence_reading import parse_package
from aioum.core.types import Bytes32
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.own_devnet.disputed_shop import (
    BOND,
    RULING_SECONDS,
    WINDOW_SECONDS,
    Shop,
)
from tests.integration.conftest import FundedAccount

DATA = DataUriPublisher()


async def bought(market: Marketplace, shop: Shop, calls: int = 1) -> PaidSession:
    """A closed session of calls at 100 each."""
    async with market.open(shop.operator.url, deposit=1_000) as session:
        for number in range(calls):
            await session.call("echo", text=str(number))
    return session


@pytest.fixture
def rule(marketplace: MakeMarketplace, shop: Shop, tmp_path: Any) -> Any:
    async def rule(session: PaidSession, award: int) -> None:
        async with marketplace(key=shop.arbitrator.key, data_dir=tmp_path / "arbitrator") as market:
            held = await market.held_money()
            await held.make(await held.rule(session.channel_id, award))

    return rule


async def test_a_quality_dispute_ruled_half_moves_every_unit_where_it_belongs(
    marketplace: MakeMarketplace, shop: Shop, rule: Any
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await bought(market, shop, calls=3)
        # 300 are captured and held; 700 came back with the close.
        assert await shop.balances() - start == (-300, 0, 300, 0)
        dispute = await session.dispute("quality", "the echo was faint", DATA)
        assert (dispute.raised.claim, dispute.raised.bond) == (Claim.QUALITY, BOND)
        assert await shop.balances() - start == (-300 - BOND, 0, 300, BOND)
        fetched = await fetch_evidence(
            dispute.raised.evidence_uri, dispute.raised.evidence_hash, policy=FetchPolicy(), max_bytes=9_999
        )
        package = parse_package(fetched.data)
        assert (package.claim, package.narrative) == ("quality", "the echo was faint")
        with pytest.raises(OutcomeUnknown) as caught:
            await dispute.decided(timeout_seconds=0)
        assert caught.value.code == "dispute-pending"

        await rule(session, 150)
        decision = await dispute.decided(timeout_seconds=30)
        assert (decision.state, decision.awarded, decision.bond_returned) == (DisputeState.RULED, 150, True)
        assert [event.name async for event in dispute] == ["DisputeRaised", "Ruled", "BondPaid"]
        assert await shop.balances() - start == (-150, 150, 0, 0)
        standing = await session.recourse.standing()
        assert (standing.session.held, standing.session.awarded, standing.session.settled) == (0, 150, 300)


async def test_nothing_awarded_costs_the_bond(marketplace: MakeMarketplace, shop: Shop, rule: Any) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await bought(market, shop)
        dispute = await session.dispute("wrong-result", "", DATA)
        await rule(session, 0)
        decision = await dispute.decided(timeout_seconds=30)
        assert (decision.state, decision.awarded, decision.bond_returned) == (DisputeState.RULED, 0, False)
        assert await shop.balances() - start == (-100 - BOND, 100 + BOND, 0, 0)


async def test_a_dispute_that_nobody_rules_on_lapses_and_the_money_is_released_after_the_window(
    marketplace: MakeMarketplace, shop: Shop, devnet: RunningDevnet
) -> None:
    start = await shop.balances()
    async with marketplace() as market:
        session = await bought(market, shop)
        dispute = await session.dispute("non-delivery", "it never came", DATA)
        held = session.recourse.held
        with pytest.raises(ChainError) as early:
            await held.make(await held.lapse(session.channel_id))
        assert early.value.details["error"] == "RulingStillDue"
        assert early.value.hint is not None
        await devnet.increase_time(RULING_SECONDS)
        await held.make(await held.lapse(session.channel_id))
        decision = await dispute.decided(timeout_seconds=30)
        assert (decision.state, decision.awarded, decision.bond_returned) == (DisputeState.LAPSED, 0, False)
        assert await shop.balances() - start == (-100 - BOND, BOND, 100, 0)
        assert not (await session.recourse.standing()).is_releasable
        await devnet.increase_time(WINDOW_SECONDS)
        assert (await session.recourse.standing()).is_releasable
        await held.make(await held.release(session.channel_id))
        assert await shop.balances() - start == (-100 - BOND, 100 + BOND, 0, 0)


async def test_a_restarted_program_finds_its_dispute_instead_of_raising_it_twice(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    async with marketplace() as market:
        session = await bought(market, shop)
        first = await session.dispute("quality", "too slow", DATA)
        after = await shop.balances()
    async with marketplace() as market:
        resumed = await market.resume(session.channel_id)
        again = await resumed.dispute("quality", "too slow", DATA)
        assert again.raised == first.raised
        assert await shop.balances() == after
        found = await resumed.recourse.raised()
        assert found is not None
        assert found.raised == first.raised


async def test_another_dispute_of_a_session_is_refused_with_its_reason(
    marketplace: MakeMarketplace, shop: Shop, rule: Any
) -> None:
    async with marketplace() as market:
        session = await bought(market, shop)
        await session.dispute("quality", "too slow", DATA)
        after = await shop.balances()
        with pytest.raises(ChainError) as caught:
            await session.dispute("quality", "too fast", DATA)
        assert caught.value.code == "already-disputed"
        assert await shop.balances() == after
        await rule(session, 1)
        with pytest.raises(ChainError) as caught:
            await session.dispute("quality", "too fast", DATA)
        assert caught.value.code == "nothing-held"


async def test_what_the_contract_would_refuse_is_not_even_published(
    marketplace: MakeMarketplace, shop: Shop, devnet: RunningDevnet
) -> None:
    published: list[bytes] = []

    class Place:
        async def place(self, data: bytes, evidence_hash: Bytes32) -> Placed:
            published.append(data)
            return Placed("data:,")

    async with marketplace() as market:
        session = await market.open(shop.operator.url, deposit=1_000)
        await session.call("echo", text="a")
        with pytest.raises(ChainError) as caught:
            await session.dispute("quality", "", Place())
        assert caught.value.code == "session-not-final"
        await session.close()
        await devnet.increase_time(WINDOW_SECONDS)
        with pytest.raises(ChainError) as caught:
            await session.dispute("quality", "", Place())
        assert caught.value.code == "dispute-window-closed"
        assert published == []


async def test_a_bond_that_the_payer_does_not_hold_is_said_before_anything_is_sent(
    marketplace: MakeMarketplace, shop: Shop, payer: FundedAccount, devnet: RunningDevnet
) -> None:
    from aioum.chain.abi import DEV_TOKEN, encode_call
    from aioum.chain.calls import ContractCall

    async with marketplace() as market:
        session = await bought(market, shop)
        rest = await shop.chain.token_balance(shop.token, payer.key.address)
        data = encode_call(DEV_TOKEN, "transfer", (shop.operator.key.address, rest - BOND + 1))
        await payer.sender.send(ContractCall(shop.token, data, 100_000, "transfer"), "spend")
        with pytest.raises(PolicyRefused) as caught:
            await session.dispute("quality", "", DATA)
        assert caught.value.code == "balance-too-low"


async def test_the_cost_of_a_dispute_is_known_before_it_is_raised(
    marketplace: MakeMarketplace, shop: Shop
) -> None:
    async with marketplace() as market:
        session = await bought(market, shop)
        recourse = session.recourse
        step = await recourse.held.dispute(
            await recourse.standing(), Claim.QUALITY, "data:,x", Bytes32(b"\1" * 32)
        )
        unknown = await recourse.held.cost(step)
        assert (unknown.is_estimated, unknown.bond) == (False, BOND)
        mined = await recourse.held.make(step)
        assert mined.gas_used < unknown.gas
        assert unknown.fee_wei == unknown.gas * unknown.gas_price_wei
        # The contract itself says that it would refuse the same once more.
        with pytest.raises(ChainError) as caught:
            await recourse.held.cost(step)
        assert caught.value.details["error"] in {"AlreadyDisputed", "ERC20InsufficientAllowance"}
