"""kill -9 of the node at each step of a settlement: settled once, for what was spent, under the client's
root.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aioum.chain.client import Chain
from aioum.chain.rpc import Rpc
from aioum.client import Closed, Marketplace, PaidSession
from aioum.devnet.config import default_config
from aioum.devnet.running import RunningDevnet
from tests.e2e.conftest import MakeMarketplace
from tests.e2e.crashing_node import PRICE, SETTLEMENT_STEPS
from tests.e2e.shop import Shop, until
from tests.many import some_of

DEPOSIT = 20 * PRICE


@asynccontextmanager
async def mining_paused(devnet: RunningDevnet) -> AsyncIterator[None]:
    """Nothing is mined in the block but by `mine`."""
    await devnet.pause_mining()
    try:
        yield
    finally:
        chain = default_config().chain
        async with Rpc(devnet.rpc_url) as rpc:
            await rpc.request("evm_setIntervalMining", chain.block_time_seconds)
            await rpc.request("evm_setAutomine", chain.mixed_mining)


async def bought(market: Marketplace, url: str) -> PaidSession:
    """A session with two paid calls and a failed one."""
    session = await market.open(url, deposit=DEPOSIT)
    for tool in ("note", "spoil", "note"):
        await session.call(tool, text=tool)
    assert session.spent == 2 * PRICE
    return session


async def transactions_of(chain: Chain, shop: Shop) -> int:
    return await chain.rpc.transaction_count(shop.key.address, "latest")


async def require_settled_once(
    chain: Chain, shop: Shop, session: PaidSession, closed: Closed, transactions_before: int
) -> None:
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert anchored.is_finalized
    assert (anchored.root, anchored.call_count) == (session.root, 3) == (closed.root, closed.call_count)
    assert anchored.settled == closed.settled == session.spent
    assert anchored.refunded == closed.refunded == DEPOSIT - session.spent
    stored = await shop.final(session.channel_id)
    assert stored.state.spent == session.spent

    async def resolved() -> bool:
        # The watcher may see the channel finalized a moment before the sender sees its receipt.
        return all(state != "pending" for _, state in shop.settlements(session.channel_id))

    await until(resolved)
    assert shop.settlements(session.channel_id) == [(stored.transaction_hash, "mined")]
    assert await transactions_of(chain, shop) == transactions_before + 1
    events = await chain.events(chain.first_block, (await chain.head()).number, session.channel_id)
    assert [event.transaction_hash for event in events if event.name == "Finalized"] == [
        stored.transaction_hash
    ]
    assert shop.runs() == ["note", "spoil", "note"]


@pytest.mark.parametrize("step", some_of(SETTLEMENT_STEPS, 2, first=1))
async def test_settlement_under_way_is_finished_by_the_restarted_node_and_happens_once(
    shop: Shop, marketplace: MakeMarketplace, chain: Chain, step: str
) -> None:
    async with marketplace() as market:
        async with shop.running() as node:
            session = await bought(market, node.url)
            before = await transactions_of(chain, shop)
        async with shop.running(crash_at=step) as node:
            closing = asyncio.create_task(session.close())
            await node.killed()
        async with shop.running():
            await require_settled_once(chain, shop, session, await closing, before)


async def test_node_that_dies_at_every_second_step_of_one_settlement_still_settles_once(
    shop: Shop, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with marketplace() as market:
        async with shop.running() as node:
            session = await bought(market, node.url)
            before = await transactions_of(chain, shop)
        async with shop.running(crash_at="after-seal") as node:
            closing = asyncio.create_task(session.close())
            await node.killed()
        for step in (
            "after-journal",
            "before-broadcast",
            "after-broadcast",
            "before-outcome",
            "before-finalize",
        ):
            await shop.starts_and_dies(step)
        async with shop.running():
            await require_settled_once(chain, shop, session, await closing, before)


async def test_settlement_that_waits_in_the_pool_of_the_chain_is_not_sent_a_second_time(
    shop: Shop, marketplace: MakeMarketplace, chain: Chain, devnet: RunningDevnet
) -> None:
    async with marketplace() as market:
        async with shop.running() as node:
            session = await bought(market, node.url)
            before = await transactions_of(chain, shop)
        async with mining_paused(devnet):
            async with shop.running(crash_at="after-broadcast") as node:
                closing = asyncio.create_task(session.close())
                await node.killed()
            # Restarted while nothing is mined; publishing again would wait for the transaction.
            async with shop.running(register=False) as node:
                assert await transactions_of(chain, shop) == before
                assert await chain.rpc.transaction_count(shop.key.address, "pending") == before + 1
                await devnet.mine()
                await require_settled_once(chain, shop, session, await closing, before)
