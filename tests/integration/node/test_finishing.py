"""Whoever finds a session done on the chain makes it final; what became of it is told once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aioum.chain import calls
from aioum.chain.model import Mined
from aioum.core import ledger
from aioum.core.ledger import Phase
from aioum.core.types import ChannelId
from aioum_node.settlement.finishing import Finisher
from aioum_node.settlement.sending import chain_settlement
from tests.integration.node.books import PRICE, Observer, open_session, send
from tests.integration.node.test_watch import GRACE_SECONDS, Market, running_market, unreachable


@pytest.fixture
async def market(anvil: Path, tmp_path: Path) -> AsyncIterator[Market]:
    async with running_market(tmp_path) as running:
        yield running


@pytest.fixture
async def channel_id(market: Market) -> ChannelId:
    """A session in which one call was paid, and which the client closed."""
    books = market.books
    channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
    await books.call(market.key, channel_id)
    await books.settling.close(channel_id)
    return channel_id


async def settled_elsewhere(market: Market, channel_id: ChannelId) -> Mined:
    """Its settlement, mined before this process knows."""
    settlement = ledger.settlement_of((await market.books.stored(channel_id)).state)
    manager = market.chain.payment_manager
    return await send(market.books.sender, calls.settle_session(manager, chain_settlement(settlement)))


async def withdrawn(market: Market, channel_id: ChannelId) -> Mined:
    manager = market.chain.payment_manager
    await send(market.client, calls.request_close(manager, channel_id))
    await market.devnet.increase_time(GRACE_SECONDS)
    return await send(market.client, calls.withdraw(manager, channel_id))


async def test_a_settlement_that_the_watcher_finds_first_is_told_with_what_it_captured_and_cost(
    market: Market, channel_id: ChannelId
) -> None:
    books = market.books
    mined = await settled_elsewhere(market, channel_id)
    with capture_logs() as entries:
        await books.watcher.look()
        await books.settling.run_once()
    assert (books.observer.captured, books.observer.failures) == ([PRICE], [])
    told = [entry for entry in entries if entry["event"] == "session-settled"]
    assert [(entry["captured"], entry["gas_used"]) for entry in told] == [(PRICE, mined.gas_used)]
    stored = await books.stored(channel_id)
    assert (stored.state.phase, stored.transaction_hash) == (Phase.FINAL, mined.transaction_hash)


async def test_a_withdrawal_that_the_watcher_finds_first_is_an_alert_and_no_settlement(
    market: Market, channel_id: ChannelId
) -> None:
    books = market.books
    await withdrawn(market, channel_id)
    await books.watcher.look()
    await books.settling.run_once()
    assert (books.observer.captured, books.observer.failures) == ([], ["settled-below-spent"])


async def test_watcher_and_settle_loop_that_find_it_at_once_tell_it_once(
    market: Market, channel_id: ChannelId
) -> None:
    books = market.books
    await settled_elsewhere(market, channel_id)
    lost = await books.adopt(await open_session(market.client, market.service), market.service)
    await books.call(market.key, lost)
    await withdrawn(market, lost)
    await asyncio.gather(books.watcher.look(), books.settling.run_once())
    await asyncio.gather(books.watcher.look(), books.settling.run_once())
    assert (books.observer.captured, books.observer.failures) == ([PRICE], ["settled-below-spent"])
    assert (await books.stored(channel_id)).state.phase is Phase.FINAL
    assert (await books.stored(lost)).state.phase is Phase.FINAL


async def test_of_many_processes_one_counts_a_settlement(market: Market, channel_id: ChannelId) -> None:
    books = market.books
    await settled_elsewhere(market, channel_id)
    final, head = await books.on_chain(channel_id), await market.chain.head()
    observers = [Observer() for _ in range(4)]
    finishers = [Finisher(books.store, market.chain, books.clock.now_ms, observer) for observer in observers]
    await asyncio.gather(*(finisher.finish(channel_id, final, head) for finisher in finishers))
    assert [amount for observer in observers for amount in observer.captured] == [PRICE]


async def test_a_receipt_that_cannot_be_read_keeps_no_session_from_its_end(
    market: Market, channel_id: ChannelId, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = market.books
    mined = await settled_elsewhere(market, channel_id)
    monkeypatch.setattr(market.chain.rpc, "receipt", unreachable)
    with capture_logs() as entries:
        await books.watcher.look()
    assert books.observer.captured == [PRICE]
    assert [entry["gas_used"] for entry in entries if entry["event"] == "session-settled"] == [None]
    assert (await books.stored(channel_id)).transaction_hash == mined.transaction_hash
