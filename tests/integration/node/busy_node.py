"""A node in a process of its own, for tests that kill it; settings come on stdin, its URL goes to stdout.

Both tools write down what they ran with, in the node's folder; `hold` never answers.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Final

from aioum.core.signing import LocalKey
from aioum_node.app import running_node
from aioum_node.keys.identity import Identity
from aioum_node.logs import configure_logs
from aioum_node.service import ToolFunction
from aioum_node.settings import Settings
from aioum_node.tools import ToolError, tool

PRICE: Final = 1_000
RAN_FILE: Final = "ran"


def tools(folder: Path) -> tuple[ToolFunction, ...]:
    def ran(text: str) -> None:
        with (folder / RAN_FILE).open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    @tool(price=PRICE)
    def note(text: str) -> str:
        ran(text)
        return text.upper()

    @tool(price=PRICE)
    def spoil(text: str) -> str:
        ran(text)
        raise ToolError(text)

    @tool(price=PRICE, timeout_seconds=300)
    async def hold(text: str) -> str:
        ran(text)
        await asyncio.Event().wait()
        return text

    return (note, spoil, hold)


async def main() -> None:
    given = json.load(sys.stdin)
    key = LocalKey.from_hex(given.pop("key"))
    settings = Settings(**given)
    configure_logs(settings)
    functions = tools(settings.node_dir)
    async with running_node(settings, functions=functions, identity=Identity(key, key)) as node:
        print(node.url, flush=True)
        await asyncio.wait([node.supervisor])


if __name__ == "__main__":
    asyncio.run(main())
