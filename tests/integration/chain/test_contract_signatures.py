"""ERC-1271: the answer off-chain is the PaymentManager's, whatever a wallet does."""

import secrets
from collections.abc import Awaitable, Callable

import pytest
from eth_abi.abi import encode

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.erc1271 import MAX_SIGNATURE_SIZE_BYTES
from aioum.core.errors import AioumError
from aioum.core.hashing import keccak256
from aioum.core.payment import Voucher
from aioum.core.signing import LocalKey
from aioum.core.types import Address, Bytes32
from aioum.devnet.running import RunningDevnet
from tests.integration.chain.faulty_endpoint import faulty_endpoint
from tests.integration.conftest import FundedAccount

DeployWallet = Callable[[Address], Awaitable[Address]]
MODES = (
    "owner",
    "reject",
    "revert",
    "burn-gas",
    "dirty-magic",
    "short-answer",
    "long-answer",
    "boolean-answer",
)


@pytest.fixture
async def wallet(deploy_wallet: DeployWallet, payer: FundedAccount) -> Address:
    return await deploy_wallet(payer.key.address)


async def test_a_wallet_accepts_the_signature_of_its_owner_alone(
    chain: Chain, wallet: Address, payer: FundedAccount
) -> None:
    digest = secrets.token_bytes(32)
    by_owner = payer.key.sign_digest(digest)
    by_other = LocalKey(secrets.token_bytes(32)).sign_digest(digest)
    assert await chain.is_valid_signature(wallet, digest, by_owner)
    assert not await chain.is_valid_signature(wallet, digest, by_other)
    assert not await chain.is_valid_signature(wallet, secrets.token_bytes(32), by_owner)
    assert not await chain.is_valid_signature(wallet, digest, b"")


async def test_an_account_without_code_accepts_nothing(chain: Chain, payer: FundedAccount) -> None:
    digest = secrets.token_bytes(32)
    assert not await chain.is_valid_signature(payer.key.address, digest, payer.key.sign_digest(digest))


async def test_the_answer_is_that_of_the_block_asked_for(
    chain: Chain, wallet: Address, payer: FundedAccount
) -> None:
    digest = secrets.token_bytes(32)
    signature = payer.key.sign_digest(digest)
    block = (await chain.head()).number
    await set_mode(payer, wallet, MODES.index("reject"))
    assert await chain.is_valid_signature(wallet, digest, signature, block)
    assert not await chain.is_valid_signature(wallet, digest, signature)


async def test_whatever_a_wallet_answers_the_payment_manager_sees_it_the_same_way(
    chain: Chain, devnet: RunningDevnet, wallet: Address, payer: FundedAccount, operator: FundedAccount
) -> None:
    opened = await payer.sender.send(
        calls.open_plain(
            chain.payment_manager,
            payee=operator.key.address,
            token=devnet.token,
            deposit=10,
            salt=Bytes32(secrets.token_bytes(32)),
            authorized_signer=wallet,
        ),
        "open",
    )
    channel_id = opened.events[0].channel_id
    assert channel_id is not None
    voucher = Voucher(channel_id, 10)
    signature = await payer.signer.sign(voucher, chain.domain)
    digest = voucher.digest(chain.domain)
    for mode, name in enumerate(MODES):
        await set_mode(payer, wallet, mode)
        off_chain = await chain.is_valid_signature(wallet, digest, signature)
        assert off_chain == (name == "owner"), name
        assert off_chain == await chain.is_voucher_valid(channel_id, 10, signature), name


async def test_a_signature_beyond_the_limit_is_not_asked_about(chain: Chain, wallet: Address) -> None:
    longest, digest = bytes(MAX_SIGNATURE_SIZE_BYTES), bytes(32)
    assert not await chain.is_valid_signature(wallet, digest, longest)
    assert not await chain.is_valid_signature(wallet, digest, longest + b"\0")


async def test_an_endpoint_that_fails_is_an_error_and_not_a_no(
    chain: Chain, devnet: RunningDevnet, wallet: Address
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as through,
    ):
        endpoint.errors["eth_call"] = {"code": -32000, "message": "out of order"}
        with pytest.raises(AioumError) as caught:
            await through.is_valid_signature(wallet, bytes(32), bytes(65))
        assert caught.value.code == "rpc-error"


async def set_mode(payer: FundedAccount, wallet: Address, mode: int) -> None:
    data = keccak256(b"setMode(uint8)")[:4] + encode(["uint8"], [mode])
    await payer.sender.send(calls.ContractCall(wallet, data, 100_000, "setMode"), "set-mode")
