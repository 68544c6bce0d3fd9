"""Settlements whose process or endpoint dies: looked up, never guessed, never sent twice."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from aioum.chain.calls import settle_session
from aioum.chain.client import Chain
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase, seal, settlement_of
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet
from aioum_node.settlement.loop import PURPOSE_PREFIX, chain_settlement
from tests.integration.chain.faulty_endpoint import Fault, faulty_endpoint
from tests.integration.conftest import FundedAccount, RegisteredService
from tests.integration.node.books import PRICE, Books, open_session, opened_books

Sold = Callable[[Books], Awaitable[ChannelId]]


@pytest.fixture
def sold(payer: FundedAccount, registered_service: RegisteredService) -> Sold:
    """Opens a session, sells three calls and closes it."""

    async def sell(books: Books) -> ChannelId:
        service = registered_service.service
        channel_id = await books.adopt(await open_session(payer.sender, service), service)
        for _ in range(3):
            await books.call(payer.key, channel_id)
        await books.settling.close(channel_id)
        return channel_id

    return sell


async def require_settled_once(books: Books, channel_id: ChannelId, transactions_before: int) -> None:
    stored, session = await books.stored(channel_id), await books.on_chain(channel_id)
    assert stored.state.phase is Phase.FINAL
    assert session.settled == 3 * PRICE
    assert await books.transactions_sent() == transactions_before + 1
    assert await books.sender.unresolved() == []
    head = await books.chain.head()
    events = await books.chain.events(books.chain.first_block, head.number, channel_id)
    finalized = [event.transaction_hash for event in events if event.name == "Finalized"]
    assert finalized == [stored.transaction_hash]


async def test_a_process_that_dies_after_the_journal_and_before_the_broadcast_sends_the_same_bytes_later(
    chain: Chain, devnet: RunningDevnet, registered_service: RegisteredService, tmp_path: Path, sold: Sold
) -> None:
    operator = registered_service.operator.key
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as cut_off,
        opened_books(cut_off, operator, tmp_path, receipt_timeout_seconds=0.2) as books,
    ):
        channel_id = await sold(books)
        before = await books.transactions_sent()
        endpoint.faults["eth_sendRawTransaction"] = Fault.LOST
        await books.settling.run_once()
        (pending,) = await books.sender.unresolved()
        assert pending.purpose == PURPOSE_PREFIX + to_hex(channel_id)
        assert not (await books.on_chain(channel_id)).is_finalized
    async with opened_books(chain, operator, tmp_path) as books:
        await books.settling.run_once()
        await require_settled_once(books, channel_id, before)
        assert (await books.stored(channel_id)).transaction_hash == pending.transaction_hash


async def test_a_process_that_dies_after_the_broadcast_finds_its_transaction_after_the_restart(
    chain: Chain, devnet: RunningDevnet, registered_service: RegisteredService, tmp_path: Path, sold: Sold
) -> None:
    operator = registered_service.operator.key
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as deaf,
        opened_books(deaf, operator, tmp_path, receipt_timeout_seconds=0.2) as books,
    ):
        channel_id = await sold(books)
        before = await books.transactions_sent()
        endpoint.faults["eth_getTransactionReceipt"] = Fault.ANSWER_LOST
        await books.settling.run_once()
        assert (await books.stored(channel_id)).state.phase is Phase.SEALED
        assert "outcome-unknown" in books.observer.failures
    async with opened_books(chain, operator, tmp_path) as books:
        await books.settling.run_once()
        await require_settled_once(books, channel_id, before)


async def test_a_process_that_dies_before_it_finalizes_the_row_learns_it_from_the_chain(
    chain: Chain, registered_service: RegisteredService, tmp_path: Path, sold: Sold
) -> None:
    operator = registered_service.operator.key
    async with opened_books(chain, operator, tmp_path) as books:
        channel_id = await sold(books)
        before = await books.transactions_sent()
        stored = await books.stored(channel_id)
        call = settle_session(chain.payment_manager, chain_settlement(settlement_of(stored.state)))
        await books.sender.send(call, PURPOSE_PREFIX + to_hex(channel_id))
    async with opened_books(chain, operator, tmp_path) as books:
        await books.settling.run_once()
        await require_settled_once(books, channel_id, before)


async def test_a_process_that_dies_after_the_seal_settles_after_the_restart(
    chain: Chain,
    payer: FundedAccount,
    registered_service: RegisteredService,
    tmp_path: Path,
) -> None:
    operator, service = registered_service.operator.key, registered_service.service
    async with opened_books(chain, operator, tmp_path) as books:
        channel_id = await books.adopt(await open_session(payer.sender, service), service)
        for _ in range(3):
            await books.call(payer.key, channel_id)
        before = await books.transactions_sent()
        await books.store.update(channel_id, lambda state: seal(state, "closed-by-client"), 0)
    async with opened_books(chain, operator, tmp_path) as books:
        await books.settling.run_once()
        await require_settled_once(books, channel_id, before)


async def test_an_unknown_outcome_is_looked_up_at_the_next_rounds_of_the_same_process(
    devnet: RunningDevnet, registered_service: RegisteredService, tmp_path: Path, sold: Sold
) -> None:
    operator = registered_service.operator.key
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as chain,
        opened_books(chain, operator, tmp_path, receipt_timeout_seconds=0.2) as books,
    ):
        channel_id = await sold(books)
        before = await books.transactions_sent()
        endpoint.faults["eth_sendRawTransaction"] = Fault.LOST
        await books.settling.run_once()
        books.clock.advance(600)
        await books.settling.run_once()
        assert await books.transactions_sent() == before
        assert len(await books.sender.unresolved()) == 1
        endpoint.faults.clear()
        for _ in range(5):
            books.clock.advance(600)
            await books.settling.run_once()
        await require_settled_once(books, channel_id, before)


async def test_an_endpoint_that_is_down_at_the_start_delays_everything_and_loses_nothing(
    devnet: RunningDevnet, registered_service: RegisteredService, tmp_path: Path, sold: Sold
) -> None:
    operator = registered_service.operator.key
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as chain,
        opened_books(chain, operator, tmp_path) as books,
    ):
        channel_id = await sold(books)
        before = await books.transactions_sent()
        methods = ("eth_call", "eth_getBlockByNumber", "eth_getTransactionCount", "eth_blockNumber")
        endpoint.faults.update(dict.fromkeys(methods, Fault.LOST))
        await books.settling.run_once()
        await books.settling.run_once()
        assert books.observer.failures == ["rpc-unreachable"]
        endpoint.faults.clear()
        await books.settling.run_once()
        await require_settled_once(books, channel_id, before)
