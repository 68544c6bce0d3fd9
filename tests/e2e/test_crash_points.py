"""kill -9 of the node at every durable step there is between a session's opening and its removal.

The steps are not listed: the node counts them, and is killed at the first, the second and so on, each time
with a new session, until one session passes without coming to the step; or at one in so many of them. After
each death the store has to be sound, and the restarted node has to bring the session to the end that it would
have had.
"""

import asyncio
import itertools
import json
import shutil
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.client import Closed, Marketplace, Offer, PaidSession
from aioum.core.errors import OutcomeUnknown
from aioum.core.types import ChannelId
from aioum.log.fsck import fsck as log_fsck
from aioum_node.fsck import fsck
from aioum_node.log.reader import LogReader
from tests.e2e.conftest import MakeMarketplace
from tests.e2e.crashing_node import PRICE
from tests.e2e.shop import Shop, until
from tests.e2e.test_kill_during_a_call import require_same_record
from tests.many import strides

DEPOSIT = 20 * PRICE
MOST_POINTS = 200


async def life(shop: Shop, market: Marketplace, url: str, name: str) -> tuple[PaidSession, Closed]:
    """A session with two paid calls and a failed one, to its end."""
    session = await market.open(await offered(market, url), deposit=DEPOSIT)
    for tool in ("note", "spoil", "note"):
        await session.call(tool, text=f"{name} {len(session.calls)}")
    closed = await session.close()
    await shop.final(session.channel_id)
    return session, closed


async def offered(market: Marketplace, url: str) -> Offer:
    """What the node offers, asked again while it is being started: nothing is bought yet."""
    while True:
        try:
            return await market.service(url)
        except OutcomeUnknown:
            await asyncio.sleep(0.05)


async def require_ended_well(chain: Chain, shop: Shop, session: PaidSession, closed: Closed) -> None:
    """Recorded alike by both, run and charged once, anchored, captured for what was spent."""
    await require_same_record(shop, session)
    stored = await shop.final(session.channel_id)
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.root, anchored.call_count) == (session.root, 3) == (closed.root, closed.call_count)
    assert anchored.settled == closed.settled == session.spent == stored.state.spent
    assert anchored.refunded == DEPOSIT - session.spent
    events = await chain.events(chain.first_block, (await chain.head()).number, session.channel_id)
    assert [event.name for event in events if event.name == "Finalized"] == ["Finalized"]
    runs = shop.runs()
    assert len(set(runs)) == len(runs)
    # What never ran was answered as interrupted, for nothing.
    assert session.spent <= PRICE * sum(text in runs for text in session_texts(session))


def session_texts(session: PaidSession) -> list[str]:
    """What the session's tools were asked to note."""
    return [json.loads(call.request)["arguments"]["text"] for call in session.calls]


async def require_sound(shop: Shop) -> None:
    """The store of a node that died contradicts itself nowhere."""
    report = await asyncio.to_thread(fsck, shop.folder)
    assert report.findings == ()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stride", strides(3))
async def test_node_killed_at_any_durable_step_of_calls_and_settlement_ends_as_if_it_had_not_been(
    shop: Shop, marketplace: MakeMarketplace, chain: Chain, stride: int
) -> None:
    async with shop.running() as node:
        url = node.url
    points: list[str] = []
    for point in itertools.count(1, stride):
        async with marketplace() as market:
            died_at, living = await shop.dies_at(point, life(shop, market, url, str(point)))
            await require_sound(shop)
            async with shop.running():
                await require_ended_well(chain, shop, *await living)
        if died_at is None:
            break
        points.append(died_at)
        assert point < MOST_POINTS, points
    require_among(points, "sessions", "calls", "answers", "accounts", "transactions", stride=stride)
    assert stride > 1 or {"before broadcast", "after broadcast"} <= set(points)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("stride", strides(3))
async def test_node_killed_at_any_durable_step_of_retention_leaves_sessions_whole_or_gone(
    shop: Shop, marketplace: MakeMarketplace, tmp_path: Path, stride: int
) -> None:
    prepared = tmp_path / "prepared"
    async with shop.running() as node, marketplace() as market:
        ended = [await life(shop, market, node.url, name) for name in ("one", "other")]
    shutil.copytree(shop.folder, prepared)
    shop.retention_ms = 1

    async def all_gone() -> None:
        async def gone() -> bool:
            return [await shop.find(session.channel_id) for session, _ in ended] == [None, None]

        await until(gone)

    points: list[str] = []
    for point in itertools.count(1, stride):
        shutil.rmtree(shop.folder)
        shutil.copytree(prepared, shop.folder)
        died_at, removing = await shop.dies_at(point, all_gone(), from_start=True)
        await require_sound(shop)
        for session, _ in ended:
            if await shop.find(session.channel_id) is not None:
                await require_same_record(shop, session)
        async with shop.running():
            await removing
        await require_sound(shop)
        if died_at is None:
            break
        points.append(died_at)
        assert point < MOST_POINTS, points
    require_among(points, "sessions", "calls", "answers", "accounts", stride=stride)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_node_killed_at_any_durable_step_of_logging_has_each_session_in_its_log_once(
    shop: Shop, marketplace: MakeMarketplace, tmp_path: Path
) -> None:
    prepared = tmp_path / "prepared"
    async with shop.running() as node, marketplace() as market:
        ended = [await life(shop, market, node.url, name) for name in ("one", "other")]
    shutil.copytree(shop.folder, prepared)
    shop.keeps_log = True
    log = shop.folder / "log"

    async def logged() -> set[int]:
        """The places of both sessions, once everybody can see them."""
        reader = LogReader(log)
        places: set[int] = set()
        for session, _ in ended:

            async def found(channel_id: ChannelId = session.channel_id) -> bool:
                membership = await reader.membership(channel_id)
                if membership is not None:
                    places.add(membership.index)
                return membership is not None

            await until(found)
        return places

    points: list[str] = []
    for point in itertools.count(1):
        shutil.rmtree(shop.folder)
        shutil.copytree(prepared, shop.folder)
        died_at, logging = await shop.dies_at(point, logged(), from_start=True)
        async with shop.running():
            assert await logging == {0, 1}
        report = log_fsck(log)
        report.require_sound()
        assert report.size == 2
        if died_at is None:
            break
        points.append(died_at)
        assert point < MOST_POINTS, points
    require_among(points, "progress", "sessions")
    assert {"before replace", "after replace", "before fsync", "after fsync"} <= set(points)


def require_among(points: list[str], *tables: str, stride: int = 1) -> None:
    """The harness came to a commit of each of the tables, and to both of its sides; with a stride to some."""
    reached = {
        (side, table)
        for table in tables
        for side in ("before", "after")
        if any(point.startswith(side) and f" {table}" in point for point in points)
    }
    assert len(reached) >= 2 * len(tables) // stride, points
