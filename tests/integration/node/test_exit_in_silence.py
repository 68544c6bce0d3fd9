"""A client leaves on the chain, and the node cannot see the chain for half of the grace."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.errors import ChainError, Refused
from aioum.core.hextext import to_hex
from aioum.core.ledger import Limits, Phase
from aioum.core.transcript import frontier_root
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum_node.app import running_node
from aioum_node.edge import Clock
from aioum_node.keys.identity import Identity
from aioum_node.settlement.loop import DEADLINE_NEAR
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.integration.chain.faulty_endpoint import Fault, FaultyEndpoint, faulty_endpoint
from tests.integration.conftest import FundedAccount
from tests.integration.node.books import PRICE, Books, open_session, opened_books, register_service, send
from tests.integration.node.test_node_and_chain import buyer_on, settings_for, shout, until
from tests.unit.node.store.samples import channel, facts, opened

GRACE_SECONDS = 900
SILENCE_SECONDS = 60
ROUND_SECONDS = 15


@dataclass(frozen=True, slots=True)
class Departure:
    """A session with two calls whose client has requested its close, and a node that knows of it."""

    devnet: RunningDevnet
    books: Books
    endpoint: FaultyEndpoint
    channel_id: ChannelId
    chain: Chain

    async def run_for(self, seconds: int) -> None:
        """Let time pass for node and chain, with a look and a round every fifteen seconds."""
        for _ in range(seconds // ROUND_SECONDS):
            self.books.clock.advance(ROUND_SECONDS)
            if not self.endpoint.silent:
                await self.devnet.increase_time(ROUND_SECONDS)
            with suppress(ChainError):
                await self.books.watcher.look()
            await self.books.settling.run_once()


@asynccontextmanager
async def departing(folder: Path) -> AsyncIterator[Departure]:
    async with AsyncExitStack() as stack:
        devnet = await stack.enter_async_context(running_devnet())
        chain = await stack.enter_async_context(Chain.connect(devnet.deployment))
        buyer = await stack.enter_async_context(buyer_on(devnet, folder))
        endpoint = await stack.enter_async_context(faulty_endpoint(devnet.rpc_url))
        through = await stack.enter_async_context(Chain.connect(devnet.deployment, rpc_url=endpoint.url))
        books = await stack.enter_async_context(opened_books(through, devnet.accounts[1], folder / "node"))
        service = await register_service(books.sender, devnet.token)
        client = buyer.account.sender
        channel_id = await books.adopt(await open_session(client, service), service)
        for _ in range(2):
            await books.call(buyer.account.key, channel_id)
        await send(client, calls.request_close(chain.payment_manager, channel_id))
        await books.watcher.look()
        endpoint.silent = True
        # Nothing is served from the request on, whatever the chain does now.
        with pytest.raises(Refused) as caught:
            await books.call(buyer.account.key, channel_id)
        assert caught.value.code == "session-close-pending"
        yield Departure(devnet, books, endpoint, channel_id, chain)


async def test_an_exit_is_settled_within_the_grace_though_the_chain_was_away_for_half_of_it(
    anvil: Path, tmp_path: Path
) -> None:
    async with departing(tmp_path) as departure:
        books = departure.books
        await departure.run_for(GRACE_SECONDS // 2)
        assert "rpc-unreachable" in books.observer.failures
        assert DEADLINE_NEAR not in books.observer.failures
        await departure.devnet.increase_time(GRACE_SECONDS // 2)
        departure.endpoint.silent = False
        await departure.run_for(60)

        session = await departure.chain.session(departure.channel_id)
        stored = await books.stored(departure.channel_id)
        assert session is not None
        assert 0 < session.finalized_at < session.close_requested_at + GRACE_SECONDS
        assert (session.settled, session.call_count) == (2 * PRICE, 2)
        assert session.root == frontier_root(stored.state.frontier)
        assert (stored.state.phase, stored.state.seal_reason) == (Phase.FINAL, "client-exit")
        assert DEADLINE_NEAR not in books.observer.failures


async def test_the_operator_is_told_before_the_grace_ends_even_if_the_chain_stays_silent_and_the_lease_moves(
    anvil: Path, tmp_path: Path
) -> None:
    async with departing(tmp_path) as departure:
        books = departure.books
        with capture_logs() as logs:
            await departure.run_for(GRACE_SECONDS - 645)
            # As where another process is to settle for a while.
            tenure = asyncio.create_task(books.settling.run())
            await asyncio.sleep(0)
            tenure.cancel()
            await asyncio.wait({tenure})
            await departure.run_for(240)
            assert DEADLINE_NEAR not in books.observer.failures
            await departure.run_for(15)
            await departure.run_for(90)
        assert books.observer.failures.count(DEADLINE_NEAR) == 1
        (told,) = (entry for entry in logs if entry["event"] == DEADLINE_NEAR)
        assert told["channel"] == "0x" + departure.channel_id.hex()
        assert 380 <= told["seconds_left"] <= 400
        assert 0 < books.settling.nearest_exit_seconds < 400


@pytest.mark.parametrize("is_seen", [True, False], ids=["seen before the silence", "not seen before it"])
async def test_a_whole_node_serves_nothing_after_the_request_and_settles_when_the_chain_is_back(
    anvil: Path, tmp_path: Path, is_seen: bool
) -> None:
    async with (
        running_devnet() as devnet,
        faulty_endpoint(devnet.rpc_url) as endpoint,
        buyer_on(devnet, tmp_path) as buyer,
    ):
        identity = Identity(devnet.accounts[1], devnet.accounts[1])
        ahead = [0.0]
        clock = Clock(time.time, lambda: time.monotonic() + ahead[0])
        settings = settings_for(
            devnet,
            tmp_path / "node",
            rpc_url=endpoint.url,
            chain_silence_seconds=SILENCE_SECONDS,
            receipt_timeout_seconds=1,
        )
        async with running_node(
            settings, functions=[shout], identity=identity, register=True, clock=clock
        ) as node:

            async def is_leaving() -> bool:
                stored = await node.store.session(session.channel_id)
                return stored is not None and stored.state.close_pending

            async def is_final() -> bool:
                stored = await node.store.session(session.channel_id)
                return stored is not None and stored.state.phase is Phase.FINAL

            async def fall_silent() -> None:
                """Ends when the last look that saw the chain is over."""
                with capture_logs() as logs:

                    async def has_failed() -> bool:
                        return any(entry["event"] == "watching-failed" for entry in logs)

                    endpoint.silent = True
                    await until(has_failed)

            session = await buyer.open(node)
            served = await buyer.enter(node, session, PRICE)
            if is_seen:
                # The node's answer to the exit is lost on its way, too.
                endpoint.faults["eth_sendRawTransaction"] = Fault.LOST
            else:
                await fall_silent()
            request = calls.request_close(buyer.chain.payment_manager, session.channel_id)
            await buyer.account.sender.send(request, "leave")
            if is_seen:
                await until(is_leaving)
                await fall_silent()
            ahead[0] += SILENCE_SECONDS - 20
            first = await buyer.pay(node, session, 2 * PRICE)
            ahead[0] += 20
            second = await buyer.pay(node, session, 3 * PRICE)
            await devnet.increase_time(GRACE_SECONDS // 2)
            endpoint.silent = False
            endpoint.faults.clear()
            await until(is_final)
            last = await buyer.pay(node, session, 3 * PRICE)
            settled = await buyer.chain.session(session.channel_id)
            calls_recorded = await node.store.calls(session.channel_id, 0, 10)

    assert served.status == 200
    if is_seen:
        assert first.code in ("session-close-pending", "session-sealed")
    else:
        # What the node cannot see yet it serves, for as long as the setting says, and is paid for.
        assert first.status == 200
    assert second.code == "not-ready"
    assert last.code == "session-finalized"
    sold = 1 if is_seen else 2
    assert len(calls_recorded) == sold
    assert settled is not None
    assert 0 < settled.finalized_at < settled.close_requested_at + GRACE_SECONDS
    assert (settled.settled, settled.call_count) == (sold * PRICE, sold)
    assert settled.has_root


async def test_a_node_that_cannot_start_without_the_chain_says_who_is_leaving(
    devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path
) -> None:
    async with SqliteStore(tmp_path / STORE_FILE, Limits()) as store:
        for number, is_leaving in ((1, True), (2, False)):
            await store.open(facts(number), replace(opened(number), close_pending=is_leaving), 0)
    settings = settings_for(devnet, tmp_path, rpc_url="http://127.0.0.1:1")
    identity = Identity(operator.key, operator.key)
    with capture_logs() as logs, pytest.raises(ChainError) as caught:
        async with running_node(settings, functions=[shout], identity=identity):
            pass
    assert caught.value.code == "rpc-unreachable"
    told = logs[-1]
    assert (told["event"], told["log_level"], told["code"]) == (
        "exits-unattended",
        "critical",
        "rpc-unreachable",
    )
    assert (told["sessions"], told["channels"]) == (1, [to_hex(channel(1))])
