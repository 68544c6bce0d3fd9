"""A program as a tool: canonical request on stdin, response on stdout, one process per call."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from aioum.core.ledger import Answer
from aioum.core.wire import JsonObject
from aioum_node.failures import answer_of, failed

_log = structlog.get_logger(__name__)
_READ_SIZE_BYTES = 65_536
_MAX_STDERR_BYTES = 4_096


class CommandUpstream:
    """Starts `argv` in its own process group, without a shell, with just the environment that is handed in.

    Exit code 0 and the whole of stdout are the response, byte for byte. When the time is over, the output too
    large, or the node stops, the whole group is killed. Stderr goes to the node's log, never to the client.
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
    ) -> None:
        self._argv = tuple(argv)
        self._tool_id = tool_id
        self._environment = dict(environment)
        self._directory = directory
        self._content_type = content_type
        self._max_response_bytes = max_response_bytes

    async def run(self, arguments: JsonObject, request: bytes, timeout_seconds: float) -> Answer:
        """Run the program once."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._environment,
                cwd=self._directory,
                start_new_session=True,
            )
        except OSError as error:
            _log.error("command-not-started", tool=self._tool_id, program=self._argv[0], error=str(error))
            return failed("upstream-unreachable")
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._converse(process, request)
        except TimeoutError:
            return failed("tool-timeout")
        finally:
            await _end(process)

    async def _converse(self, process: Process, request: bytes) -> Answer:
        stdin, stdout, stderr = _pipes(process)
        async with asyncio.TaskGroup() as group:
            group.create_task(_feed(stdin, request))
            errors = group.create_task(_tail(stderr))
            output = await _read_up_to(stdout, self._max_response_bytes)
            if output is None:
                # Its end is not waited for here: asyncio sees none while output lies unread in the pipe.
                _kill_group(process)
                return failed("response-too-large")
            exit_code = await process.wait()
            # A child left in the background may hold stderr open; the response is complete without it.
            _kill_group(process)
        if exit_code != 0:
            _log.warning(
                "command-failed",
                tool=self._tool_id,
                exit_code=exit_code,
                stderr=errors.result().decode(errors="replace"),
            )
            return failed("tool-failed")
        return answer_of(output, self._content_type, max_bytes=self._max_response_bytes)

    async def close(self) -> None:
        """Nothing to release: no process outlives its call."""


def _pipes(process: Process) -> tuple[StreamWriter, StreamReader, StreamReader]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise RuntimeError("the process was started without pipes")
    return process.stdin, process.stdout, process.stderr


async def _feed(stdin: StreamWriter, request: bytes) -> None:
    # A program that needs no input may close stdin or exit before it has read all of it.
    with suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(request)
        await stdin.drain()
    stdin.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await stdin.wait_closed()


async def _read_up_to(stream: StreamReader, max_bytes: int) -> bytes | None:
    """All of the stream, or None once it is longer than `max_bytes`."""
    output = bytearray()
    while chunk := await stream.read(_READ_SIZE_BYTES):
        output += chunk
        if len(output) > max_bytes:
            return None
    return bytes(output)


async def _tail(stream: StreamReader) -> bytes:
    """The last bytes of a stream that is read to its end, however long it is."""
    tail = b""
    while chunk := await stream.read(_READ_SIZE_BYTES):
        tail = (tail + chunk)[-_MAX_STDERR_BYTES:]
    return tail


def _kill_group(process: Process) -> None:
    # The group has the pid of its leader and lasts as long as any member: background children go too.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: Process) -> None:
    _kill_group(process)
    # asyncio waits for pipes that a process outside the group may hold open, with no public way to drop them.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
    await asyncio.shield(process.wait())
