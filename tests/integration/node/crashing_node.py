"""A node that kills itself at one step, its only argument (`none`: at none); settings come on stdin.

It prints its URL and serves until the step comes. SIGKILL leaves no time for anything, as a power cut would.
After `stand-still-` a step is where it stops once, until somebody lets it go on, as a host that is suspended.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.rpc import Rpc
from aioum.core.signing import LocalKey
from aioum_node.app import running_node
from aioum_node.keys.identity import Identity
from aioum_node.logs import configure_logs
from aioum_node.settings import Settings
from aioum_node.storage import is_shared
from aioum_node.store.postgres.journal import PostgresTransactionJournal
from aioum_node.tools import tool

CALL_STEPS = ("before-admit", "after-admit", "in-tool", "before-record", "after-record")
SETTLEMENT_STEPS = ("after-seal", "after-journal", "after-broadcast", "before-finalize", "after-finalize")
STAND_STILL = "stand-still-"
PRICE = 1_000

in_tool: list[Callable[[], None]] = []


@tool(price=PRICE)
def note(text: str, folder: str) -> str:
    """Writes down that it ran."""
    with (Path(folder) / "ran").open("a", encoding="utf-8") as file:
        file.write(text + "\n")
    for act in in_tool:
        act()
    return text.upper()


def crash() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def stand_still() -> None:
    """Say so, and stop this process until it is continued."""
    print("standing still", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)


def once(act: Callable[[], None]) -> Callable[[], None]:
    """What acts at its first call only."""
    acts = [act]
    return lambda: acts.pop()() if acts else None


def _around(
    owner: type,
    name: str,
    *,
    before: bool,
    act: Callable[[], None],
    when: Callable[[dict[str, Any]], bool] = lambda named: True,
) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    async def crashing(*arguments: Any, **named: Any) -> Any:
        chosen = when(named)
        if chosen and before:
            act()
        result = await original(*arguments, **named)
        if chosen and not before:
            act()
        return result

    setattr(owner, name, crashing)


def _finalizes(named: dict[str, Any]) -> bool:
    return "transaction_hash" in named


def arm(step: str, store: type, journal: type) -> None:
    """Let the process crash when it comes to `step`; `store` and `journal` are the adapters that it uses."""
    act = crash
    if step.startswith(STAND_STILL):
        step, act = step.removeprefix(STAND_STILL), once(stand_still)
    match step:
        case "before-admit" | "after-admit" | "before-record" | "after-record":
            when, _, method = step.partition("-")
            _around(store, method, before=when == "before", act=act)
        case "in-tool":
            in_tool.append(act)
        case "slow-tool":
            in_tool.append(lambda: time.sleep(0.5))
        case "after-seal":
            _around(store, "update", before=False, act=act)
        case "after-journal":
            _around(journal, "append", before=False, act=act)
        case "after-broadcast":
            _around(Rpc, "broadcast", before=False, act=act)
        case "before-finalize" | "after-finalize":
            _around(store, "update", before=step.startswith("before"), act=act, when=_finalizes)


async def main() -> None:
    given = json.load(sys.stdin)
    key = LocalKey.from_hex(given.pop("key"))
    settings = Settings(**given)
    configure_logs(settings)
    async with running_node(settings, functions=[note], identity=Identity(key, key)) as node:
        # Armed only now: starting up writes, too.
        journal = PostgresTransactionJournal if is_shared(settings) else SqliteTransactionJournal
        arm(sys.argv[1], type(node.store), journal)
        print(node.url, flush=True)
        await asyncio.wait([node.supervisor])


if __name__ == "__main__":
    asyncio.run(main())
