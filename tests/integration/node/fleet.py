"""Several processes of one operator's node on one PostgreSQL store, each with a folder of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode, running_node
from aioum_node.keys.identity import Identity
from aioum_node.settings import Settings
from tests.integration.conftest import FundedAccount
from tests.integration.node.crashing_node import note
from tests.integration.node.doomed_process import doomed_process
from tests.postgres import PostgresServer, schema_of

# A third of it is between two signs of life, and a machine that is busy with other tests may well miss one.
SILENCE_SECONDS = 4.0
# For tests in which nobody dies: no process may be taken for dead, however busy the machine is.
PATIENT_SECONDS = 60.0


@dataclass(frozen=True)
class Member:
    """A process that serves. `node` is the first one, with this one's URL."""

    node: RunningNode
    process: asyncio.subprocess.Process

    async def kill(self) -> None:
        """End it at once, as a power cut would."""
        self.process.kill()
        await self.process.wait()


class Fleet:
    """An operator's nodes."""

    def __init__(
        self,
        folder: Path,
        devnet: RunningDevnet,
        operator: FundedAccount,
        repository: Path,
        postgres: PostgresServer,
    ) -> None:
        self.folder = folder
        self.schema = schema_of(folder)
        self._operator = operator
        self._repository = repository
        self._devnet = devnet
        url_file = folder / "database.url"
        url_file.touch(mode=0o600)
        url_file.write_text(postgres.url)

    def settings(self, name: str, **changes: Any) -> dict[str, Any]:
        return {
            "node_dir": str(self.folder / name),
            "listen_port": 0,
            "admin_port": 0,
            # Published once, so that a later start sends no transaction of its own.
            "public_url": "http://node.example",
            "deployment_file": str(self._devnet.deployment_file),
            "watch_interval_seconds": 0.1,
            "settle_interval_seconds": 0.1,
            "store": "postgresql",
            "database_url_file": str(self.folder / "database.url"),
            "database_schema": self.schema,
            "process_silence_seconds": SILENCE_SECONDS,
            **changes,
        }

    def running(self, name: str, *, register: bool = True, **changes: Any) -> Any:
        """A node in this process; the first that is started publishes the service."""
        settings = Settings(**self.settings(name, **changes))
        identity = Identity(self._operator.key, self._operator.key)
        return running_node(settings, functions=[note], identity=identity, register=register)

    def copy_folder(self, name: str, to: str) -> None:
        """What nodes of one operator share, but the watermark: that is each one's own."""
        shutil.copytree(
            self.folder / name,
            self.folder / to,
            ignore=shutil.ignore_patterns("watermark", "*.lock", "*.sqlite3*"),
        )

    async def join(self, name: str, **changes: Any) -> None:
        """Let a host serve beside the first one for a moment: from then on it may start alone."""
        self.copy_folder("first", name)
        async with self.running(name, register=False, **changes):
            pass

    @asynccontextmanager
    async def member(
        self, name: str, node: RunningNode, step: str = "none", **changes: Any
    ) -> AsyncIterator[Member]:
        """A node in a process of its own, in a folder like the first one's."""
        if not (self.folder / name).exists():
            self.copy_folder("first", name)
        settings = self.settings(name, **changes)
        async with doomed_process(self._repository, step, settings, self._operator.key) as started:
            yield Member(replace(node, url=started.url), started.process)

    def ran(self) -> list[str]:
        """What the tool noted, in order."""
        return (self.folder / "ran").read_text(encoding="utf-8").splitlines()
