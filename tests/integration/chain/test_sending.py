"""Sending: concurrent nonces, decoded reverts, refusals, unknown outcomes."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from eth_account import Account

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal, TransactionState
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.errors import AioumError, ContractReverted, OutcomeUnknown, TransactionReverted
from aioum.core.hextext import address_text, to_hex
from aioum.core.signing import LocalKey
from aioum.core.types import Bytes32, ChannelId
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.chain.faulty_endpoint import Fault, faulty_endpoint
from tests.integration.conftest import FundAccount, FundedAccount


@asynccontextmanager
async def sender_of(
    chain: Chain, key: LocalKey, journal_path: Path, *, receipt_timeout_seconds: float = 30
) -> AsyncIterator[tuple[Sender, SqliteTransactionJournal]]:
    journal = SqliteTransactionJournal(journal_path)
    try:
        yield (
            Sender(
                chain,
                LocalSigner(key),
                journal,
                receipt_timeout_seconds=receipt_timeout_seconds,
                poll_interval_seconds=0.02,
            ),
            journal,
        )
    finally:
        await journal.close()


@pytest.fixture
async def own_devnet(anvil: Path) -> AsyncIterator[RunningDevnet]:
    """A devnet whose mining a test may stop."""
    async with running_devnet() as devnet:
        yield devnet


async def until_handed_in(sender: Sender, count: int = 1) -> None:
    """Waits until the journal and the endpoint's pool hold so many transactions; mining has to be paused."""
    async with asyncio.timeout(10):
        while len(pending := await sender.unresolved()) < count:
            await asyncio.sleep(0.01)
        while await sender.chain.rpc.transaction_count(sender.signer.address, "pending") <= pending[-1].nonce:
            await asyncio.sleep(0.01)


async def nonce_of(chain: Chain, key: LocalKey) -> int:
    return await chain.rpc.transaction_count(key.address, "pending")


async def test_twenty_concurrent_sends_take_twenty_nonces_and_are_all_mined(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount
) -> None:
    first = await nonce_of(chain, payer.key)
    before = await chain.token_balance(devnet.token, payer.key.address)
    mined = await asyncio.gather(
        *(
            payer.sender.send(calls.mint(devnet.token, payer.key.address, 2**i), f"mint-{i}")
            for i in range(20)
        )
    )
    assert [m.purpose for m in mined] == [f"mint-{i}" for i in range(20)]
    assert len({m.transaction_hash for m in mined}) == 20
    assert await nonce_of(chain, payer.key) == first + 20
    assert await chain.token_balance(devnet.token, payer.key.address) == before + 2**20 - 1
    assert await payer.sender.unresolved() == []


async def test_a_call_that_would_revert_is_not_sent_and_its_custom_error_is_named(
    chain: Chain, payer: FundedAccount
) -> None:
    unknown = ChannelId(secrets.token_bytes(32))
    before = await nonce_of(chain, payer.key)
    with pytest.raises(AioumError) as caught:
        await payer.sender.send(calls.top_up(chain.payment_manager, unknown, 5), "top-up")
    assert isinstance(caught.value, ContractReverted)
    assert caught.value.code == "channel-unknown"
    assert caught.value.details == {
        "reason": "channel-unknown",
        "error": "ChannelNotFound",
        "args": {"channelId": to_hex(unknown)},
    }
    assert caught.value.hint is not None
    assert await nonce_of(chain, payer.key) == before


async def test_a_mined_revert_is_final_and_its_custom_error_is_found_by_a_replay(
    own_devnet: RunningDevnet, tmp_path: Path
) -> None:
    payer, payee = own_devnet.accounts[1], own_devnet.accounts[2]
    async with (
        Chain.connect(own_devnet.deployment) as chain,
        sender_of(chain, payer, tmp_path / "payer") as (sender, _),
        sender_of(chain, payee, tmp_path / "payee") as (payee_sender, journal),
    ):
        manager = chain.payment_manager
        await sender.send(calls.approve(own_devnet.token, manager, 100), "approve")
        opened = await sender.send(
            calls.open_plain(
                manager, payee=payee.address, token=own_devnet.token, deposit=100, salt=Bytes32(bytes(32))
            ),
            "open",
        )
        channel_id = opened.events[0].channel_id
        assert channel_id is not None
        await own_devnet.pause_mining()
        commits = [calls.commit_results(manager, channel_id, Bytes32(bytes([i]) * 32), i) for i in (1, 2)]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(outcome_of(payee_sender, call, f"commit-{i}"))
                for i, call in enumerate(commits)
            ]
            await until_handed_in(payee_sender, 2)
            await own_devnet.mine()
        outcomes = [task.result() for task in tasks]
        (error,) = (o for o in outcomes if isinstance(o, AioumError))
        assert isinstance(error, TransactionReverted)
        assert error.code == error.details["reason"] == "root-already-committed"
        assert error.details["error"] == "RootAlreadyCommitted"
        assert error.details["args"]["channelId"] == to_hex(channel_id)
        assert error.details["gas_used"] > 21_000
        state = await journal.state(Bytes32(bytes.fromhex(error.details["transaction_hash"][2:])))
        assert state is TransactionState.REVERTED


async def outcome_of(sender: Sender, call: calls.ContractCall, purpose: str) -> object:
    try:
        return await sender.send(call, purpose)
    except AioumError as error:
        return error


async def test_without_a_receipt_the_outcome_is_unknown_and_reconcile_finds_it_later(
    own_devnet: RunningDevnet, tmp_path: Path
) -> None:
    key = own_devnet.accounts[1]
    async with Chain.connect(own_devnet.deployment) as chain:
        await own_devnet.pause_mining()
        call = calls.mint(own_devnet.token, key.address, 5)
        async with sender_of(chain, key, tmp_path / "journal", receipt_timeout_seconds=0.1) as (
            sender,
            journal,
        ):
            with pytest.raises(OutcomeUnknown) as caught:
                await sender.send(call, "mint")
            assert caught.value.code == "outcome-unknown"
            assert caught.value.details["purpose"] == "mint"
            (pending,) = await sender.unresolved()
            assert to_hex(pending.transaction_hash) == caught.value.details["transaction_hash"]
            assert await sender.reconcile() == []
            assert await sender.unresolved() == [pending]

            await own_devnet.mine()
            (mined,) = await sender.reconcile()
            assert (mined.transaction_hash, mined.purpose) == (pending.transaction_hash, "mint")
            assert await journal.state(pending.transaction_hash) is TransactionState.MINED
            assert await sender.reconcile() == []


async def test_an_outcome_counts_only_after_as_many_blocks_as_asked_for(
    own_devnet: RunningDevnet, tmp_path: Path
) -> None:
    key = own_devnet.accounts[1]
    journal = SqliteTransactionJournal(tmp_path / "journal")
    try:
        async with Chain.connect(own_devnet.deployment) as chain:
            await own_devnet.pause_mining()
            sender = Sender(chain, LocalSigner(key), journal, confirmations=3, poll_interval_seconds=0.01)
            sending = asyncio.create_task(sender.send(calls.mint(own_devnet.token, key.address, 5), "mint"))
            await until_handed_in(sender)
            await own_devnet.mine(2)
            (pending,) = await sender.unresolved()
            assert await chain.rpc.receipt(pending.transaction_hash) is not None
            assert not sending.done()
            await own_devnet.mine()
            mined = await sending
            assert (await chain.head()).number == mined.block_number + 2
    finally:
        await journal.close()


async def test_an_account_without_funds_is_refused_and_its_nonce_is_used_by_the_next(
    chain: Chain, devnet: RunningDevnet, tmp_path: Path
) -> None:
    key = LocalKey(secrets.token_bytes(32))
    call = calls.mint(devnet.token, key.address, 1)
    async with sender_of(chain, key, tmp_path / "journal") as (sender, journal):
        with pytest.raises(AioumError) as caught:
            await sender.send(call, "mint")
        assert caught.value.code == "transaction-refused"
        assert caught.value.hint == "fund the account for gas"
        refused = Bytes32(bytes.fromhex(caught.value.details["transaction_hash"][2:]))
        assert await journal.state(refused) is TransactionState.REFUSED
        await devnet.fund(key.address)
        await sender.send(call, "mint")
    assert await nonce_of(chain, key) == 1


async def test_a_nonce_that_another_program_used_is_counted_again(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path
) -> None:
    call = calls.mint(devnet.token, payer.key.address, 1)
    async with sender_of(chain, payer.key, tmp_path / "other") as (other, _):
        await other.send(call, "other")
    await payer.sender.send(call, "mine")
    assert await payer.sender.unresolved() == []


async def test_a_transaction_replaced_by_another_program_is_superseded(
    own_devnet: RunningDevnet, tmp_path: Path
) -> None:
    key = own_devnet.accounts[1]
    async with (
        Chain.connect(own_devnet.deployment) as chain,
        sender_of(chain, key, tmp_path / "journal") as (sender, journal),
    ):
        await own_devnet.pause_mining()
        sending = asyncio.create_task(
            outcome_of(sender, calls.mint(own_devnet.token, key.address, 1), "mint")
        )
        await until_handed_in(sender)
        (pending,) = await sender.unresolved()
        replacement = {
            "type": 2,
            "chainId": chain.chain_id,
            "nonce": pending.nonce,
            "to": address_text(key.address),
            "gas": 21_000,
            "maxFeePerGas": 10**12,
            "maxPriorityFeePerGas": 10**11,
        }
        await chain.rpc.broadcast(
            bytes(Account.sign_transaction(replacement, key.secret_bytes()).raw_transaction)
        )
        await own_devnet.mine(2)
        error = await sending
        assert isinstance(error, AioumError)
        assert error.code == "transaction-superseded"
        assert await journal.state(pending.transaction_hash) is TransactionState.SUPERSEDED


async def test_a_canceled_send_leaves_no_gap_in_the_nonces(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount
) -> None:
    call = calls.mint(devnet.token, payer.key.address, 1)
    canceled = 0
    for turns in range(0, 120, 3):
        sending = asyncio.create_task(payer.sender.send(call, "canceled"))
        for _ in range(turns):
            await asyncio.sleep(0)
        sending.cancel()
        try:
            await sending
        except asyncio.CancelledError:
            canceled += 1
    assert canceled > 10
    async with asyncio.timeout(30):
        await payer.sender.send(call, "after")
        await payer.sender.reconcile()
    assert await payer.sender.unresolved() == []


async def test_a_lost_answer_to_the_broadcast_is_neither_failure_nor_repetition(
    devnet: RunningDevnet, chain: Chain, payer: FundedAccount, tmp_path: Path
) -> None:
    before = await chain.token_balance(devnet.token, payer.key.address)
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as through,
        sender_of(through, payer.key, tmp_path / "journal") as (sender, _),
    ):
        endpoint.faults["eth_sendRawTransaction"] = Fault.ANSWER_LOST
        await sender.send(calls.mint(devnet.token, payer.key.address, 8), "mint")
        assert endpoint.seen["eth_sendRawTransaction"] == 1
    assert await chain.token_balance(devnet.token, payer.key.address) == before + 8


async def test_an_internal_error_of_the_endpoint_is_not_taken_for_a_refusal(
    devnet: RunningDevnet, fund_account: FundAccount, tmp_path: Path
) -> None:
    account = await fund_account()
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as through,
        sender_of(through, account.key, tmp_path / "journal", receipt_timeout_seconds=0.1) as (sender, _),
    ):
        endpoint.errors["eth_sendRawTransaction"] = {"code": -32603, "message": "upstream gave no answer"}
        with pytest.raises(OutcomeUnknown):
            await sender.send(calls.mint(devnet.token, account.key.address, 1), "mint")
        endpoint.errors.clear()
        async with asyncio.timeout(10):
            while await sender.unresolved():
                await sender.reconcile()


async def test_an_account_whose_nonces_are_always_taken_is_said_to_be_shared(
    devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as through,
        sender_of(through, payer.key, tmp_path / "journal") as (sender, _),
    ):
        endpoint.errors["eth_sendRawTransaction"] = {"code": -32003, "message": "nonce too low"}
        with pytest.raises(AioumError) as caught:
            await sender.send(calls.mint(devnet.token, payer.key.address, 1), "mint")
        assert caught.value.code == "nonce-contended"
        assert await sender.unresolved() == []


async def test_an_endpoint_that_cannot_estimate_gets_the_calls_own_gas_limit(
    devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as through,
        sender_of(through, payer.key, tmp_path / "journal") as (sender, _),
    ):
        endpoint.errors["eth_estimateGas"] = {"code": -32601, "message": "no such method"}
        mined = await sender.send(calls.mint(devnet.token, payer.key.address, 1), "mint")
    assert mined.gas_used > 21_000


async def test_a_call_that_depends_on_one_in_flight_is_sent_behind_it(
    own_devnet: RunningDevnet, tmp_path: Path
) -> None:
    key = own_devnet.accounts[1]
    async with (
        Chain.connect(own_devnet.deployment) as chain,
        sender_of(chain, key, tmp_path / "journal") as (sender, _),
    ):
        await own_devnet.pause_mining()
        approving = asyncio.create_task(
            sender.send(calls.approve(own_devnet.token, chain.payment_manager, 10), "approve")
        )
        await until_handed_in(sender)
        opening = asyncio.create_task(
            sender.send(
                calls.open_plain(
                    chain.payment_manager,
                    payee=own_devnet.accounts[2].address,
                    token=own_devnet.token,
                    deposit=10,
                    salt=Bytes32(bytes(32)),
                ),
                "open",
            )
        )
        await until_handed_in(sender, 2)
        await own_devnet.mine()
        await approving
        assert [event.name for event in (await opening).events] == ["ChannelOpened"]


async def test_an_endpoint_that_fails_while_waiting_is_asked_again(
    devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as through,
        sender_of(through, payer.key, tmp_path / "journal") as (sender, _),
    ):
        endpoint.errors["eth_getTransactionReceipt"] = {"code": -32000, "message": "not now"}
        sending = asyncio.create_task(sender.send(calls.mint(devnet.token, payer.key.address, 1), "mint"))
        async with asyncio.timeout(10):
            while endpoint.seen.get("eth_getTransactionReceipt", 0) < 3:
                await asyncio.sleep(0.01)
        endpoint.errors.clear()
        mined = await sending
        assert mined.gas_used > 0
        assert await sender.unresolved() == []
