"""Programs that are ended, with all that they started, when nobody waits for them any more."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_COMPILER: Final = Path(__file__).parent / "compiler.js"
_START_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and what it wrote."""

    code: int
    output: bytes
    errors: bytes


async def run(*command: str, folder: Path, environment: Mapping[str, str], seconds: float) -> Ended:
    """Run a program to its end.

    Raises:
        TimeoutError: it took longer than `seconds`, and was killed.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            output, errors = await process.communicate()
    finally:
        await _kill(process)
    assert process.returncode is not None
    return Ended(process.returncode, output, errors)


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def loaded_compiler(socket: Path) -> AsyncIterator[dict[str, str]]:
    """The pinned compiler as a server; yields the environment in which solc_client.py finds it.

    Raises:
        RuntimeError: Node.js or the compiler is missing.
    """
    node = shutil.which("node")
    if node is None:
        raise RuntimeError("node is not on the PATH")
    process = await asyncio.create_subprocess_exec(
        node,
        str(_COMPILER),
        str(socket),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_START_SECONDS):
            version = (await process.stdout.readline()).decode().strip()
        if not version:
            raise RuntimeError("the compiler did not start: run scripts/setup")
        yield {"AIOUM_SOLC_SOCKET": str(socket), "AIOUM_SOLC_VERSION": version}
    finally:
        await _kill(process)
