"""The log of an operator on a real chain: what ends is logged, shown and anchored, whatever happens."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_bytes

import pytest

from aioum.chain import anchors, calls
from aioum.chain.calls import Settlement
from aioum.chain.client import Chain
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.rpc import Rpc
from aioum.chain.sender import Sender
from aioum.core.errors import AioumError, Refused
from aioum.core.types import Bytes32, ChannelId
from aioum.devnet.running import RunningDevnet
from aioum.log.entry import SessionEntry
from aioum.log.files import LogFolder, entries_file, published_note
from aioum.log.publish import FileRegister
from aioum_node.log.reader import LogReader
from aioum_node.log.search import WINDOW_BLOCKS
from aioum_node.log.sessions import SessionLog
from tests.integration.chain.faulty_endpoint import faulty_endpoint
from tests.integration.conftest import FundAccount, FundedAccount, RegisteredService
from tests.integration.node.books import open_session, opened_books, register_service, send
from tests.integration.node.logging_operator import (
    IDENTITY,
    ORIGIN,
    Told,
    keeping,
    log_anchor_of,
    settled,
    shown,
)

GRACE_SECONDS = 900
NO_ROOT = Bytes32(bytes(32))


@dataclass
class Shop:
    """An operator with a service, and the folder of its log."""

    payer: FundedAccount
    registered: RegisteredService
    chain: Chain
    folder: Path

    @property
    def operator(self) -> FundedAccount:
        return self.registered.operator

    async def sell(self) -> ChannelId:
        """A session from its opening to its settlement."""
        return await settled(self.payer, self.registered)

    async def expected(self, channel_id: ChannelId) -> SessionEntry:
        """What the log has to say of a session."""
        session = await self.chain.session(channel_id)
        assert session is not None
        return SessionEntry(
            chain_id=self.chain.chain_id,
            payment_manager=self.chain.payment_manager,
            channel_id=channel_id,
            session_id=session.session_id,
            call_count=session.call_count,
            captured=session.settled,
            results_root=session.root,
        )

    async def require_logged(self, channels: list[ChannelId]) -> None:
        """Exactly these sessions, in this order, each once, and each proven."""
        with LogFolder.open(self.folder, ORIGIN) as log:
            assert list(log.entries()) == [(await self.expected(each)).to_bytes() for each in channels]
        await self.require_shown(channels)

    async def require_shown(self, channels: list[ChannelId]) -> None:
        """What is published has these sessions, in this order, and the register knows of it."""
        assert shown(self.folder).size == len(channels)
        note = published_note(self.folder)
        assert await FileRegister(self.folder.with_name("log.register")).latest() == note
        reader = LogReader(self.folder)
        for place, channel_id in enumerate(channels):
            membership = await reader.membership(channel_id)
            assert membership is not None
            _, entry = membership.verify(ORIGIN, IDENTITY.key.public_key)
            assert (membership.index, entry) == (place, await self.expected(channel_id))

    async def anchored(self) -> int:
        """Entries under the last anchor."""
        operator = self.operator.key.address
        found = await anchors.anchored(self.chain.rpc, log_anchor_of(self.chain), operator, ORIGIN)
        return 0 if found is None else found.size


@pytest.fixture
def shop(chain: Chain, payer: FundedAccount, registered_service: RegisteredService, tmp_path: Path) -> Shop:
    return Shop(payer, registered_service, chain, tmp_path / "log")


async def test_sessions_are_logged_once_they_are_final_however_they_ended_and_nobody_elses(
    shop: Shop, devnet: RunningDevnet, fund_account: FundAccount, tmp_path: Path
) -> None:
    manager, operator = shop.chain.payment_manager, shop.operator
    second = RegisteredService(operator, await register_service(operator.sender, devnet.token))
    stranger = await fund_account()
    foreign = RegisteredService(stranger, await register_service(stranger.sender, devnet.token))
    left = (await open_session(shop.payer.sender, shop.registered.service)).channel_id
    await send(shop.payer.sender, calls.request_close(manager, left))
    channels = [await shop.sell(), await settled(shop.payer, second)]
    channels.append(await settled(shop.payer, second, captured=0))
    strange = await settled(shop.payer, foreign)
    await devnet.increase_time(GRACE_SECONDS)
    await send(shop.payer.sender, calls.withdraw(manager, left))
    async with keeping(operator, shop.folder, confirmations=3) as keeper:
        await keeper.keep()
        # The newest block has one confirmation.
        assert await keeper.shows(channels[0])
        assert not await keeper.shows(left)
        await devnet.mine(2)
        await keeper.keep()
        assert keeper.told.logged == keeper.loop.published_entries == 4
        assert (keeper.told.anchors[-1], keeper.told.alerts) == (4, [])
        assert not await keeper.shows(strange)
    channels.append(left)
    await shop.require_logged(channels)
    assert (await shop.expected(left)).results_root == NO_ROOT
    # Whoever lost all comes to the same log, and what was published stays true.
    shutil.rmtree(shop.folder)
    async with keeping(operator, shop.folder) as keeper:
        await keeper.keep()
    await shop.require_logged(channels)
    assert await shop.anchored() == 4


class Killed(BaseException):
    """The process is gone; whatever it had in memory is lost."""


class DeadlyRegister(FileRegister):
    """The process dies before, or after, the register took the checkpoint."""

    def __init__(self, path: Path, *, takes: bool) -> None:
        super().__init__(path)
        self._takes = takes

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        if self._takes:
            assert await super().swap(expected, new)
        raise Killed


class OvertakenRegister(FileRegister):
    """Another process has the lease by now."""

    async def swap(self, expected: bytes | None, new: bytes) -> bool:
        raise Refused("another process writes the log", code="lease-lost")


async def killed(round_of: Callable[[], Awaitable[None]]) -> None:
    with pytest.raises(Killed):
        await round_of()


async def test_a_process_that_dies_between_any_two_steps_loses_nothing_and_logs_nothing_twice(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, folder = shop.operator, shop.folder
    register = folder.with_name("log.register")
    journal = SqliteTransactionJournal(tmp_path / "anchors.sqlite3")

    def restarted() -> Sender:
        return Sender(
            shop.chain, operator.signer, journal, receipt_timeout_seconds=30, poll_interval_seconds=0.02
        )

    channels = [await shop.sell()]
    async with keeping(operator, folder, sender=restarted()) as keeper:
        await keeper.keep()

    # The entries are durable, their table is not.
    channels.append(await shop.sell())
    with LogFolder.open(folder, ORIGIN) as log:
        log.append([(await shop.expected(channels[-1])).to_bytes()])
    async with keeping(operator, folder, sender=restarted()) as keeper:
        await keeper.loop.run_once()
        assert keeper.told.logged == 0
    await shop.require_logged(channels)

    for takes in (False, True):
        channels.append(await shop.sell())
        dies_at = DeadlyRegister(register, takes=takes)
        async with keeping(operator, folder, register=dies_at, sender=restarted()) as keeper:
            await killed(keeper.loop.run_once)
        assert shown(folder).size == len(channels) - 1
        async with keeping(operator, folder, sender=restarted()) as keeper:
            await keeper.loop.run_once()
            assert keeper.told.logged == 0
        await shop.require_logged(channels)

    # Another process took over before this one could commit.
    channels.append(await shop.sell())
    async with keeping(operator, folder, register=OvertakenRegister(register)) as keeper:
        await keeper.loop.run_once()
        assert (keeper.told.alerts, keeper.told.visible) == ([], 0)
    assert shown(folder).size == len(channels) - 1

    # The anchor is on its way, and nobody noted that it arrived.
    broadcast = Rpc.broadcast

    async def broadcast_and_die(rpc: Rpc, raw_transaction: bytes) -> None:
        await broadcast(rpc, raw_transaction)
        raise Killed

    assert await shop.anchored() == 1
    sent = await shop.chain.rpc.transaction_count(operator.key.address)
    async with keeping(operator, folder, sender=restarted()) as keeper:
        with monkeypatch.context() as patched:
            patched.setattr(Rpc, "broadcast", broadcast_and_die)
            await killed(keeper.keep)
    async with keeping(operator, folder, sender=restarted()) as keeper:
        await keeper.keep()
        assert await shop.anchored() == len(channels)
        assert await shop.chain.rpc.transaction_count(operator.key.address) == sent + 1
        channels.append(await shop.sell())
        # The first look learns what became of the anchor before, the second one anchors.
        await keeper.keep()
        await keeper.keep()
        assert (keeper.told.anchors, keeper.told.alerts) == ([len(channels)], [])
    await shop.require_logged(channels)
    assert await journal.unresolved(shop.chain.chain_id, operator.key.address) == []
    await journal.close()


async def test_a_damaged_folder_and_a_foreign_anchor_are_told_and_never_anchored_over(
    shop: Shop, tmp_path: Path
) -> None:
    operator, folder = shop.operator, shop.folder
    channels = [await shop.sell()]
    told = Told()
    async with keeping(operator, folder, told=told) as keeper:
        await keeper.keep()
        older = shutil.copytree(folder, tmp_path / "older", ignore=shutil.ignore_patterns("lock"))
        channels.append(await shop.sell())
        await keeper.loop.run_once()
        bundle = entries_file(folder, 0)
        whole = bundle.read_bytes()
        bundle.write_bytes(whole.replace(b'"captured":"7000"', b'"captured":"9000"'))
        await keeper.anchoring.look()
        await keeper.anchoring.look()
        visible = told.visible
        # Nor is anything new published.
        channels.append(await shop.sell())
        await keeper.loop.run_once()
        assert (told.alerts, told.anchors, told.visible) == (["log-nodes-altered"], [1], visible)
        assert shown(folder).size == await shop.anchored() + 1 == 2
        # As if the folder had been restored.
        with bundle.open("r+b") as file:
            file.write(whole)
        await keeper.keep()
        await keeper.keep()
        assert (told.anchors, told.visible) == ([1, 2, 3], visible + 1)

    # An older copy of the folder is brought up to date from the chain: it gives the same log.
    shutil.rmtree(folder)
    shutil.copytree(older, folder)
    async with keeping(operator, folder, told=told) as keeper:
        # Whether the anchor is looked at before or after.
        await keeper.anchoring.look()
        assert told.alerts[-1] == "log-rolled-back"
        await keeper.keep()
    await shop.require_logged(channels)

    # Somebody anchors with the operator's key: more than there is, or another history.
    for size, code in ((5, "log-rolled-back"), (1, "log-forked")):
        origin = f"operator.example/foreign-{size}"
        call = anchors.anchor(log_anchor_of(shop.chain), origin, size, Bytes32(token_bytes(32)), [])
        await send(operator.sender, call)
        told = Told()
        identity = replace(IDENTITY, origin=origin)
        foreign = tmp_path / origin
        async with keeping(operator, foreign, identity=identity, told=told) as keeper:
            for _ in range(2):
                with pytest.raises(AioumError) as caught:
                    await keeper.loop.run_once()
                await keeper.anchoring.look()
            assert caught.value.code == code
        assert (told.alerts, told.anchors, told.visible) == ([code], [], 0)
        assert published_note(foreign) is None


async def test_a_session_that_the_endpoint_hid_is_kept_until_the_whole_chain_was_searched_again(
    shop: Shop, devnet: RunningDevnet, fund_account: FundAccount, tmp_path: Path
) -> None:
    operator, manager = shop.operator, shop.chain.payment_manager
    async with opened_books(shop.chain, operator.key, tmp_path) as books:
        opening = await open_session(shop.payer.sender, shop.registered.service)
        hidden = await books.adopt(opening, shop.registered.service)
        await send(operator.sender, calls.settle_session(manager, Settlement(hidden, 0, 0, 0, NO_ROOT, b"")))
        await devnet.mine(WINDOW_BLOCKS)
        head = await shop.chain.head()
        log = SessionLog.open(shop.folder, ORIGIN)
        log.index.put_position(head.number, head.hash)
        log.close()
        stored = await books.stored(hidden)
        channels = [await shop.sell()]
        async with keeping(operator, shop.folder) as keeper:
            assert not await keeper.loop.may_forget(stored)
            await keeper.keep()
            await shop.require_shown(channels)
            assert not await keeper.loop.may_forget(stored)
            await keeper.keep()
            await shop.require_shown([*channels, hidden])
            assert await keeper.loop.may_forget(stored)
        async with keeping(await fund_account(), tmp_path / "foreign") as keeper:
            # Of another operator, whose log it is not to be in.
            assert await keeper.loop.may_forget(stored)


async def test_a_chain_that_cannot_be_asked_is_told_once_and_asked_again(
    shop: Shop, devnet: RunningDevnet, tmp_path: Path
) -> None:
    channels = [await shop.sell()]
    journal = SqliteTransactionJournal(tmp_path / "anchors.sqlite3")
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        Chain.connect(devnet.deployment, rpc_url=endpoint.url) as through,
        keeping(shop.operator, shop.folder, sender=Sender(through, shop.operator.signer, journal)) as keeper,
    ):
        endpoint.silent = True
        for _ in range(2):
            with pytest.raises(AioumError) as caught:
                await keeper.loop.run_once()
        keeper.told.seconds = 1_801
        with pytest.raises(AioumError):
            await keeper.loop.run_once()
        assert keeper.told.alerts == [caught.value.code, "log-overdue"]
        assert keeper.loop.lag_seconds == 1_801
        endpoint.silent = False
        await keeper.keep()
        assert (keeper.loop.lag_seconds, keeper.told.anchors) == (0, [1])
    await shop.require_logged(channels)
    await journal.close()


async def test_a_disk_that_fails_is_told_and_the_log_goes_on_once_it_is_mended(
    shop: Shop, tmp_path: Path
) -> None:
    channels = [await shop.sell()]
    shop.folder = tmp_path / "disk" / "log"
    (tmp_path / "disk").write_bytes(b"not mounted")
    async with keeping(shop.operator, shop.folder) as keeper:
        with pytest.raises(AioumError) as caught:
            await keeper.loop.run_once()
        assert (caught.value.code, keeper.told.alerts) == ("log-disk-failed", ["log-disk-failed"])
        (tmp_path / "disk").unlink()
        await keeper.keep()
    await shop.require_logged(channels)
