"""What all examples of a market share: a devnet on which an operator and a client have money."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.rpc import Rpc
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.signing import LocalKey
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.stateful.market_node import shared_seconds


@dataclass(slots=True)
class Stage:
    """A devnet with an operator and a client.

    Attributes:
        port: where the operator's node serves.
        snapshot: the chain at the beginning of an example.
        seconds_ahead: how far everybody's clock is ahead of the machine's.
    """

    folder: Path
    devnet: RunningDevnet
    chain: Chain
    rpc: Rpc
    operator: LocalKey
    client: LocalKey
    port: int
    snapshot: str = ""
    seconds_ahead: Any = field(default_factory=shared_seconds)

    def now_seconds(self) -> float:
        """Unix seconds."""
        return time.time() + float(self.seconds_ahead.value)

    async def pass_time(self, seconds: int) -> None:
        """Let the clock of everybody jump."""
        await self.devnet.increase_time(seconds)
        self.seconds_ahead.value += seconds

    async def mine(self) -> None:
        """Mine a block now."""
        await self.rpc.request("anvil_mine", "0x1")

    async def keep(self) -> None:
        """Remember the chain as it is."""
        self.snapshot = await self.devnet.snapshot()

    async def begin_again(self) -> None:
        """Go back to what was kept."""
        await self.devnet.revert(self.snapshot)
        await self.keep()


@asynccontextmanager
async def opened_stage(folder: Path) -> AsyncIterator[Stage]:
    """Start a devnet and give both sides money."""
    async with AsyncExitStack() as stack:
        devnet = await stack.enter_async_context(running_devnet(folder / "devnet"))
        chain = await stack.enter_async_context(Chain.connect(devnet.deployment))
        rpc = await stack.enter_async_context(Rpc(devnet.rpc_url))
        await rpc.request("evm_setIntervalMining", 0)
        await rpc.request("evm_setAutomine", True)
        keys = [LocalKey(secrets.token_bytes(32)) for _ in range(2)]
        for number, key in enumerate(keys):
            journal = SqliteTransactionJournal(folder / f"setup-{number}.sqlite3")
            stack.push_async_callback(journal.close)
            sender = Sender(chain, LocalSigner(key), journal, poll_interval_seconds=0.02)
            await devnet.fund(key.address)
            await sender.send(calls.mint(devnet.token, key.address, 10**12), "fund")
            await sender.send(calls.approve(devnet.token, chain.payment_manager, 2**256 - 1), "approve")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        stage = Stage(folder, devnet, chain, rpc, keys[0], keys[1], port)
        await stage.keep()
        yield stage
