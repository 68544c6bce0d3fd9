"""Calls of one signed session in flight over two nodes that share a PostgreSQL store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from aioum.core.ledger import Limits
from aioum_node.store.port import Store
from aioum_node.store.postgres.store import PostgresStore
from tests.postgres import PostgresServer, schema_of
from tests.unit.node.api.in_flight import (
    FUNCTIONS,
    PATIENT_MS,
    PRICE,
    Session,
    charges,
    meeting_of,
    meetings,
    statement,
    waits,
)
from tests.unit.node.api.shop import Shop, running_shop

Shops = tuple[Shop, Shop]


@pytest.fixture
async def shops(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Shops]:
    def shared(limits: Limits) -> AbstractAsyncContextManager[Store]:
        return PostgresStore(postgres.url, limits, schema=schema_of(tmp_path))

    how: dict[str, Any] = {"shared": shared, "turn_wait_ms": PATIENT_MS}
    async with (
        running_shop(tmp_path / "first", FUNCTIONS, **how) as first,
        running_shop(tmp_path / "second", FUNCTIONS, **how) as second,
    ):
        yield first, second
        meetings[-1].complete.set()


async def test_calls_sent_in_reverse_to_two_nodes_in_turn_are_admitted_in_order_and_run_in_parallel(
    shops: Shops,
) -> None:
    session, meeting = await Session.opened(shops[0]), meeting_of(16)
    session.sign(*(f"no {index}" if index % 5 == 3 else f"call {index}" for index in range(16)))
    paid = [0 if text.startswith("no") else PRICE for text in session.texts]
    sent = {}
    for index in reversed(range(1, 16)):
        shop = shops[index % 2]
        before = shop.edge.calls.waiting
        sent[index] = session.send(index, shop=shop)
        await waits(shop, before + 1)

    sent[0] = session.send(0, shop=shops[0])
    replies = [await sent[index] for index in range(16)]
    # Each node answers for what the other one ran.
    again = [await session.send(index, shop=shops[1 - index % 2]) for index in range(16)]

    # A node may begin to run a call a little after the other one began with the next.
    assert sorted(meeting.came) == sorted(session.texts)
    assert charges(replies) == list(enumerate(paid))
    assert [reply.headers["Aioum-Receipt"] for reply in again] == [
        reply.headers["Aioum-Receipt"] for reply in replies
    ]
    said = [await statement(shop, session) for shop in shops]
    assert said[0] == said[1]
    assert (said[0]["callCount"], said[0]["spent"]) == (16, str(sum(paid)))
    assert said[0]["root"] == session.root(replies)


async def test_replays_of_one_call_over_two_nodes_before_its_turn_are_one_execution(shops: Shops) -> None:
    session, meeting = await Session.opened(shops[0]), meeting_of(2)
    session.sign("a", "b")
    early = [session.send(1, shop=shops[number % 2]) for number in range(40)]
    for shop in shops:
        await waits(shop, 1)

    first = session.send(0, shop=shops[1])
    replies = await asyncio.gather(*early)

    assert sorted(meeting.came) == ["a", "b"]
    assert len({(reply.status, reply.body, reply.headers["Aioum-Receipt"]) for reply in replies}) == 1
    assert charges([await first, replies[0]]) == [(0, PRICE), (1, PRICE)]
    state = await session.state()
    assert (state.admitted, state.spent, state.reserved, state.drained) == (2, 2 * PRICE, 0, True)


async def test_calls_that_wait_at_either_node_hear_when_one_of_them_seals_the_session(shops: Shops) -> None:
    session = await Session.opened(shops[0])
    meeting = meeting_of(1)
    session.sign("a", "b", tool_id="note")
    waiting = [session.send(1, shop=shop) for shop in shops]
    for shop in shops:
        await waits(shop, 1)

    await shops[0].close(session.pen.channel_id, 0)
    replies = await asyncio.gather(*waiting)

    assert [(reply.status, reply.code) for reply in replies] == [(410, "session-sealed")] * 2
    assert meeting.came == []


async def test_while_the_database_is_away_calls_and_reads_are_to_come_again_and_nothing_is_run(
    shops: Shops, postgres: PostgresServer
) -> None:
    session, meeting = await Session.opened(shops[0]), meeting_of(1)
    session.sign("a")
    postgres.stop(mode="immediate")
    try:
        # Before the node itself noticed that it is not ready.
        refused = await session.send(0, shop=shops[0])
        unread = await shops[0].read(session.pen.channel_id, "/calls")
    finally:
        postgres.start()
    served = await session.send(0, shop=shops[0])

    assert [(reply.status, reply.code) for reply in (refused, unread)] == [(503, "store-busy")] * 2
    assert "Retry-After" in refused.headers
    assert (served.status, meeting.came) == (200, ["a"])
