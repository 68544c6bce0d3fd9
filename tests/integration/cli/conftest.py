"""The installed commands, run as programs against a real chain and a real node."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aioum.core.hextext import to_hex
from aioum.core.signing import LocalKey
from aioum.devnet.running import RunningDevnet
from tests.warm import warm_commands

SCRIPTS = Path(sys.executable).parent
TIMEOUT_SECONDS = 120
NODE_ACCOUNT = 8
"""Devnet account of the node's operator; no other test of this folder sends with it."""

CLIENT_ACCOUNT = 9

_TOOLS = '''
from aioum_node.tools import ToolError, tool


@tool(price="0.25", deterministic=True)
def repeat(text: str, times: int = 1) -> str:
    """Repeats a text."""
    return text * times


@tool(price="0.5")
def refuse(reason: str) -> str:
    """Fails with the given reason."""
    raise ToolError(reason)
'''


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands with a home and an environment of their own.

    Attributes:
        environment: all that a command gets.
    """

    environment: dict[str, str]

    def start(self, command: str, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        """Start an installed command and do not wait for it."""
        return subprocess.Popen([str(SCRIPTS / command), *arguments], env=self.environment, **options)

    def run(
        self, command: str, *arguments: str, stdin: bytes = b"", expect: int = 0
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run an installed command to its end, which must have the exit code `expect`."""
        done = warm_commands().run(command, arguments, self.environment, stdin, TIMEOUT_SECONDS)
        assert done.returncode == expect, (arguments, done.returncode, done.stdout, done.stderr.decode())
        return done

    def json(self, *arguments: str, expect: int = 0, stdin: bytes = b"") -> Any:
        """The JSON document that `aioum … --json` prints; in a pipe it is one line."""
        out = self.run("aioum", *arguments, "--json", expect=expect, stdin=stdin).stdout
        assert out.count(b"\n") == 1
        return json.loads(out)

    def text(self, *arguments: str) -> str:
        """What `aioum …` prints on standard output."""
        return self.run("aioum", *arguments).stdout.decode()

    def code(self, *arguments: str, expect: int = 1) -> str:
        """The code in brackets at the end of the error line of a command that fails and prints no result."""
        done = self.run("aioum", *arguments, expect=expect)
        assert done.stdout == b""
        assert b"Traceback" not in done.stderr
        (line,) = [line for line in done.stderr.decode().splitlines() if line.startswith("error: ")]
        return line.rpartition("[")[2].removesuffix("]")


def make_shell(home: Path, **variables: str) -> Shell:
    """A shell whose environment is that of the tests without settings of aioum."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIOUM_")}
    return Shell({**inherited, "HOME": str(home), **variables})


@contextmanager
def serving(shell: Shell, folder: Path, deployment_file: Path, *options: str) -> Iterator[dict[str, str]]:
    """A node with two tools, for as long as the block runs; gives its url and serviceId, and its pid."""
    shell.run(
        "aioum-node", "init", "--dir", str(folder), "--devnet-account", str(NODE_ACCOUNT),
        "--deployment", str(deployment_file), "--name", "Echo & Sons",
    )  # fmt: skip
    (folder / "tools" / "starter_tools.py").write_text(_TOOLS, encoding="utf-8")
    log = folder / "errors"
    with log.open("wb") as errors:
        process = shell.start(
            "aioum-node", "run", "--register", "--json", "--dir", str(folder),
            "--listen-port", "0", "--admin-port", "0", "--settle-interval-seconds", "0.2",
            *options,
            stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        yield {**json.loads(line), "pid": str(process.pid)}
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@pytest.fixture(scope="module")
def node(devnet: RunningDevnet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A node on the shared devnet."""
    folder = tmp_path_factory.mktemp("node")
    with serving(make_shell(folder), folder / "shop", devnet.deployment_file) as facts:
        yield facts


@pytest.fixture
def shell(devnet: RunningDevnet, tmp_path: Path) -> Shell:
    """A client with an empty record, on the shared devnet."""
    home = tmp_path / "home"
    home.mkdir()
    return make_shell(
        home,
        AIOUM_DEPLOYMENT=str(devnet.deployment_file),
        AIOUM_DEVNET_ACCOUNT=str(CLIENT_ACCOUNT),
        AIOUM_DATA_DIR=str(tmp_path / "record"),
    )


@pytest.fixture
def key_file(tmp_path: Path) -> Callable[[LocalKey], Path]:
    """Writes a key into a file that only this user can read."""

    def write(key: LocalKey) -> Path:
        path = tmp_path / "key"
        path.touch(mode=0o600)
        path.write_text(to_hex(key.secret_bytes()))
        return path

    return write
