"""Re-execution by a command: canonical request on stdin, response on stdout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aioum.core.card import Deterministic
from aioum.core.errors import ConfigError
from aioum.verify.ports import ReExecutionFailed

DEFAULT_TIMEOUT_SECONDS = 60.0
MAX_STDERR_BYTES = 2_000
KILL_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class CommandReExecutor:
    """Starts one process per call, without a shell.

    Attributes:
        arguments: program and arguments.
        timeout_seconds: longest run of one call; the process and what it started are killed then.
    """

    arguments: Sequence[str]
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS

    @classmethod
    def from_text(cls, command: str, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> CommandReExecutor:
        """Split a command line as a POSIX shell does.

        Raises:
            ConfigError: `re-execution-not-started`, there is no command in it.
        """
        try:
            arguments = shlex.split(command)
        except ValueError as error:
            raise _not_started(command, str(error)) from error
        if not arguments:
            raise _not_started(command, "it is empty")
        return cls(tuple(arguments), timeout_seconds)

    @property
    def digest(self) -> None:
        """None: whether the command is what a card pins is for its owner to know."""

    async def program(self, declared: Deterministic) -> CommandReExecutor:
        """Itself, whatever is declared."""
        return self

    async def run(self, request: bytes, *, max_output_bytes: int) -> bytes:
        """See `Program.run`."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise _not_started(shlex.join(self.arguments), str(error)) from error
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await _converse(process, request, max_output_bytes)
        except TimeoutError as error:
            raise ReExecutionFailed(
                f"no response within {self.timeout_seconds:g} s", code="re-execution-timeout"
            ) from error
        finally:
            await _end(process)


async def _converse(process: asyncio.subprocess.Process, request: bytes, max_output_bytes: int) -> bytes:
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    if stdin is None or stdout is None or stderr is None:
        raise ReExecutionFailed("the command has no standard streams", code="re-execution-command-failed")
    async with asyncio.TaskGroup() as group:
        group.create_task(_write(stdin, request))
        complaint = group.create_task(_read(stderr, MAX_STDERR_BYTES))
        # Output beyond what could be equal is of no interest; ending the process ends its streams as well.
        output = await _read(stdout, max_output_bytes + 1, when_full=lambda: _kill(process))
    status = await process.wait()
    if status != 0 and len(output) <= max_output_bytes:
        said = complaint.result().decode(errors="replace").strip().splitlines()
        raise ReExecutionFailed(
            f"the command ended with status {status}" + (f": {said[-1]:.200}" if said else ""),
            code="re-execution-command-failed",
        )
    return output


async def _write(stream: asyncio.StreamWriter, request: bytes) -> None:
    # A command may answer without reading all of its input.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.write(request)
        await stream.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stream.close()
        await stream.wait_closed()


async def _read(
    stream: asyncio.StreamReader, limit_bytes: int, when_full: Callable[[], None] | None = None
) -> bytes:
    """The first `limit_bytes`. The rest is read and dropped: a full pipe would block its writer."""
    kept = bytearray()
    while chunk := await stream.read(65_536):
        was_full = len(kept) == limit_bytes
        kept += chunk[: limit_bytes - len(kept)]
        if when_full is not None and not was_full and len(kept) == limit_bytes:
            when_full()
    return bytes(kept)


def _kill(process: asyncio.subprocess.Process) -> None:
    # The process leads its own group, so this reaches what it started and nothing else.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end(process: asyncio.subprocess.Process) -> None:
    streams = (process.stdout, process.stderr)
    if process.returncode is not None and all(stream is None or stream.at_eof() for stream in streams):
        return
    # What the process started may outlive it and hold its streams open.
    _kill(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(KILL_GRACE_SECONDS):
            await process.communicate()


def _not_started(command: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the re-execution command {command!r:.200} cannot be started: {reason}",
        code="re-execution-not-started",
        hint="give a program that reads the canonical request on stdin and prints the response",
    )
