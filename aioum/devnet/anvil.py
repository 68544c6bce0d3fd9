"""Finding, starting and ending anvil."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from aioum.core.errors import ChainError, ConfigError
from aioum.devnet.config import DevnetConfig

ANVIL_VARIABLE: Final = "AIOUM_ANVIL"
ANVIL_PACKAGE: Final = "@foundry-rs/anvil"
LOG_FILE_NAME: Final = "anvil.log"
_LISTENING: Final = re.compile(rb"^Listening on .*:(\d+)\s*$", re.MULTILINE)
_POLL_SECONDS: Final = 0.02
_END_SECONDS: Final = 10.0


def find_anvil(environ: Mapping[str, str] = os.environ) -> Path:
    """The anvil program: AIOUM_ANVIL, else node_modules of this checkout or of the working folder, else PATH.

    Raises:
        ConfigError: `anvil-not-found`.
    """
    hint = (
        f"install Node.js, then: npm install {ANVIL_PACKAGE}  (or set {ANVIL_VARIABLE} to an anvil program)"
    )
    if named := environ.get(ANVIL_VARIABLE):
        if _is_program(Path(named)):
            return Path(named)
        raise ConfigError(f"{ANVIL_VARIABLE} names no program: {named}", code="anvil-not-found", hint=hint)
    for folder in (Path(__file__).resolve().parents[2], Path.cwd()):
        # The package of the platform holds the program itself; the one in .bin is a script that starts it.
        for candidate in sorted(folder.glob("node_modules/@foundry-rs/anvil-*/bin/anvil*")):
            if _is_program(candidate):
                return candidate
    found = shutil.which("anvil", path=environ.get("PATH"))
    if found is None:
        raise ConfigError("anvil, the local chain, is not installed", code="anvil-not-found", hint=hint)
    return Path(found)


def command(program: Path, config: DevnetConfig) -> list[str]:
    """The arguments that start anvil with a configuration."""
    chain, accounts = config.chain, config.accounts
    return [
        str(program),
        *("--host", chain.host),
        *("--port", str(chain.port)),
        *("--chain-id", str(chain.chain_id)),
        *("--block-time", str(chain.block_time_seconds)),
        *(("--mixed-mining",) if chain.mixed_mining else ()),
        *("--mnemonic", accounts.mnemonic),
        *("--accounts", str(accounts.count)),
        *("--balance", str(accounts.balance_ether)),
    ]


def start_bound(program: Path, config: DevnetConfig, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start anvil as a child that ends with this process.

    Returns:
        the process, to be ended with `end_bound`, and the port that it listens on.

    Raises:
        ChainError: `devnet-start-failed`.
    """
    arguments = command(program, config)
    # Where Linux offers it, the kernel ends anvil when this process is killed and cannot.
    if guard := shutil.which("setpriv"):
        arguments = [guard, "--pdeathsig", "KILL", "--", *arguments]
    log_path = folder / LOG_FILE_NAME
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        return process, _await_port(log_path, config, lambda: process.poll() is None)
    except BaseException:
        end_bound(process)
        raise


def end_bound(process: subprocess.Popen[bytes]) -> None:
    """End a child of `start_bound` and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            _signal_group(process.pid, number)
        try:
            process.wait(_END_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def start_detached(program: Path, config: DevnetConfig, folder: Path) -> tuple[int, int]:
    """Start anvil so that it outlives this process.

    Returns:
        its process id and the port that it listens on.

    Raises:
        ChainError: `devnet-start-failed`.
    """
    log_path = folder / LOG_FILE_NAME
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    pid = os.posix_spawn(
        program,
        command(program, config),
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log_path), flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    try:
        return pid, _await_port(log_path, config, lambda: start_mark(pid) is not None)
    except BaseException:
        end_detached(pid, start_mark(pid))
        raise


def end_detached(pid: int, mark: str | None) -> None:
    """End the process that `start_detached` started, if it is still that one, and wait until it is gone.

    Args:
        pid: its process id.
        mark: its `start_mark` when it was started.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _END_SECONDS
        if mark is None or start_mark(pid) != mark:
            return
        _signal_group(pid, number)
        while time.monotonic() < deadline:
            if start_mark(pid) != mark:
                return
            time.sleep(_POLL_SECONDS)


def start_mark(pid: int) -> str | None:
    """What tells a process from a later one that got the same id; None where no such process runs."""
    _reap(pid)
    stat = Path("/proc", str(pid), "stat")
    if Path("/proc/self/stat").exists():
        try:
            # The name in parentheses may hold anything; the fields after it are fixed.
            fields = stat.read_bytes().rpartition(b")")[2].split()
        except OSError:
            return None
        return None if fields[0] in (b"Z", b"X") else fields[19].decode()
    listing = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_END_SECONDS,
    )
    return listing.stdout.strip() or None


def _await_port(log_path: Path, config: DevnetConfig, is_running: Callable[[], bool]) -> int:
    """Wait for anvil to say where it listens: an answer on the port might come from another program."""
    deadline = time.monotonic() + config.chain.start_timeout_seconds
    while time.monotonic() < deadline:
        running = is_running()
        output = log_path.read_bytes() if log_path.exists() else b""
        if found := _LISTENING.search(output):
            return int(found[1])
        if not running:
            break
        time.sleep(_POLL_SECONDS)
    output = log_path.read_bytes() if log_path.exists() else b""
    last = " ".join(_last_lines(output.decode(errors="replace")))
    in_use = "in use" in last
    raise ChainError(
        f"anvil did not start: {last or 'it said nothing'}",
        code="devnet-start-failed",
        hint=f"another program uses {config.chain.host}:{config.chain.port}; stop it, or choose another port"
        if in_use
        else f"see {log_path}",
    )


def _last_lines(text: str) -> Iterator[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    yield from lines[-3:]


def _signal_group(pid: int, number: signal.Signals) -> None:
    # Both ways of starting make anvil the leader of a group of its own.
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        # Another process started it.
        return


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
