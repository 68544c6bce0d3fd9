"""Following a chain that moves, reorganizes and is replaced."""

import math
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.model import ChainEvent, Service
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.errors import ChainError, Refused
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase
from aioum.core.signing import LocalKey
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum_node.chain_metrics import LoopMetrics
from tests.integration.node.books import (
    DEPOSIT,
    PRICE,
    Books,
    open_session,
    opened_books,
    register_service,
    send,
)

GRACE_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Market:
    """A devnet of one test's own, with a client, and an operator's books in a folder that outlives it."""

    devnet: RunningDevnet
    chain: Chain
    books: Books
    service: Service
    key: LocalKey
    client: Sender


@asynccontextmanager
async def running_market(folder: Path, *, confirmations: int = 1, **how: Any) -> AsyncIterator[Market]:
    """Run one; `how` goes to `opened_books`."""
    async with AsyncExitStack() as stack:
        devnet = await stack.enter_async_context(running_devnet())
        chain = await stack.enter_async_context(Chain.connect(devnet.deployment))
        operator, key = devnet.accounts[1], devnet.accounts[2]
        journal = SqliteTransactionJournal(folder / f"client-{devnet.deployment.block_hash.hex()}.sqlite3")
        stack.push_async_callback(journal.close)
        client = Sender(
            chain, LocalSigner(key), journal, receipt_timeout_seconds=30, poll_interval_seconds=0.02
        )
        await send(client, calls.approve(devnet.token, chain.payment_manager, 2**256 - 1))
        books = await stack.enter_async_context(
            opened_books(chain, operator, folder / "node", confirmations=confirmations, **how)
        )
        service = await register_service(books.sender, devnet.token)
        yield Market(devnet, chain, books, service, key, client)


class FlakyChain(Chain):
    """Behind an endpoint that fails after so many `answers` about events; `asked` has their ranges."""

    answers: int = 0
    asked: list[tuple[int, int]]

    async def events(
        self, from_block: int, to_block: int, channel_id: ChannelId | None = None
    ) -> list[ChainEvent]:
        self.asked = [*getattr(self, "asked", []), (from_block, to_block)]
        if len(self.asked) > self.answers:
            await unreachable()
        return await super().events(from_block, to_block, channel_id)


async def unreachable(*arguments: Any) -> Any:
    raise ChainError("the endpoint cannot be reached", code="rpc-unreachable")


@pytest.fixture
async def market(anvil: Path, tmp_path: Path) -> AsyncIterator[Market]:
    async with running_market(tmp_path) as running:
        yield running


async def test_a_top_up_counts_once_it_is_final(anvil: Path, tmp_path: Path) -> None:
    async with running_market(tmp_path, confirmations=40) as market:
        books = market.books
        channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
        await market.devnet.mine(40)
        await books.watcher.look()
        assert (await books.stored(channel_id)).state.deposit == DEPOSIT
        await send(market.client, calls.top_up(market.chain.payment_manager, channel_id, 500))
        await books.watcher.look()
        assert (await books.stored(channel_id)).state.deposit == DEPOSIT
        await market.devnet.mine(40)
        await books.watcher.look()
        assert (await books.stored(channel_id)).state.deposit == DEPOSIT + 500


async def test_a_settlement_is_final_once_it_is_deep_enough(anvil: Path, tmp_path: Path) -> None:
    async with running_market(tmp_path, confirmations=40) as market:
        books = market.books
        channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
        await books.call(market.key, channel_id)
        await books.settling.close(channel_id)
        await market.devnet.mine(40)
        for _ in range(2):
            await books.settling.run_once()
        assert (await books.on_chain(channel_id)).settled == PRICE
        assert (await books.stored(channel_id)).state.phase is Phase.SEALED
        assert books.observer.captured == []
        await market.devnet.mine(40)
        await books.settling.run_once()
        assert (await books.stored(channel_id)).state.phase is Phase.FINAL
        assert books.observer.captured == [PRICE]


async def test_a_deposit_and_an_exit_that_are_reorganized_away_count_no_longer_and_it_is_told(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = market.books
    channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
    await books.watcher.look()
    snapshot = await market.devnet.snapshot()
    topped_up = await send(market.client, calls.top_up(market.chain.payment_manager, channel_id, 500))
    await send(market.client, calls.request_close(market.chain.payment_manager, channel_id))
    await books.watcher.look()
    state = (await books.stored(channel_id)).state
    assert (state.deposit, state.close_pending) == (DEPOSIT + 500, True)
    assert books.settling.nearest_exit_seconds <= GRACE_SECONDS
    await market.devnet.revert(snapshot)
    await market.devnet.mine(5)
    registry = CollectorRegistry()
    monkeypatch.setattr(books.watcher, "_observer", LoopMetrics(registry, lambda: 0).watch())
    with capture_logs() as logs:
        # The endpoint fails when the channel is to be read: what is gone is still gone at the next look.
        with monkeypatch.context() as patched:
            patched.setattr(market.chain, "session", unreachable)
            with pytest.raises(ChainError):
                await books.watcher.look()
        for _ in range(2):
            await books.watcher.look()
    state = (await books.stored(channel_id)).state
    assert (state.deposit, state.close_pending, state.phase) == (DEPOSIT, False, Phase.OPEN)
    assert books.settling.nearest_exit_seconds == math.inf
    (told,) = (entry for entry in logs if entry["event"] == "chain-reorganized")
    assert (told["log_level"], told["block"], told["events"]) == (
        "warning",
        topped_up.block_number,
        2,
    )
    assert told["channels"] == [to_hex(channel_id)]
    assert registry.get_sample_value("aioum_reorganizations_total") == 1


async def test_an_exit_that_a_top_up_takes_back_is_pending_no_longer(market: Market) -> None:
    books = market.books
    channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
    await send(market.client, calls.request_close(market.chain.payment_manager, channel_id))
    await books.watcher.look()
    assert (await books.stored(channel_id)).state.close_pending
    await send(market.client, calls.top_up(market.chain.payment_manager, channel_id, 1))
    await books.watcher.look()
    assert not (await books.stored(channel_id)).state.close_pending
    await books.call(market.key, channel_id)


async def test_a_call_in_flight_is_given_up_before_the_clients_exit_runs_out(market: Market) -> None:
    books = market.books
    channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
    await books.call(market.key, channel_id)
    await books.admit(market.key, channel_id)
    await send(market.client, calls.request_close(market.chain.payment_manager, channel_id))
    await books.settling.run_once()
    await books.watcher.look()
    await books.settling.run_once()
    assert not (await books.on_chain(channel_id)).is_finalized
    await market.devnet.increase_time(GRACE_SECONDS - 200)
    await books.settling.run_once()
    session = await books.on_chain(channel_id)
    assert (session.settled, session.call_count) == (PRICE, 2)
    assert (await books.stored(channel_id)).state.phase is Phase.FINAL


async def test_a_client_that_withdrew_from_a_silent_operator_ends_the_session(market: Market) -> None:
    books = market.books
    channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
    await books.call(market.key, channel_id)
    await books.watcher.look()
    await send(market.client, calls.request_close(market.chain.payment_manager, channel_id))
    await market.devnet.increase_time(GRACE_SECONDS)
    withdrawn = await send(market.client, calls.withdraw(market.chain.payment_manager, channel_id))
    await books.watcher.look()
    stored = await books.stored(channel_id)
    assert (stored.state.phase, stored.transaction_hash) == (Phase.FINAL, withdrawn.transaction_hash)
    assert (await books.on_chain(channel_id)).refunded == DEPOSIT
    with pytest.raises(Refused) as caught:
        await books.call(market.key, channel_id)
    assert caught.value.code == "session-finalized"


async def test_the_settle_loop_tells_what_a_withdrawal_cost(market: Market) -> None:
    books = market.books
    channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
    await books.call(market.key, channel_id)
    await send(market.client, calls.request_close(market.chain.payment_manager, channel_id))
    await market.devnet.increase_time(GRACE_SECONDS)
    withdrawn = await send(market.client, calls.withdraw(market.chain.payment_manager, channel_id))
    await books.settling.close(channel_id)
    await books.settling.run_once()
    stored = await books.stored(channel_id)
    assert (stored.state.phase, stored.transaction_hash) == (Phase.FINAL, withdrawn.transaction_hash)
    assert books.observer.failures == ["settled-below-spent"]


async def test_what_happened_while_the_node_was_down_is_found_at_its_start(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path) as market:
        books = market.books
        channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
        await books.watcher.look()
        await books.store.close()
        await send(market.client, calls.top_up(market.chain.payment_manager, channel_id, 500))
        # Far more blocks than the watcher looks back at each time.
        await market.devnet.mine(300)
        async with opened_books(market.chain, market.devnet.accounts[1], tmp_path / "node") as restarted:
            await restarted.watcher.look()
            assert (await restarted.stored(channel_id)).state.deposit == DEPOSIT + 500


async def test_a_scan_that_fails_far_behind_goes_on_where_it_failed_also_in_the_next_process(
    anvil: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, folder = LocalKey(b"\x07" * 32), tmp_path / "node"
    # Ranges of 2,000 blocks take anvil long to mine.
    monkeypatch.setattr("aioum_node.watch.MAX_RANGE_BLOCKS", 20)
    async with (
        running_market(tmp_path) as market,
        FlakyChain.connect(market.devnet.deployment) as flaky,
    ):
        channel_id = await market.books.adopt(
            await open_session(market.client, market.service), market.service
        )
        await market.books.watcher.look()
        await market.books.store.close()
        first = (await market.chain.head()).number
        await market.devnet.mine(60)
        await send(market.client, calls.top_up(market.chain.payment_manager, channel_id, 500))
        async with opened_books(flaky, operator, folder) as books:
            flaky.answers = 2
            for _ in range(2):
                with pytest.raises(ChainError):
                    await books.watcher.look()
            one, two, failed, again = flaky.asked
        assert again == failed
        assert one[0] <= first
        assert (two[0], failed[0]) == (one[1] + 1, two[1] + 1)

        async with opened_books(flaky, operator, folder) as books:
            flaky.asked, flaky.answers = [], 100
            await books.watcher.look()
            assert flaky.asked[0] == failed
            assert flaky.asked[-1][1] > first + 60
            assert (await books.stored(channel_id)).state.deposit == DEPOSIT + 500


async def test_what_was_reorganized_away_while_the_node_was_down_counts_no_longer_at_its_start(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path) as market:
        books = market.books
        channel_id = await books.adopt(await open_session(market.client, market.service), market.service)
        # The opening is too long ago to be among the events that are read again.
        await market.devnet.mine(100)
        await books.watcher.look()
        snapshot = await market.devnet.snapshot()
        await send(market.client, calls.top_up(market.chain.payment_manager, channel_id, 500))
        await send(market.client, calls.request_close(market.chain.payment_manager, channel_id))
        await books.watcher.look()
        assert (await books.stored(channel_id)).state.close_pending
        await books.store.close()
        await market.devnet.revert(snapshot)
        await market.devnet.mine(5)
        async with opened_books(market.chain, market.devnet.accounts[1], tmp_path / "node") as restarted:
            await restarted.watcher.look()
            state = (await restarted.stored(channel_id)).state
            assert (state.deposit, state.close_pending, state.phase) == (DEPOSIT, False, Phase.OPEN)


async def test_a_reset_devnet_attributes_nothing_old_to_new_sessions(anvil: Path, tmp_path: Path) -> None:
    async with running_market(tmp_path) as market:
        books = market.books
        old = await books.adopt(await open_session(market.client, market.service), market.service)
        for _ in range(3):
            await books.call(market.key, old)
        await books.watcher.look()
        manager = market.chain.payment_manager
    with capture_logs() as logs:
        async with running_market(tmp_path) as market:
            books = market.books
            assert market.chain.payment_manager == manager
            new = await books.adopt(await open_session(market.client, market.service), market.service)
            await books.watcher.look()
            await books.call(market.key, new)
            both = await books.store.find((await books.stored(new)).facts.session_id)
            assert {stored.facts.channel_id for stored in both} == {old, new}
            assert [call.index for call in await books.store.calls(new, 0, 10)] == [0]
            # The chain knows no deposit of the old session, so nothing is served on it any more.
            assert (await books.stored(old)).state.deposit == 0
            with pytest.raises(Refused) as caught:
                await books.call(market.key, old)
            assert caught.value.code == "amount-exceeds-deposit"
            sent = await books.transactions_sent()
            for channel_id in (old, new):
                await books.settling.close(channel_id)
            await books.settling.run_once()
            assert await books.transactions_sent() == sent + 1
            assert (await books.stored(new)).state.phase is Phase.FINAL
            assert (await books.on_chain(new)).settled == PRICE
            left = await books.stored(old)
            assert (left.state.phase, left.state.spent) == (Phase.SEALED, 3 * PRICE)
            assert len(await books.store.calls(old, 0, 10)) == 3
    assert "chain-replaced" in {entry["event"] for entry in logs}
