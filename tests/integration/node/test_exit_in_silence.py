"""A client leaves on the chain, and the node cannot see the chain for half of the grace."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from structlog.testing import capture_logs

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.errors import ChainError, Refused
from aioum.core.ledger import Phase
from aioum.core.transcript import frontier_root
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum_node.app import running_node
from aioum_node.keys.identity import Identity
from aioum_node.settlement.loop import DEADLINE_NEAR
from tests.integration.chain.faulty_endpoint import Fault, FaultyEndpoint, faulty_endpoint
from tests.integration.node.books import PRICE, Books, open_session, opened_books, register_service, send
from tests.integration.node.test_node_and_chain import buyer_on, settings_for, shout, until

GRACE_SECONDS = 900
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


async def test_the_operator_is_told_before_the_grace_ends_even_if_the_chain_stays_silent(
    anvil: Path, tmp_path: Path
) -> None:
    async with departing(tmp_path) as departure:
        books = departure.books
        with capture_logs() as logs:
            await departure.run_for(GRACE_SECONDS - 405)
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
        aiohttp.ClientSession() as http,
    ):
        identity = Identity(devnet.accounts[1], devnet.accounts[1])
        settings = settings_for(
            devnet,
            tmp_path / "node",
            rpc_url=endpoint.url,
            chain_silence_seconds=1,
            receipt_timeout_seconds=1,
        )
        async with running_node(settings, functions=[shout], identity=identity, register=True) as node:

            async def status_is(status: int) -> bool:
                async with http.get(node.url + "/readyz") as response:
                    return response.status == status

            async def is_leaving() -> bool:
                stored = await node.store.session(session.channel_id)
                return stored is not None and stored.state.close_pending

            async def is_final() -> bool:
                stored = await node.store.session(session.channel_id)
                return stored is not None and stored.state.phase is Phase.FINAL

            session = await buyer.open(node)
            served = await buyer.enter(node, session, PRICE)
            if is_seen:
                # The node's answer to the exit is lost on its way, too.
                endpoint.faults["eth_sendRawTransaction"] = Fault.LOST
            else:
                endpoint.silent = True
                await until(lambda: status_is(503))
            request = calls.request_close(buyer.chain.payment_manager, session.channel_id)
            await buyer.account.sender.send(request, "leave")
            if is_seen:
                await until(is_leaving)
                endpoint.silent = True
            first = await buyer.pay(node, session, 2 * PRICE)
            await until(lambda: status_is(503))
            second = await buyer.pay(node, session, 2 * PRICE)
            await devnet.increase_time(GRACE_SECONDS // 2)
            endpoint.silent = False
            endpoint.faults.clear()
            await until(is_final)
            last = await buyer.pay(node, session, 2 * PRICE)
            settled = await buyer.chain.session(session.channel_id)
            calls_recorded = await node.store.calls(session.channel_id, 0, 10)

    assert served.status == 200
    assert first.code in (("session-close-pending", "session-sealed") if is_seen else ("not-ready",))
    assert second.code == "not-ready"
    assert last.code == "session-finalized"
    assert len(calls_recorded) == 1
    assert settled is not None
    assert 0 < settled.finalized_at < settled.close_requested_at + GRACE_SECONDS
    assert (settled.settled, settled.call_count) == (PRICE, 1)
    assert settled.has_root
