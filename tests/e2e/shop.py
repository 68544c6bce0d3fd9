"""An operator's node as a process of its own, and how a test starts, stops and loses it."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aioum.core.ledger import Phase
from aioum.core.signing import LocalKey
from aioum.core.types import ChannelId
from aioum_node.export import export_package
from aioum_node.settlement.loop import PURPOSE_PREFIX
from aioum_node.storage import JOURNAL_FILE
from aioum_node.store.port import StoredSession
from aioum_node.store.reader import SqliteReader
from aioum_node.store.sqlite import STORE_FILE
from tests.e2e.crashing_node import GATE_FILE, POINT_FILE, RUNS_FILE, STOP

T = TypeVar("T")

_ANSWER_SECONDS = 60


class NodeProgram:
    """`crashing_node` in one process; it runs one node at a time."""

    def __init__(self, repository: Path, log: Path) -> None:
        self._repository = repository
        self._log = log
        self._process = self._started()

    async def start(self, job: dict[str, Any]) -> dict[str, Any]:
        """Start a node; what it says once it serves, or its status where it does not come to that."""
        if self._process.poll() is not None:
            # A test before this one gave it up.
            self._process = self._started()
        self._write(json.dumps(job).encode() + b"\n")
        return await self.answer()

    async def stop(self) -> int:
        """Let the node end in order; returns its status."""
        self.tell_to_stop()
        return int((await self.answer())["status"])

    def tell_to_stop(self) -> None:
        """Ask the node to end in order; its status is an answer."""
        self._write(STOP)

    async def answer(self) -> dict[str, Any]:
        """The next line; a program that says nothing for too long is ended."""
        assert self._process.stdout is not None
        reading = asyncio.create_task(asyncio.to_thread(self._process.stdout.readline))
        await asyncio.wait({reading}, timeout=_ANSWER_SECONDS)
        if not reading.done():
            # It frees the thread that reads, too.
            os.killpg(self._process.pid, signal.SIGKILL)
        line = await reading
        assert line, f"the node program said nothing more: {self.log()}"
        words: dict[str, Any] = json.loads(line)
        return words

    def log(self) -> str:
        """The end of what the nodes wrote to stderr."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-4_000:]

    def end(self) -> None:
        """End the program, and the node that it runs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_ANSWER_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process.stdout.close()

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.e2e.crashing_node"],
                cwd=self._repository,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()


@dataclass(slots=True)
class Node:
    """A node that serves."""

    url: str
    service: int
    program: NodeProgram
    over: bool = False

    async def killed(self) -> None:
        """Wait until the node came to its step and died of it."""
        assert (await self.program.answer())["status"] == -signal.SIGKILL
        self.over = True


class Shop:
    """One operator's node, started again and again in one folder, at one address."""

    def __init__(self, program: NodeProgram, folder: Path, deployment_file: Path, key: LocalKey) -> None:
        self.folder = folder
        self.deployment_file = deployment_file
        self.key = key
        self._program = program
        self.retention_ms = 7 * 24 * 3_600_000
        # Its rounds come by the clock, so they would be other steps in each life of the same session.
        self.keeps_log = False
        self._port = 0
        folder.mkdir(exist_ok=True)

    @asynccontextmanager
    async def running(self, crash_at: str | None = None, *, register: bool = True) -> AsyncIterator[Node]:
        """Run the node; one that is to crash has to do so in the block, which waits for it with `killed`."""
        said = await self._program.start(self._job(crash_at, from_start=False, register=register))
        assert "url" in said, self._program.log()
        self._port = int(said["url"].rsplit(":", 1)[1])
        node = Node(said["url"], said["service"], self._program)
        try:
            yield node
        finally:
            if not node.over:
                status = await self._program.stop()
        if not node.over:
            assert status == 0, self._program.log()
            assert crash_at is None, f"the node never came to {crash_at}"

    async def starts_and_dies(self, crash_at: str) -> None:
        """Start the node, which crashes before or soon after it serves."""
        said = await self._program.start(self._job(crash_at, from_start=True, register=True))
        if "status" not in said:
            said = await self._program.answer()
        assert said["status"] == -signal.SIGKILL, self._program.log()

    async def dies_at(
        self, point: int, work: Coroutine[Any, Any, T], *, from_start: bool = False
    ) -> tuple[str | None, asyncio.Task[T]]:
        """Run the node until it dies at one of the points of its durable steps, or `work` is done.

        Returns:
            What the point was, None where `work` was done before; and the work, which may go on.
        """
        said = await self._program.start(self._job(None, from_start=from_start, register=True, point=point))
        working = asyncio.create_task(work)
        if "status" not in said:
            self._port = int(said["url"].rsplit(":", 1)[1])
            ending = asyncio.create_task(self._program.answer())
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                self._program.tell_to_stop()
            said = await ending
        if said["status"] == 0:
            return None, working
        assert said["status"] == -signal.SIGKILL, self._program.log()
        return (self.folder / POINT_FILE).read_text(encoding="utf-8"), working

    def runs(self) -> list[str]:
        """The texts that tools ran with, in order."""
        path = self.folder / RUNS_FILE
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def make_gate(self) -> None:
        """Make the pipe that `hold` waits at."""
        os.mkfifo(self.folder / GATE_FILE)

    async def open_gate(self) -> None:
        """Let the run of `hold` that waits go on."""

        async def passed() -> bool:
            try:
                # Opens only where somebody reads.
                os.close(os.open(self.folder / GATE_FILE, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return False
            return True

        await until(passed)

    async def export(self, session: str) -> dict[str, Any]:
        """The operator's own package of a session."""
        return await asyncio.to_thread(
            export_package, session=session, node_dir=self.folder, claim="quality", narrative=""
        )

    async def find(self, channel_id: ChannelId) -> StoredSession | None:
        """The session's row, if it is there."""
        reader = SqliteReader(self.folder / STORE_FILE)
        try:
            return await reader.session(channel_id)
        finally:
            await reader.close()

    async def stored(self, channel_id: ChannelId) -> StoredSession:
        """The session's row."""
        stored = await self.find(channel_id)
        assert stored is not None
        return stored

    async def final(self, channel_id: ChannelId) -> StoredSession:
        """The session's row, once it is final."""
        stored = await self.stored(channel_id)

        async def is_final() -> bool:
            nonlocal stored
            stored = await self.stored(channel_id)
            return stored.state.phase is Phase.FINAL

        await until(is_final)
        return stored

    def settlements(self, channel_id: ChannelId) -> list[tuple[bytes, str]]:
        """Hash and state of every settlement that was ever signed for a session."""
        with closing(sqlite3.connect(self.folder / JOURNAL_FILE)) as connection:
            return connection.execute(
                "SELECT transaction_hash, state FROM transactions WHERE purpose = ?",
                (f"{PURPOSE_PREFIX}0x{channel_id.hex()}",),
            ).fetchall()

    def _job(
        self, crash_at: str | None, *, from_start: bool, register: bool, point: int = 0
    ) -> dict[str, Any]:
        return {
            "crash_at": crash_at,
            "crash_point": point,
            "from_start": from_start,
            "register": register,
            "key": "0x" + self.key.secret_bytes().hex(),
            "settings": {
                "node_dir": str(self.folder),
                "deployment_file": str(self.deployment_file),
                "listen_port": self._port,
                "admin_port": 0,
                "watch_interval_seconds": 0.1,
                "settle_interval_seconds": 0.1,
                "transcript_retention_ms": self.retention_ms,
                "retention_interval_seconds": 0.1,
                "transparency_log": self.keeps_log,
                "transparency_log_interval_seconds": 0.1,
            },
        }


async def until(condition: Callable[[], Awaitable[bool]], timeout_seconds: float = 60) -> None:
    """Poll a condition until it holds."""
    deadline = time.monotonic() + timeout_seconds
    while not await condition():
        assert time.monotonic() < deadline, "the condition never held"
        await asyncio.sleep(0.05)
