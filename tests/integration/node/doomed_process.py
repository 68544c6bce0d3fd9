"""A `crashing_node` in a process of its own, as a test starts it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aioum.core.hextext import to_hex
from aioum.core.signing import LocalKey


@dataclass(frozen=True, slots=True)
class Doomed:
    """A node that serves until it comes to its step."""

    url: str
    process: asyncio.subprocess.Process


@asynccontextmanager
async def doomed_process(
    repository: Path, step: str, settings: Mapping[str, Any], key: LocalKey
) -> AsyncIterator[Doomed]:
    """Start it and wait until it serves; it is gone after the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.node.crashing_node", step),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=repository,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({**settings, "key": to_hex(key.secret_bytes())}).encode())
        process.stdin.close()
        url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        assert url, "the node did not start"
        yield Doomed(url, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
