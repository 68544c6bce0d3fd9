"""Clients of many sessions in a process of their own; each pays for one call after another.

    python -m benchmarks.load_process BUILD FOLDER URL SESSIONS FIRST

Reads `SESSIONS CALLS` on each line of standard input, has that many sessions make that many calls in all, and
prints the seconds it took and the median of a call's seconds. What a client of PROTOCOL 3 does is done: the
voucher is durable before it leaves, the receipt's signature, leaf and charge are held against the client's
own record, the answer is durable, and every 16th call is followed by a signed statement that must agree.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from aioum.core.canonical import JsonValue, canonical_bytes, parse_json
from aioum.core.hextext import to_hex
from aioum.core.payment import ReadAccess, Voucher
from aioum.core.purse import PurseState, accept_answer, accept_statement, begin_call
from aioum.core.types import ChannelId
from aioum.core.wire import (
    RECEIPT_HEADER,
    Challenge,
    Credential,
    SignedReceipt,
    SignedStatement,
    read_access_header,
)
from aioum_node.collector import relax_collector
from benchmarks.client_builds import BUILDS, ClientBuild
from benchmarks.http_connection import Connection
from benchmarks.service import DOMAIN, OPERATOR, PRICE, TOOL_ID, facts_of, offer, tool_box
from benchmarks.sessions import DEPOSIT

_WORDS: Final = "the operator's history of the session is exactly this and anyone can check it "
_PATH: Final = f"/tools/{TOOL_ID}"
_JSON: Final = {"Content-Type": "application/json"}
_MAX_STATEMENT_BYTES: Final = 65_536
_READ_ACCESS_SECONDS: Final = 80_000


class Buyer:
    """One session's client."""

    def __init__(
        self, build: ClientBuild, node: Connection, channel_id: ChannelId, challenge: Challenge
    ) -> None:
        self._build = build
        self._node = node
        self._challenge = challenge
        self._statement_path = f"/sessions/{to_hex(channel_id)}/statement"
        self._purse = PurseState(channel_id, DEPOSIT)
        access = ReadAccess(channel_id, int(time.time()) + _READ_ACCESS_SECONDS)
        self._reading = {"Authorization": read_access_header(access, build.sign(access, DOMAIN))}

    async def buy(self, numbers: Iterator[int], seconds: list[float]) -> None:
        """Make a call for each number and add its time; several buyers share the numbers."""
        for number in numbers:
            start = time.perf_counter()
            await self._call(number)
            seconds.append(time.perf_counter() - start)
            if self._purse.statement_due:
                await self._agree()

    async def _call(self, number: int) -> None:
        build, channel_id = self._build, self._purse.channel_id
        arguments: JsonValue = {"text": f"{number} {_WORDS * 4}"}
        request = build.canonicalize(TOOL_ID, arguments).encode()
        purse, call = begin_call(self._purse, TOOL_ID, request, PRICE)
        signature = build.sign(Voucher(channel_id, call.amount), DOMAIN)
        await build.journal.begin(channel_id, purse, call, signature)
        credential = Credential(self._challenge, "voucher", channel_id, call.amount, signature)
        headers = {"Authorization": credential.header(), **_JSON}
        answer = await self._node.request("POST", _PATH, headers, canonical_bytes(arguments))
        if answer.status != 200:
            raise RuntimeError(f"call {number} was answered {answer.status}: {answer.body.decode()}")
        receipt_text = answer.headers[RECEIPT_HEADER.lower()]
        receipt = SignedReceipt.from_header(receipt_text)
        build.require_signer(receipt.receipt, DOMAIN, receipt.signature, OPERATOR.address)
        self._purse = accept_answer(purse, call, answer.body, receipt.receipt)
        await build.journal.answer(channel_id, self._purse, call, signature, answer.body, receipt_text)

    async def _agree(self) -> None:
        answer = await self._node.request("GET", self._statement_path, self._reading)
        value = parse_json(answer.body, max_bytes=_MAX_STATEMENT_BYTES)
        signed = SignedStatement.from_json(value, self._purse.channel_id)
        self._build.require_signer(signed.statement, DOMAIN, signed.signature, OPERATOR.address)
        self._purse = accept_statement(self._purse, signed.statement)


async def _challenge(node: Connection) -> Challenge:
    answer = await node.request("POST", _PATH, _JSON, b"{}")
    return Challenge.from_header(answer.headers["www-authenticate"])


async def load(build_name: str, folder: Path, url: str, session_count: int, first: int) -> None:
    """Answer the lines of standard input until it ends."""
    card = offer(folder, tool_box(folder))
    build = BUILDS[build_name](folder)
    connections = [await Connection.open(url) for _ in range(session_count)]
    challenge = await _challenge(connections[0])
    buyers = [
        Buyer(build, connection, facts_of(number, card).channel_id, challenge)
        for number, connection in enumerate(connections, first)
    ]
    relax_collector()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    done = 0
    while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
        active, call_count = map(int, line.split())
        numbers = iter(range(done, done + call_count))
        seconds: list[float] = []
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for buyer in buyers[:active]:
                group.create_task(buyer.buy(numbers, seconds))
        sys.stdout.write(f"{time.perf_counter() - start:.6f} {median(seconds):.7f}\n")
        sys.stdout.flush()
        done += call_count
    for connection in connections:
        connection.close()
    await build.journal.close()


if __name__ == "__main__":
    asyncio.run(load(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
