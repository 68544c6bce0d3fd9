"""Sessions of a payer that holds tokens and no gas at all."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import solcx

from aioum.chain import calls
from aioum.chain.calls import ContractCall
from aioum.chain.client import Chain
from aioum.chain.model import Mined
from aioum.chain.token_domains import token_domain
from aioum.client.gasless import authorize_opening, authorize_top_up
from aioum.core.authorization import TokenDomain
from aioum.core.errors import ChainError, ConfigError, PolicyRefused
from aioum.core.evidence import ChannelFacts
from aioum.core.signing import LocalKey
from aioum.core.types import ZERO_ADDRESS, ZERO_BYTES32, Bytes32
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator
from tests.integration.conftest import FundedAccount, RegisteredService

TOKENS = 10_000


@pytest.fixture
async def penniless(devnet: RunningDevnet, operator: FundedAccount, chain: Chain) -> LocalKey:
    """A key with TOKENS base units, no ether and no allowance."""
    key = LocalKey(secrets.token_bytes(32))
    await operator.sender.send(calls.mint(devnet.token, key.address, TOKENS), "mint")
    assert await chain.native_balance(key.address) == 0
    return key


@dataclass
class Overtaken:
    """A relayer whose call somebody else copies and sends first."""

    relayer: FundedAccount
    other: FundedAccount

    async def send(self, call: ContractCall, purpose: str) -> Mined:
        await self.other.sender.send(call, "copied")
        return await self.relayer.sender.send(call, purpose)


def channel_of(registered: RegisteredService, payer: LocalKey) -> ChannelFacts:
    terms = registered.service.terms
    return ChannelFacts(
        payer=payer.address,
        payee=terms.payee,
        token=terms.token,
        authorized_signer=ZERO_ADDRESS,
        nonce=Bytes32(secrets.token_bytes(32)),
        terms_hash=registered.service.terms_hash,
        roster_hash=ZERO_BYTES32,
    )


async def test_a_payer_without_gas_opens_tops_up_calls_and_closes(
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    chain: Chain,
    devnet: RunningDevnet,
    payer: FundedAccount,
    penniless: LocalKey,
) -> None:
    async with marketplace(key=penniless, relayer=payer.sender) as market:
        session = await market.open(scripted.url, deposit=1_000)
        await session.call("echo", text="a")
        assert await session.top_up(500) == 1_500
        assert await chain.token_balance(devnet.token, penniless.address) == TOKENS - 1_500
        closed = await session.close()
        assert (closed.deposit, closed.settled, closed.refunded) == (1_500, 100, 1_400)
        assert await chain.token_balance(devnet.token, penniless.address) == TOKENS - 100
    assert await chain.native_balance(penniless.address) == 0
    on_chain = await chain.session(session.channel_id)
    assert on_chain is not None
    assert on_chain.payer == penniless.address


async def test_whoever_sends_the_authorized_call_first_does_what_was_meant(
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    payer: FundedAccount,
    operator: FundedAccount,
    penniless: LocalKey,
) -> None:
    async with marketplace(key=penniless, relayer=Overtaken(payer, operator)) as market:
        session = await market.open(scripted.url, deposit=1_000)
        await session.call("echo", text="a")
        assert await session.top_up(500) == 1_500
        assert (await session.close()).deposit == 1_500


async def test_an_opening_that_was_interrupted_is_relayed_by_a_restarted_client(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, payer: FundedAccount, penniless: LocalKey
) -> None:
    class Away:
        async def send(self, call: ContractCall, purpose: str) -> Mined:
            raise ChainError("the relayer is away", code="rpc-unreachable")

    async with marketplace(key=penniless, relayer=Away()) as market:
        with pytest.raises(ChainError) as caught:
            await market.open(scripted.url, deposit=1_000)
        assert caught.value.code == "rpc-unreachable"
        (begun,) = await market.sessions()
    async with marketplace(key=penniless, relayer=payer.sender) as market:
        resumed = await market.resume(begun.channel_id)
        await resumed.call("echo", text="a")
        assert (await resumed.close()).settled == 100


async def test_a_relayed_top_up_never_takes_back_a_request_to_close(
    chain: Chain, payer: FundedAccount, operator: FundedAccount, registered_service: RegisteredService
) -> None:
    channel = channel_of(registered_service, payer.key)
    service_id = registered_service.service.service_id
    opening = await authorize_opening(chain, payer.key, channel, service_id, 1_000)
    await operator.sender.send(opening.call, "open")
    with pytest.raises(ChainError) as twice:
        await operator.sender.send(opening.call, "open")
    assert twice.value.details["error"] == "ChannelAlreadyExists"
    await payer.sender.send(calls.request_close(chain.payment_manager, opening.channel_id), "exit")
    addition = await authorize_top_up(
        chain, payer.key, opening.channel_id, channel.token, 5, Bytes32(secrets.token_bytes(32))
    )
    with pytest.raises(ChainError) as caught:
        await operator.sender.send(addition.call, "top-up")
    assert caught.value.details["error"] == "ClosePending"
    session = await chain.session(opening.channel_id)
    assert session is not None
    assert (session.deposit, session.is_closing) == (1_000, True)


async def test_nobody_authorizes_for_another_payer_or_more_than_it_holds(
    chain: Chain,
    marketplace: MakeMarketplace,
    scripted: ScriptedOperator,
    payer: FundedAccount,
    penniless: LocalKey,
    registered_service: RegisteredService,
) -> None:
    with pytest.raises(PolicyRefused) as caught:
        await authorize_opening(chain, penniless, channel_of(registered_service, payer.key), 1, 1)
    assert caught.value.code == "payer-cannot-authorize"
    async with marketplace(key=penniless, relayer=payer.sender) as market:
        with pytest.raises(PolicyRefused) as caught:
            await market.open(scripted.url, deposit=TOKENS + 1)
        assert caught.value.code == "balance-too-low"
    with pytest.raises(ConfigError) as refused:
        marketplace(key=payer.signer, relayer=payer.sender)
    assert refused.value.code == "config-invalid"


async def test_the_domain_of_a_token_is_read_and_held_against_its_own_separator(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, repository: Path
) -> None:
    expected = TokenDomain("aioum devnet dollar", "1", chain.chain_id, devnet.token)
    assert await token_domain(chain.rpc, devnet.token, chain.chain_id) == expected
    for version, wrong in (("2", False), ("2", True)):
        code = _older_token(repository, "Older Dollar", version, wrong=wrong)
        mined = await payer.sender.send(ContractCall(None, code, 1_500_000, "create"), "token")
        assert mined.contract_address is not None
        if not wrong:
            found = await token_domain(chain.rpc, mined.contract_address, chain.chain_id)
            assert (found.name, found.version) == ("Older Dollar", "2")
            continue
        with pytest.raises(ChainError) as caught:
            await token_domain(chain.rpc, mined.contract_address, chain.chain_id)
        assert caught.value.code == "token-domain-unknown"
    with pytest.raises(ChainError) as caught:
        await token_domain(chain.rpc, payer.key.address, chain.chain_id)
    assert caught.value.code == "token-domain-unknown"


def _older_token(repository: Path, name: str, version: str, *, wrong: bool) -> bytes:
    """Creation code of a token that is older than ERC-5267; `wrong`: its separator is of another version."""
    source = f"""
    pragma solidity 0.8.37;
    contract Older {{
        string public constant name = "{name}";
        string public constant version = "{version}";
        function DOMAIN_SEPARATOR() external view returns (bytes32) {{
            return keccak256(abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,"
                          "address verifyingContract)"),
                keccak256(bytes(name)), keccak256("{"0" if wrong else version}"), block.chainid,
                address(this)));
        }}
    }}"""
    request: dict[str, Any] = {
        "language": "Solidity",
        "sources": {"Older.sol": {"content": source}},
        "settings": {"evmVersion": "cancun", "outputSelection": {"*": {"*": ["evm.bytecode.object"]}}},
    }
    output = solcx.compile_standard(request, solc_binary=repository / "scripts" / "solc")
    return bytes.fromhex(output["contracts"]["Older.sol"]["Older"]["evm"]["bytecode"]["object"])
