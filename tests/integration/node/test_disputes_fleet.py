"""Several processes over one PostgreSQL store: one of them answers, and when it dies another one does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import asyncpg
import pytest

from aioum.chain.client import Chain
from aioum.core.hextext import to_hex
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet
from tests.integration.conftest import FundedAccount
from tests.integration.node.crashing_node import PRICE
from tests.integration.node.disputing import (
    DISPUTE_TERMS,
    Disputant,
    Words,
    challenge_each,
    close,
    require_no_lie,
    serve,
    until,
)
from tests.integration.node.edge_client import Buyer, Opened
from tests.integration.node.fleet import Fleet
from tests.postgres import PostgresServer


@pytest.fixture
def fleet(
    tmp_path: Path,
    devnet: RunningDevnet,
    operator: FundedAccount,
    repository: Path,
    postgres: PostgresServer,
) -> Fleet:
    return Fleet(tmp_path, devnet, operator, repository, postgres)


@pytest.fixture
async def buyer(chain: Chain, payer: FundedAccount) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        yield Buyer(chain, payer, http)


@pytest.fixture
async def disputant(buyer: Buyer, devnet: RunningDevnet) -> Disputant:
    return await Disputant.of(buyer, devnet.token)


async def sold(fleet: Fleet, buyer: Buyer) -> tuple[Opened, Words]:
    async with fleet.running("first", **DISPUTE_TERMS) as first:
        session = await buyer.open(first, 50_000)
        words = await serve(buyer, first, session, 4, price=PRICE, tool="note", folder=str(fleet.folder))
        await close(buyer, first, session, 4, words)
    return session, words


async def answers(fleet: Fleet, postgres: PostgresServer) -> list[tuple[str, str]]:
    """Purpose and state of every answer in the journal."""
    sql = await asyncpg.connect(postgres.url, server_settings={"search_path": fleet.schema})
    sent = await sql.fetch(
        "SELECT purpose, state FROM transactions WHERE purpose LIKE 'answer:%' ORDER BY id"
    )
    await sql.close()
    return [(row["purpose"], row["state"]) for row in sent]


async def until_known(fleet: Fleet, postgres: PostgresServer, channel_id: ChannelId, *, count: int) -> None:
    """Wait until the journal knows that `count` answers of one session, and no other ones, were mined.

    The chain shows an answer before the process that sent it has read the receipt and written so.
    """
    mined = [(f"answer:{to_hex(channel_id)}", "mined")] * count

    async def known() -> bool:
        return await answers(fleet, postgres) == mined

    await until(known, f"the journal knows of {count} mined answers")


async def test_each_challenge_is_answered_by_exactly_one_process(
    fleet: Fleet, buyer: Buyer, disputant: Disputant, operator: FundedAccount, postgres: PostgresServer
) -> None:
    session, words = await sold(fleet, buyer)
    before = await buyer.chain.rpc.transaction_count(operator.key.address, "latest")
    async with fleet.running("first", **DISPUTE_TERMS) as first, AsyncExitStack() as stack:
        for name in ("second", "third"):
            await stack.enter_async_context(fleet.member(name, first, **DISPUTE_TERMS))
        answered = await challenge_each(disputant, session.channel_id, words)
        await require_no_lie(disputant, session.channel_id, words)
        assert answered == 7
        await until_known(fleet, postgres, session.channel_id, count=7)
    assert await buyer.chain.rpc.transaction_count(operator.key.address, "latest") == before + 7


async def test_challenge_whose_process_is_killed_while_it_answers_is_answered_once_by_another_one(
    fleet: Fleet, buyer: Buyer, disputant: Disputant, postgres: PostgresServer
) -> None:
    session, words = await sold(fleet, buyer)
    async with fleet.running("first", **DISPUTE_TERMS) as first:
        await fleet.join("second", **DISPUTE_TERMS)
    async with fleet.member("first", first, "after-broadcast", **DISPUTE_TERMS) as doomed:
        await disputant.challenge(session.channel_id, words.receipts[1])
        await asyncio.wait_for(doomed.process.wait(), 60)
    async with fleet.member("second", first, **DISPUTE_TERMS):
        await disputant.answered(session.channel_id)
        await until_known(fleet, postgres, session.channel_id, count=1)
    assert await disputant.events(session.channel_id, "ChallengeAnswered") == 1
