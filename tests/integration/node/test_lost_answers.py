"""Commitments and settlements whose answers are lost: found again, with one effect, never told as failed."""

from pathlib import Path

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.errors import OutcomeUnknown
from aioum.core.ledger import Phase, settlement_of
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet
from tests.integration.chain.faulty_endpoint import Fault, faulty_endpoint
from tests.integration.conftest import FundedAccount, RegisteredService
from tests.integration.node.books import PRICE, Books, open_session, opened_books
from tests.integration.node.test_settlement_crash import require_settled_once


async def sealed(books: Books, payer: FundedAccount, registered: RegisteredService) -> ChannelId:
    """Opens a session, sells three calls and closes it."""
    channel_id = await books.adopt(await open_session(payer.sender, registered.service), registered.service)
    for _ in range(3):
        await books.call(payer.key, channel_id)
    await books.settling.close(channel_id)
    return channel_id


@pytest.mark.parametrize("is_deaf", [False, True], ids=["receipts are seen", "receipts are lost as well"])
async def test_a_settlement_whose_answer_is_lost_is_found_and_sent_once(
    devnet: RunningDevnet,
    payer: FundedAccount,
    registered_service: RegisteredService,
    tmp_path: Path,
    is_deaf: bool,
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as chain,
        opened_books(
            chain, registered_service.operator.key, tmp_path, receipt_timeout_seconds=0.3 if is_deaf else 30
        ) as books,
    ):
        channel_id = await sealed(books, payer, registered_service)
        before = await books.transactions_sent()
        endpoint.faults["eth_sendRawTransaction"] = Fault.ANSWER_LOST
        if is_deaf:
            endpoint.faults["eth_getTransactionReceipt"] = Fault.ANSWER_LOST
        await books.settling.run_once()
        endpoint.faults.clear()
        for _ in range(4):
            books.clock.advance(600)
            await books.settling.run_once()
        await require_settled_once(books, channel_id, before)
        assert books.observer.captured == [3 * PRICE]
        assert set(books.observer.failures) <= {"outcome-unknown"}


async def test_sessions_whose_batch_was_not_sent_are_settled_together_all_the_same(
    devnet: RunningDevnet, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as chain,
        opened_books(chain, registered_service.operator.key, tmp_path, max_batch_items=3) as books,
    ):
        channels = [await sealed(books, payer, registered_service) for _ in range(3)]
        before = await books.transactions_sent()
        endpoint.faults["eth_estimateGas"] = Fault.LOST
        await books.settling.run_once()
        assert books.observer.failures == ["rpc-unreachable"] * 3
        endpoint.faults.clear()
        books.settling.chain_is_back()
        await books.settling.run_once()
        assert await books.transactions_sent() == before + 1
        assert books.observer.captured == [3 * PRICE] * 3
        for channel_id in channels:
            assert (await books.stored(channel_id)).state.phase is Phase.FINAL


async def test_a_commitment_whose_answer_is_lost_is_found_and_the_settlement_behind_it_is_no_failure(
    devnet: RunningDevnet, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as chain,
        opened_books(chain, registered_service.operator.key, tmp_path, receipt_timeout_seconds=0.3) as books,
    ):
        channel_id = await sealed(books, payer, registered_service)
        before = await books.transactions_sent()
        settlement = settlement_of((await books.stored(channel_id)).state)
        commit = calls.commit_results(
            chain.payment_manager, channel_id, settlement.root, settlement.call_count
        )
        endpoint.faults["eth_sendRawTransaction"] = Fault.ANSWER_LOST
        endpoint.faults["eth_getTransactionReceipt"] = Fault.ANSWER_LOST
        with pytest.raises(OutcomeUnknown):
            await books.sender.send(commit, "commit")
        endpoint.faults.clear()
        (found,) = await books.sender.reconcile()
        assert found.purpose == "commit"
        assert [event.name for event in found.events] == ["ResultsCommitted"]

        await books.settling.run_once()
        assert books.observer.failures == []
        assert await books.transactions_sent() == before + 2
        stored, session = await books.stored(channel_id), await books.on_chain(channel_id)
        assert stored.state.phase is Phase.FINAL
        assert (session.root, session.settled) == (settlement.root, 3 * PRICE)
        head = await chain.head()
        events = await chain.events(chain.first_block, head.number, channel_id)
        names = [event.name for event in events]
        assert (names.count("ResultsCommitted"), names.count("Finalized")) == (1, 1)


async def test_a_settlement_that_was_sent_twice_all_the_same_has_one_effect_and_no_failure(
    chain: Chain, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path
) -> None:
    # As by a process whose journal was lost: equal values settle to nothing, and revert nothing.
    operator = registered_service.operator.key
    async with opened_books(chain, operator, tmp_path / "one") as books:
        channel_id = await sealed(books, payer, registered_service)
        settlement = settlement_of((await books.stored(channel_id)).state)
        call = calls.settle_session(
            chain.payment_manager,
            calls.Settlement(
                channel_id,
                settlement.voucher_amount,
                settlement.capture,
                settlement.call_count,
                settlement.root,
                settlement.signature,
            ),
        )
        first = await books.sender.send(call, "lost with its journal")
        second = await books.sender.send(call, "sent again")
        assert [event.name for event in second.events] == []
        await books.settling.run_once()
        stored = await books.stored(channel_id)
        assert (stored.state.phase, stored.transaction_hash) == (Phase.FINAL, first.transaction_hash)
        assert (await books.on_chain(channel_id)).settled == 3 * PRICE
        assert books.observer.failures == []
