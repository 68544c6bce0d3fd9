"""A client that asks for its exit in the very moment in which the node looks at its channel."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.model import ChainSession
from aioum_node.app import RunningNode
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer, Opened

Meanwhile = Callable[[], Awaitable[object]]


def after_the_next_look(monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile) -> None:
    """Let something happen between the node's next look at a channel's newest state and what it does then."""
    look = Chain.session
    pending = [meanwhile]

    async def slow_look(self: Chain, *arguments: Any) -> ChainSession | None:
        seen = await look(self, *arguments)
        if len(arguments) == 1 and pending:
            await pending.pop()()
        return seen

    monkeypatch.setattr(Chain, "session", slow_look)


async def leave(buyer: Buyer, node: RunningNode, session: Opened) -> None:
    """Request the close on-chain, and let the node's watcher see it."""
    request = calls.request_close(node.offering.chain.payment_manager, session.channel_id)
    await buyer.account.sender.send(request, "leave")
    await node.watcher.look()


async def test_a_close_requested_while_the_session_is_adopted_is_not_missed(
    start_node: StartNode, buyer: Buyer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_node(settle_interval_seconds=3_600, watch_interval_seconds=3_600) as node:
        session = await buyer.open(node)
        after_the_next_look(monkeypatch, lambda: leave(buyer, node, session))

        entered = await buyer.enter(node, session)
        paid = await buyer.pay(node, session, PRICE)

    assert entered.code == "payment-required"
    assert paid.code in ("session-close-pending", "session-sealed")


async def test_a_close_requested_while_a_top_up_is_taken_over_is_not_missed(
    start_node: StartNode, buyer: Buyer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start_node(settle_interval_seconds=3_600, watch_interval_seconds=3_600) as node:
        session = await buyer.open(node)
        await buyer.enter(node, session)
        after_the_next_look(monkeypatch, lambda: leave(buyer, node, session))

        await buyer.pay(node, session, 0, action="topUp")
        paid = await buyer.pay(node, session, PRICE)

    assert paid.code in ("session-close-pending", "session-sealed")


async def test_the_announcement_of_a_top_up_tells_strangers_nothing_that_the_chain_does_not(
    start_node: StartNode, buyer: Buyer
) -> None:
    async with start_node() as node:
        session = await buyer.open(node, 5_000)
        await buyer.enter(node, session, PRICE)

        # It is not signed: anybody may send it for any channel.
        answer = (await buyer.pay(node, session, 0, action="topUp")).json

    assert answer["deposit"] == "5000"
    assert "spent" not in answer
    assert "acceptedCumulative" not in answer
