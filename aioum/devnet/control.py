"""A devnet that outlives the program that starts it: up, down, status, reset."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aioum.chain.client import check_deployment
from aioum.chain.deployments import DEPLOYMENT_FILE_NAME, Deployment, default_devnet_dir
from aioum.chain.rpc import Rpc
from aioum.core.errors import ChainError, ConfigError
from aioum.devnet.anvil import LOG_FILE_NAME, end_detached, find_anvil, start_detached, start_mark
from aioum.devnet.config import DevnetConfig, default_config
from aioum.devnet.genesis import populate

STATE_FILE_NAME: Final = "devnet.json"
_LOCK_FILE_NAME: Final = "devnet.lock"


class DevnetState(StrEnum):
    """What `Devnet.status` finds.

    Attributes:
        RUNNING: the process runs, and the deployments file describes its chain.
        STALE: it runs, but its chain is not (or no longer) what the deployments file describes.
        STOPPED: it does not run; a deployments file of an earlier run may lie there still.
    """

    RUNNING = "running"
    STALE = "stale"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class DevnetStatus:
    """The devnet of one folder.

    Attributes:
        pid, rpc_url: of the process, None where it does not run.
        deployment: what is deployed, None unless it runs.
        reason: why it is stale, else None.
    """

    state: DevnetState
    directory: Path
    pid: int | None = None
    rpc_url: str | None = None
    deployment: Deployment | None = None
    reason: str | None = None


class Devnet:
    """The devnet of one folder, which holds its process id, its log and its deployments file."""

    def __init__(self, directory: Path | None = None, config: DevnetConfig | None = None) -> None:
        """Take a folder; nothing is started.

        Args:
            directory: by default AIOUM_DEVNET_DIR, else ~/.aioum/devnet.
            config: by default the one that ships with aioum.
        """
        self.directory = directory or default_devnet_dir()
        self.config = config or default_config()

    @property
    def deployment_file(self) -> Path:
        """Where the deployment is written."""
        return self.directory / DEPLOYMENT_FILE_NAME

    @property
    def log_file(self) -> Path:
        """Where anvil writes."""
        return self.directory / LOG_FILE_NAME

    async def up(self, *, port: int | None = None) -> Deployment:
        """Start the devnet and deploy, or return what runs already.

        Args:
            port: by default the configuration's; 0: any free one.

        Raises:
            ConfigError: `anvil-not-found`, `devnet-busy`.
            ChainError: `devnet-start-failed`; `deployment-stale` where one runs whose chain is another.
        """
        with self._exclusive():
            status = await self.status()
            if status.deployment is not None and status.state is DevnetState.RUNNING:
                return status.deployment
            if status.state is DevnetState.STALE:
                raise ChainError(
                    f"a devnet runs, but it is not the one that was deployed to: {status.reason}",
                    code="deployment-stale",
                    hint="start over with `aioum devnet reset`",
                )
            return await self._start(port)

    async def down(self) -> bool:
        """End the devnet; its chain is gone with it. Returns whether one ran.

        Raises:
            ConfigError: `devnet-busy`.
        """
        if not self.directory.exists():
            return False
        with self._exclusive():
            return await self._stop()

    async def reset(self, *, port: int | None = None) -> Deployment:
        """End the devnet if it runs, and start a new one. Raises as `up`."""
        with self._exclusive():
            find_anvil()
            await self._stop()
            return await self._start(port)

    async def status(self) -> DevnetStatus:
        """What runs. Raises nothing of its own: an endpoint that does not answer is a stale devnet."""
        process = self._process()
        if process is None:
            return DevnetStatus(DevnetState.STOPPED, self.directory)
        try:
            deployment = Deployment.load(self.deployment_file)
            async with Rpc(process.rpc_url) as rpc:
                await check_deployment(rpc, deployment)
        except ChainError as error:
            return DevnetStatus(
                DevnetState.STALE, self.directory, process.pid, process.rpc_url, reason=str(error)
            )
        return DevnetStatus(
            DevnetState.RUNNING, self.directory, process.pid, process.rpc_url, deployment=deployment
        )

    async def _start(self, port: int | None) -> Deployment:
        config = self.config if port is None else self.config.on_port(port)
        program = find_anvil()
        # A file of an earlier run must not be taken for this one's while it is being deployed.
        self.deployment_file.unlink(missing_ok=True)
        pid, listening = await asyncio.to_thread(start_detached, program, config, self.directory)
        rpc_url = f"http://{config.chain.host}:{listening}"
        process = _Process(pid=pid, start_mark=start_mark(pid) or "", rpc_url=rpc_url)
        try:
            (self.directory / STATE_FILE_NAME).write_text(process.model_dump_json(by_alias=True))
            deployment = await populate(rpc_url, config)
            deployment.save(self.deployment_file)
        except BaseException:
            await self._stop()
            raise
        return deployment

    async def _stop(self) -> bool:
        process = self._process()
        if process is not None:
            await asyncio.to_thread(end_detached, process.pid, process.start_mark)
        (self.directory / STATE_FILE_NAME).unlink(missing_ok=True)
        return process is not None

    def _process(self) -> _Process | None:
        """The process that was started here, if it still is that one: its id may belong to another by now."""
        try:
            process = _Process.model_validate_json((self.directory / STATE_FILE_NAME).read_bytes())
        except (OSError, ValidationError):
            return None
        return process if start_mark(process.pid) == process.start_mark else None

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self.directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.directory / _LOCK_FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"another program is starting or ending the devnet in {self.directory}",
                    code="devnet-busy",
                    hint="wait for it, or use another folder (AIOUM_DEVNET_DIR)",
                ) from None
            yield
        finally:
            os.close(descriptor)


class _Process(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    pid: int = Field(gt=1)
    start_mark: str = Field(alias="startMark", min_length=1)
    rpc_url: str = Field(alias="rpcUrl")
