"""Which store the settings name, and what is asked before a PostgreSQL one is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from aioum.core.errors import ConfigError
from aioum.core.ledger import Limits
from aioum_node.restored.watermark import Watermark
from aioum_node.settings import Settings
from aioum_node.storage import JOURNAL_FILE, opened_reader, opened_sending, opened_store, postgres_store
from aioum_node.store.postgres.store import PostgresStore
from aioum_node.store.sqlite import STORE_FILE, SqliteStore
from tests.postgres import PostgresServer, schema_of
from tests.unit.node.store.samples import NOW_MS, channel, facts, opened


def shared_settings(folder: Path, url: str, name: str = "node") -> Settings:
    file = folder / "database.url"
    file.touch(mode=0o600)
    file.write_text(url + "\n")
    return Settings(
        node_dir=folder / name,
        store="postgresql",
        database_url_file=file,
        database_schema=schema_of(folder),
        process_silence_seconds=1,
    )


async def test_without_a_word_the_store_is_a_file_of_the_nodes_folder(tmp_path: Path) -> None:
    settings = Settings(node_dir=tmp_path)
    async with opened_store(settings, Limits(), Watermark(tmp_path / "watermark")) as store:
        assert isinstance(store, SqliteStore)
        async with opened_sending(settings, store) as sending:
            assert sending.keeper is None
            assert await sending.once(_work) == "done"
        await store.open(facts(1), opened(1), NOW_MS)
        async with opened_reader(settings) as reader:
            assert await reader.session(channel(1)) is not None
    assert (tmp_path / STORE_FILE).exists()
    assert (tmp_path / JOURNAL_FILE).exists()


async def _work() -> str:
    return "done"


async def test_a_postgresql_store_is_opened_by_the_url_in_its_file(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    settings = shared_settings(tmp_path, postgres.url)
    async with opened_store(settings, Limits(), Watermark(tmp_path / "watermark")) as store:
        assert isinstance(store, PostgresStore)
        await store.open(facts(1), opened(1), NOW_MS)
        async with opened_reader(settings) as reader:
            assert await reader.session(channel(1)) is not None
    assert not (tmp_path / "node" / STORE_FILE).exists()


async def test_a_second_process_in_the_same_folder_is_refused_also_with_a_shared_store(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    settings = shared_settings(tmp_path, postgres.url)
    watermark = Watermark(tmp_path / "watermark")
    async with opened_store(settings, Limits(), watermark):
        with pytest.raises(ConfigError) as caught:
            async with opened_store(settings, Limits(), watermark):
                pass
        other = shared_settings(tmp_path, postgres.url, "other")
        async with opened_store(other, Limits(), watermark):
            pass
    assert caught.value.code == "store-locked"


async def test_while_another_process_sends_nobody_else_does(postgres: PostgresServer, tmp_path: Path) -> None:
    settings = shared_settings(tmp_path, postgres.url)
    async with opened_sending(settings) as holder, opened_sending(settings) as other:
        assert holder.keeper is not None
        assert await holder.once(_work) == "done"

        async def meanwhile() -> str:
            with pytest.raises(ConfigError) as caught:
                await other.once(_work)
            return caught.value.code

        assert await holder.once(meanwhile) == "lease-held"
        assert await other.once(_work) == "done"


async def test_a_url_that_others_may_read_is_refused(tmp_path: Path) -> None:
    settings = shared_settings(tmp_path, "postgresql:///x")
    (tmp_path / "database.url").chmod(0o644)
    with pytest.raises(ConfigError) as caught:
        postgres_store(settings, Limits())
    assert caught.value.code == "secret-file-exposed"


def test_without_its_driver_postgresql_is_refused_and_sqlite_is_not(tmp_path: Path) -> None:
    program = """
import asyncio, sys
sys.modules["asyncpg"] = None
from pathlib import Path
from aioum.core.errors import ConfigError
from aioum.core.ledger import Limits
import aioum_node.app, aioum_node.cli
from aioum_node.settings import Settings
from aioum_node.storage import opened_store
from aioum_node.restored.watermark import Watermark

async def opened(**names):
    settings = Settings(node_dir=Path(sys.argv[1]), **names)
    async with opened_store(settings, Limits(), Watermark(Path(sys.argv[1]) / "watermark")):
        return "opened"

print(asyncio.run(opened()))
try:
    asyncio.run(opened(store="postgresql"))
except ConfigError as error:
    print(error.code)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["opened", "postgres-missing"]
