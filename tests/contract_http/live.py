"""A whole node on a devnet of its own, in a thread, so that a client which waits for answers can test it."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.signing import LocalKey
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum_node.app import RunningNode, running_node
from aioum_node.keys.identity import Identity
from aioum_node.settings import Settings
from tests.integration.chain.faulty_endpoint import FaultyEndpoint, faulty_endpoint
from tests.integration.conftest import FundedAccount
from tests.integration.node.edge_client import Buyer

T = TypeVar("T")

BODY_TIMEOUT_SECONDS = 0.5
MAX_REQUEST_BYTES = 40_000
MAX_RESPONSE_BYTES = 100_000
PRICE = 10
ANY = {"type": "object"}
TOOLS = (
    # Gives its request back: whatever object a generator comes up with is a call that can be paid for.
    {"id": "echo", "command": ["cat"], "price": PRICE, "input_schema": ANY},
    {"id": "broken", "command": ["false"], "price": PRICE, "input_schema": ANY},
    {"id": "slow", "command": ["sleep", "30"], "price": PRICE, "input_schema": ANY, "timeout_seconds": 1},
    {"id": "binary", "command": ["printf", "\\377"], "price": PRICE, "input_schema": ANY},
    {
        "id": "strict",
        "command": ["cat"],
        "price": PRICE,
        "input_schema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
    },
)


@dataclass
class World:
    """What outlives the node: chain, operator and client. `endpoint` is how the node reaches the chain."""

    devnet: RunningDevnet
    endpoint: FaultyEndpoint
    chain: Chain
    operator: FundedAccount
    buyer: Buyer
    folder: Path

    @asynccontextmanager
    async def node(
        self, receipt_signer: LocalKey | None = None, **changes: Any
    ) -> AsyncIterator[RunningNode]:
        """Run the operator's node, always in the same folder."""
        settings = Settings(
            **{
                "node_dir": self.folder / "node",
                "deployment_file": self.devnet.deployment_file,
                "rpc_url": self.endpoint.url,
                "rpc_timeout_seconds": 2,
                "listen_port": 0,
                "admin_port": 0,
                "accept_contract_signers": True,
                "body_timeout_seconds": BODY_TIMEOUT_SECONDS,
                "chain_silence_seconds": 2,
                "max_request_bytes": MAX_REQUEST_BYTES,
                "max_response_bytes": MAX_RESPONSE_BYTES,
                "max_unpaid_calls": 100_000,
                "opening_wait_seconds": 10,
                "settle_interval_seconds": 0.1,
                "tools": TOOLS,
                "transparency_log_interval_seconds": 0.1,
                "watch_interval_seconds": 0.1,
                **changes,
            }
        )
        identity = Identity(self.operator.key, receipt_signer or self.operator.key)
        async with running_node(settings, identity=identity, register=True) as node:
            yield node


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="node")
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)

    def stop(self) -> None:
        """End what still runs there, and the thread."""
        self.run(_end_other_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_other_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def running_loop() -> Iterator[Loop]:
    """A loop for as long as the block lasts."""
    loop = Loop()
    try:
        yield loop
    finally:
        loop.stop()


@asynccontextmanager
async def running_world(folder: Path) -> AsyncIterator[World]:
    """A devnet with an operator and a client who have money."""
    async with AsyncExitStack() as stack:
        devnet = await stack.enter_async_context(running_devnet(folder / "devnet"))
        chain = await stack.enter_async_context(Chain.connect(devnet.deployment))
        endpoint = await stack.enter_async_context(faulty_endpoint(devnet.rpc_url))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        operator = await _funded(stack, devnet, chain, folder / "operator.sqlite3")
        client = await _funded(stack, devnet, chain, folder / "client.sqlite3")
        yield World(devnet, endpoint, chain, operator, Buyer(chain, client, http), folder)


async def _funded(stack: AsyncExitStack, devnet: RunningDevnet, chain: Chain, path: Path) -> FundedAccount:
    key = LocalKey(secrets.token_bytes(32))
    await devnet.fund(key.address)
    journal = SqliteTransactionJournal(path)
    stack.push_async_callback(journal.close)
    signer = LocalSigner(key)
    sender = Sender(chain, signer, journal, receipt_timeout_seconds=30, poll_interval_seconds=0.02)
    await sender.send(calls.mint(devnet.token, key.address, 1_000_000_000), "fund")
    await sender.send(calls.approve(devnet.token, chain.payment_manager, 2**256 - 1), "approve")
    return FundedAccount(key, signer, sender)
