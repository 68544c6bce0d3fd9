"""A real local chain for the whole run, and fresh accounts and services on it for each test.

The chain is shared, so a test uses accounts of its own and never resets or reverts it; one that moves time or
restarts anvil starts its own devnet (`running_devnet`).
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import solcx
from eth_abi.abi import encode

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.model import Service
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.errors import ConfigError
from aioum.core.payment import Terms
from aioum.core.signing import LocalKey
from aioum.core.types import ZERO_ADDRESS, Address, Bytes32
from aioum.devnet.anvil import find_anvil
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.tools import missing


@dataclass(frozen=True, slots=True)
class FundedAccount:
    """A fresh account with 1,000 ether and 1,000 aUSD, which has approved the PaymentManager; `sender` is its
    own.
    """

    key: LocalKey
    signer: LocalSigner
    sender: Sender


FundAccount = Callable[[], Awaitable[FundedAccount]]


@dataclass(frozen=True, slots=True)
class RegisteredService:
    """A service on the chain: `operator` is also its payee and receipt signer."""

    operator: FundedAccount
    service: Service


@pytest.fixture(scope="session")
def anvil() -> Path:
    """The anvil program; tests that need it skip where it is not installed."""
    try:
        return find_anvil()
    except ConfigError as error:
        missing(f"{error}; {error.hint}")


@pytest.fixture(scope="session")
def devnet(anvil: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDevnet]:
    """A devnet on a free port, with everything deployed, for the whole run."""
    with asyncio.Runner() as runner:
        running = running_devnet(tmp_path_factory.mktemp("devnet"))
        started = runner.run(running.__aenter__())
        try:
            yield started
        finally:
            runner.run(running.__aexit__(None, None, None))


@pytest.fixture
async def chain(devnet: RunningDevnet) -> AsyncIterator[Chain]:
    """A connection to the devnet's contracts."""
    async with Chain.connect(devnet.deployment) as connected:
        yield connected


@pytest.fixture
async def fund_account(devnet: RunningDevnet, chain: Chain, tmp_path: Path) -> AsyncIterator[FundAccount]:
    """Makes fresh accounts, each with a journal of its own."""
    journals: list[SqliteTransactionJournal] = []

    async def fund() -> FundedAccount:
        key = LocalKey(secrets.token_bytes(32))
        await devnet.fund(key.address)
        journal = SqliteTransactionJournal(tmp_path / f"transactions-{len(journals)}.sqlite3")
        journals.append(journal)
        signer = LocalSigner(key)
        sender = Sender(chain, signer, journal, receipt_timeout_seconds=30, poll_interval_seconds=0.02)
        await sender.send(calls.mint(devnet.token, key.address, 1_000_000_000), "fund")
        await sender.send(calls.approve(devnet.token, chain.payment_manager, 2**256 - 1), "approve")
        return FundedAccount(key, signer, sender)

    yield fund
    for journal in journals:
        await journal.close()


@pytest.fixture
async def payer(fund_account: FundAccount) -> FundedAccount:
    """A client's account."""
    return await fund_account()


@pytest.fixture
async def operator(fund_account: FundAccount) -> FundedAccount:
    """An operator's account."""
    return await fund_account()


@pytest.fixture
async def registered_service(
    devnet: RunningDevnet, chain: Chain, operator: FundedAccount
) -> RegisteredService:
    """A service with commitRequired terms in the devnet's token."""
    terms = Terms(
        operator=operator.key.address,
        payee=operator.key.address,
        token=devnet.token,
        receipt_signer=operator.key.address,
        arbitrator=ZERO_ADDRESS,
        descriptor_hash=Bytes32(secrets.token_bytes(32)),
        commit_required=True,
        dispute_window_seconds=0,
        ruling_period_seconds=0,
        dispute_bond=0,
    )
    mined = await operator.sender.send(
        calls.register(chain.service_registry, terms, "file:card.json"), "register"
    )
    (registered,) = mined.events
    service = await chain.service(registered.args["serviceId"])
    assert service is not None
    return RegisteredService(operator, service)


@pytest.fixture(scope="session")
def wallet_code(repository: Path) -> bytes:
    """Creation code of the contracts' own ERC-1271 test wallet, compiled now."""
    source = "contracts/test/mocks/Wallets.sol"
    output = solcx.compile_standard(
        {
            "language": "Solidity",
            "sources": {source: {"content": (repository / source).read_text(encoding="utf-8")}},
            "settings": {
                "evmVersion": "cancun",
                "remappings": ["@openzeppelin/contracts/=node_modules/@openzeppelin/contracts/"],
                "outputSelection": {source: {"Wallet": ["evm.bytecode.object"]}},
            },
        },
        solc_binary=repository / "scripts" / "solc",
        base_path=repository,
        allow_paths=repository,
    )
    return bytes.fromhex(output["contracts"][source]["Wallet"]["evm"]["bytecode"]["object"])


@pytest.fixture
async def deploy_wallet(wallet_code: bytes, payer: FundedAccount) -> Callable[[Address], Awaitable[Address]]:
    """Creates an ERC-1271 wallet that accepts the ECDSA signatures of its owner, and of nobody else."""

    async def deploy(owner: Address) -> Address:
        creation = wallet_code + encode(["address"], [owner])
        mined = await payer.sender.send(calls.ContractCall(None, creation, 1_500_000, "create"), "wallet")
        assert mined.contract_address is not None
        return mined.contract_address

    return deploy
