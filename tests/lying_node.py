"""Nodes that lie, each in one way: what a client that keeps the operator's words wins against.

In a test's own process: `with lying("random-root"): async with running_node(…)`. As a process of its own,
which reads lines from a pipe:

    python -m tests.lying_node LIE

The first line is a JSON object of `key` (the operator's, hex) and whatever `Settings` takes. The node sells
`shout` and `fail`, whose calls cost 1,000 base units, and 0 where they fail. Once it serves it prints a JSON
object with its `url`, `adminUrl` and `serviceId`. Each further line is the lie that it tells from then on; it
says that back. The end of the input ends the node.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

import aioum_node.api.sessions
import aioum_node.calls
from aioum.core import ledger
from aioum.core.ledger import Call, SessionState, Settlement
from aioum.core.merkle import root_of
from aioum.core.payment import CallReceipt, Statement
from aioum.core.signing import LocalKey
from aioum.core.transcript import node_hash
from aioum.core.types import Bytes32, ChannelId
from aioum_node.api.sessions import SessionRoutes
from aioum_node.app import running_node
from aioum_node.keys.identity import Identity
from aioum_node.logs import configure_logs
from aioum_node.settings import Settings
from aioum_node.tools import ToolError, tool

PRICE: Final = 1_000

LIES: Final = {
    "random-root": "anchors a root of nothing: L4 by any word, L1 by the statement over all calls",
    "inflated-count": "anchors the true root with three calls more than there were: L4 by any word",
    "altered-leaf": "anchors a tree whose first leaf is another one: L4 by the receipt of call 0",
    "dropped-tail": "anchors a history without the last call, and captures it all the same: L2",
    "overcharge": "captures the whole voucher, also where calls failed and cost nothing: L3",
    "two-receipts": "signs another leaf in a call's first receipt, and the true one in that of a retry: L1",
    "two-statements": "signs another sum when it is asked for a statement a second time: L1. Asked to close "
    "before it has given one, it says that it did, so that it is asked again",
    "none": "is honest",
}
"""Each lie, what it does, and what it loses to."""


@contextmanager
def lying(lie: str) -> Iterator[None]:
    """Let the nodes of this process tell one of LIES for as long as the block lasts."""
    liar = _Liar()
    with ExitStack() as stack:
        for owner in (aioum_node.calls, aioum_node.api.sessions):
            _replaced(stack, owner, "receipt_of", liar.noting(ledger.receipt_of))
        match lie:
            case "random-root":
                liar.settles(stack, lambda settlement: replace(settlement, root=_random()))
            case "inflated-count":
                liar.settles(
                    stack, lambda settlement: replace(settlement, call_count=settlement.call_count + 3)
                )
            case "altered-leaf":
                liar.settles(stack, liar.with_altered_leaf)
            case "dropped-tail":
                liar.settles(stack, liar.without_last_call)
            case "overcharge":
                liar.overcharges(stack)
            case "two-receipts":
                for owner in (aioum_node.calls, aioum_node.api.sessions):
                    _replaced(stack, owner, "receipt_of", liar.receipt)
            case "two-statements":
                _replaced(stack, aioum_node.api.sessions, "statement_of", liar.statement)
                liar.pretends_to_close(stack)
            case "none":
                pass
            case _:
                raise ValueError(f"no such lie: {lie}")
        yield


class _Liar:
    """What a liar has to keep in mind."""

    def __init__(self) -> None:
        self._leaves: dict[ChannelId, dict[int, Bytes32]] = defaultdict(dict)
        self._said: dict[Any, int] = defaultdict(int)

    def noting(
        self, receipt_of: Callable[[ChannelId, Call], CallReceipt]
    ) -> Callable[[ChannelId, Call], CallReceipt]:
        def noted(channel_id: ChannelId, call: Call) -> CallReceipt:
            receipt = receipt_of(channel_id, call)
            self._leaves[channel_id][call.index] = receipt.leaf
            return receipt

        return noted

    def settles(self, stack: ExitStack, change: Callable[[Settlement], Settlement]) -> None:
        true = ledger.settlement_of
        # One lie per session: what is sent again after a restart or a failure is the same.
        told: dict[ChannelId, Settlement] = {}

        def false(state: SessionState) -> Settlement:
            return told.setdefault(state.channel_id, change(true(state)))

        _replaced(stack, ledger, "settlement_of", false)

    def with_altered_leaf(self, settlement: Settlement) -> Settlement:
        leaves = self._of(settlement)
        return replace(settlement, root=_root([_random(), *leaves[1:]]))

    def without_last_call(self, settlement: Settlement) -> Settlement:
        leaves = self._of(settlement)[:-1]
        return replace(settlement, root=_root(leaves), call_count=len(leaves))

    def overcharges(self, stack: ExitStack) -> None:
        true = ledger.settlement_of

        def false(state: SessionState) -> Settlement:
            return replace(
                true(state),
                capture=state.accepted,
                voucher_amount=state.accepted,
                signature=state.accepted_signature,
            )

        _replaced(stack, ledger, "settlement_of", false)

    def receipt(self, channel_id: ChannelId, call: Call) -> CallReceipt:
        receipt = ledger.receipt_of(channel_id, call)
        self._said[channel_id, call.index] += 1
        if self._said[channel_id, call.index] > 1:
            return receipt
        return replace(receipt, leaf=_random())

    def statement(self, state: SessionState) -> Statement:
        statement = ledger.statement_of(state)
        self._said[state.channel_id, statement.call_count, "calls"] += 1
        times = self._said[state.channel_id, statement.call_count, "calls"]
        return replace(statement, spent=statement.spent + times - 1)

    def pretends_to_close(self, stack: ExitStack) -> None:
        closes = SessionRoutes._close

        async def false(routes: SessionRoutes, request: web.Request, channel_id: ChannelId) -> web.Response:
            state = (await routes._stored(channel_id)).state
            if (channel_id, state.admitted, "calls") in self._said:
                return await closes(routes, request, channel_id)
            context = await routes._sessions.context(channel_id)
            statement = await routes._signed_statement(context, state)
            return web.json_response({"statement": statement})

        _replaced(stack, SessionRoutes, "_close", false)

    def _of(self, settlement: Settlement) -> list[Bytes32]:
        known = self._leaves[settlement.channel_id]
        return [known[index] for index in range(settlement.call_count)]


@tool(price=PRICE)
def shout(text: str) -> str:
    """The text in capital letters."""
    return text.upper()


@tool(price=PRICE)
def fail(text: str = "") -> str:
    """Fails always, and costs nothing."""
    raise ToolError(text or "it always fails")


def _root(leaves: list[Bytes32]) -> Bytes32:
    root = root_of(leaves, node_hash)
    assert root is not None, "this lie needs more calls"
    return Bytes32(root)


def _random() -> Bytes32:
    return Bytes32(secrets.token_bytes(32))


def _replaced(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


async def main(lie: str) -> None:
    """Serve with what standard input says, until it ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    given = json.loads(await lines.readline())
    key = LocalKey.from_hex(given.pop("key"))
    settings = Settings(**given)
    configure_logs(settings)
    async with running_node(
        settings, functions=[shout, fail], identity=Identity(key, key), register=True
    ) as node:
        service = node.registration.service_id
        _say(json.dumps({"url": node.url, "adminUrl": node.admin_url, "serviceId": str(service)}))
        telling = asyncio.create_task(_tell(lie, lines))
        await asyncio.wait([node.supervisor, telling], return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            telling.result()
        telling.cancel()


async def _tell(lie: str, lines: asyncio.StreamReader) -> None:
    while lie:
        with lying(lie):
            lie = (await lines.readline()).decode().strip()
        if lie:
            _say(lie)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
