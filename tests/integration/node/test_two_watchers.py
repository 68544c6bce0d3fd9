"""Two processes that watch the same sessions, one of which sees an older chain, or stood still."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.model import BlockRef, ChainSession
from aioum.core.types import ChannelId
from aioum_node.settlement.finishing import Finisher
from aioum_node.watch import ChainWatcher
from tests.integration.node.books import DEPOSIT, open_session, send
from tests.integration.node.test_watch import Market, running_market

# More than what is scanned again with every look.
MANY_BLOCKS = 80


class LaggingChain(Chain):
    """The chain behind an endpoint that stands still for as long as `stuck` says where."""

    stuck: BlockRef | None = None

    async def head(self) -> BlockRef:
        return self.stuck or await super().head()


@pytest.fixture
async def market(anvil: Path, tmp_path: Path) -> AsyncIterator[Market]:
    async with running_market(tmp_path) as running:
        yield running


def other_watcher(market: Market, chain: Chain) -> ChainWatcher:
    books = market.books
    return ChainWatcher(
        store=books.store,
        chain=chain,
        finisher=Finisher(books.store, chain, books.clock.now_ms, books.observer),
        confirmations=1,
        interval_seconds=60,
        now_ms=books.clock.now_ms,
    )


async def observed(market: Market, channel_id: ChannelId) -> tuple[int, bool]:
    state = (await market.books.stored(channel_id)).state
    return state.deposit, state.close_pending


async def test_an_exit_that_an_endpoint_behind_took_back_is_found_again_however_far_the_other_one_came(
    market: Market,
) -> None:
    manager = market.chain.payment_manager
    channel_id = await market.books.adopt(await open_session(market.client, market.service), market.service)
    async with LaggingChain.connect(market.devnet.deployment) as behind:
        assert isinstance(behind, LaggingChain)
        behind.stuck = await market.chain.head()
        await send(market.client, calls.request_close(manager, channel_id))
        await market.books.watcher.look()
        assert await observed(market, channel_id) == (DEPOSIT, True)
        watcher = other_watcher(market, behind)
        await watcher.look()
        await market.devnet.mine(MANY_BLOCKS)
        await market.books.watcher.look()
        behind.stuck = None
        await watcher.look()
    assert await observed(market, channel_id) == (DEPOSIT, True)


async def test_a_watcher_that_stood_still_between_its_look_and_its_write_takes_no_exit_back(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = market.chain.payment_manager
    channel_id = await market.books.adopt(await open_session(market.client, market.service), market.service)
    async with LaggingChain.connect(market.devnet.deployment) as other:
        watcher = other_watcher(market, other)
        await watcher.look()
        await send(market.client, calls.top_up(manager, channel_id, 500))
        look, waiting = LaggingChain.session, [True]

        async def slow_look(self: LaggingChain, *arguments: Any) -> ChainSession | None:
            seen = await look(self, *arguments)
            if waiting:
                waiting.clear()
                await send(market.client, calls.request_close(manager, channel_id))
                await market.books.watcher.look()
            return seen

        monkeypatch.setattr(LaggingChain, "session", slow_look)
        await watcher.look()
    assert not waiting
    assert await observed(market, channel_id) == (DEPOSIT + 500, True)
