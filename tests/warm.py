"""Installed commands without the second that each needs for its imports.

A command runs in a process of its own, with streams, environment and folder of its own, as the installed one
does. But that process is forked from one that has imported everything before. What a command does while it is
imported is tested elsewhere, by the programs themselves.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from tempfile import TemporaryFile
from typing import Final

_PACKAGES: Final = ("aioum", "aioum_node")
_MAX_REQUEST_BYTES: Final = 1 << 20


class WarmCommands:
    """Runs console scripts of this project."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def close(self) -> None:
        """End the process that everything is forked from."""
        self._requests.close()
        self._server.wait()

    def run(
        self,
        command: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stdin: bytes,
        seconds: float,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command to its end.

        Raises:
            TimeoutError: it did not end within `seconds`; it was killed.
        """
        request = json.dumps([command, list(arguments), dict(environment), os.getcwd()]).encode()
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with answers, TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            with theirs:
                fds = [theirs.fileno(), given.fileno(), out.fileno(), err.fileno()]
                socket.send_fds(self._requests, [request], fds)
            answers.settimeout(seconds)
            pid = int(answers.recv(32))
            try:
                code = int(answers.recv(32))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess([command, *arguments], code, out.read(), err.read())


@cache
def warm_commands() -> WarmCommands:
    """Those of this process; they end with it."""
    commands = WarmCommands()
    atexit.register(commands.close)
    return commands


def _serve(requests: socket.socket) -> None:
    scripts = entry_points(group="console_scripts")
    mains = {script.name: script.load() for script in scripts if script.module.split(".")[0] in _PACKAGES}
    for package in _PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    # Whoever was started is reaped by the system.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, fds, _, _ = socket.recv_fds(requests, _MAX_REQUEST_BYTES, 4)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _attend(mains, request, fds)
        for fd in fds:
            os.close(fd)


def _attend(mains: Mapping[str, Callable[[], int | None]], request: bytes, fds: Sequence[int]) -> None:
    """Start the command, say its process id, wait for its end, and say its exit code."""
    answers = socket.socket(fileno=fds[0])
    pid = os.fork()
    if pid == 0:
        answers.close()
        for target, fd in enumerate(fds[1:]):
            os.dup2(fd, target)
            os.close(fd)
        command, arguments, environment, folder = json.loads(request)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = [command, *arguments]
        os._exit(_exit_code(mains[command]))
    answers.send(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    answers.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _exit_code(main: Callable[[], int | None]) -> int:
    """Of the installed script, which ends with `sys.exit(main())`."""
    try:
        sys.exit(main())
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code
        return code if isinstance(code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
