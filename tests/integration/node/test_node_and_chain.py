"""A node whose chain falls silent, or is another one after a reset."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum_node.app import running_node
from aioum_node.keys.identity import Identity
from aioum_node.settings import Settings
from aioum_node.tools import tool
from tests.integration.chain.faulty_endpoint import Fault, faulty_endpoint
from tests.integration.conftest import FundedAccount
from tests.integration.node.edge_client import Buyer

PRICE = 1_000


@tool(price=PRICE)
def shout(text: str) -> str:
    return text.upper()


def settings_for(devnet: RunningDevnet, folder: Path, **changes: Any) -> Settings:
    return Settings(
        **{
            "node_dir": folder,
            "listen_port": 0,
            "admin_port": 0,
            "deployment_file": devnet.deployment_file,
            "watch_interval_seconds": 0.05,
            "settle_interval_seconds": 0.1,
            **changes,
        }
    )


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + 30
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.05)


async def test_node_that_cannot_see_the_chain_takes_no_paid_calls_until_it_can(
    devnet: RunningDevnet, chain: Chain, operator: FundedAccount, payer: FundedAccount, tmp_path: Path
) -> None:
    identity = Identity(operator.key, operator.key)
    async with faulty_endpoint(devnet.rpc_url) as endpoint, aiohttp.ClientSession() as http:
        settings = settings_for(devnet, tmp_path, rpc_url=endpoint.url, chain_silence_seconds=1)
        async with running_node(settings, functions=[shout], identity=identity, register=True) as node:

            async def ready(status: int) -> bool:
                async with http.get(node.url + "/readyz") as response:
                    return response.status == status

            buyer = Buyer(chain, payer, http)
            session = await buyer.open(node)
            first = await buyer.enter(node, session, PRICE)
            endpoint.faults["eth_getBlockByNumber"] = Fault.LOST
            await until(lambda: ready(503))
            refused = await buyer.pay(node, session, 2 * PRICE)
            endpoint.faults.clear()
            await until(lambda: ready(200))
            second = await buyer.pay(node, session, 2 * PRICE)

    assert (refused.status, refused.code) == (503, "not-ready")
    assert "Retry-After" in refused.headers
    assert (first.status, second.status) == (200, 200)


@asynccontextmanager
async def buyer_on(devnet: RunningDevnet, folder: Path) -> AsyncIterator[Buyer]:
    """The devnet's third account as a client."""
    key = devnet.accounts[2]
    async with Chain.connect(devnet.deployment) as chain, aiohttp.ClientSession() as http:
        journal = SqliteTransactionJournal(folder / "client.sqlite3")
        try:
            sender = Sender(chain, LocalSigner(key), journal, poll_interval_seconds=0.02)
            await sender.send(calls.approve(devnet.token, chain.payment_manager, 2**256 - 1), "approve")
            yield Buyer(chain, FundedAccount(key, LocalSigner(key), sender), http)
        finally:
            await journal.close()


async def test_devnet_reset_between_two_runs_mixes_no_sessions_and_wipes_nothing(
    anvil: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "node"
    async with running_devnet(tmp_path / "one") as devnet:
        identity = Identity(devnet.accounts[1], devnet.accounts[1])
        async with (
            running_node(
                settings_for(devnet, folder), functions=[shout], identity=identity, register=True
            ) as node,
            buyer_on(devnet, tmp_path) as buyer,
        ):
            old = await buyer.open(node)
            old_answer = await buyer.enter(node, old, PRICE)
    async with (
        running_devnet(tmp_path / "two") as devnet,
        running_node(
            settings_for(devnet, folder), functions=[shout], identity=identity, register=True
        ) as node,
        buyer_on(devnet, tmp_path) as buyer,
    ):
        new = await buyer.open(node)
        new_answer = await buyer.enter(node, new, PRICE)
        unfunded = await buyer.pay(node, old, 2 * PRICE)
        retry = await buyer.pay(node, old, PRICE)
        same_label = await node.store.find(1)

        async def is_final() -> bool:
            return (await buyer.close(node, new, 1)).status == 200

        await until(is_final)
        anchored = await buyer.chain.session(new.channel_id)
        kept = await node.store.session(old.channel_id)

    assert (old_answer.status, new_answer.status) == (200, 200)
    assert buyer.receipt(node, new_answer).receipt.index == 0
    assert (unfunded.status, unfunded.code) == (402, "amount-exceeds-deposit")
    assert retry.headers["Aioum-Receipt"] == old_answer.headers["Aioum-Receipt"]
    assert {stored.facts.channel_id for stored in same_label} == {old.channel_id, new.channel_id}
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (PRICE, 1)
    assert kept is not None
    assert (kept.state.spent, kept.finalized_at_ms) == (PRICE, None)
