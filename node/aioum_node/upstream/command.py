"""A program as a tool: canonical request on stdin, response on stdout, one process per call."""

from __future__ import annotations

import asyncio
import marshal
import signal
import socket
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import structlog

from aioum.core.ledger import Answer
from aioum.core.wire import JsonObject
from aioum_node.failures import answer_of, failed
from aioum_node.upstream.command_process import SIZE_BYTES

_log = structlog.get_logger(__name__)
_WARDEN: Final = str(Path(__file__).with_name("command_process.py").resolve())
_READ_SIZE_BYTES = 65_536
_MAX_STDERR_BYTES = 4_096
_WARDEN_KILLED = b"exit -9"
_END_SECONDS = 5.0
"""How long everything that a command started may take to end, once it is killed."""


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """What one run of a command may use.

    Attributes:
        cpu_seconds: processor time of each process.
        memory_bytes: writable memory of each process, and resident memory of all together.
        processes: processes at the same time, the program included.
        open_files: descriptors of each process.
        file_bytes: size of each file that is written.
    """

    cpu_seconds: int = 300
    memory_bytes: int = 1_073_741_824
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 67_108_864


class CommandUpstream:
    """Starts `argv` without a shell, within limits, with just the environment that is handed in.

    Exit code 0 and the whole of stdout are the response, byte for byte. When the program has ended, the time
    is over, the output too large, or the node stops or dies, everything that the program started is killed,
    also what moved into a session of its own (on Linux; elsewhere its process group). No core is dumped, and
    no program gains rights by a set-user-id bit. Stderr goes to the node's log, never to the client.

    It runs as the node's user, so it can read what the node can read.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        tool_id: str,
        environment: Mapping[str, str],
        directory: Path,
        content_type: str,
        max_response_bytes: int,
        limits: CommandLimits | None = None,
        processes: asyncio.Semaphore | None = None,
    ) -> None:
        """Args: processes: how many commands may run at once, shared by all tools; None is no limit here."""
        self._argv = tuple(argv)
        self._tool_id = tool_id
        self._environment = dict(environment)
        self._directory = directory
        self._content_type = content_type
        self._max_response_bytes = max_response_bytes
        self._limits = limits or CommandLimits()
        self._processes = processes

    async def run(self, arguments: JsonObject, request: bytes, timeout_seconds: float) -> Answer:
        """Run the program once."""
        try:
            async with asyncio.timeout(timeout_seconds):
                if self._processes is None:
                    return await self._run(request)
                async with self._processes:
                    return await self._run(request)
        except TimeoutError:
            return failed("tool-timeout")

    async def _run(self, request: bytes) -> Answer:
        async with _leash() as (reader, leash, its_end):
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", _WARDEN, str(its_end.fileno())),
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=PIPE,
                    env={},
                    cwd=self._directory,
                    start_new_session=True,
                    pass_fds=(its_end.fileno(),),
                )
            except OSError as error:
                return self._not_started(str(error))
            its_end.close()
            try:
                return await self._converse(process, reader, leash, request)
            finally:
                await asyncio.shield(self._end(process, reader, leash))

    async def _converse(
        self, process: Process, reader: StreamReader, leash: StreamWriter, request: bytes
    ) -> Answer:
        stdin, stdout, stderr = _pipes(process)
        # The environment may hold secrets: it is no argument and no environment of the warden. Marshal, since
        # the warden is this very interpreter, and would take longer to load a JSON parser than for all else.
        job = marshal.dumps(
            {"argv": self._argv, "environment": self._environment, "limits": asdict(self._limits)}
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(_feed(leash, len(job).to_bytes(SIZE_BYTES, "big") + job, close=False))
            group.create_task(_feed(stdin, request, close=True))
            errors = group.create_task(_tail(stderr))
            output = await _read_up_to(stdout, self._max_response_bytes)
            if output is None:
                leash.write_eof()
                return failed("response-too-large")
            report = await reader.readline()
        what, _, value = (report or _WARDEN_KILLED).decode(errors="replace").strip().partition(" ")
        if what == "over":
            _log.warning("command-over-limit", tool=self._tool_id, limit=value)
            return failed("tool-failed")
        if what != "exit":
            return self._not_started(value)
        if value != "0":
            _log.warning(
                "command-failed",
                tool=self._tool_id,
                exit_code=value,
                stderr=errors.result().decode(errors="replace"),
            )
            return failed("tool-timeout" if value == str(-signal.SIGXCPU) else "tool-failed")
        return answer_of(output, self._content_type, max_bytes=self._max_response_bytes)

    def _not_started(self, error: str) -> Answer:
        _log.error("command-not-started", tool=self._tool_id, program=self._argv[0], error=error)
        return failed("upstream-unreachable")

    async def _end(self, process: Process, reader: StreamReader, leash: StreamWriter) -> None:
        with suppress(OSError, RuntimeError):
            leash.write_eof()
        try:
            async with asyncio.timeout(_END_SECONDS):
                with suppress(OSError):
                    await reader.read()
                # asyncio sees no end of a process while output of it lies unread in a pipe.
                await _drop(process.stdout)
                await _drop(process.stderr)
                await process.wait()
        except TimeoutError:
            _log.error("command-not-ended", tool=self._tool_id, pid=process.pid)
            # There is no public way to drop pipes that a process still holds open.
            transport = getattr(process, "_transport", None)
            if transport is not None:
                transport.close()

    async def close(self) -> None:
        """Nothing to release: no process outlives its call."""


@asynccontextmanager
async def _leash() -> AsyncIterator[tuple[StreamReader, StreamWriter, socket.socket]]:
    """Our end of a control socket and the warden's. Closing ours ends whatever the warden started."""
    ours, its_end = socket.socketpair()
    with its_end:
        try:
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        try:
            yield reader, writer, its_end
        finally:
            writer.transport.abort()


def _pipes(process: Process) -> tuple[StreamWriter, StreamReader, StreamReader]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise RuntimeError("the process was started without pipes")
    return process.stdin, process.stdout, process.stderr


async def _feed(sink: StreamWriter, content: bytes, *, close: bool) -> None:
    # A program that needs no input may close stdin or exit before it has read all of it.
    with suppress(BrokenPipeError, ConnectionResetError):
        sink.write(content)
        await sink.drain()
    if close:
        sink.close()
        with suppress(BrokenPipeError, ConnectionResetError):
            await sink.wait_closed()


async def _read_up_to(stream: StreamReader, max_bytes: int) -> bytes | None:
    """All of the stream, or None once it is longer than `max_bytes`."""
    output = bytearray()
    while chunk := await stream.read(_READ_SIZE_BYTES):
        output += chunk
        if len(output) > max_bytes:
            return None
    return bytes(output)


async def _drop(stream: StreamReader | None) -> None:
    while stream is not None and await stream.read(_READ_SIZE_BYTES):
        pass


async def _tail(stream: StreamReader) -> bytes:
    """The last bytes of a stream that is read to its end, however long it is."""
    tail = b""
    while chunk := await stream.read(_READ_SIZE_BYTES):
        tail = (tail + chunk)[-_MAX_STDERR_BYTES:]
    return tail
