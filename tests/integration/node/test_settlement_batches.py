"""Sessions that are ready at the same time are settled in one transaction, and stay independent."""

import asyncio
from pathlib import Path

from structlog.testing import capture_logs

from aioum.chain import calls
from aioum.core.hextext import to_hex
from aioum_node.settlement.loop import PURPOSE_PREFIX
from tests.integration.node.books import PRICE, send
from tests.integration.node.test_settlement_poison import (
    SESSIONS,
    anchor_another_root,
    is_settled,
    sealed_sessions,
    until_signed,
)
from tests.integration.node.test_watch import GRACE_SECONDS, Market, running_market


async def mine_until_done(market: Market, task: asyncio.Task[None]) -> None:
    async with asyncio.timeout(60):
        while not task.done():
            await market.devnet.mine()
            await asyncio.sleep(0.05)
    await task


async def until_a_batch_is_signed(market: Market) -> None:
    async with asyncio.timeout(15):
        while not any("," in pending.purpose for pending in await market.books.sender.unresolved()):
            await asyncio.sleep(0.01)


async def test_twenty_sessions_are_settled_in_one_transaction_for_less_gas(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path, max_batch_items=SESSIONS) as market:
        books, channels = market.books, await sealed_sessions(market)
        sent = await books.transactions_sent()
        with capture_logs() as logs:
            await books.settling.run_once()
        assert [await is_settled(market, channel_id) for channel_id in channels] == [True] * SESSIONS
        assert await books.transactions_sent() == sent + 1
        assert books.observer.captured == [PRICE] * SESSIONS
        assert books.observer.failures == []
        told = [entry for entry in logs if entry["event"] == "session-settled"]
        assert len({entry["transaction"] for entry in told}) == 1
        assert {(await books.stored(channel_id)).transaction_hash for channel_id in channels} == {
            bytes.fromhex(told[0]["transaction"][2:])
        }
        # One alone takes more than 120,000.
        assert all(entry["gas_used"] < 95_000 for entry in told)


async def test_one_that_is_refused_only_in_its_block_is_left_out_of_the_batch_and_told_with_the_reason(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path, max_batch_items=SESSIONS) as market:
        books, channels = market.books, await sealed_sessions(market)
        poisoned, sent = channels[3], await books.transactions_sent()
        await market.devnet.pause_mining()
        with capture_logs() as logs:
            other = asyncio.create_task(anchor_another_root(market, poisoned))
            await until_signed(market, "test")
            settling = asyncio.create_task(books.settling.run_once())
            await until_a_batch_is_signed(market)
            await mine_until_done(market, settling)
            await other

        assert [await is_settled(market, channel_id) for channel_id in channels] == [
            channel_id != poisoned for channel_id in channels
        ]
        assert await books.transactions_sent() == sent + 2
        assert books.observer.failures == ["settlement-skipped"]
        (told,) = (entry for entry in logs if entry["event"] == "settlement-failed")
        assert (told["channel"], told["details"]["error"]) == (to_hex(poisoned), "RootAlreadyCommitted")
        books.clock.advance(600)
        await books.settling.run_once()
        assert books.observer.failures == ["settlement-skipped", "root-conflict"]


async def test_a_batch_without_an_answer_is_looked_up_for_all_of_its_sessions_and_sent_once(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path, max_batch_items=SESSIONS, receipt_timeout_seconds=0.3) as market:
        books, channels = market.books, await sealed_sessions(market)
        sent = await books.transactions_sent()
        await market.devnet.pause_mining()
        await books.settling.run_once()
        assert books.observer.failures == ["outcome-unknown"] * SESSIONS
        (pending,) = await books.sender.unresolved()
        assert pending.purpose.startswith(PURPOSE_PREFIX)
        books.clock.advance(5)
        await books.settling.run_once()
        assert len(await books.sender.unresolved()) == 1
        await market.devnet.mine(2)
        for _ in range(3):
            books.clock.advance(600)
            await books.settling.run_once()
        assert [await is_settled(market, channel_id) for channel_id in channels] == [True] * SESSIONS
        assert await books.transactions_sent() == sent + 1
        assert await books.sender.unresolved() == []


async def test_a_client_that_leaves_does_not_wait_for_company(anvil: Path, tmp_path: Path) -> None:
    async with running_market(tmp_path, max_batch_items=SESSIONS) as market:
        books, channels = market.books, await sealed_sessions(market)
        leaving = channels[0]
        await send(market.client, calls.request_close(market.chain.payment_manager, leaving))
        await books.watcher.look()
        sent = await books.transactions_sent()
        await books.settling.run_once()
        assert [await is_settled(market, channel_id) for channel_id in channels] == [True] * SESSIONS
        assert await books.transactions_sent() == sent + 2
        session = await books.on_chain(leaving)
        assert session.finalized_at < session.close_requested_at + GRACE_SECONDS
