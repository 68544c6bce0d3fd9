"""A contract wallet as payer: it deposits and is refunded; a plain key signs the vouchers, or it does."""

import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.calls import ContractCall
from aioum.chain.client import Chain
from aioum.client import Wallet
from aioum.core.errors import InvalidInput, PolicyRefused, Refused
from aioum.core.signing import LocalKey
from aioum.core.types import ZERO_ADDRESS, Address
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.forwarding_wallet import (
    CounterfactualSigner,
    WalletSigner,
    deploy_forwarding_wallet,
)
from tests.integration.client.real_node import StartNode, node_starter
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.conftest import FundedAccount


@pytest.fixture
async def wallet(devnet: RunningDevnet, payer: FundedAccount) -> Wallet:
    return Wallet.executing(await deploy_forwarding_wallet(payer, devnet, 1_000_000))


@pytest.fixture
def start_node(devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> StartNode:
    return node_starter(devnet, operator, tmp_path / "node")


async def test_a_contract_wallet_pays_and_a_plain_key_signs(
    wallet: Wallet,
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    chain: Chain,
    devnet: RunningDevnet,
    payer: FundedAccount,
) -> None:
    async with marketplace(wallet=wallet) as market:
        async with market.open(scripted.url, deposit=1_000) as session:
            await session.call("echo", text="1")
            assert await session.top_up(500) == 1_500
            await session.call("echo", text="2")
        on_chain = await chain.session(session.channel_id)
        assert on_chain is not None
        assert (on_chain.payer, on_chain.authorized_signer) == (wallet.address, payer.key.address)
        assert (on_chain.settled, on_chain.refunded) == (200, 1_300)
        assert await chain.token_balance(devnet.token, wallet.address) == 1_000_000 - 200
        package: Any = session.evidence_package("quality", "")
        channel = package["channel"]
        assert channel["payer"] != channel["authorizedSigner"]


async def test_a_wallet_that_signs_its_vouchers_itself_opens_calls_and_settles_where_a_node_takes_such(
    wallet: Wallet,
    start_node: StartNode,
    marketplace: MakeMarketplace,
    chain: Chain,
    devnet: RunningDevnet,
    payer: FundedAccount,
) -> None:
    voices = WalletSigner(wallet.address, payer.key)
    async with (
        start_node(accept_contract_signers=True) as node,
        marketplace(wallet=wallet, voucher_key=voices) as market,
    ):
        async with market.open(node.url, deposit=1_000) as session:
            await session.call("wordcount", text="a b")
            assert await session.top_up(500) == 1_500
            # Words that a client signs to read its own record are the wallet's as well.
            assert await session.statement() is not None
            await session.call("wordcount", text="a b c")
        on_chain = await chain.session(session.channel_id)
        assert on_chain is not None
        assert (on_chain.payer, on_chain.authorized_signer) == (wallet.address, ZERO_ADDRESS)
        assert (on_chain.settled, on_chain.refunded, on_chain.call_count) == (200, 1_300, 2)
        assert await chain.token_balance(devnet.token, wallet.address) == 1_000_000 - 200


async def test_a_node_that_does_not_take_signatures_of_contracts_says_so(
    wallet: Wallet, start_node: StartNode, marketplace: MakeMarketplace, payer: FundedAccount
) -> None:
    voices = WalletSigner(wallet.address, payer.key)
    async with start_node() as node, marketplace(wallet=wallet, voucher_key=voices) as market:
        session = await market.open(node.url, deposit=1_000)
        with pytest.raises(Refused) as caught:
            await session.call("wordcount", text="a")
        assert caught.value.code == "contract-signer-refused"


async def test_vouchers_can_be_signed_by_a_key_that_holds_no_money(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, chain: Chain
) -> None:
    key = LocalKey(secrets.token_bytes(32))
    async with marketplace(voucher_key=key) as market:
        async with market.open(scripted.url, deposit=1_000) as session:
            await session.call("echo", text="1")
        on_chain = await chain.session(session.channel_id)
        assert on_chain is not None
        assert (on_chain.authorized_signer, on_chain.settled) == (key.address, 100)


async def test_a_wallet_that_is_only_an_address_yet_is_refused_before_anything_is_sent(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, chain: Chain, payer: FundedAccount
) -> None:
    wallet = Wallet.executing(Address(secrets.token_bytes(20)))
    before = await chain.rpc.transaction_count(payer.key.address)
    async with marketplace(wallet=wallet) as market:
        with pytest.raises(PolicyRefused) as caught:
            await market.open(scripted.url, deposit=1_000)
        assert caught.value.code == "wallet-counterfactual"
        assert caught.value.hint == "deploy the wallet first"
    assert await chain.rpc.transaction_count(payer.key.address) == before


async def test_vouchers_of_a_wallet_that_is_only_an_address_yet_are_refused_by_a_node_that_takes_contracts(
    start_node: StartNode, marketplace: MakeMarketplace, payer: FundedAccount
) -> None:
    voices = CounterfactualSigner(payer.key)
    async with start_node(accept_contract_signers=True) as node, marketplace(voucher_key=voices) as market:
        session = await market.open(node.url, deposit=1_000)
        with pytest.raises(Refused) as caught:
            await session.call("wordcount", text="a")
        assert caught.value.code == "signature-counterfactual"


async def test_what_a_wallet_cannot_do_is_refused_before_it_is_sent(wallet: Wallet) -> None:
    with pytest.raises(InvalidInput) as caught:
        wallet.wrap(ContractCall(None, b"code", 100_000, "create"))
    assert caught.value.code == "call-without-target"


async def test_any_other_way_of_forwarding_is_a_function_of_the_call(
    wallet: Wallet,
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    chain: Chain,
) -> None:
    labels: list[str] = []

    def wrap(call: ContractCall) -> ContractCall:
        labels.append(call.label)
        return replace(wallet.wrap(call), gas_limit=call.gas_limit + 100_000)

    async with marketplace(wallet=Wallet(wallet.address, wrap)) as market:
        async with market.open(scripted.url, deposit=1_000) as session:
            await session.call("echo", text="1")
        on_chain = await chain.session(session.channel_id)
        assert on_chain is not None
        assert (on_chain.payer, on_chain.refunded) == (wallet.address, 900)
    assert labels == ["approve", "openSession"]
