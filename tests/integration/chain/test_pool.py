"""Several endpoints of one chain: a replica that lags, one that vanishes, one whose answers are lost."""

import secrets
from pathlib import Path

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.errors import AioumError
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Bytes32
from aioum.devnet.running import RunningDevnet
from tests.integration.chain.faulty_endpoint import Fault, faulty_endpoint
from tests.integration.chain.lagging_replica import lagging_replica
from tests.integration.chain.openings import open_session
from tests.integration.conftest import FundedAccount, RegisteredService

LAG_BLOCKS = 3


async def test_a_replica_three_blocks_behind_hides_no_opening_and_underestimates_no_gas(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    async with (
        lagging_replica(devnet.rpc_url, LAG_BLOCKS) as replica,
        Chain.connect(devnet.deployment, rpc_url=replica) as behind,
        Chain.connect(devnet.deployment, rpc_url=f"{replica}, {devnet.rpc_url}") as pooled,
    ):
        for _ in range(5):
            channel_id, opened = await open_session(
                chain, payer, registered_service, Bytes32(secrets.token_bytes(32))
            )
            top_up = calls.top_up(chain.payment_manager, channel_id, 1)
            transaction = {
                "from": address_text(payer.key.address),
                "to": address_text(chain.payment_manager),
                "data": to_hex(top_up.data),
            }
            # The replica alone would hide the session, and refuse what depends on it.
            assert await behind.opening(opened.transaction_hash) is None
            assert await behind.session(channel_id) is None
            with pytest.raises(AioumError) as caught:
                await behind.rpc.estimate_gas(transaction)
            assert caught.value.code == "channel-unknown"

            opening = await pooled.opening(opened.transaction_hash)
            assert opening is not None
            assert opening.channel_id == channel_id
            assert await pooled.session(channel_id) == await chain.session(channel_id)
            assert (await pooled.head()).number >= opened.block_number
            assert await pooled.block(opened.block_number) is not None
            assert await pooled.rpc.estimate_gas(transaction) == await chain.rpc.estimate_gas(transaction)
        lagging, leading = pooled.rpc.endpoints
        assert (lagging.head or 0) + LAG_BLOCKS == leading.head


async def test_a_sender_over_a_lagging_and_a_good_endpoint_sends_each_transaction_with_one_effect(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path
) -> None:
    before = await chain.token_balance(devnet.token, payer.key.address)
    journal = SqliteTransactionJournal(tmp_path / "pooled")
    seen: dict[str, int] = {}
    try:
        async with (
            lagging_replica(devnet.rpc_url, LAG_BLOCKS, seen) as replica,
            Chain.connect(devnet.deployment, rpc_url=f"{replica} {devnet.rpc_url}") as pooled,
        ):
            sender = Sender(pooled, LocalSigner(payer.key), journal, poll_interval_seconds=0.02)
            for amount in (1, 2, 4):
                await sender.send(calls.mint(devnet.token, payer.key.address, amount), "mint")
            assert await sender.unresolved() == []
    finally:
        await journal.close()
    # Every endpoint was handed every transaction; that the second knew it already was no failure.
    assert seen["eth_sendRawTransaction"] >= 3
    assert "eth_estimateGas" not in seen
    assert await chain.token_balance(devnet.token, payer.key.address) == before + 7


async def test_a_broadcast_whose_answer_is_lost_at_every_endpoint_is_found_and_happens_once(
    chain: Chain, devnet: RunningDevnet, payer: FundedAccount, tmp_path: Path
) -> None:
    before = await chain.token_balance(devnet.token, payer.key.address)
    journal = SqliteTransactionJournal(tmp_path / "pooled")
    try:
        async with (
            faulty_endpoint(devnet.rpc_url) as first,
            faulty_endpoint(devnet.rpc_url) as second,
            Chain.connect(devnet.deployment, rpc_url=f"{first.url},{second.url}") as pooled,
        ):
            for endpoint in (first, second):
                endpoint.faults["eth_sendRawTransaction"] = Fault.ANSWER_LOST
            sender = Sender(pooled, LocalSigner(payer.key), journal, poll_interval_seconds=0.02)
            await sender.send(calls.mint(devnet.token, payer.key.address, 8), "mint")
            assert await sender.unresolved() == []
    finally:
        await journal.close()
    assert await chain.token_balance(devnet.token, payer.key.address) == before + 8


async def test_an_endpoint_that_vanishes_is_replaced_by_the_next_and_seen_to_rest(
    devnet: RunningDevnet, chain: Chain
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as flaky,
        Chain.connect(devnet.deployment, rpc_url=f"{flaky.url},{devnet.rpc_url}") as pooled,
    ):
        for method in ("eth_blockNumber", "eth_getBlockByNumber", "eth_call", "eth_chainId"):
            flaky.faults[method] = Fault.LOST
        assert (await pooled.head()).number == (await chain.head()).number
        assert await pooled.grace_period_seconds() == await chain.grace_period_seconds()
        resting, used = pooled.rpc.endpoints
        assert (resting.last_error_code, used.last_error_code) == ("rpc-unreachable", None)
        assert resting.resting_seconds > 0
