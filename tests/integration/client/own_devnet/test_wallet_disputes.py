"""A contract wallet as payer leaves without the operator, disputes, proves lies, challenges and rates."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.chain import calls, ratings
from aioum.chain.client import Chain
from aioum.chain.decisions import DisputeState
from aioum.client import Marketplace, PaidSession, Wallet
from aioum.client.publication import DataUriPublisher
from aioum.client.recourse import Challenged
from aioum.core.errors import ChainError, Divergence
from aioum.core.hextext import address_text
from aioum.core.lies import StatementAgainstRoot
from aioum.core.types import ZERO_ADDRESS, Bytes32
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.forwarding_wallet import WalletSigner, deploy_forwarding_wallet
from tests.integration.client.own_devnet.disputed_shop import (
    BOND,
    RULING_SECONDS,
    WINDOW_SECONDS,
    Shop,
    open_shop,
)
from tests.integration.client.own_devnet.test_exit import with_time_passing
from tests.integration.client.real_node import node_starter
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.conftest import FundAccount, FundedAccount

ANOTHER = Bytes32(b"\x77" * 32)
DATA = DataUriPublisher()
DAY = 86_400
DEPOSIT = 1_000


@pytest.fixture
async def wallet(devnet: RunningDevnet, payer: FundedAccount) -> Wallet:
    """Its owner is the payer's key, and has money of its own that must stay untouched."""
    return Wallet.executing(await deploy_forwarding_wallet(payer, devnet, 10_000))


@pytest.fixture
async def shop(
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    payer: FundedAccount,
    fund_account: FundAccount,
    wallet: Wallet,
) -> AsyncIterator[Shop]:
    before = await chain.token_balance(devnet.token, payer.key.address)
    async with open_shop(chain, devnet, operator, await fund_account(), payer) as opened:
        yield replace(opened, payer=wallet.address)
    assert await chain.token_balance(devnet.token, payer.key.address) == before


@pytest.fixture
def market(marketplace: MakeMarketplace, wallet: Wallet) -> Marketplace:
    return marketplace(wallet=wallet)


async def opened(market: Marketplace, operator: ScriptedOperator, calls: int) -> PaidSession:
    """An open session of calls at 100 each."""
    session = await market.open(operator.url, deposit=DEPOSIT)
    for number in range(calls):
        await session.call("echo", text=str(number))
    return session


async def settled_behind_its_back(session: PaidSession, shop: Shop) -> None:
    await shop.operator.settle(session.channel_id)
    with pytest.raises(Divergence):
        await session.verify()


async def until_answered(session: PaidSession) -> int:
    """The chain's time once no challenge is pending any more."""
    deadline = time.monotonic() + 30
    while True:
        standing = await session.recourse.standing()
        if not standing.case.is_challenged:
            return standing.head.timestamp
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_a_wallet_has_its_deposit_back_after_the_grace_period(
    market: Marketplace, shop: Shop, devnet: RunningDevnet
) -> None:
    start = await shop.balances()
    async with market:
        session = await opened(market, shop.operator, 1)
        assert await shop.balances() - start == (-DEPOSIT, 0, DEPOSIT, 0)
        closed = await with_time_passing(session.exit(), shop.chain, devnet, session.channel_id)
        assert (closed.settled, closed.refunded) == (0, DEPOSIT)
        assert await shop.balances() - start == (0, 0, 0, 0)


async def test_nobody_but_the_wallet_ends_its_session_in_its_place(
    market: Marketplace, shop: Shop, payer: FundedAccount
) -> None:
    async with market:
        session = await opened(market, shop.operator, 0)
        manager = shop.chain.payment_manager
        # The key that owns the wallet and signs its vouchers is another account.
        with pytest.raises(ChainError) as caught:
            await payer.sender.send(calls.request_close(manager, session.channel_id), "close")
        assert caught.value.details["error"] == "NotPayer"


async def test_a_wallet_disputes_is_ruled_on_and_rates(
    market: Marketplace, marketplace: MakeMarketplace, shop: Shop, devnet: RunningDevnet, tmp_path: Path
) -> None:
    start = await shop.balances()
    async with market:
        session = await opened(market, shop.operator, 3)
        await session.close()
        assert await shop.balances() - start == (-300, 0, 300, 0)
        dispute = await session.dispute("quality", "the echo was faint", DATA)
        assert (dispute.raised.payer, dispute.raised.bond) == (shop.payer, BOND)
        assert await shop.balances() - start == (-300 - BOND, 0, 300, BOND)
        async with marketplace(key=shop.arbitrator.key, data_dir=tmp_path / "arbitrator") as arbitrator:
            held = await arbitrator.held_money()
            await held.make(await held.rule(session.channel_id, 120))
        decision = await dispute.decided(timeout_seconds=30)
        assert (decision.state, decision.awarded, decision.bond_returned) == (DisputeState.RULED, 120, True)
        assert await shop.balances() - start == (-180, 180, 0, 0)

        await session.rate(40)
        registry = devnet.deployment.rating_registry
        assert registry is not None
        rated = await ratings.service_ratings(
            shop.chain.rpc, registry, shop.operator.service_id, devnet.token
        )
        assert (rated.count, rated.mean) == (1, 40.0)


async def test_the_contracts_reason_is_read_through_the_wallet(
    market: Marketplace, shop: Shop, devnet: RunningDevnet
) -> None:
    async with market:
        session = await opened(market, shop.operator, 1)
        await session.close()
        await session.dispute("quality", "", DATA)
        held = session.recourse.held
        lapse = await held.lapse(session.channel_id)
        for early in (held.cost(lapse), held.make(lapse)):
            with pytest.raises(ChainError) as caught:
                await early
            assert caught.value.details["error"] == "RulingStillDue"
        await devnet.increase_time(RULING_SECONDS)
        mined = await held.make(lapse)
        assert mined.gas_used < lapse.call.gas_limit


async def test_a_wallet_proves_a_lie_and_all_that_is_held_comes_back(market: Marketplace, shop: Shop) -> None:
    start = await shop.balances()
    shop.operator.lies.settle = lambda right: replace(right, root=ANOTHER)
    async with market:
        session = await opened(market, shop.operator, 2)
        with pytest.raises(Divergence):
            await session.close()
        proven = await session.prove_lies()
        assert isinstance(proven.lie, StatementAgainstRoot)
        assert proven.awarded == 200
        assert await shop.balances() - start == (0, 0, 0, 0)


async def test_a_wallet_challenges_and_takes_back_what_nobody_answered_for(
    market: Marketplace, shop: Shop, devnet: RunningDevnet
) -> None:
    start = await shop.balances()
    async with market:
        session = await opened(market, shop.operator, 1)
        shop.operator.lies.settle = lambda right: replace(right, root=ANOTHER, call_count=7)
        await settled_behind_its_back(session, shop)
        challenged = await session.recourse.hold_to_account()
        assert isinstance(challenged, Challenged)
        assert await shop.balances() - start == (-100 - BOND, 0, 100, BOND)
        await devnet.increase_time(DAY)
        await session.recourse.claim_unanswered()
        assert await shop.balances() - start == (0, 0, 0, 0)


async def test_a_wallet_that_signs_everything_itself_goes_the_whole_way_with_a_real_node(
    marketplace: MakeMarketplace,
    wallet: Wallet,
    shop: Shop,
    devnet: RunningDevnet,
    payer: FundedAccount,
    operator: FundedAccount,
    tmp_path: Path,
) -> None:
    start_node = node_starter(devnet, operator, tmp_path / "node")
    start = await shop.balances()
    async with (
        start_node(
            accept_contract_signers=True,
            dispute_window_seconds=WINDOW_SECONDS,
            dispute_bond=BOND,
            arbitrator=address_text(shop.arbitrator.key.address),
            ruling_period_seconds=RULING_SECONDS,
            dispute_interval_seconds=0.05,
        ) as node,
        marketplace(wallet=wallet, voucher_key=WalletSigner(wallet.address, payer.key)) as market,
    ):
        left = await market.open(node.url, deposit=DEPOSIT)
        await left.call("wordcount", text="a b")
        on_chain = await shop.chain.session(left.channel_id)
        assert on_chain is not None
        assert (on_chain.payer, on_chain.authorized_signer) == (wallet.address, ZERO_ADDRESS)
        # The node sees the exit and settles what the wallet's own voucher allows, within the grace period.
        closed = await left.exit()
        assert (closed.settled, closed.refunded, closed.call_count) == (100, DEPOSIT - 100, 1)

        async with market.open(node.url, deposit=DEPOSIT) as session:
            await session.call("wordcount", text="a b c")
        assert await shop.balances() - start == (-200, 0, 200, 0)
        dispute = await session.dispute("wrong-result", "four, by my count", DATA)
        # A node that kept the protocol proves any word of it, to a wallet as to anybody.
        challenged = await left.challenge(await left.recourse.word(call_index=0))
        answered = await until_answered(left)
        assert answered < challenged.answer_by
        assert await shop.balances() - start == (-200 - 2 * BOND, BOND, 200, BOND)
        async with marketplace(key=shop.arbitrator.key, data_dir=tmp_path / "arbitrator") as arbitrator:
            held = await arbitrator.held_money()
            await held.make(await held.rule(session.channel_id, 50))
        decision = await dispute.decided(timeout_seconds=30)
        assert (decision.state, decision.awarded) == (DisputeState.RULED, 50)
    assert await shop.balances() - start == (-150 - BOND, 50 + BOND, 100, 0)
