"""Running a kit in a container, by the command line of docker or podman (SUBMISSIONS 3.3)."""

from __future__ import annotations

import math
import os
import re
import secrets
import selectors
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Final

from aioum.core.errors import AioumError
from aioum.kits.archive import content_digest, write_archive
from aioum.kits.execution import KIT_DIRECTORY, REPLAY_PATH, RunLimits, RunnerUnavailable, RunResult
from aioum.kits.folder import read_folder, write_folder
from aioum.kits.kit import Kit

ENGINES: Final = ("docker", "podman")
USER: Final = "65532:65532"
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SCRATCH_BYTES: Final = 16_777_216
TASKS_PER_PROCESS: Final = 32
"""The engine counts threads, of which a runtime such as Node starts a dozen for one process."""

ENGINE_TIMEOUT_SECONDS: Final = 10.0
"""Longest wait for the engine to remove a container."""

_MAX_COMPLAINT_BYTES: Final = 2_000
_ENGINE_FAILED: Final = 125
_PINNED: Final = re.compile(r"[a-z0-9][a-z0-9._/:-]{0,254}@sha256:[0-9a-f]{64}")
_REPLAY_FOLDER, _REPLAY_NAME = REPLAY_PATH.rsplit("/", 1)


def find_engine(names: Sequence[str] = ENGINES) -> str:
    """The path of the first engine that is installed; whether it works is seen when it runs.

    Raises:
        RunnerUnavailable: `kit-runner-unavailable`.
    """
    for name in names:
        if path := which(name):
            return path
    raise RunnerUnavailable(f"none of {', '.join(names)} is installed")


@dataclass(frozen=True, slots=True)
class ContainerRunner:
    """Runs `node-esm` kits in an image of the caller's.

    The image's program reads the request on stdin, loads the kit from `/kit` and the artifact from `/replay`,
    both read-only, and prints the response.

    Attributes:
        engine: path of the engine's command.
        image: `name@sha256:…`; it must be on this machine, for a run downloads nothing.
        command: arguments for the image's entry point.
        environment: of the engine's command, besides a plain PATH; a rootless engine needs XDG_RUNTIME_DIR.
            The container never sees it.

    Raises:
        RunnerUnavailable: `kit-image-not-pinned`.
    """

    engine: str
    image: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a name that somebody could move to another image."""
        if not _PINNED.fullmatch(self.image):
            raise RunnerUnavailable(
                f"the image {self.image!r:.200} is not pinned",
                code="kit-image-not-pinned",
                hint="name it by digest: name@sha256:…",
            )

    @property
    def runtime_kinds(self) -> frozenset[str]:
        """`node-esm`."""
        return frozenset({"node-esm"})

    def arguments(
        self, container: str, kit_folder: Path, replay_folder: Path, limits: RunLimits
    ) -> list[str]:
        """The whole command line of one run."""
        seconds = math.ceil(limits.cpu_seconds)
        return [
            self.engine,
            "run",
            "--rm",
            "--interactive",
            f"--name={container}",
            "--pull=never",
            "--log-driver=none",
            "--network=none",
            "--ipc=none",
            "--read-only",
            f"--tmpfs=/tmp:rw,noexec,nosuid,nodev,size={SCRATCH_BYTES}",
            f"--mount=type=bind,src={kit_folder},dst={KIT_DIRECTORY},readonly",
            f"--mount=type=bind,src={replay_folder},dst={_REPLAY_FOLDER},readonly",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            f"--user={USER}",
            f"--pids-limit={limits.processes * TASKS_PER_PROCESS}",
            f"--memory={limits.memory_bytes}",
            f"--memory-swap={limits.memory_bytes}",
            "--cpus=1",
            f"--ulimit=cpu={seconds}:{seconds}",
            "--ulimit=core=0:0",
            f"--env=PATH={PATH}",
            "--workdir=/",
            self.image,
            *self.command,
        ]

    def run(self, kit: Kit, request: bytes, artifact: bytes, limits: RunLimits) -> RunResult:
        """See `Runner.run`. The folder shown to the kit is compared with its digest before and after."""
        with tempfile.TemporaryDirectory(prefix="aioum-kit-") as name:
            folder = Path(name).resolve()
            if "," in str(folder):
                raise RunnerUnavailable(f"the engine cannot mount {folder}, there is a comma in its path")
            kit_folder, replay_folder = folder / "kit", folder / "replay"
            try:
                write_folder(kit_folder, kit.files)
                write_folder(replay_folder, {_REPLAY_NAME: artifact})
            except OSError as error:
                raise RunnerUnavailable(f"the kit cannot be laid out: {error}") from error
            if not _holds(kit_folder, kit):
                raise RunnerUnavailable("the laid out kit is not the kit", code="kit-directory-changed")
            container = f"aioum-kit-{secrets.token_hex(8)}"
            result = self._run(
                self.arguments(container, kit_folder, replay_folder, limits), container, request, limits
            )
            if not _holds(kit_folder, kit):
                return RunResult(b"", "kit-directory-changed", "the kit's folder changed while it ran")
            return result

    def _run(self, arguments: list[str], container: str, request: bytes, limits: RunLimits) -> RunResult:
        environment = {**self.environment, "PATH": PATH}
        complaint = bytearray()
        with tempfile.TemporaryFile() as stdin:
            stdin.write(request)
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    arguments,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise RunnerUnavailable(
                    f"{self.engine} cannot be started: {error.strerror or error}"
                ) from error
            with process:
                try:
                    result = _watch(process, limits, complaint)
                finally:
                    if process.poll() is None:
                        # The engine's command is only a client: ending it leaves the container running.
                        self._remove(container, environment)
                        process.kill()
            if result.stopped is None and process.returncode != 0:
                said = _said(complaint)
                if process.returncode == _ENGINE_FAILED:
                    raise RunnerUnavailable(f"{self.engine} did not run it: {said[0]}")
                return RunResult(b"", "kit-run-failed", f"status {process.returncode}: {said[-1]}")
            return result

    def _remove(self, container: str, environment: Mapping[str, str]) -> None:
        # If this fails as well, the limits on processor time still end it.
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [self.engine, "rm", "--force", container],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(environment),
                cwd="/",
                timeout=ENGINE_TIMEOUT_SECONDS,
                check=False,
            )


def _watch(process: subprocess.Popen[bytes], limits: RunLimits, complaint: bytearray) -> RunResult:
    """Read what the kit prints, its complaints too, until it ends or exceeds a limit."""
    deadline = time.monotonic() + limits.wall_seconds
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        for stream, taken in ((process.stdout, output), (process.stderr, complaint)):
            assert stream is not None  # noqa: S101 - it was asked for
            selector.register(stream, selectors.EVENT_READ, taken)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready or time.monotonic() > deadline:
                return _late(limits)
            for key, _ in ready:
                chunk = os.read(key.fd, 65_536)
                if not chunk:
                    selector.unregister(key.fileobj)
                key.data.extend(chunk)
                if len(key.data) > limits.output_bytes:
                    return RunResult(b"", "kit-run-output-exceeded", f"more than {limits.output_bytes} bytes")
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return _late(limits)
    return RunResult(bytes(output))


def _late(limits: RunLimits) -> RunResult:
    return RunResult(b"", "kit-run-timeout", f"no end within {limits.wall_seconds:g} s")


def _holds(folder: Path, kit: Kit) -> bool:
    """Whether a folder packs to exactly this kit."""
    try:
        return content_digest(write_archive(read_folder(folder))) == kit.digest
    except AioumError:
        return False


def _said(complaint: bytearray) -> list[str]:
    """Lines of standard error: an engine says first what is wrong, a program last."""
    lines = complaint[:_MAX_COMPLAINT_BYTES].decode(errors="replace").strip().splitlines()
    return [line[:200] for line in lines] or ["it said nothing"]
