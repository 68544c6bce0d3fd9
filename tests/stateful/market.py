"""A whole market for a state machine: a client, an operator's node, their chain and its clock, all real.

Everything of ours runs on one event loop, which goes on only while a step runs. The chain is anvil; it mines
at once, and a block now and then while the loop runs.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.rpc import Rpc
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.client import ClientSettings, Marketplace, SessionPhase
from aioum.client.closing import Closed
from aioum.client.http import HttpAnswer, HttpTransport
from aioum.client.session import PaidSession
from aioum.core.errors import AioumError, Divergence, OutcomeUnknown
from aioum.core.signing import LocalKey
from aioum.core.transcript import Entry, frontier_root
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum_node.app import RunningNode, running_node
from aioum_node.edge import Clock
from aioum_node.keys.identity import Identity
from aioum_node.settings import Settings
from aioum_node.tools import ToolError, tool

PRICE = 100
DEPOSIT = 10 * PRICE
CONFIRMATIONS = 3
"""Of both sides. Reorgs are shorter: what is deeper is final for them."""

_MINE_SECONDS = 0.03
_SEND_AGAIN_SECONDS = 6
_runs: Counter[str] = Counter()
_started = asyncio.Event()
_gate = asyncio.Event()


@tool(price=PRICE)
async def echo(text: str) -> str:
    """Answers."""
    _runs[text] += 1
    return text


@tool(price=PRICE)
async def broken(text: str) -> str:
    """Fails."""
    _runs[text] += 1
    raise ToolError(text)


@tool(price=PRICE)
async def hold(text: str) -> str:
    """Answers once it may."""
    _runs[text] += 1
    _started.set()
    await _gate.wait()
    return text


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
class Stage:
    """What all examples share: a devnet on which an operator and a client have money, as it was then."""

    devnet: RunningDevnet
    chain: Chain
    operator: LocalKey
    client: LocalKey
    port: int
    snapshot: str
    jumped_seconds: int = 0

    def now_seconds(self) -> float:
        """Unix seconds, as far as time has jumped."""
        return time.time() + self.jumped_seconds


@asynccontextmanager
async def opened_stage(folder: Path) -> AsyncIterator[Stage]:
    """Start a devnet and give both sides money and the service its registration."""
    async with AsyncExitStack() as stack:
        devnet = await stack.enter_async_context(running_devnet(folder / "devnet"))
        chain = await stack.enter_async_context(Chain.connect(devnet.deployment))
        await _request(devnet, "evm_setIntervalMining", 0)
        await _request(devnet, "evm_setAutomine", True)
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
        stage = Stage(devnet, chain, keys[0], keys[1], port, "")
        market = Market(stage)
        await market.start()
        await market.stop()
        stage.snapshot = await devnet.snapshot()
        yield stage


async def _request(devnet: RunningDevnet, method: str, *params: Any) -> Any:
    async with Rpc(devnet.rpc_url) as rpc:
        return await rpc.request(method, *params)


@dataclass(slots=True)
class Lot:
    """One session of the client.

    Attributes:
        ending: an exit under way, or over.
        abandoned: it ended while there was no operator.
    """

    channel_id: ChannelId
    session: PaidSession
    ending: asyncio.Task[Closed] | None = None
    abandoned: bool = False


@dataclass(slots=True)
class Market:
    """One example's client and node."""

    stage: Stage
    lots: dict[int, Lot] = field(default_factory=dict)
    answered: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    _folder: tempfile.TemporaryDirectory[str] = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="aioum-market-")
    )
    _node: RunningNode | None = None
    _node_life: AsyncExitStack = field(default_factory=AsyncExitStack)
    _client: Marketplace | None = None
    _client_life: AsyncExitStack = field(default_factory=AsyncExitStack)
    _transport: LossyTransport = field(default_factory=LossyTransport)
    _miner: asyncio.Task[None] | None = None
    _number: int = 0

    @property
    def node(self) -> RunningNode:
        """The node that serves."""
        assert self._node is not None
        return self._node

    async def start(self) -> None:
        """Start mining, the node and the client."""
        _runs.clear()
        self._miner = asyncio.create_task(self._mine())
        await self.start_node()
        await self.start_client()

    async def stop(self) -> None:
        """End everything, in order."""
        _gate.set()
        for lot in self.lots.values():
            if lot.ending is not None:
                lot.ending.cancel()
                await asyncio.gather(lot.ending, return_exceptions=True)
        await self._client_life.aclose()
        await self._node_life.aclose()
        if self._miner is not None:
            self._miner.cancel()
            await asyncio.gather(self._miner, return_exceptions=True)
        self._folder.cleanup()

    async def start_node(self) -> None:
        """Start the node in its folder, at its address."""
        settings = Settings(
            node_dir=Path(self._folder.name) / "node",
            listen_port=self.stage.port,
            admin_port=0,
            deployment_file=self.stage.devnet.deployment_file,
            confirmations=CONFIRMATIONS,
            opening_wait_seconds=20,
            watch_interval_seconds=0.05,
            settle_interval_seconds=0.05,
            chain_silence_seconds=3_600,
            max_unpaid_calls=100,
            # A node that ends waits for nobody: whatever runs is cut off where it is, as by a crash.
            shutdown_seconds=0,
        )
        self._node = await self._node_life.enter_async_context(
            running_node(
                settings,
                functions=(echo, broken, hold),
                identity=Identity(self.stage.operator, self.stage.operator),
                register=True,
                clock=Clock(self.stage.now_seconds, time.monotonic),
            )
        )

    async def crash_node(self) -> None:
        """Cut the node off at whatever it does, and start it again on what is durable."""
        await self._stop_node()
        await self.start_node()

    async def _stop_node(self) -> None:
        await self._node_life.aclose()
        self._node_life = AsyncExitStack()
        _gate.set()

    async def start_client(self) -> None:
        """Start the client on its journal, with the sessions that it has there."""
        self._transport = LossyTransport()
        settings = ClientSettings(
            retry_wait_initial_seconds=0.01,
            retry_wait_max_seconds=0.03,
            retry_attempts=3,
            retry_timeout_seconds=30,
            poll_seconds=0.03,
            chain_check_seconds=0,
            confirmations=CONFIRMATIONS,
            close_timeout_seconds=60,
            read_timeout_seconds=10,
        )
        self._client = await self._client_life.enter_async_context(
            Marketplace(
                key=self.stage.client,
                deployment=self.stage.devnet.deployment,
                data_dir=Path(self._folder.name) / "client",
                settings=settings,
                transport=self._transport,
                clock=self.stage.now_seconds,
            )
        )
        self._client_life.push_async_callback(self._transport.aclose)
        for lot in self.lots.values():
            lot.session = await self._client.resume(lot.channel_id)

    async def crash_client(self) -> None:
        """Drop the client with whatever it does, and start it again."""
        for lot in self.lots.values():
            if lot.ending is not None:
                lot.ending.cancel()
                await asyncio.gather(lot.ending, return_exceptions=True)
                lot.ending = None
        await self._client_life.aclose()
        self._client_life = AsyncExitStack()
        await self.start_client()

    async def open(self, *, signed: bool) -> None:
        """Open a session."""
        assert self._client is not None
        session = await self._client.open(self.node.url, deposit=DEPOSIT, signed=signed)
        self.lots[len(self.lots)] = Lot(session.channel_id, session)

    async def attempt(self, work: Awaitable[Any]) -> Any:
        """Do something that may be refused or remain unknown; contradictions may not be."""
        try:
            return await work
        except Divergence:
            raise
        except AioumError as error:
            self.refusals[error.code] += 1
            return None

    async def call(self, lot: Lot, tool_id: str, *, losses: int = 0) -> None:
        """Buy one call, of which so many answers are lost."""
        self._transport.losses = losses
        result = await self.attempt(lot.session.call(tool_id, text=self._text()))
        self._transport.losses = 0
        self.answered += result is not None

    async def held_call(self, lot: Lot) -> asyncio.Task[None] | None:
        """A call whose tool runs and does not end; None where it does not come to that."""
        _started.clear()
        _gate.clear()
        calling = asyncio.create_task(self.call(lot, "hold"))
        started = asyncio.create_task(_started.wait())
        await asyncio.wait({calling, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        return None if calling.done() else calling

    def open_gate(self) -> None:
        """Let tools end."""
        _gate.set()

    async def reorganize(self, blocks: int, meanwhile: Awaitable[Any]) -> None:
        """Let `meanwhile` begin, mine blocks, and take them back; then everything goes on."""
        assert self._miner is not None
        self._miner.cancel()
        await asyncio.gather(self._miner, return_exceptions=True)
        devnet = self.stage.devnet
        await _request(devnet, "evm_setAutomine", False)
        snapshot = await devnet.snapshot()
        begun = asyncio.ensure_future(self.attempt(meanwhile))
        for _ in range(blocks):
            await asyncio.sleep(0.1)
            await devnet.mine()
        await asyncio.sleep(0.1)
        await devnet.revert(snapshot)
        await _request(devnet, "evm_setAutomine", True)
        self._miner = asyncio.create_task(self._mine())
        # Both sides send again what they no longer see, once this time has passed.
        await self.pass_time(_SEND_AGAIN_SECONDS)
        await begun

    async def pass_time(self, seconds: int) -> None:
        """Let the clock of everybody jump."""
        await self.stage.devnet.increase_time(seconds)
        self.stage.jumped_seconds += seconds

    def exit(self, lot: Lot) -> None:
        """Begin to leave a session without the operator."""
        if lot.ending is None or lot.ending.done():
            lot.ending = asyncio.create_task(lot.session.exit())

    async def leave_without_operator(self, lot: Lot) -> None:
        """Leave a session while the node is away for the whole grace."""
        grace_seconds = await self.stage.chain.grace_period_seconds()
        await self._stop_node()
        self.exit(lot)
        while lot.ending is not None and not lot.ending.done():
            session = await self.stage.chain.session(lot.channel_id)
            if session is not None and session.is_closing:
                await self.pass_time(grace_seconds)
            await asyncio.sleep(0.1)
        session = await self.stage.chain.session(lot.channel_id)
        lot.abandoned = session is not None and not session.has_root
        await self.start_node()

    async def check(self) -> None:
        """Hold what both sides and the chain have against the invariants."""
        assert {text: times for text, times in _runs.items() if times > 1} == {}, "a tool ran twice"
        for lot in self.lots.values():
            await self._check(lot)

    async def _check(self, lot: Lot) -> None:
        on_chain = await self.stage.chain.session(lot.channel_id)
        stored = await self.node.store.session(lot.channel_id)
        assert on_chain is not None
        assert on_chain.settled <= lot.session.authorized <= on_chain.deposit, "signed above the deposit"
        assert lot.session.spent <= lot.session.authorized
        if stored is None:
            # The node was never shown the session: it cannot have earned anything.
            assert on_chain.settled == 0
            return
        state = stored.state
        assert state.spent <= state.accepted <= lot.session.authorized, "spent above what was signed"
        assert on_chain.settled <= state.spent, "captured more than was spent"
        recorded = await self.node.store.calls(lot.channel_id, 0, 1_000)
        ours = [
            Entry(call.index, call.tool_id, call.request.decode(), call.answer.response.decode())
            for call in recorded
            if call.answer is not None
        ]
        common = min(len(ours), len(lot.session.calls))
        assert ours[:common] == list(lot.session.calls[:common]), "two histories of one session"
        if on_chain.settled:
            assert stored.facts.commit_required
            assert on_chain.has_root, "settled without an anchored root"
        if on_chain.has_root:
            assert (on_chain.root, on_chain.call_count) == (frontier_root(state.frontier), state.admitted)

    async def finish(self) -> None:
        """Bring every session to its end, which must be the same for both sides."""
        self.open_gate()
        for lot in self.lots.values():
            await self._finish(lot)
        await self.check()

    async def _finish(self, lot: Lot) -> None:
        if lot.session.phase is SessionPhase.EXITING:
            # The client died while it was leaving, and goes on with that.
            self.exit(lot)
        if lot.ending is not None:
            # The operator has the whole grace to settle; who does not know the session lets it pass.
            await asyncio.wait({lot.ending}, timeout=2)
        while lot.ending is not None and not lot.ending.done():
            await self.pass_time(600)
            await asyncio.sleep(0.1)
        # Of a session that is over it says again what became of it.
        closed = await lot.session.close()
        if lot.abandoned:
            assert (closed.settled, closed.refunded) == (0, closed.deposit)
            return
        stored = await self.node.store.session(lot.channel_id)
        assert (closed.root, closed.call_count) == (lot.session.root, len(lot.session.calls))
        assert closed.settled == lot.session.spent
        if stored is not None:
            assert closed.settled == stored.state.spent

    def _text(self) -> str:
        self._number += 1
        return f"call {self._number}"

    async def _mine(self) -> None:
        while True:
            with suppress(AioumError):
                await self.stage.devnet.mine()
            await asyncio.sleep(_MINE_SECONDS)
