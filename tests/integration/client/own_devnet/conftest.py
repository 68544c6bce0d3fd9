"""A devnet apart from the shared one: these tests move its time."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioum.devnet.running import RunningDevnet, running_devnet


@pytest.fixture(scope="session")
def devnet(anvil: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDevnet]:
    """A devnet whose time the tests of this folder move."""
    with asyncio.Runner() as runner:
        running = running_devnet(tmp_path_factory.mktemp("own-devnet"))
        started = runner.run(running.__aenter__())
        try:
            yield started
        finally:
            runner.run(running.__aexit__(None, None, None))
