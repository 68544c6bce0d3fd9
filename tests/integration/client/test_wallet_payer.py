"""A contract wallet as payer: it deposits and is refunded, a plain key signs the vouchers."""

import secrets
from dataclasses import replace
from typing import Any

import pytest

from aioum.chain import calls
from aioum.chain.calls import ContractCall
from aioum.chain.client import Chain
from aioum.client import Wallet
from aioum.core.errors import PolicyRefused
from aioum.core.signing import LocalKey
from aioum.core.types import Address
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.conftest import FundedAccount

# Calls the address in the first 20 bytes of its input with the rest, and reverts with what that reverts with.
FORWARDER = bytes.fromhex(
    "60143603"  # size = calldatasize - 20
    "8060146000" "37"  # copy the rest to memory 0
    "60006000" "91" "60006000" "60003560601c" "5a" "f1"  # call
    "602857" "3d60006000" "3e" "3d6000" "fd"  # revert with the returned data
    "5b00"
)  # fmt: skip


@pytest.fixture
async def wallet(devnet: RunningDevnet, payer: FundedAccount) -> Wallet:
    address = Address(secrets.token_bytes(20))
    await devnet.set_code(address, FORWARDER)
    await payer.sender.send(calls.mint(devnet.token, address, 1_000_000), "fund")

    def wrap(call: ContractCall) -> ContractCall:
        assert call.to is not None
        return replace(call, to=address, data=call.to + call.data, gas_limit=call.gas_limit + 60_000)

    return Wallet(address, wrap)


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
    wallet = Wallet(Address(secrets.token_bytes(20)), lambda call: replace(call, to=payer.key.address))
    before = await chain.rpc.transaction_count(payer.key.address)
    async with marketplace(wallet=wallet) as market:
        with pytest.raises(PolicyRefused) as caught:
            await market.open(scripted.url, deposit=1_000)
        assert caught.value.code == "wallet-counterfactual"
    assert await chain.rpc.transaction_count(payer.key.address) == before
