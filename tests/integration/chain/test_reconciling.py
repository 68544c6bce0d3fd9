"""After a crash, or a reset of the chain: what the journal holds is settled, never guessed and never
repeated.
"""

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal, TransactionState
from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.core.hextext import to_hex
from aioum.devnet.accounts import well_known_keys
from aioum.devnet.control import Devnet
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.chain import crashing_sender
from tests.integration.chain.faulty_endpoint import Fault, faulty_endpoint
from tests.integration.chain.test_sending import sender_of, until_handed_in
from tests.integration.conftest import FundedAccount

KEY = well_known_keys()[1]


@pytest.mark.parametrize("where", [crashing_sender.AFTER_JOURNAL, crashing_sender.AFTER_BROADCAST])
async def test_a_program_killed_on_the_way_finds_its_transaction_mined_exactly_once(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path, where: str
) -> None:
    before = await chain.token_balance(devnet.token, payer.key.address)
    nonce = await chain.rpc.transaction_count(payer.key.address, "pending")
    journal_path = tmp_path / "journal.sqlite3"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        crashing_sender.__file__,
        *(str(devnet.deployment_file), str(journal_path), to_hex(payer.key.secret_bytes()), where),
    )
    assert await process.wait() == -signal.SIGKILL

    async with sender_of(chain, payer.key, journal_path) as (sender, journal):
        (pending,) = await sender.unresolved()
        assert (pending.purpose, pending.label) == (where, "mint")
        (mined,) = await sender.reconcile()
        assert mined.transaction_hash == pending.transaction_hash
        assert await journal.state(pending.transaction_hash) is TransactionState.MINED
        assert await sender.reconcile() == []
        assert await chain.token_balance(devnet.token, payer.key.address) == before + crashing_sender.AMOUNT
        await sender.send(calls.mint(devnet.token, payer.key.address, 1), "next")
    assert await chain.rpc.transaction_count(payer.key.address) == nonce + 2


async def test_a_send_after_a_crash_does_not_take_the_nonce_of_what_was_left_behind(
    devnet: RunningDevnet, chain: Chain, payer: FundedAccount, tmp_path: Path
) -> None:
    journal_path = tmp_path / "journal.sqlite3"
    call = calls.mint(devnet.token, payer.key.address, 1)
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as through,
        sender_of(through, payer.key, journal_path, receipt_timeout_seconds=0.1) as (sender, _),
    ):
        endpoint.faults["eth_sendRawTransaction"] = Fault.LOST
        with pytest.raises(OutcomeUnknown):
            await sender.send(call, "left behind")

    async with sender_of(chain, payer.key, journal_path) as (sender, _):
        (left,) = await sender.unresolved()
        await sender.send(calls.mint(devnet.token, payer.key.address, 2), "next")
        assert [m.transaction_hash for m in await sender.reconcile()] == [left.transaction_hash]


async def test_transactions_for_a_chain_that_was_reset_are_put_aside_and_never_sent_to_the_new_one(
    anvil: Path, tmp_path: Path
) -> None:
    journal_path = tmp_path / "journal.sqlite3"
    async with (
        running_devnet() as devnet,
        Chain.connect(devnet.deployment) as chain,
        sender_of(chain, KEY, journal_path, receipt_timeout_seconds=0.1) as (sender, _),
    ):
        await sender.send(calls.mint(devnet.token, KEY.address, 1), "mined before the reset")
        await devnet.pause_mining()
        with pytest.raises(OutcomeUnknown):
            await sender.send(calls.mint(devnet.token, KEY.address, 1), "pending at the reset")
        (left,) = await sender.unresolved()

    async with (
        running_devnet() as devnet,
        Chain.connect(devnet.deployment) as chain,
        sender_of(chain, KEY, journal_path) as (sender, journal),
    ):
        balance = await chain.token_balance(devnet.token, KEY.address)
        assert await sender.reconcile() == []
        assert await sender.unresolved() == []
        assert await journal.state(left.transaction_hash) is TransactionState.FOREIGN
        # The very same transaction as before the reset: same account, nonce and call.
        await sender.send(calls.mint(devnet.token, KEY.address, 1), "mined after the reset")
        assert await chain.rpc.transaction_count(KEY.address, "pending") == 1
        assert await chain.token_balance(devnet.token, KEY.address) == balance + 1


async def test_a_chain_that_is_reset_under_a_running_program_is_noticed(anvil: Path, tmp_path: Path) -> None:
    control = Devnet(tmp_path / "devnet")
    deployment = await control.up(port=0)
    try:
        async with Chain.connect(deployment) as chain:
            await chain.rpc.request("evm_setAutomine", False)
            await chain.rpc.request("evm_setIntervalMining", 0)
            async with sender_of(chain, KEY, tmp_path / "journal", receipt_timeout_seconds=3) as (
                sender,
                journal,
            ):
                call = calls.mint(deployment.tokens["aUSD"], KEY.address, 1)
                sending = asyncio.create_task(sender.send(call, "mint"))
                await until_handed_in(sender)
                (pending,) = await sender.unresolved()
                await control.reset(port=int(deployment.rpc_url.rpartition(":")[2]))
                with pytest.raises(AioumError) as caught:
                    await sending
                assert caught.value.code == "chain-history-changed"
                assert await journal.state(pending.transaction_hash) is TransactionState.FOREIGN
    finally:
        await control.down()


async def test_a_journal_that_cannot_be_written_sends_nothing(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path
) -> None:
    nonce = await chain.rpc.transaction_count(payer.key.address, "pending")
    async with sender_of(chain, payer.key, tmp_path / "journal") as (sender, journal):
        await sender.reconcile()
        await journal.close()
        with pytest.raises(AioumError) as caught:
            await sender.send(calls.mint(devnet.token, payer.key.address, 1), "mint")
        assert caught.value.code == "transaction-journal-failed"
    assert await chain.rpc.transaction_count(payer.key.address, "pending") == nonce


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(AioumError) as caught:
        SqliteTransactionJournal(path)
    assert caught.value.code == "transaction-journal-failed"
