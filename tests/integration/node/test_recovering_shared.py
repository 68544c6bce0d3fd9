"""A shared database is put back to an older one: nodes notice, and clients' packages restore it."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aioum.chain.client import Chain
from aioum.client import PaidSession
from aioum.core.errors import Refused
from aioum.core.evidence import package_bytes
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase, SessionState
from aioum.core.types import ChannelId
from aioum_node.app import RunningNode
from aioum_node.cli import main
from aioum_node.settings import Settings
from tests.integration.client.conftest import MakeMarketplace, marketplace  # noqa: F401 - a fixture
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import StartNode
from tests.integration.node.lost_calls import Shop, restored, sell
from tests.postgres import PostgresServer, schema_of


@dataclass
class SharedShop(Shop):
    """Two hosts of one operator on one database; `Shop` is the first of them."""

    postgres: PostgresServer = field(kw_only=True)
    dump: str = ""

    @property
    def _shared(self) -> dict[str, Any]:
        return {
            "store": "postgresql",
            "database_url_file": self.node_dir.with_name("database.url"),
            "database_schema": schema_of(self.node_dir),
            "public_url": "http://node.example",
        }

    @property
    def settings(self) -> Settings:
        return Settings(node_dir=self.node_dir, **self._shared)

    @asynccontextmanager
    async def running(self, **changes: Any) -> AsyncIterator[RunningNode]:
        async with super().running(**self._shared, **changes) as node:
            yield node

    @asynccontextmanager
    async def other_host(self, **changes: Any) -> AsyncIterator[RunningNode]:
        """The second host; it joins while the first one runs."""
        folder = self.node_dir.with_name("other")
        if not folder.exists():
            shutil.copytree(self.node_dir, folder, ignore=shutil.ignore_patterns("watermark", "*.lock"))
        async with self.start_node(node_dir=folder, register=False, **self._shared, **changes) as node:
            yield node

    def keep(self) -> None:
        self.dump = self.postgres.dump(schema_of(self.node_dir))

    def store_lies_back(self) -> None:
        self.postgres.restore(schema_of(self.node_dir), self.dump)

    async def recover(self, *arguments: str) -> Any:
        """What `aioum-node recover` says, or the code with which it refuses."""
        options = [
            "--dir", str(self.node_dir), "--store", "postgresql",
            "--database-url-file", str(self._shared["database_url_file"]),
            "--database-schema", self._shared["database_schema"], "--json",
        ]  # fmt: skip
        done = await asyncio.to_thread(CliRunner().invoke, main, ["recover", *options, *arguments])
        return json.loads(done.stdout) if done.exit_code == 0 else done.stderr.split("[")[1].split("]")[0]

    async def recover_from(self, session: PaidSession) -> Any:
        file = self.node_dir.with_name("evidence.json")
        file.write_bytes(package_bytes(session.evidence_package("non-delivery", "")))
        return await self.recover("--from", str(file))


@pytest.fixture
def shop(
    start_node: StartNode, operator: FundedAccount, postgres: PostgresServer, tmp_path: Path
) -> SharedShop:
    url_file = tmp_path / "database.url"
    url_file.touch(mode=0o600)
    url_file.write_text(postgres.url)
    return SharedShop(start_node, tmp_path / "node", operator.key.address, postgres=postgres)


async def test_restored_database_serves_and_settles_nothing_until_packages_make_the_roots_equal(
    shop: SharedShop,
    marketplace: MakeMarketplace,  # noqa: F811
    chain: Chain,
) -> None:
    async with marketplace() as market:
        async with shop.running() as node, shop.other_host():
            known = await market.open(node.url, deposit=100_000)
            await sell(known, 0, 1)
        shop.keep()
        async with shop.running() as node:
            await sell(known, 2, 3, 4)
            # Of this one the backup knows nothing.
            unknown = await market.open(node.url, deposit=100_000)
            await sell(unknown, 0)
        shop.store_lies_back()
        early = await shop.recover()

        async with (
            shop.running(session_idle_seconds=1) as node,
            shop.other_host(session_idle_seconds=1) as other,
        ):
            refused = await refusal(known)
            found = [(await stored(host, known.channel_id)).phase for host in (node, other)]
            for host in (node, other):
                await host.settle_loop.run_once()
            beside = await shop.recover_from(known)
        before = await chain.session(known.channel_id)

        listed = await shop.recover()
        back = await shop.recover_from(known)
        # The command would read the keys that sign here from the folder, which has none.
        taken_over = await shop.recovered(unknown.evidence_package("non-delivery", ""))
        async with shop.running() as node:
            deposit = (await stored(node, unknown.channel_id)).deposit
            await known.recover()
            await sell(unknown, 5)
            closed = [await session.close() for session in (known, unknown)]
    after = [await chain.session(session.channel_id) for session in (known, unknown)]

    assert early == "store-in-doubt"
    assert refused == "session-suspect"
    assert found == [Phase.SUSPECT] * 2
    assert beside == "store-in-use"
    assert before is not None
    assert (before.has_root, before.is_finalized, before.settled) == (False, False, 0)
    assert [item["channelId"] for item in listed["suspect"]] == [to_hex(known.channel_id)]
    assert (back["phase"], back["callCount"], back["imported"]) == ("open", 5, 3)
    assert (taken_over.imported, taken_over.stored.state.phase) == (1, Phase.OPEN)
    assert deposit == 100_000
    for session, end, on_chain in zip((known, unknown), closed, after, strict=True):
        assert on_chain is not None
        assert end.root == session.root == on_chain.root
        assert on_chain.call_count == len(session.calls)
        assert on_chain.settled == session.spent


async def test_session_of_a_restored_database_whose_client_is_gone_is_closed_for_nothing(
    shop: SharedShop,
    marketplace: MakeMarketplace,  # noqa: F811
    chain: Chain,
) -> None:
    _, channel_id = await restored(shop, marketplace, signed=True)
    given_up = await shop.recover("--abandon", to_hex(channel_id), "--yes")
    async with shop.running() as node:
        final = await node.settle_loop.outcome(channel_id, 30)
    on_chain = await chain.session(channel_id)

    assert (given_up["phase"], given_up["imported"]) == ("sealed", 0)
    assert final.state.phase is Phase.FINAL
    assert on_chain is not None
    assert (on_chain.is_finalized, on_chain.settled, on_chain.refunded) == (True, 0, 100_000)
    assert not on_chain.has_root


async def refusal(session: PaidSession) -> str:
    with pytest.raises(Refused) as caught:
        await session.call("shout", text="more")
    return caught.value.code


async def stored(node: RunningNode, channel_id: ChannelId) -> SessionState:
    found = await node.store.session(channel_id)
    assert found is not None
    return found.state
