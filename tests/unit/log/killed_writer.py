"""Writes a log and kills itself at a step of its disk. Arguments: folder, operation, name of a file."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from aioum.log.disk import Disk
from aioum.log.files import LogFolder
from aioum.log.publish import FileRegister, publish
from tests.unit.log.samples import KEY, ORIGIN, entries


class KillingDisk(Disk):
    """Kills the process before the first step of that name on a file of that name."""

    def __init__(self, operation: str, name: str) -> None:
        self._point = operation, name

    def write(self, path: Path, position: int, data: bytes) -> None:
        self._pass("write", path)
        super().write(path, position, data)

    def sync(self, path: Path) -> None:
        self._pass("sync", path)
        super().sync(path)
        self._pass("synced", path)

    def rename(self, source: Path, target: Path) -> None:
        self._pass("rename", target)
        super().rename(source, target)
        self._pass("renamed", target)

    def _pass(self, operation: str, path: Path) -> None:
        if self._point == (operation, path.name):
            os.kill(os.getpid(), signal.SIGKILL)


async def main(path: Path, operation: str, name: str) -> None:
    disk = KillingDisk(operation, name)
    with LogFolder.open(path / "log", ORIGIN, disk=disk) as log:
        log.append(entries(10, 20))
        await publish(log, FileRegister(path / "apart" / "register", disk=disk), KEY)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
