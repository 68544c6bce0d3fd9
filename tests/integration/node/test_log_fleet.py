"""Several processes over one PostgreSQL store keep one log: one of them writes, all of them show it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import pytest

from aioum.chain.client import Chain
from aioum.core.submission.framing import encode_base64
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet
from aioum.log.checkpoint import parse_checkpoint
from aioum.log.files import published_note
from aioum_node.app import RunningNode, running_node
from aioum_node.keys.identity import Identity
from aioum_node.settings import Settings
from tests.integration.conftest import FundedAccount, RegisteredService
from tests.integration.node.crashing_node import note
from tests.integration.node.disputing import until
from tests.integration.node.fleet import Fleet
from tests.integration.node.logging_operator import IDENTITY, settled
from tests.postgres import PostgresServer, schema_of

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
LOG: dict[str, Any] = {
    "transparency_log": True,
    "transparency_log_interval_seconds": 0.1,
    "transparency_log_origin": IDENTITY.origin,
    "anchor_interval_seconds": 0,
}


@pytest.fixture
async def sql(postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Sql]:
    connection = await asyncpg.connect(postgres.url, server_settings={"search_path": schema_of(tmp_path)})
    yield connection
    await connection.close()


async def test_the_log_of_a_fleet_has_one_writer_and_outlives_each_of_its_folders(
    tmp_path: Path,
    devnet: RunningDevnet,
    chain: Chain,
    operator: FundedAccount,
    payer: FundedAccount,
    repository: Path,
    postgres: PostgresServer,
    sql: Sql,
) -> None:
    fleet = Fleet(tmp_path, devnet, operator, repository, postgres)
    (tmp_path / "first").mkdir()
    key = tmp_path / "first" / "log.key"
    key.touch(mode=0o600)
    key.write_text(encode_base64(b"\x07" * 32))
    channels: list[ChannelId] = []

    def joining(name: str) -> AbstractAsyncContextManager[RunningNode]:
        settings = Settings(**fleet.settings(name, **LOG))
        return running_node(settings, functions=[note], identity=Identity(operator.key, operator.key))

    async def sell(node: RunningNode) -> None:
        service = await chain.service(node.registration.service_id)
        assert service is not None
        channels.append(await settled(payer, RegisteredService(operator, service)))

    async def shown_by(*names: str) -> None:
        """Wait until these show all that was sold, and the same note."""

        async def shown() -> bool:
            held = await sql.fetchval("SELECT note FROM log_checkpoints")
            if held is None or parse_checkpoint(held).size != len(channels):
                return False
            return all(published_note(tmp_path / name / "log") == held for name in names)

        await until(shown, f"{names} show {len(channels)} entries")

    async with fleet.running("first", **LOG) as first:
        fleet.copy_folder("first", "second")
        async with joining("second") as second:
            await sell(first)
            await shown_by("first", "second")
            assert second.readiness.missing() == []
    shutil.rmtree(tmp_path / "first" / "log")
    async with joining("second") as second:
        await sell(second)
        await shown_by("second")
        async with joining("first"):
            await shown_by("first", "second")
            await sell(second)
            await shown_by("first", "second")
    logged = await sql.fetch("SELECT place FROM log_entries ORDER BY place")
    assert [row["place"] for row in logged] == [0, 1, 2]
