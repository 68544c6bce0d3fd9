"""The real node with a few tools, for tests of the client."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode, running_node
from aioum_node.keys.identity import Identity
from aioum_node.settings import Settings
from aioum_node.tools import tool
from tests.integration.conftest import FundedAccount

StartNode = Callable[..., AbstractAsyncContextManager[RunningNode]]

RUNS: list[str] = []
"""What the tools were asked, in the order in which they ran."""


@tool(price=100)
def wordcount(text: str) -> dict[str, int]:
    """Counts words."""
    RUNS.append(text)
    return {"words": len(text.split())}


@tool(price=70)
def broken(text: str) -> str:
    """Fails."""
    RUNS.append(text)
    raise RuntimeError(text)


class Meeting:
    """Where calls wait inside their tool: for one another, or until the test releases them."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Nobody is here yet."""
        self.count = 0
        self.changed = asyncio.Event()
        self.released = asyncio.Event()

    async def until(self, count: int) -> None:
        """Until so many calls came."""
        while self.count < count:
            self.changed.clear()
            await self.changed.wait()


MEETING = Meeting()


@tool(price=10)
async def meet(text: str, parties: int) -> str:
    """Answers once so many calls are inside."""
    RUNS.append(text)
    MEETING.count += 1
    while MEETING.count < parties:
        MEETING.changed.set()
        await asyncio.sleep(0)
    MEETING.changed.set()
    return text


@tool(price=10)
async def wait(text: str) -> str:
    """Answers once it is released; fails where the text says so."""
    RUNS.append(text)
    MEETING.count += 1
    MEETING.changed.set()
    await MEETING.released.wait()
    if text.startswith("fail"):
        raise RuntimeError(text)
    return text


@tool(price=10)
async def last_first(text: str, number: int) -> str:
    """Answers when the call with the next number has answered; 0 is the last."""
    RUNS.append(text)
    while number and str(number - 1) not in DONE:
        await asyncio.sleep(0)
    DONE.append(str(number))
    return text


DONE: list[str] = []
"""Numbers of the calls of `last_first` in the order in which they were answered."""

TOOLS = (wordcount, broken, meet, wait, last_first)


def node_starter(devnet: RunningDevnet, operator: FundedAccount, node_dir: Path) -> StartNode:
    """Starts nodes of one operator and folder; they forget what ran before."""
    RUNS.clear()
    DONE.clear()
    MEETING.begin()

    def start(functions: Sequence[Any] = TOOLS, **changes: Any) -> AbstractAsyncContextManager[RunningNode]:
        settings = Settings(
            **{
                "node_dir": node_dir,
                "listen_port": 0,
                "admin_port": 0,
                "deployment_file": devnet.deployment_file,
                "opening_wait_seconds": 10,
                "watch_interval_seconds": 0.1,
                "settle_interval_seconds": 0.1,
                **changes,
            }
        )
        identity = Identity(operator.key, operator.key)
        return running_node(settings, functions=functions, identity=identity, register=True)

    return start
