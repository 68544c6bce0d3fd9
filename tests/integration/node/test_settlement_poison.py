"""Twenty sessions are settled in one round and one of them is poisoned: the other nineteen settle."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aioum.chain import calls
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.model import Service
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase
from aioum.core.types import Bytes32, ChannelId
from aioum_node.settlement.loop import PURPOSE_PREFIX
from aioum_node.store.port import StoredSession
from tests.integration.node.books import PRICE, open_session, register_service, send
from tests.integration.node.test_watch import Market, running_market

SESSIONS = 20
POISONED = 10
OTHER_ROOT = Bytes32(b"\x01" * 32)


@dataclass(frozen=True, slots=True)
class Poison:
    """What is wrong with one session: how it comes about, and the code that it is told with."""

    name: str
    spoil: Callable[[Market, ChannelId], Awaitable[None]]
    code: str
    is_forged: bool = False
    is_foreign: bool = False


async def anchor_another_root(market: Market, channel_id: ChannelId) -> None:
    await send(
        market.books.sender, calls.commit_results(market.chain.payment_manager, channel_id, OTHER_ROOT, 1)
    )


async def contradict_the_record(market: Market, channel_id: ChannelId) -> None:
    await market.books.store.update(channel_id, lambda state: replace(state, spent=state.spent + 1), 0)


async def nothing_more(market: Market, channel_id: ChannelId) -> None:
    return


async def capture_more_than_was_spent(market: Market, channel_id: ChannelId) -> None:
    stored = await market.books.stored(channel_id)
    await anchor_another_root(market, channel_id)
    settle = calls.settle(
        market.chain.payment_manager, channel_id, stored.state.accepted, stored.state.accepted_signature
    )
    await send(market.books.sender, settle)


@pytest.mark.parametrize(
    "poison",
    [
        Poison("another root", anchor_another_root, "root-conflict"),
        Poison("a record that contradicts itself", contradict_the_record, "store-corrupt"),
        Poison("a forged voucher", nothing_more, "store-corrupt", is_forged=True),
        Poison("another operator's", nothing_more, "not-payee-or-operator", is_foreign=True),
        Poison("settled before", capture_more_than_was_spent, "root-conflict"),
    ],
    ids=lambda poison: poison.name,
)
@pytest.mark.parametrize("max_batch_items", [1, SESSIONS], ids=["one by one", "in a batch"])
async def test_one_that_cannot_be_settled_keeps_nobody_else_from_it(
    anvil: Path, tmp_path: Path, poison: Poison, max_batch_items: int
) -> None:
    async with running_market(tmp_path, max_batch_items=max_batch_items) as market:
        books, channels = market.books, await sealed_sessions(market, poison)
        poisoned = channels[POISONED]
        await poison.spoil(market, poisoned)
        await books.settling.run_once()

        assert [await is_settled(market, channel_id) for channel_id in channels] == [
            channel_id != poisoned for channel_id in channels
        ]
        assert books.observer.failures == [poison.code]
        assert books.observer.captured == [PRICE] * (SESSIONS - 1)


async def test_one_whose_turn_breaks_keeps_nobody_else_from_it(
    anvil: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_market(tmp_path) as market:
        books, channels = market.books, await sealed_sessions(market)
        read = books.store.session

        async def broken_read(channel_id: ChannelId) -> StoredSession | None:
            if channel_id == channels[0]:
                raise ZeroDivisionError("a bug")
            return await read(channel_id)

        monkeypatch.setattr(books.store, "session", broken_read)
        await books.settling.run_once()
        monkeypatch.undo()
        assert [await is_settled(market, channel_id) for channel_id in channels] == [False] + [True] * 19
        assert books.observer.failures == ["internal-error"]


async def test_one_that_reverts_only_in_its_block_is_told_with_the_reason_and_the_others_settle(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_market(tmp_path) as market:
        books, channels = market.books, await sealed_sessions(market)
        poisoned = channels[0]
        await market.devnet.pause_mining()
        with capture_logs() as logs:
            # On its way when the settlement is estimated, and in the block before it.
            other = asyncio.create_task(anchor_another_root(market, poisoned))
            await until_signed(market, "test")
            settling = asyncio.create_task(books.settling.run_once())
            await until_signed(market, PURPOSE_PREFIX + to_hex(poisoned))
            async with asyncio.timeout(60):
                while not settling.done():
                    await market.devnet.mine()
                    await asyncio.sleep(0.05)
            await settling
            await other

        assert [await is_settled(market, channel_id) for channel_id in channels] == [False] + [True] * 19
        assert books.observer.failures == ["root-already-committed"]
        (told,) = (entry for entry in logs if entry["event"] == "settlement-failed")
        assert (told["channel"], told["code"]) == (to_hex(poisoned), "root-already-committed")
        assert told["details"]["error"] == "RootAlreadyCommitted"
        assert told["details"]["args"]["channelId"] == to_hex(poisoned)
        # It is final: what comes next is a look at the chain, and no other transaction.
        sent = await books.transactions_sent()
        books.clock.advance(600)
        await books.settling.run_once()
        assert books.observer.failures == ["root-already-committed", "root-conflict"]
        assert await books.transactions_sent() == sent


async def sealed_sessions(market: Market, poison: Poison | None = None) -> list[ChannelId]:
    """Twenty sessions with one paid call each, closed by their client; one of them may be poisoned already: a
    stranger signed its voucher, or it was opened under another operator's terms.
    """
    books, channels = market.books, []
    # What a former process left behind is looked up in the first round: here, nothing.
    await books.settling.run_once()
    services, keys = [market.service] * SESSIONS, [market.key] * SESSIONS
    if poison is not None and poison.is_foreign:
        services[POISONED] = await foreign_service(market)
    if poison is not None and poison.is_forged:
        keys[POISONED] = market.devnet.accounts[5]
    openings = await asyncio.gather(*(open_session(market.client, service) for service in services))
    for opening, service, key in zip(openings, services, keys, strict=True):
        channel_id = await books.adopt(opening, service)
        await books.call(key, channel_id)
        await books.settling.close(channel_id)
        channels.append(channel_id)
    return channels


async def foreign_service(market: Market) -> Service:
    """A service that another account offers."""
    with tempfile.TemporaryDirectory() as folder:
        journal = SqliteTransactionJournal(Path(folder) / "journal.sqlite3")
        try:
            stranger = LocalSigner(market.devnet.accounts[5])
            sender = Sender(market.chain, stranger, journal, poll_interval_seconds=0.02)
            return await register_service(sender, market.devnet.token)
        finally:
            await journal.close()


async def until_signed(market: Market, purpose: str) -> None:
    """Waits until a transaction for this purpose is in the operator's journal."""
    async with asyncio.timeout(15):
        while purpose not in [pending.purpose for pending in await market.books.sender.unresolved()]:
            await asyncio.sleep(0.01)


async def is_settled(market: Market, channel_id: ChannelId) -> bool:
    session, stored = await market.books.on_chain(channel_id), await market.books.stored(channel_id)
    settled = session.is_finalized and session.settled == PRICE
    assert settled is (stored.state.phase is Phase.FINAL)
    return settled
