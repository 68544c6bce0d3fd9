"""A top-up is reorganized away while a voucher relies on it, or a settlement before it is final."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from aioum.chain import calls
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.errors import Refused
from aioum.core.ledger import Phase
from aioum.core.types import ChannelId
from tests.integration.node.books import PRICE, open_session, send
from tests.integration.node.test_watch import GRACE_SECONDS, Market, running_market


async def overdrawn(market: Market, *, fails: bool = False) -> ChannelId:
    """A session with a deposit for two calls, of which a third relied on a top-up that is gone now.

    Args:
        market: where.
        fails: the third call failed, so that its voucher was given and nothing was spent for it.
    """
    books = market.books
    opening = await open_session(market.client, market.service, deposit=2 * PRICE)
    channel_id = await books.adopt(opening, market.service)
    for _ in range(2):
        await books.call(market.key, channel_id)
    snapshot = await market.devnet.snapshot()
    await send(market.client, calls.top_up(market.chain.payment_manager, channel_id, PRICE))
    await books.watcher.look()
    await books.call(market.key, channel_id, fails=fails)
    assert (await books.stored(channel_id)).state.accepted == 3 * PRICE
    await market.devnet.revert(snapshot)
    await market.devnet.mine(5)
    await books.watcher.look()
    assert (await books.stored(channel_id)).state.deposit == 2 * PRICE
    with pytest.raises(Refused) as caught:
        await books.call(market.key, channel_id)
    assert caught.value.code == "amount-exceeds-deposit"
    return channel_id


async def as_client(market: Market, call: calls.ContractCall, folder: Path) -> None:
    """Send by the client's account, whose nonces went back with the chain."""
    journal = SqliteTransactionJournal(folder / "after-the-reorganization.sqlite3")
    try:
        await send(Sender(market.chain, LocalSigner(market.key), journal, poll_interval_seconds=0.02), call)
    finally:
        await journal.close()


async def test_an_earlier_voucher_settles_everything_where_the_call_behind_the_top_up_cost_nothing(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path) as market:
        books, channel_id = market.books, await overdrawn(market, fails=True)
        await books.settling.close(channel_id)
        await books.settling.run_once()
        session = await books.on_chain(channel_id)
        assert (session.settled, session.call_count) == (2 * PRICE, 3)
        assert (await books.stored(channel_id)).state.phase is Phase.FINAL
        assert books.observer.failures == []


async def test_while_the_top_up_may_come_back_nothing_is_given_up_and_the_operator_is_told(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path) as market:
        books, channel_id = market.books, await overdrawn(market)
        await books.settling.close(channel_id)
        sent = await books.transactions_sent()
        await books.settling.run_once()
        assert books.observer.failures == ["deposit-below-voucher"]
        assert await books.transactions_sent() == sent
        assert (await books.stored(channel_id)).state.phase is Phase.SEALED

        await as_client(market, calls.top_up(market.chain.payment_manager, channel_id, PRICE), tmp_path)
        await books.watcher.look()
        await books.settling.run_once()
        assert (await books.on_chain(channel_id)).settled == 3 * PRICE
        assert books.observer.failures == ["deposit-below-voucher"]


async def test_what_is_not_deep_enough_and_reorganized_away_never_counts_and_a_settlement_is_sent_again(
    anvil: Path, tmp_path: Path
) -> None:
    ahead = [0.0]
    how = {"own_confirmations": 3, "sender_clock": lambda: time.time() + ahead[0]}
    async with running_market(tmp_path, confirmations=3, **how) as market:
        books, devnet = market.books, market.devnet
        opening = await open_session(market.client, market.service, deposit=2 * PRICE)
        channel_id = await books.adopt(opening, market.service)
        await devnet.mine(2)
        await books.watcher.look()
        await books.call(market.key, channel_id)
        # Every block counts from here on.
        await devnet.pause_mining()

        async def is_topped_up() -> bool:
            return (await books.on_chain(channel_id)).deposit == 3 * PRICE

        async def is_settled() -> bool:
            return (await books.on_chain(channel_id)).is_finalized

        snapshot = await devnet.snapshot()
        top_up = calls.top_up(market.chain.payment_manager, channel_id, PRICE)
        async with asyncio.TaskGroup() as group:
            group.create_task(send(market.client, top_up))
            await mine_until(market, is_topped_up)
        await devnet.mine()
        await books.watcher.look()
        deposits = [(await books.stored(channel_id)).state.deposit]
        await devnet.revert(snapshot)
        for _ in range(4):
            await devnet.mine()
            await books.watcher.look()
            deposits.append((await books.stored(channel_id)).state.deposit)
        assert deposits == [2 * PRICE] * 5

        await books.settling.close(channel_id)
        sent = await books.transactions_sent()
        snapshot = await devnet.snapshot()
        settling = asyncio.create_task(books.settling.run_once())
        await mine_until(market, is_settled)
        await devnet.revert(snapshot)
        assert not await is_settled()
        # It is handed in again every five seconds.
        ahead[0] += 6
        await mine_until(market, is_settled)
        assert not settling.done()
        await devnet.mine(2)
        await settling

        head = await market.chain.head()
        events = await market.chain.events(market.chain.first_block, head.number, channel_id)
        assert [event.name for event in events].count("Finalized") == 1
        assert await books.transactions_sent() == sent + 1
        assert (books.observer.captured, books.observer.failures) == ([PRICE], [])
        assert (await books.stored(channel_id)).state.phase is Phase.FINAL


async def mine_until(market: Market, condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await market.devnet.mine()
            await asyncio.sleep(0.02)


async def test_before_the_client_withdraws_the_best_covered_voucher_is_settled_and_the_loss_is_told(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path) as market:
        books, channel_id = market.books, await overdrawn(market)
        await as_client(market, calls.request_close(market.chain.payment_manager, channel_id), tmp_path)
        await books.watcher.look()
        await books.settling.run_once()
        assert books.observer.failures == ["deposit-below-voucher"]
        assert not (await books.on_chain(channel_id)).is_finalized

        await market.devnet.increase_time(GRACE_SECONDS - 250)
        books.clock.advance(GRACE_SECONDS - 250)
        await books.settling.run_once()
        session, stored = await books.on_chain(channel_id), await books.stored(channel_id)
        assert (session.settled, session.call_count) == (2 * PRICE, 3)
        assert session.finalized_at < session.close_requested_at + GRACE_SECONDS
        assert (stored.state.phase, stored.state.spent) == (Phase.FINAL, 3 * PRICE)
        assert books.observer.failures[0] == "deposit-below-voucher"
        assert books.observer.failures[-1] == "settled-below-spent"
