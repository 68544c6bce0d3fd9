"""Openings that are not final yet: who waits for them, and who is told to come again."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp

from aioum.chain.client import Chain
from aioum.core.payment import compute_channel_id
from aioum.core.signing import LocalKey
from aioum.core.types import ZERO_ADDRESS, Bytes32
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode
from tests.integration.chain.lagging_replica import lagging_replica
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer, Opened

DEPTH = 50
LONG_SECONDS = 100
DEADLINE_SECONDS = 20


@asynccontextmanager
async def patient_node(start_node: StartNode, **settings: Any) -> AsyncIterator[RunningNode]:
    """A node that waits long for openings to become final, 50 blocks deep."""
    settings = {"public_url": "http://node.example", "watch_interval_seconds": 3_600, **settings}
    async with start_node(**settings):
        pass
    async with start_node(
        confirmations=DEPTH, opening_wait_seconds=LONG_SECONDS, register=False, **settings
    ) as node:
        yield node


def not_on_chain(buyer: Buyer, node: RunningNode) -> Opened:
    terms = node.registration.terms
    payer, salt = buyer.account.key.address, Bytes32(secrets.token_bytes(32))
    channel_id = compute_channel_id(payer, terms.payee, terms.token, salt, ZERO_ADDRESS, buyer.chain.domain)
    return Opened(channel_id, Bytes32(secrets.token_bytes(32)), buyer.account.key)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_opening_that_the_chain_does_not_show_is_answered_at_once_and_may_come_again(
    start_node: StartNode, buyer: Buyer
) -> None:
    async with start_node(opening_wait_seconds=LONG_SECONDS, max_concurrent_openings=1) as node:
        async with asyncio.timeout(DEADLINE_SECONDS):
            replies = [await buyer.enter(node, not_on_chain(buyer, node)) for _ in range(3)]
        session = await buyer.open(node)
        paid = await buyer.enter(node, session, PRICE)

    assert {(reply.status, reply.code) for reply in replies} == {(402, "opening-not-final")}
    assert all("Retry-After" in reply.headers for reply in replies)
    assert paid.status == 200


async def test_every_opening_is_served_at_once_though_a_replica_is_three_blocks_behind(
    start_node: StartNode, buyer: Buyer, devnet: RunningDevnet
) -> None:
    async with (
        lagging_replica(devnet.rpc_url, 3) as replica,
        start_node(rpc_url=f"{replica}, {devnet.rpc_url}") as node,
    ):
        sessions = [await buyer.open(node) for _ in range(3)]
        # The first reply counts: a client of ours would come again after a refusal.
        replies = [await buyer.enter(node, session, PRICE) for session in sessions]
        later = await buyer.enter(node, await buyer.open(node), PRICE)

    assert [reply.status for reply in (*replies, later)] == [200] * 4


async def test_opening_of_somebody_else_is_not_waited_for(start_node: StartNode, buyer: Buyer) -> None:
    async with patient_node(start_node) as node:
        session = await buyer.open(node)
        stolen = replace(session, signer=LocalKey(secrets.token_bytes(32)))

        async with asyncio.timeout(DEADLINE_SECONDS):
            reply = await buyer.enter(node, stolen, PRICE)

    assert (reply.status, reply.code) == (402, "signer-mismatch")


async def test_openings_that_are_waited_for_are_limited_in_all_and_for_each_address(
    start_node: StartNode, buyer: Buyer, chain: Chain, payer: FundedAccount, devnet: RunningDevnet
) -> None:
    limits = {"max_concurrent_openings": 2, "max_openings_per_address": 1}
    async with patient_node(start_node, **limits) as node, asyncio.TaskGroup() as group:
        buyers = []
        for number in (1, 1, 2, 3):
            headers = {"X-Forwarded-For": f"198.51.100.{number}"}
            http = aiohttp.ClientSession(headers=headers)
            buyers.append(Buyer(chain, payer, http))
        sessions = [await buyer.open(node) for _ in buyers]
        for one, session in zip(buyers, sessions, strict=True):
            await one.pay(node, session, PRICE)  # fetches the challenge
        waiting = [group.create_task(buyers[0].enter(node, sessions[0], PRICE))]
        await until(lambda: node.edge.openings.in_flight == 1)

        same_address = await buyers[1].enter(node, sessions[1], PRICE)
        waiting.append(group.create_task(buyers[2].enter(node, sessions[2], PRICE)))
        await until(lambda: node.edge.openings.in_flight == 2)
        full = await buyers[3].enter(node, sessions[3], PRICE)
        await devnet.mine(DEPTH)
        served = [await reply for reply in waiting]
        later = await buyers[1].enter(node, sessions[1], PRICE)
        for one in buyers:
            await one.http.close()

    assert [(reply.status, reply.code) for reply in (same_address, full)] == [(429, "too-many-openings")] * 2
    assert "Retry-After" in full.headers
    assert [reply.status for reply in (*served, later)] == [200] * 3
