"""Real nodes that kill themselves at a named step; started by the tests of this folder, not collected.

Reads jobs as JSON lines on standard input and forks a process for each: importing takes longer than starting
a node. Each process runs a whole node (settings, store, chain, HTTP), says on one line where it serves, and
goes on until it comes to its step, where SIGKILL ends it as a power cut would, or until the next line or the
end of input stops it. The line after that is its exit status. The steps lie around the node's own components;
nothing is replaced.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import web3  # noqa: F401 - the node loads it when it connects; here, once for all nodes
from aiohttp import web

from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.rpc import Rpc
from aioum.chain.signers import LocalSigner
from aioum.core.errors import AioumError
from aioum.core.ledger import Phase
from aioum.core.payment import CallReceipt
from aioum.core.signing import LocalKey
from aioum.core.wire import RECEIPT_HEADER
from aioum_node.app import running_node
from aioum_node.keys.identity import Identity
from aioum_node.logs import configure_logs
from aioum_node.service import ToolFunction
from aioum_node.settings import Settings
from aioum_node.store.sqlite import SqliteStore
from aioum_node.tools import ToolError, tool
from aioum_node.upstream.function import FunctionUpstream
from tests.durable_steps import Countdown, watch

PRICE: Final = 1_000
RUNS_FILE: Final = "runs"
GATE_FILE: Final = "gate"
POINT_FILE: Final = "point"
STOP: Final = b"stop\n"

OPENING_STEPS: Final = ("before-adopt", "after-adopt")
CALL_STEPS: Final = (
    "before-admit", "after-admit", "before-tool", "in-tool", "after-tool", "before-record", "after-record",
    "after-receipt", "before-answer", "after-delivery",
)  # fmt: skip
SETTLEMENT_STEPS: Final = (
    "before-seal", "after-seal", "before-journal", "after-journal", "after-broadcast", "before-outcome",
    "after-outcome", "before-finalize", "after-finalize",
)  # fmt: skip

Counts = Callable[..., Awaitable[bool]]


class Fuse:
    """Ends the process at one step, once it is lit."""

    def __init__(self, step: str | None) -> None:
        self._step = step
        self.lit = False

    def reach(self, step: str) -> None:
        if self.lit and step == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


async def _always(*arguments: Any, **named: Any) -> bool:
    return True


async def _is_receipt(signer: LocalSigner, message: object, *rest: Any) -> bool:
    return isinstance(message, CallReceipt)


async def _is_paid(response: web.Response, *rest: Any) -> bool:
    return RECEIPT_HEADER in response.headers


def _enters(phase: Phase) -> Counts:
    async def enters(store: SqliteStore, channel_id: Any, change: Any, *rest: Any, **named: Any) -> bool:
        stored = await store.session(channel_id)
        try:
            return (
                stored is not None and stored.state.phase is not phase and change(stored.state).phase is phase
            )
        except AioumError:
            return False

    return enters


PLACES: Final[tuple[tuple[type, str, str, Counts], ...]] = (
    (SqliteStore, "open", "adopt", _always),
    (SqliteStore, "admit", "admit", _always),
    (FunctionUpstream, "run", "tool", _always),
    (SqliteStore, "record", "record", _always),
    (LocalSigner, "sign", "receipt", _is_receipt),
    (web.Response, "prepare", "answer", _is_paid),
    (web.Response, "write_eof", "delivery", _is_paid),
    (SqliteStore, "update", "seal", _enters(Phase.SEALED)),
    (SqliteTransactionJournal, "append", "journal", _always),
    (Rpc, "broadcast", "broadcast", _always),
    (SqliteTransactionJournal, "resolve", "outcome", _always),
    (SqliteStore, "update", "finalize", _enters(Phase.FINAL)),
)
"""Class, method, the step's name, and which of its calls count."""


def lay(fuse: Fuse) -> None:
    """Put a step before and after each place."""
    for owner, method, name, counts in PLACES:
        setattr(owner, method, _between(getattr(owner, method), fuse, name, counts))


def _between(original: Any, fuse: Fuse, name: str, counts: Counts) -> Any:
    @functools.wraps(original)
    async def between(*arguments: Any, **named: Any) -> Any:
        # Asked before: what is done changes the answer.
        counted = await counts(*arguments, **named)
        if counted:
            fuse.reach(f"before-{name}")
        result = await original(*arguments, **named)
        if counted:
            fuse.reach(f"after-{name}")
        return result

    return between


def tools(folder: Path, fuse: Fuse) -> Sequence[ToolFunction]:
    """Tools that write down each time they run."""

    def ran(text: str) -> None:
        with (folder / RUNS_FILE).open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    @tool(price=PRICE)
    def note(text: str) -> dict[str, str]:
        """Notes a text."""
        ran(text)
        fuse.reach("in-tool")
        return {"noted": text}

    @tool(price=PRICE)
    def spoil(text: str) -> str:
        """Fails."""
        ran(text)
        raise ToolError(f"spoiled {text}")

    @tool(price=PRICE)
    def hold(text: str) -> str:
        """Answers once somebody opened the gate, a named pipe."""
        ran(text)
        (folder / GATE_FILE).read_bytes()
        return f"held {text}"

    return (note, spoil, hold)


async def serve(job: dict[str, Any]) -> None:
    """Run one node to its end."""
    settings = Settings(**job["settings"])
    configure_logs(settings)
    fuse = Fuse(job["crash_at"])
    fuse.lit = job["from_start"]
    lay(fuse)
    countdown = Countdown(job["crash_point"], functools.partial(note, settings.node_dir))
    countdown.lit = job["from_start"]
    watch(countdown)
    stopped = asyncio.Event()

    def stop() -> None:
        os.read(0, 64)
        stopped.set()

    key = LocalKey.from_hex(job["key"])
    functions = tools(settings.node_dir, fuse)
    identity = Identity(key, key)
    async with running_node(
        settings, functions=functions, identity=identity, register=job["register"]
    ) as node:
        asyncio.get_running_loop().add_reader(0, stop)
        say(url=node.url, service=node.registration.service_id)
        fuse.lit = countdown.lit = True
        waiting = asyncio.create_task(stopped.wait())
        await asyncio.wait({waiting, node.supervisor}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()


def note(folder: Path, point: str) -> None:
    (folder / POINT_FILE).write_text(point, encoding="utf-8")


def say(**words: Any) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def main() -> None:
    # Unbuffered: a node's process reads the line that stops it from the same pipe.
    with open(0, "rb", buffering=0, closefd=False) as jobs:
        for line in jobs:
            if line == STOP:
                # Meant for a node that died first.
                continue
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    asyncio.run(serve(json.loads(line)))
                    status = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            _, status = os.waitpid(pid, 0)
            say(status=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
