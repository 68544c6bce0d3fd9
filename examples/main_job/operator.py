"""The operator's side of the demo: the installed `aioum-node` command, configured, registered and running."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
_START_SECONDS = 60
_STOP_SECONDS = 30

CONFIGURATION = """
service_name = "Reading room"
python_path = ["{repository}"]

[deterministic]
kind = "command"
entry = "python -m examples.services.reading_room.reexecute"

[[tools]]
python = "examples.services.reading_room.service"

[[tools]]
id = "digest"
description = "SHA-256 of a text."
command = ["{python}", "{repository}/examples/services/reading_room/digest.py"]
price = "0.001"
timeout_seconds = 10
deterministic = true
content_type = "text/plain; charset=utf-8"

[tools.input_schema]
type = "object"
required = ["text"]
additionalProperties = false

[tools.input_schema.properties.text]
type = "string"
"""


def command(name: str) -> str:
    """Path of an installed command beside the Python that runs this."""
    return str(Path(sys.executable).parent / name)


class Operator:
    """A node of its own folder, driven through its command line as an operator would.

    Args:
        node_dir: keys, configuration and store.
        deployment_file: the contracts.
        log: what the node writes goes there.
    """

    def __init__(self, node_dir: Path, deployment_file: Path, log: Path) -> None:
        self.node_dir = node_dir
        self._log = log
        self._environment = {
            **os.environ,
            "AIOUM_NODE_DIR": str(node_dir),
            "AIOUM_DEPLOYMENT_FILE": str(deployment_file),
            "AIOUM_DOCUMENTS": str(REPOSITORY),
            "AIOUM_LISTEN_PORT": "0",
            "AIOUM_ADMIN_PORT": "0",
        }

    async def prepare(self) -> None:
        """Make keys and configuration."""
        await self._run("aioum-node", "init", "--devnet-account", "1")
        text = CONFIGURATION.format(repository=REPOSITORY, python=sys.executable)
        (self.node_dir / "node.toml").write_text(text, encoding="utf-8")

    async def export(self, channel_id: bytes) -> dict[str, Any]:
        """The operator's own evidence package of a session."""
        out = await self._run(
            "verify-evidence",
            "--export",
            "--session",
            "0x" + channel_id.hex(),
            "--node-dir",
            str(self.node_dir),
        )
        package: dict[str, Any] = json.loads(out)
        return package

    async def _run(self, program: str, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            command(program),
            *arguments,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{program} {arguments[0]} failed:\n{err.decode()}")
        return out.decode()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Run the node; yields its URL. It ends with the block."""
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                command("aioum-node"),
                "run",
                "--register",
                "--json",
                env=self._environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        try:
            yield await self._url(process)
        finally:
            await _stop(process)

    async def _url(self, process: asyncio.subprocess.Process) -> str:
        """The URL that the node reports once it serves."""
        if process.stdout is None:
            raise RuntimeError("the node's output is not a pipe")
        line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
        if not line:
            raise RuntimeError(f"the node ended: see {self._log}")
        return str(json.loads(line)["url"])


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
