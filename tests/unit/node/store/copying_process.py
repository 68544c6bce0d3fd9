"""Copies a store and kills itself when a given number of durable steps is done."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from aioum_node.store.postgres.copying import copy_store


async def main(source: Path, journal: Path, url: str, schema: str, steps: int) -> None:
    done = 0

    async def note(step: str) -> None:
        nonlocal done
        done += 1
        if done == steps:
            os.kill(os.getpid(), signal.SIGKILL)

    await copy_store(source, journal, url, schema, note)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])))
