"""Stuck transactions: replaced by dearer ones, looked up in every variant, and with exactly one effect."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aioum.chain import calls
from aioum.chain.attempts import attempts_in, fees_of
from aioum.chain.client import Chain
from aioum.chain.fees import FeePolicy
from aioum.chain.journal import SignedTransaction, SqliteTransactionJournal, TransactionState
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.core.signing import LocalKey
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.chain.faulty_endpoint import Fault, faulty_endpoint
from tests.integration.chain.test_sending import outcome_of, until_handed_in

GWEI = 10**9


@dataclass(slots=True)
class Observer:
    """What the sender told."""

    replaced: int = 0
    alerts: list[str] = field(default_factory=list)

    def transaction_replaced(self) -> None:
        self.replaced += 1

    def transaction_alert(self, code: str) -> None:
        self.alerts.append(code)


@dataclass(slots=True)
class Clock:
    """Unix seconds that a test moves on."""

    seconds: float = 1_800_000_000.0

    def now(self) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Account:
    """A sender over a devnet that mines only when it is told to."""

    devnet: RunningDevnet
    chain: Chain
    sender: Sender
    journal: SqliteTransactionJournal
    observer: Observer
    clock: Clock

    async def minted(self) -> int:
        return await self.chain.token_balance(self.devnet.token, self.sender.signer.address)

    def mint(self, amount: int) -> calls.ContractCall:
        return calls.mint(self.devnet.token, self.sender.signer.address, amount)

    async def raise_base_fee(self, wei: int) -> None:
        """Mine one block at that base fee; what pays less stays out of it."""
        await self.chain.rpc.request("anvil_setNextBlockBaseFeePerGas", hex(wei))
        await self.devnet.mine()

    async def mine_until_done(self, *tasks: asyncio.Task[Any]) -> None:
        async with asyncio.timeout(60):
            while not all(task.done() for task in tasks):
                await self.devnet.mine()
                await asyncio.sleep(0.05)

    async def variants(self, count: int) -> list[SignedTransaction]:
        """The journal's pending transactions, as soon as there are so many."""
        async with asyncio.timeout(15):
            while len(pending := await self.sender.unresolved()) < count:
                await asyncio.sleep(0.01)
        return pending


@pytest.fixture
async def devnet(anvil: Path) -> AsyncIterator[RunningDevnet]:
    """One whose mining and base fee a test may set."""
    async with running_devnet() as running:
        yield running


@asynccontextmanager
async def account_on(
    devnet: RunningDevnet,
    path: Path,
    policy: FeePolicy,
    *,
    rpc_url: str | None = None,
    clock: Clock | None = None,
    key: LocalKey | None = None,
) -> AsyncIterator[Account]:
    journal = SqliteTransactionJournal(path)
    observer, clock = Observer(), clock or Clock()
    try:
        async with Chain.connect(devnet.deployment, rpc_url=rpc_url) as chain:
            sender = Sender(
                chain,
                LocalSigner(key or devnet.accounts[1]),
                journal,
                poll_interval_seconds=0.01,
                clock=clock.now,
                fee_policy=policy,
                observer=observer,
            )
            yield Account(devnet, chain, sender, journal, observer, clock)
    finally:
        await journal.close()


async def test_a_transaction_that_became_too_cheap_is_replaced_and_happens_once(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    async with account_on(devnet, tmp_path / "journal", FeePolicy(replace_after_seconds=60)) as account:
        before = await account.minted()
        await devnet.pause_mining()
        sending = asyncio.create_task(account.sender.send(account.mint(7), "mint"))
        await until_handed_in(account.sender)
        (first,) = await account.variants(1)
        await account.raise_base_fee(10 * fees_of(first).max_fee)
        assert await account.minted() == before
        account.clock.seconds += 59
        await asyncio.sleep(0.1)
        assert await account.sender.unresolved() == [first]
        account.clock.seconds += 1
        _, second = await account.variants(2)
        await until_handed_in(account.sender)
        await account.mine_until_done(sending)
        mined = await sending

        assert mined.transaction_hash == second.transaction_hash
        assert await account.minted() == before + 7
        assert (first.nonce, first.purpose) == (second.nonce, second.purpose)
        paid, rose = fees_of(first), fees_of(second)
        assert rose.max_fee * 8 >= paid.max_fee * 9
        assert rose.max_priority_fee * 8 >= paid.max_priority_fee * 9
        assert await account.journal.state(first.transaction_hash) is TransactionState.SUPERSEDED
        assert await account.journal.state(second.transaction_hash) is TransactionState.MINED
        assert (account.observer.replaced, account.observer.alerts) == (1, [])
        await account.sender.reconcile()
        assert await account.minted() == before + 7


async def test_the_old_variant_is_found_where_it_is_mined_after_a_replacement_was_signed(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        account_on(devnet, tmp_path / "journal", FeePolicy(60), rpc_url=endpoint.url) as account,
    ):
        before = await account.minted()
        await devnet.pause_mining()
        sending = asyncio.create_task(account.sender.send(account.mint(7), "mint"))
        await until_handed_in(account.sender)
        endpoint.faults["eth_sendRawTransaction"] = Fault.LOST
        account.clock.seconds += 60
        first, second = await account.variants(2)
        await devnet.mine(2)
        mined = await sending

        assert mined.transaction_hash == first.transaction_hash
        assert await account.minted() == before + 7
        assert await account.journal.state(first.transaction_hash) is TransactionState.MINED
        assert await account.journal.state(second.transaction_hash) is TransactionState.SUPERSEDED


@pytest.mark.parametrize("which", ["old", "new"])
async def test_a_restarted_process_finds_whichever_variant_was_mined(
    devnet: RunningDevnet, tmp_path: Path, which: str
) -> None:
    path, clock = tmp_path / "journal", Clock()
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        account_on(devnet, path, FeePolicy(60), rpc_url=endpoint.url, clock=clock) as account,
    ):
        before = await account.minted()
        await devnet.pause_mining()
        sending = asyncio.create_task(account.sender.send(account.mint(7), "mint"))
        await until_handed_in(account.sender)
        if which == "old":
            endpoint.faults["eth_sendRawTransaction"] = Fault.LOST
        clock.seconds += 60
        pending = await account.variants(2)
        async with asyncio.timeout(10):
            while which == "new" and account.observer.replaced == 0:
                await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await devnet.mine(2)

    async with account_on(devnet, path, FeePolicy(60), clock=clock) as account:
        (mined,) = await account.sender.reconcile()
        assert mined.transaction_hash == pending[which == "new"].transaction_hash
        assert mined.purpose == "mint"
        assert await account.minted() == before + 7
        assert await account.sender.unresolved() == []
        assert await account.sender.reconcile() == []


async def test_a_process_that_has_the_account_again_finds_what_another_one_signed_meanwhile(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    path, clock = tmp_path / "journal", Clock()
    async with account_on(devnet, path, FeePolicy(60), clock=clock) as account:
        before = await account.minted()
        await devnet.pause_mining()
        sending = asyncio.create_task(account.sender.send(account.mint(7), "mint"))
        await until_handed_in(account.sender)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        clock.seconds += 60
        async with account_on(devnet, path, FeePolicy(60), clock=clock) as other:
            reconciling = asyncio.create_task(other.sender.reconcile())
            async with asyncio.timeout(15):
                while other.observer.replaced == 0:
                    await asyncio.sleep(0.01)
            reconciling.cancel()
            await asyncio.gather(reconciling, return_exceptions=True)
        _, dearer = await account.variants(2)
        await devnet.mine(2)

        (mined,) = await account.sender.reconcile()

        assert mined.transaction_hash == dearer.transaction_hash
        assert await account.minted() == before + 7
        assert account.sender.in_flight == 0


async def test_a_replacement_that_would_cost_more_than_allowed_is_not_signed_and_told_once(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    async with account_on(devnet, tmp_path / "journal", FeePolicy(60, 20 * GWEI)) as account:
        await devnet.pause_mining()
        before = await account.minted()
        sending = asyncio.create_task(outcome_of(account.sender, account.mint(7), "mint"))
        await until_handed_in(account.sender)
        (only,) = await account.variants(1)
        await account.raise_base_fee(100 * GWEI)
        account.clock.seconds += 60
        async with asyncio.timeout(10):
            while not account.observer.alerts:
                await asyncio.sleep(0.01)
        account.clock.seconds += 60
        outcome = await sending
        assert isinstance(outcome, OutcomeUnknown)
        assert outcome.details["replacements"] == 0
        assert account.observer.alerts == ["fee-cap-reached"]

        # Cheaper blocks bring it in after all.
        await account.raise_base_fee(fees_of(only).max_priority_fee)
        reconciling = asyncio.create_task(account.sender.reconcile())
        await account.mine_until_done(reconciling)
        (mined,) = await reconciling
        assert mined.transaction_hash == only.transaction_hash
        assert await account.minted() == before + 7


async def test_where_blocks_are_dearer_than_allowed_from_the_start_nothing_is_signed_and_it_is_told(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    async with account_on(devnet, tmp_path / "journal", FeePolicy(60, GWEI)) as account:
        await account.raise_base_fee(100 * GWEI)
        error = await outcome_of(account.sender, account.mint(7), "mint")
        assert isinstance(error, AioumError)
        assert error.code == "fee-cap-reached"
        assert account.observer.alerts == ["fee-cap-reached"]
        assert await account.sender.unresolved() == []


async def test_of_many_parallel_sends_that_are_stuck_each_happens_once(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    async with account_on(devnet, tmp_path / "journal", FeePolicy(60)) as account:
        before, count = await account.minted(), 40
        nonce = await account.chain.rpc.transaction_count(account.sender.signer.address)
        await devnet.pause_mining()
        sending = [
            asyncio.create_task(account.sender.send(account.mint(2**i), f"mint-{i}")) for i in range(count)
        ]
        await until_handed_in(account.sender, count)
        cheapest = min(fees_of(pending).max_fee for pending in await account.variants(count))
        await account.raise_base_fee(20 * cheapest)
        account.clock.seconds += 60
        pending = await account.variants(2 * count)
        assert [len(attempt.variants) for attempt in attempts_in(pending)] == [2] * count
        await account.mine_until_done(*sending)
        mined = [await task for task in sending]

        assert [m.purpose for m in mined] == [f"mint-{i}" for i in range(count)]
        assert await account.minted() == before + 2**count - 1
        assert (
            await account.chain.rpc.transaction_count(account.sender.signer.address, "pending")
            == nonce + count
        )
        assert await account.sender.unresolved() == []


async def test_one_that_waits_behind_another_is_not_replaced_while_its_fee_would_do(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    async with account_on(devnet, tmp_path / "journal", FeePolicy(60)) as account:
        await devnet.pause_mining()
        sending = [asyncio.create_task(account.sender.send(account.mint(i), f"mint-{i}")) for i in (1, 2)]
        await until_handed_in(account.sender, 2)
        account.clock.seconds += 60
        pending = await account.variants(3)
        await asyncio.sleep(0.1)
        assert [len(attempt.variants) for attempt in attempts_in(await account.sender.unresolved())] == [2, 1]
        assert pending[0].nonce + 1 == pending[2].nonce
        async with asyncio.timeout(10):
            while account.observer.replaced == 0:
                await asyncio.sleep(0.01)
        await account.mine_until_done(*sending)
