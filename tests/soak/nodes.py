"""The operator's processes: started, killed at random and started again, their memory watched."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PROGRAM = str(Path(sys.executable).parent / "aioum-node")
_KIBIBYTE = 1024
_START_SECONDS = 60


@dataclass(slots=True)
class Memory:
    """Resident memory of one process life.

    Attributes:
        samples: seconds since it served, bytes.
    """

    samples: list[tuple[float, int]] = field(default_factory=list)


class NodeProcess:
    """One of the operator's processes, on a port that stays the same."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.port = free_port()
        self.lives: list[Memory] = []
        self._folder = folder
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._serving = False
        self._served_at = 0.0

    async def start(self) -> None:
        """Start it and wait until it serves."""
        with (self._folder / "stderr.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                _PROGRAM, "run", "--json", "--dir", str(self._folder), "--listen-port", str(self.port),
                "--admin-port", "0",
                stdout=subprocess.PIPE, stderr=log, env=self._environment,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), _START_SECONDS)
        if not line:
            tail = (self._folder / "stderr.log").read_text(encoding="utf-8")[-2_000:]
            raise RuntimeError(f"a node did not start: {tail}")
        json.loads(line)
        self._serving = True
        self._served_at = time.monotonic()
        self.lives.append(Memory())

    async def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._serving = False
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> int:
        """Let it end in order; returns its status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await self._process.wait()

    def sample_memory(self) -> None:
        """Add what it holds now to its present life, if it serves."""
        assert self._process is not None
        if not self._serving:
            return
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("VmRSS:"):
                resident = int(line.split()[1]) * _KIBIBYTE
                self.lives[-1].samples.append((time.monotonic() - self._served_at, resident))


async def kill_at_random(
    nodes: Sequence[NodeProcess],
    chance: random.Random,
    every_seconds: float,
    spare_after_seconds: float,
    returned: Callable[[], None],
) -> None:
    """Kill one of the processes after about `every_seconds`, start it again, and so on until canceled.

    Args:
        nodes: which ones.
        chance: decides which and when.
        every_seconds: mean time between two kills.
        spare_after_seconds: from then on one of them, whichever chance chooses, is left alone: its life is
            long enough to see whether its memory stays flat.
        returned: called when one serves again.
    """
    spared = chance.choice(nodes)
    start = time.monotonic()
    while True:
        await asyncio.sleep(every_seconds * chance.uniform(0.5, 1.5))
        early = time.monotonic() - start < spare_after_seconds
        in_reach = [node for node in nodes if early or node is not spared]
        if in_reach:
            # Whole, so that a cancellation leaves no process behind that was killed and not started.
            await asyncio.shield(_again(chance.choice(in_reach)))
            returned()


async def _again(node: NodeProcess) -> None:
    await node.kill()
    await node.start()


async def watch_memory(nodes: Sequence[NodeProcess], interval_seconds: float) -> None:
    """Sample all processes until canceled."""
    while True:
        for node in nodes:
            node.sample_memory()
        await asyncio.sleep(interval_seconds)


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def operator_environment(runs: Path) -> dict[str, str]:
    """The environment of a node: no setting of the caller's, and where the tool writes down its runs."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIOUM_")}
    return inherited | {"SOAK_RUNS": str(runs)}
