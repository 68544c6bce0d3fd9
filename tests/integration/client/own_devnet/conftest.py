"""A devnet apart from the shared one: these tests move its time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.client.own_devnet.disputed_shop import Shop, open_shop
from tests.integration.conftest import FundAccount, FundedAccount


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


@pytest.fixture
async def shop(
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    payer: FundedAccount,
    fund_account: FundAccount,
) -> AsyncIterator[Shop]:
    """An operator whose sessions can be disputed, and everybody who takes part in it."""
    async with open_shop(chain, devnet, operator, await fund_account(), payer) as opened:
        yield opened
