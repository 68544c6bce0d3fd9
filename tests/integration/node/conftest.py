"""A whole node on the shared chain, and a client that pays it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from aioum.chain.client import Chain
from aioum.devnet.running import RunningDevnet
from aioum_node.app import SYSTEM_CLOCK, RunningNode, running_node
from aioum_node.keys.identity import Identity
from aioum_node.service import ToolFunction
from aioum_node.settings import Settings
from aioum_node.tools import tool
from tests.integration.conftest import FundedAccount
from tests.integration.node.edge_client import Buyer

PRICE = 1_000
StartNode = Callable[..., AbstractAsyncContextManager[RunningNode]]


@tool(price=PRICE)
def shout(text: str) -> str:
    return text.upper()


@tool(price=PRICE)
def fail(text: str = "") -> str:
    raise RuntimeError(text)


@pytest.fixture
async def buyer(chain: Chain, payer: FundedAccount) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as http:
        yield Buyer(chain, payer, http)


@pytest.fixture
def start_node(devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> StartNode:
    """Starts nodes of one operator in one folder; `functions` replaces the tools."""

    def start(functions: Sequence[ToolFunction] = (shout, fail), **changes: Any) -> Any:
        register = changes.pop("register", True)
        identity = changes.pop("identity", Identity(operator.key, operator.key))
        clock = changes.pop("clock", SYSTEM_CLOCK)
        settings = Settings(
            **{
                "node_dir": tmp_path / "node",
                "listen_port": 0,
                "admin_port": 0,
                "deployment_file": devnet.deployment_file,
                "opening_wait_seconds": 10,
                "watch_interval_seconds": 0.1,
                "settle_interval_seconds": 0.1,
                **changes,
            }
        )
        return running_node(settings, functions=functions, identity=identity, register=register, clock=clock)

    return start
