"""A node whose store is put back to an earlier one, and what its client has of the calls that it lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from aioum.client import PaidSession
from aioum.core.errors import AioumError
from aioum.core.evidence_reading import read_package
from aioum.core.ledger import Phase
from aioum.core.types import Address, ChannelId
from aioum_node.app import RunningNode
from aioum_node.restored.recovering import Recovery, opened_for_recovery, recover
from aioum_node.settings import Settings
from aioum_node.store.port import StoredSession
from aioum_node.store.sqlite import STORE_FILE
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.node.conftest import StartNode

NOW_MS = 1_800_000_000_000


@dataclass
class Shop:
    """A node's folder over its life, and the addresses that it signs with."""

    start_node: StartNode
    node_dir: Path
    signer: Address
    backup: bytes = b""
    port: int = 0

    @property
    def settings(self) -> Settings:
        return Settings(node_dir=self.node_dir)

    @asynccontextmanager
    async def running(self, **changes: Any) -> AsyncIterator[RunningNode]:
        """The node, at the same address in all its lives."""
        async with self.start_node(listen_port=self.port, **changes) as node:
            self.port = urlsplit(node.url).port or 0
            yield node

    def store_lies_back(self) -> None:
        (self.node_dir / STORE_FILE).write_bytes(self.backup)

    def keep(self) -> None:
        self.backup = (self.node_dir / STORE_FILE).read_bytes()

    async def recovered(self, package: Any, *, seal: bool = False) -> Recovery:
        async def own_signers() -> set[Address]:
            return {self.signer}

        async with opened_for_recovery(self.settings) as store:
            read = read_package(package)
            return await recover(store, read, own_signers=own_signers, seal=seal, now_ms=NOW_MS)

    async def refusal(self, package: Any) -> str:
        """The code with which a package is refused; the store says the same before and after."""
        before = await self.sessions()
        with pytest.raises(AioumError) as caught:
            await self.recovered(package)
        assert await self.sessions() == before
        return caught.value.code

    async def sessions(self) -> list[StoredSession]:
        async with opened_for_recovery(self.settings) as store:
            return await store.sessions(tuple(Phase))


async def sell(session: PaidSession, *numbers: int) -> None:
    """Calls whose answers follow from their numbers; number 1 fails."""
    for number in numbers:
        if number == 1:
            assert not (await session.call("fail", text=f"call {number}")).ok
        else:
            assert (await session.call("shout", text=f"call {number}")).text == f"CALL {number}"


async def restored(shop: Shop, make: MakeMarketplace, *, signed: bool) -> tuple[Any, ChannelId]:
    """A session with two calls in the backup and three after it; what its client has of it, and its id."""
    async with make() as market:
        async with shop.running() as node:
            session = await market.open(node.url, deposit=100_000, signed=signed)
            await sell(session, 0, 1)
        shop.keep()
        async with shop.running():
            await sell(session, 2, 3, 4)
        package = session.evidence_package("non-delivery", "")
    shop.store_lies_back()
    async with shop.running():
        pass
    return package, session.channel_id
