"""Settling on a real chain: every way a session ends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.errors import Refused
from aioum.core.ledger import Phase
from aioum.core.problem import problem_code
from aioum.core.transcript import frontier_root
from aioum.core.types import ZERO_BYTES32, Bytes32, ChannelId
from aioum_node.settlement.rules import SettlePolicy
from tests.integration.conftest import FundAccount, FundedAccount, RegisteredService
from tests.integration.node.books import DEPOSIT, PRICE, Books, open_session, opened_books, send


@pytest.fixture
async def books(chain: Chain, registered_service: RegisteredService, tmp_path: Path) -> AsyncIterator[Books]:
    async with opened_books(chain, registered_service.operator.key, tmp_path / "node") as opened:
        yield opened


@pytest.fixture
async def channel_id(books: Books, payer: FundedAccount, registered_service: RegisteredService) -> ChannelId:
    service = registered_service.service
    return await books.adopt(await open_session(payer.sender, service), service)


async def test_a_closed_session_is_settled_for_what_was_spent_and_the_rest_goes_back(
    books: Books, payer: FundedAccount, channel_id: ChannelId
) -> None:
    for index in range(5):
        await books.call(payer.key, channel_id, fails=index == 4)
    before = await books.stored(channel_id)
    assert before.state.spent == 4 * PRICE < before.state.accepted

    await books.settling.close(channel_id)
    await books.settling.run_once()

    final, session = await books.stored(channel_id), await books.on_chain(channel_id)
    assert (final.state.phase, final.state.seal_reason) == (Phase.FINAL, "closed-by-client")
    assert (session.settled, session.refunded) == (4 * PRICE, DEPOSIT - 4 * PRICE)
    assert (session.root, session.call_count) == (frontier_root(before.state.frontier), 5)
    assert books.observer.captured == [4 * PRICE]
    assert books.observer.failures == []
    transaction = await books.settling.settlement_transaction(channel_id)
    assert transaction is not None
    events = await books.chain.events(books.chain.first_block, (await books.chain.head()).number, channel_id)
    assert [event.transaction_hash for event in events if event.name == "Finalized"] == [transaction]


async def test_calls_are_refused_from_the_close_on(
    books: Books, payer: FundedAccount, channel_id: ChannelId
) -> None:
    await books.settling.close(channel_id)
    with pytest.raises(Refused) as caught:
        await books.call(payer.key, channel_id)
    assert caught.value.code == "session-sealed"


async def test_a_session_without_calls_gives_the_whole_deposit_back_at_once(
    books: Books, channel_id: ChannelId
) -> None:
    await books.settling.close(channel_id)
    await books.settling.run_once()
    session = await books.on_chain(channel_id)
    assert session.is_finalized
    assert (session.settled, session.refunded, session.root) == (0, DEPOSIT, ZERO_BYTES32)


async def test_failed_calls_alone_are_anchored_and_cost_nothing(
    books: Books, payer: FundedAccount, channel_id: ChannelId
) -> None:
    for _ in range(2):
        await books.call(payer.key, channel_id, fails=True)
    await books.settling.close(channel_id)
    await books.settling.run_once()
    session = await books.on_chain(channel_id)
    assert (session.settled, session.refunded, session.call_count) == (0, DEPOSIT, 2)
    assert session.has_root


async def test_an_idle_session_is_sealed_and_settled_and_one_in_use_is_not(
    books: Books, payer: FundedAccount, channel_id: ChannelId, registered_service: RegisteredService
) -> None:
    service = registered_service.service
    used = await books.adopt(await open_session(payer.sender, service), service)
    await books.call(payer.key, channel_id)
    books.clock.advance(SettlePolicy().idle_seconds)
    await books.call(payer.key, used)
    await books.settling.run_once()
    idle, in_use = await books.stored(channel_id), await books.stored(used)
    assert (idle.state.phase, idle.state.seal_reason) == (Phase.FINAL, "idle")
    assert in_use.state.phase is Phase.OPEN


async def test_a_clients_exit_is_answered_by_settling_within_the_grace(
    books: Books, payer: FundedAccount, channel_id: ChannelId
) -> None:
    await books.call(payer.key, channel_id)
    await books.watcher.look()
    await send(payer.sender, calls.request_close(books.chain.payment_manager, channel_id))
    await books.watcher.look()
    with pytest.raises(Refused) as caught:
        await books.call(payer.key, channel_id)
    assert caught.value.code == "session-close-pending"
    await books.settling.run_once()
    final, session = await books.stored(channel_id), await books.on_chain(channel_id)
    assert (final.state.phase, final.state.seal_reason) == (Phase.FINAL, "client-exit")
    assert session.settled == PRICE


async def test_a_sealed_session_is_not_settled_before_its_call_in_flight_is_recorded(
    books: Books, payer: FundedAccount, channel_id: ChannelId
) -> None:
    await books.admit(payer.key, channel_id)
    await books.settling.close(channel_id)
    await books.settling.run_once()
    assert not (await books.on_chain(channel_id)).is_finalized
    books.clock.advance(SettlePolicy().drain_seconds)
    await books.settling.run_once()
    (call,) = await books.store.calls(channel_id, 0, 2)
    assert call.answer is not None
    assert problem_code(call.answer.response) == "interrupted"
    session = await books.on_chain(channel_id)
    assert (session.settled, session.call_count) == (0, 1)


async def test_many_sessions_are_settled_in_one_round(
    books: Books, payer: FundedAccount, registered_service: RegisteredService
) -> None:
    service = registered_service.service
    channels = []
    for number in range(6):
        channel_id = await books.adopt(await open_session(payer.sender, service), service)
        for _ in range(number):
            await books.call(payer.key, channel_id)
        await books.settling.close(channel_id)
        channels.append(channel_id)
    await books.settling.run_once()
    settled = [(await books.on_chain(channel_id)).settled for channel_id in channels]
    assert settled == [number * PRICE for number in range(6)]
    assert all([(await books.stored(c)).state.phase is Phase.FINAL for c in channels])


async def test_another_root_on_the_chain_stops_the_settlement_and_is_told(
    books: Books, payer: FundedAccount, channel_id: ChannelId
) -> None:
    await books.call(payer.key, channel_id)
    other = calls.commit_results(books.chain.payment_manager, channel_id, Bytes32(b"\x01" * 32), 1)
    await send(books.sender, other)
    await books.watcher.look()
    stored = await books.stored(channel_id)
    assert (stored.state.phase, stored.state.seal_reason) == (Phase.SEALED, "root-anchored")
    sent = await books.transactions_sent()
    await books.settling.run_once()
    assert books.observer.failures == ["root-conflict"]
    assert await books.transactions_sent() == sent
    assert (await books.stored(channel_id)).state.phase is Phase.SEALED


async def test_a_refused_settlement_is_told_with_its_reason_and_tried_again_only_after_a_pause(
    chain: Chain,
    fund_account: FundAccount,
    payer: FundedAccount,
    registered_service: RegisteredService,
    tmp_path: Path,
) -> None:
    stranger, service = await fund_account(), registered_service.service
    async with opened_books(chain, stranger.key, tmp_path / "stranger") as books:
        channel_id = await books.adopt(await open_session(payer.sender, service), service)
        await books.call(payer.key, channel_id)
        await books.settling.close(channel_id)
        for _ in range(3):
            await books.settling.run_once()
        assert books.observer.failures == ["not-payee-or-operator"]
        books.clock.advance(2)
        await books.settling.run_once()
        assert books.observer.failures == ["not-payee-or-operator"] * 2
        assert (await books.stored(channel_id)).state.phase is Phase.SEALED


async def test_the_running_loop_settles_a_close_at_once_and_says_when_it_is_done(
    books: Books, payer: FundedAccount, channel_id: ChannelId
) -> None:
    await books.call(payer.key, channel_id)
    running = asyncio.create_task(books.settling.run())
    try:
        early = await books.settling.outcome(channel_id, 0)
        assert early.state.phase is Phase.OPEN
        await books.settling.close(channel_id)
        final = await books.settling.outcome(channel_id, 30)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert final.state.phase is Phase.FINAL
    assert final.transaction_hash is not None
    with pytest.raises(Refused) as caught:
        await books.settling.outcome(ChannelId(b"\x01" * 32), 1)
    assert caught.value.code == "channel-not-found"


async def test_watcher_and_loop_running_together_settle_an_exit(
    books: Books, payer: FundedAccount, channel_id: ChannelId
) -> None:
    await books.call(payer.key, channel_id)
    running = [asyncio.create_task(books.settling.run()), asyncio.create_task(books.watcher.run())]
    try:
        await send(payer.sender, calls.request_close(books.chain.payment_manager, channel_id))
        final = await books.settling.outcome(channel_id, 30)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    assert (final.state.phase, final.state.seal_reason) == (Phase.FINAL, "client-exit")
    assert (await books.on_chain(channel_id)).settled == PRICE
