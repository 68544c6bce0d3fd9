"""A whole market for a state machine: a client, an operator's node, their chain and its clock, all real.

The client runs on an event loop that goes on only while a step runs, the node in a process of its own. The
chain is anvil; it mines at once, and a block now and then while the loop runs.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aioum.client import ClientSettings, Marketplace, SessionPhase
from aioum.client.closing import Closed
from aioum.client.http import HttpAnswer, HttpTransport
from aioum.client.session import PaidSession
from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.core.types import ChannelId
from aioum_node.store.reader import SqliteReader
from aioum_node.store.sqlite import STORE_FILE
from tests.stateful.market_node import PRICE, Job, NodeProcess
from tests.stateful.market_stage import Stage

DEPOSIT = 10 * PRICE
ATTEMPTS = 3
"""How often the client sends a call before its outcome counts as unknown."""
CONFIRMATIONS = 3
"""Of both sides. Reorgs are shorter: what is deeper is final for them."""

_MINE_SECONDS = 0.05
_LOOK_SECONDS = 0.2
_SEND_AGAIN_SECONDS = 6
_PATIENCE_SECONDS = 60


class LossyTransport:
    """A transport that brings paid requests to the node, and loses as many answers as it is told to."""

    def __init__(self) -> None:
        self._inner = HttpTransport(connect_timeout_seconds=2)
        self.losses = 0

    async def request(self, method: str, url: str, **how: Any) -> HttpAnswer:
        """Send one request; see `Transport.request`."""
        answer = await self._inner.request(method, url, **how)
        if self.losses and "/tools/" in url:
            self.losses -= 1
            raise OutcomeUnknown("lost on the way back", code="answer-truncated")
        return answer

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()


@dataclass(slots=True)
class Lot:
    """One session of the client.

    Attributes:
        ending: an exit under way, or over.
        closed: how it ended, once an event waited for that.
        withdrawn: its exit ended without the operator.
    """

    channel_id: ChannelId
    session: PaidSession
    ending: asyncio.Task[Closed] | None = None
    closed: Closed | None = None
    withdrawn: bool = False

    @property
    def is_open(self) -> bool:
        """Whether calls can be bought in it."""
        return self.ending is None and self.session.phase is SessionPhase.OPEN

    @property
    def is_leaving(self) -> bool:
        """Whether its exit is under way."""
        return self.ending is not None and not self.ending.done()


@dataclass(slots=True)
class Market:
    """One example's client and node.

    Attributes:
        happened: how often each kind of event took effect.
        transport: the client's.
    """

    stage: Stage
    lots: list[Lot] = field(default_factory=list)
    happened: Counter[str] = field(default_factory=Counter)
    transport: LossyTransport = field(default_factory=LossyTransport)
    _folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="aioum-market-")
    )
    _node: NodeProcess | None = None
    _client: Marketplace | None = None
    _client_life: AsyncExitStack = field(default_factory=AsyncExitStack)
    _miner: asyncio.Task[None] | None = None
    _number: int = 0

    @property
    def node(self) -> NodeProcess:
        """The node that serves."""
        assert self._node is not None
        return self._node

    @property
    def client(self) -> Marketplace:
        """The client."""
        assert self._client is not None
        return self._client

    @property
    def job(self) -> Job:
        """The node, in its folder and at its address."""
        folder = Path(self._folder.name)
        return Job(
            settings={
                "node_dir": folder / "node",
                "listen_port": self.stage.port,
                "admin_port": 0,
                "deployment_file": self.stage.devnet.deployment_file,
                "confirmations": CONFIRMATIONS,
                "opening_wait_seconds": 20,
                "watch_interval_seconds": 0.1,
                "settle_interval_seconds": 0.2,
                "chain_silence_seconds": 3_600,
                "max_unpaid_calls": 100,
                "shutdown_seconds": 0,
            },
            secret=self.stage.operator.secret_bytes(),
            seconds_ahead=self.stage.seconds_ahead,
            runs_file=folder / "runs",
            log_file=self.stage.folder / "node.log",
        )

    async def start(self) -> None:
        """Start mining, the node and the client."""
        self._miner = asyncio.create_task(self._mine())
        await self.start_node()
        await self._start_client()

    async def stop(self) -> None:
        """End everything."""
        await self._stop_client()
        if self._node is not None:
            await self.stop_node()
        if self._miner is not None:
            await _canceled(self._miner)
        self._folder.cleanup()

    async def start_node(self) -> None:
        """Start the node on what is durable."""
        self._node = NodeProcess(self.job)
        await self._node.start()

    async def stop_node(self) -> None:
        """Let the node end in order; what it runs is cut off."""
        node, self._node = self.node, None
        await node.stop()

    def kill_node(self) -> None:
        """End the node as a power cut would."""
        node, self._node = self.node, None
        node.kill()

    async def _start_client(self) -> None:
        self.transport = LossyTransport()
        settings = ClientSettings(
            retry_wait_initial_seconds=0.01,
            retry_wait_max_seconds=0.03,
            retry_attempts=ATTEMPTS,
            retry_timeout_seconds=30,
            poll_seconds=0.03,
            chain_check_seconds=0,
            confirmations=CONFIRMATIONS,
            close_timeout_seconds=_PATIENCE_SECONDS,
            read_timeout_seconds=10,
        )
        self._client = await self._client_life.enter_async_context(
            Marketplace(
                key=self.stage.client,
                deployment=self.stage.devnet.deployment,
                data_dir=Path(self._folder.name) / "client",
                settings=settings,
                transport=self.transport,
                clock=self.stage.now_seconds,
            )
        )
        self._client_life.push_async_callback(self.transport.aclose)
        for lot in self.lots:
            lot.session = await self._client.resume(lot.channel_id)
            if lot.closed is None and lot.session.phase is not SessionPhase.OPEN:
                _ = await self.exit(lot)

    async def _stop_client(self) -> None:
        for lot in self.lots:
            if lot.ending is not None:
                if lot.is_leaving:
                    await _canceled(lot.ending)
                lot.ending = None
        await self._client_life.aclose()
        self._client_life = AsyncExitStack()

    async def restart_client(self) -> None:
        """Drop the client with whatever it does, and start it on its journal; exits go on."""
        await self._stop_client()
        await self._start_client()

    async def open(self, *, signed: bool) -> Lot:
        """Open a session."""
        url = f"http://127.0.0.1:{self.stage.port}"
        session = await self.client.open(url, deposit=DEPOSIT, signed=signed)
        lot = Lot(session.channel_id, session)
        self.lots.append(lot)
        return lot

    def text(self) -> str:
        """An argument that no other call has."""
        self._number += 1
        return f"call {self._number}"

    async def attempt(self, work: Awaitable[Any], refusals: Collection[str] = ()) -> Any:
        """Do something that may be refused, or remain unknown, for these reasons alone; then None."""
        try:
            return await work
        except AioumError as error:
            if error.code not in refusals:
                raise
            return None

    async def reorganize(
        self,
        begin: Callable[[], Awaitable[asyncio.Task[Any]]],
        shows: Callable[[], Awaitable[bool]],
        blocks: int,
    ) -> tuple[bool, asyncio.Task[Any]]:
        """Take back the blocks in which a transaction was mined; then everything goes on.

        Args:
            begin: begins what sends the transaction.
            shows: whether the newest block shows what the transaction does.
            blocks: to be taken back, fewer than CONFIRMATIONS.

        Returns:
            Whether it showed before, and what was begun, which may go on.
        """
        assert self._miner is not None
        await _canceled(self._miner)
        rpc, devnet = self.stage.rpc, self.stage.devnet
        await rpc.request("evm_setAutomine", False)
        begun = await begin()
        snapshot = await devnet.snapshot()
        showed, mined = False, 0
        while mined < blocks or (mined + 1 < CONFIRMATIONS and not showed):
            if not showed:
                await until(lambda: self._is_pending(begun))
            await self.stage.mine()
            mined += 1
            # Both sides look at it.
            await asyncio.sleep(_LOOK_SECONDS)
            showed = showed or await shows()
        await devnet.revert(snapshot)
        assert not await shows()
        await rpc.request("evm_setAutomine", True)
        self._miner = asyncio.create_task(self._mine())
        # Both sides send again what they no longer see, once this time has passed.
        await self.stage.pass_time(_SEND_AGAIN_SECONDS)
        return showed, begun

    async def _is_pending(self, begun: asyncio.Task[Any]) -> bool:
        status = await self.stage.rpc.request("txpool_status")
        return begun.done() or int(status["pending"], 16) > 0

    async def exit(self, lot: Lot) -> asyncio.Task[Closed]:
        """Leave a session without the operator; returns once that is decided, and goes on by itself."""
        lot.ending = asyncio.create_task(lot.session.exit())

        async def is_decided() -> bool:
            return lot.session.phase is not SessionPhase.OPEN

        await until(is_decided)
        return lot.ending

    async def bring_out(self, lot: Lot) -> Closed:
        """Go on until an exit is over. Who does not know the session lets the grace pass."""
        assert lot.ending is not None
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while lot.is_leaving:
                if not await self.is_served(lot):
                    await self.let_grace_pass(lot)
                await asyncio.wait({lot.ending}, timeout=_LOOK_SECONDS)
        lot.closed = lot.ending.result()
        self.happened["session-withdrawn" if lot.withdrawn else "session-exited"] += 1
        return lot.closed

    async def bring_all_out(self) -> None:
        """Go on until every exit is over, those first that the operator settles: for them no time passes."""
        leaving = [lot for lot in self.lots if lot.ending is not None and lot.closed is None]
        served = [await self.is_served(lot) for lot in leaving]
        for _, lot in sorted(zip(served, leaving, strict=True), key=lambda pair: not pair[0]):
            await self.bring_out(lot)

    async def is_served(self, lot: Lot) -> bool:
        """Whether a node runs that knows the session."""
        if self._node is None:
            return False
        reader = self.reader()
        try:
            return await reader.session(lot.channel_id) is not None
        finally:
            await reader.close()

    async def let_grace_pass(self, lot: Lot) -> None:
        """Once a session's close is requested on-chain, let pass what is left of its grace."""
        chain = self.stage.chain
        session = await chain.session(lot.channel_id)
        assert session is not None
        if session.is_closing:
            ready_at = session.close_requested_at + await chain.grace_period_seconds()
            seconds_left = ready_at - (await chain.head()).timestamp
            lot.withdrawn = True
            if seconds_left > 0:
                await self.stage.pass_time(seconds_left)

    def reader(self) -> SqliteReader:
        """Reads of the node's store."""
        return SqliteReader(Path(self._folder.name) / "node" / STORE_FILE)

    async def _mine(self) -> None:
        while True:
            with suppress(AioumError):
                await self.stage.mine()
            await asyncio.sleep(_MINE_SECONDS)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Poll a condition until it holds."""
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while not await condition():
            await asyncio.sleep(_MINE_SECONDS)


async def _canceled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
