"""kill -9 of the node at each step of a call: it runs, is recorded and is paid at most once, and the client
goes on.
"""

import asyncio

import pytest

from aioum.chain.client import Chain
from aioum.client import CallResult, PaidSession
from aioum.core.errors import OutcomeUnknown
from aioum.core.hextext import to_hex
from tests.e2e.conftest import MakeMarketplace
from tests.e2e.crashing_node import CALL_STEPS, OPENING_STEPS, PRICE
from tests.e2e.shop import Shop
from tests.many import some_of

DEPOSIT = 20 * PRICE
NEVER_RAN = {"after-admit", "before-tool"}
INTERRUPTED = NEVER_RAN | {"in-tool", "after-tool", "before-record"}


def require_answered(step: str, shop: Shop, result: CallResult, text: str) -> None:
    """What a client gets for a call whose node died at a step."""
    if step in INTERRUPTED:
        assert (result.failure, result.charge) == ("interrupted", 0)
    else:
        assert (result.json(), result.charge) == ({"noted": text}, PRICE)
    assert shop.runs().count(text) == (0 if step in NEVER_RAN else 1)


async def require_same_record(shop: Shop, session: PaidSession) -> None:
    """Both sides recorded the same, gap-free."""
    ours = session.evidence_package("quality", "")
    theirs = await shop.export(to_hex(session.channel_id))
    assert theirs["calls"] == ours["calls"]
    assert theirs["resultsRoot"] == ours["resultsRoot"] == to_hex(session.root)
    assert [result.index for result in session.results] == list(range(len(session.calls)))
    stored = await shop.stored(session.channel_id)
    assert (stored.state.admitted, stored.state.reserved) == (len(session.calls), 0)
    assert stored.state.spent == session.spent == sum(result.charge for result in session.results)


async def require_settles(chain: Chain, session: PaidSession) -> None:
    """The session ends for what was spent."""
    closed = await session.close()
    assert (closed.root, closed.call_count) == (session.root, len(session.calls))
    assert (closed.settled, closed.refunded) == (session.spent, DEPOSIT - session.spent)
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.root, anchored.settled) == (session.root, session.spent)


@pytest.mark.parametrize("step", some_of(CALL_STEPS, 2, first=1))
async def test_call_under_way_is_answered_by_the_restarted_node_and_happens_once(
    shop: Shop, marketplace: MakeMarketplace, chain: Chain, step: str
) -> None:
    async with marketplace() as market:
        async with shop.running() as node:
            session = await market.open(node.url, deposit=DEPOSIT)
            await session.call("note", text="first")
        async with shop.running(crash_at=step) as node:
            calling = asyncio.create_task(session.call("note", text="second"))
            await node.killed()
        async with shop.running():
            require_answered(step, shop, await calling, "second")
            await require_same_record(shop, session)
            assert (await session.call("note", text="third")).charge == PRICE
            await require_same_record(shop, session)
            await require_settles(chain, session)
    assert [shop.runs()[0], shop.runs()[-1]] == ["first", "third"]


@pytest.mark.parametrize("step", some_of([step for step in CALL_STEPS if step != "after-delivery"], 3))
async def test_call_given_up_by_the_caller_is_recovered_later_by_a_restarted_client(
    shop: Shop, marketplace: MakeMarketplace, chain: Chain, step: str
) -> None:
    async with shop.running() as node, marketplace(settings={"retry_attempts": 1}) as market:
        session = await market.open(node.url, deposit=DEPOSIT)
        await session.call("spoil", text="first")
    async with shop.running(crash_at=step) as node, marketplace(settings={"retry_attempts": 1}) as market:
        session = await market.resume(session.channel_id)
        with pytest.raises(OutcomeUnknown):
            await session.call("note", text="second")
        await node.killed()
    async with shop.running(), marketplace() as market:
        session = await market.resume(session.channel_id)
        assert session.outstanding
        recovered = await session.recover()
        assert recovered is not None
        require_answered(step, shop, recovered, "second")
        assert await session.recover() is None
        await require_same_record(shop, session)
        await session.call("note", text="third")
        await require_settles(chain, session)


@pytest.mark.parametrize("step", OPENING_STEPS)
async def test_first_call_whose_node_dies_around_the_adoption_of_the_session_happens_once(
    shop: Shop, marketplace: MakeMarketplace, chain: Chain, step: str
) -> None:
    async with marketplace() as market:
        async with shop.running() as node:
            session = await market.open(node.url, deposit=DEPOSIT)
        async with shop.running(crash_at=step) as node:
            calling = asyncio.create_task(session.call("note", text="first"))
            await node.killed()
        async with shop.running():
            require_answered(step, shop, await calling, "first")
            await require_same_record(shop, session)
            await require_settles(chain, session)


@pytest.mark.parametrize("step", ["before-record", "after-record"])
async def test_node_that_dies_again_while_it_recovers_recovers_at_the_next_start(
    shop: Shop, marketplace: MakeMarketplace, chain: Chain, step: str
) -> None:
    async with marketplace() as market:
        async with shop.running() as node:
            session = await market.open(node.url, deposit=DEPOSIT)
        async with shop.running(crash_at="in-tool") as node:
            calling = asyncio.create_task(session.call("note", text="first"))
            await node.killed()
        await shop.starts_and_dies(step)
        async with shop.running():
            require_answered("in-tool", shop, await calling, "first")
            await session.call("note", text="second")
            await require_same_record(shop, session)
            await require_settles(chain, session)
