"""The operator's node of a market: a process of its own, so that it can be killed at whatever it does.

Its clock is the machine's and the seconds that the market let pass beside it. A tool writes down each of its
runs before anything else; `hold` says that it runs, and ends once it may.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import web3  # noqa: F401 - a node loads it when it connects; here, once for all of them
from structlog.contextvars import get_contextvars

from aioum.core.signing import LocalKey
from aioum_node.app import running_node
from aioum_node.edge import Clock
from aioum_node.keys.identity import Identity
from aioum_node.logs import configure_logs
from aioum_node.settings import Settings
from aioum_node.tools import ToolError, tool

PRICE: Final = 100

_START_SECONDS: Final = 60
_SERVES: Final = "serves"
_HOLDS: Final = "holds"
_OPEN: Final = "open"
_STOP: Final = "stop"

# Forked from a process that has everything loaded, a node starts as fast as one within this process.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__])


@dataclass(frozen=True, slots=True)
class Job:
    """A node that is to run.

    Attributes:
        settings: members of `Settings`.
        secret: of the key of payee and operator, 32 bytes.
        seconds_ahead: of the machine's clock, shared (`shared_seconds`).
        runs_file: gets a line for each run of a tool.
        log_file: gets what the process says.
    """

    settings: dict[str, Any]
    secret: bytes
    seconds_ahead: Any
    runs_file: Path
    log_file: Path

    def runs(self) -> Counter[tuple[str, int]]:
        """How often a tool ran for a channel (hex text) and the index of a call."""
        if not self.runs_file.exists():
            return Counter()
        lines = (line.split() for line in self.runs_file.read_text(encoding="utf-8").splitlines())
        return Counter((channel, int(index)) for channel, index in lines)


def shared_seconds() -> Any:
    """A number, 0.0 at first in `value`, that is the same in every process."""
    return _processes.RawValue("d", 0.0)


class NodeProcess:
    """One life of a node. Belongs to the event loop that starts it."""

    def __init__(self, job: Job) -> None:
        """Nothing is started."""
        self._job = job
        self._connection, self._theirs = _processes.Pipe()
        self._process = _processes.Process(target=_run, args=(job, self._theirs), daemon=True)
        self._serving = asyncio.Event()
        self.holding = asyncio.Event()
        """Set while `hold` runs."""

    async def start(self) -> None:
        """Start it and wait until it serves."""
        self._process.start()
        # Here, only the process has its end: with it goes the connection.
        self._theirs.close()
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._hear)
        async with asyncio.timeout(_START_SECONDS):
            await self._serving.wait()
        assert self._process.is_alive(), self._job.log_file.read_text(encoding="utf-8")[-4_000:]

    def open_gate(self) -> None:
        """Let the runs of `hold` end."""
        self.holding.clear()
        self._connection.send(_OPEN)

    async def stop(self) -> None:
        """Let it end in order."""
        self._connection.send(_STOP)
        await asyncio.to_thread(self._process.join)
        assert self._process.exitcode == 0, self._job.log_file.read_text(encoding="utf-8")[-4_000:]
        self._close()

    def kill(self) -> None:
        """End it as a power cut would: what it has not written by now is lost."""
        self._process.kill()
        self._process.join()
        self._close()

    def _hear(self) -> None:
        try:
            word = self._connection.recv()
        except EOFError:
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            # Nobody waits any longer for one that died.
            self._serving.set()
            return
        (self._serving if word == _SERVES else self.holding).set()

    def _close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._connection.fileno())
        self._connection.close()
        self._process.close()


def _run(job: Job, connection: Connection) -> None:
    """What the process does."""
    log = os.open(job.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    asyncio.run(_serve(job, connection))


async def _serve(job: Job, connection: Connection) -> None:
    settings = Settings(**job.settings)
    configure_logs(settings)
    gate, stopped = asyncio.Event(), asyncio.Event()

    def hear() -> None:
        try:
            word = connection.recv()
        except EOFError:
            # Whoever started it is gone.
            word = _STOP
        (gate if word == _OPEN else stopped).set()

    def ran() -> None:
        call = get_contextvars()
        with job.runs_file.open("a", encoding="utf-8") as file:
            file.write(f"{call['channel']} {call['call']}\n")

    @tool(price=PRICE)
    async def echo(text: str) -> str:
        """Answers."""
        ran()
        return text

    @tool(price=PRICE)
    async def broken(text: str) -> str:
        """Fails."""
        ran()
        raise ToolError(text)

    @tool(price=PRICE)
    async def hold(text: str) -> str:
        """Answers once it may."""
        ran()
        gate.clear()
        connection.send(_HOLDS)
        await gate.wait()
        return text

    clock = Clock(lambda: time.time() + job.seconds_ahead.value, time.monotonic)
    key = LocalKey(job.secret)
    async with running_node(
        settings, functions=(echo, broken, hold), identity=Identity(key, key), register=True, clock=clock
    ) as node:
        asyncio.get_running_loop().add_reader(connection.fileno(), hear)
        connection.send(_SERVES)
        waiting = asyncio.create_task(stopped.wait())
        await asyncio.wait({waiting, node.supervisor}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        asyncio.get_running_loop().remove_reader(connection.fileno())
