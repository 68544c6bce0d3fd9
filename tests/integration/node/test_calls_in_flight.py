"""Several calls of one session at once, on a whole node and a real chain: settled, killed, replayed."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from aioum.chain.client import Chain
from aioum.core.hextext import to_hex
from aioum.core.payment import Domain, SignedMessage
from aioum.core.problem import problem_code
from aioum.core.submission.envelope import Envelope
from aioum.core.transcript import Entry, canonical_request, transcript_root
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode
from aioum_node.export import assemble, export_package
from tests.integration.conftest import FundedAccount
from tests.integration.node import busy_node
from tests.integration.node.busy_node import RAN_FILE
from tests.integration.node.conftest import StartNode
from tests.integration.node.edge_client import Buyer, Opened, Reply
from tests.pens import ROSTER, Pen
from tests.unit.node.api.in_flight import FUNCTIONS, PATIENT_MS, PRICE, meeting_of

REQUESTS = 200


class Signed:
    """A signed session with calls that were signed one after the other."""

    def __init__(self, buyer: Buyer, session: Opened) -> None:
        self.buyer = buyer
        self.session = session
        self.calls: list[tuple[str, str, Envelope]] = []
        self._pen = Pen(session.channel_id)

    @classmethod
    async def opened(cls, buyer: Buyer, node: RunningNode, deposit: int = 50 * PRICE) -> "Signed":
        session = await buyer.open(node, deposit, roster_hash=ROSTER.hash)
        tool = next(iter(node.offering.tools))
        entered = await buyer.pay(node, session, 0, tool, action="open", roster=ROSTER.to_json())
        assert entered.code == "payment-required"
        return cls(buyer, session)

    def sign(self, tool: str, *texts: str) -> None:
        for text in texts:
            request = canonical_request(tool, {"text": text}).encode()
            self.calls.append((tool, text, self._pen.sign(request, len(self.calls))))

    async def send(self, node: RunningNode, index: int, *, buyer: Buyer | None = None) -> Reply:
        tool, text, envelope = self.calls[index]
        return await (buyer or self.buyer).ask(
            node, self.session, self._pen, index, (index + 1) * PRICE, tool, {"text": text}, envelope=envelope
        )

    def root(self, replies: Sequence[Reply]) -> bytes:
        """Of the client's own transcript."""
        return transcript_root(
            [
                Entry(index, tool, canonical_request(tool, {"text": text}), reply.body.decode())
                for index, ((tool, text, _), reply) in enumerate(zip(self.calls, replies, strict=True))
            ]
        )


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        await asyncio.sleep(0.01)


async def export(session: Opened, folder: Path) -> dict[str, Any]:
    return await asyncio.to_thread(
        export_package, session=to_hex(session.channel_id), node_dir=folder, claim="quality", narrative=""
    )


async def require_settled(
    signed: Signed, chain: Chain, folder: Path, replies: Sequence[Reply], charges: Sequence[int], done: Reply
) -> None:
    """Client, node and chain hold the same transcript, and the money is what its calls cost."""
    anchored = await chain.session(signed.session.channel_id)
    assert anchored is not None
    assert (anchored.root, anchored.call_count) == (signed.root(replies), len(replies))
    assert (anchored.settled, anchored.refunded) == (sum(charges), 50 * PRICE - sum(charges))
    assert done.json["statement"]["root"] == to_hex(anchored.root)
    package = await export(signed.session, folder)
    assert package["resultsRoot"] == to_hex(anchored.root)
    assert [entry["response"].encode() for entry in package["calls"]] == [reply.body for reply in replies]


async def test_sixteen_calls_in_flight_with_failures_among_them_settle_for_what_they_cost(
    start_node: StartNode, buyer: Buyer, chain: Chain, tmp_path: Path
) -> None:
    texts = [f"no {index}" if index in (3, 7, 8) else f"call {index}" for index in range(16)]
    meeting = meeting_of(16)
    async with start_node(FUNCTIONS, turn_wait_ms=PATIENT_MS) as node:
        signed = await Signed.opened(buyer, node)
        signed.sign("meet", *texts)
        sent = {}
        for count, index in enumerate(reversed(range(1, 16)), start=1):
            sent[index] = asyncio.create_task(signed.send(node, index))
            await until(lambda count=count: node.edge.calls.waiting == count)  # type: ignore[misc]
        sent[0] = asyncio.create_task(signed.send(node, 0))
        replies = [await sent[index] for index in range(16)]
        done = await buyer.close_until_settled(node, signed.session, 16)

    receipts = [buyer.receipt(node, reply).receipt for reply in replies]
    charges = [0 if text.startswith("no") else PRICE for text in texts]
    assert meeting.came == texts
    assert [(receipt.index, receipt.charge) for receipt in receipts] == list(enumerate(charges))
    await require_settled(signed, chain, tmp_path / "node", replies, charges, done)


async def test_calls_in_flight_of_a_killed_node_are_recorded_as_interrupted_and_the_session_goes_on(
    start_node: StartNode,
    buyer: Buyer,
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    repository: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "node"
    tools = busy_node.tools(folder)
    settings = {
        "node_dir": str(folder),
        "listen_port": 0,
        "admin_port": 0,
        # Published once: a new address at each start would be a transaction of its own.
        "public_url": "http://node.example",
        "deployment_file": str(devnet.deployment_file),
        "key": to_hex(operator.key.secret_bytes()),
    }
    ran_file = folder / RAN_FILE

    def ran() -> list[str]:
        return ran_file.read_text(encoding="utf-8").splitlines() if ran_file.exists() else []

    async with start_node(tools, public_url=settings["public_url"]) as node:
        signed = await Signed.opened(buyer, node)
    signed.sign("note", "a")
    signed.sign("hold", "b", "c")
    signed.sign("note", "d")
    signed.sign("spoil", "e")
    signed.sign("hold", "f")
    signed.sign("note", "g", "h")
    async with own_process(settings, repository) as (url, process):
        dying = replace(node, url=url)
        first = await signed.send(dying, 0)
        lost = [asyncio.create_task(signed.send(dying, index)) for index in (1, 2)]
        await until(lambda: ran()[1:] == ["b", "c"])
        ahead = [await signed.send(dying, index) for index in (3, 4)]
        lost.append(asyncio.create_task(signed.send(dying, 5)))
        await until(lambda: ran()[-1] == "f")
        before = (await buyer.read(dying, signed.session)).json
        process.kill()
        await process.wait()
        broken = await asyncio.gather(*lost, return_exceptions=True)
    async with start_node(tools, public_url=settings["public_url"]) as node:
        after = (await buyer.read(node, signed.session)).json
        shown = (await buyer.read(node, signed.session, "/calls")).json["calls"]
        retries = [await signed.send(node, index) for index in range(6)]
        replies = [*retries, *[await signed.send(node, index) for index in (6, 7)]]
        done = await buyer.close_until_settled(node, signed.session, 8)

    assert all(isinstance(error, aiohttp.ClientError) for error in broken)
    assert (before["callCount"], before["recorded"], before["reserved"]) == (6, 1, str(3 * PRICE))
    assert (after["callCount"], after["recorded"], after["reserved"]) == (6, 6, "0")
    assert [entry["index"] for entry in shown] == list(range(6))
    assert [problem_code(reply.body) for reply in replies] == [
        None, "interrupted", "interrupted", None, "tool-failed", "interrupted", None, None,
    ]  # fmt: skip
    for reply, retry in zip([first, *ahead], [retries[0], retries[3], retries[4]], strict=True):
        assert (retry.body, retry.headers["Aioum-Receipt"]) == (reply.body, reply.headers["Aioum-Receipt"])
    charges = [buyer.receipt(node, reply).receipt.charge for reply in replies]
    assert charges == [PRICE, 0, 0, PRICE, 0, 0, PRICE, PRICE]
    assert ran() == ["a", "b", "c", "d", "e", "f", "g", "h"]
    await require_settled(signed, chain, folder, replies, charges, done)


@asynccontextmanager
async def own_process(
    settings: dict[str, Any], repository: Path
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """A node that the block kills; its URL and its process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        busy_node.__name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=repository,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(settings).encode())
        process.stdin.close()
        url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        assert url, "the node did not start"
        yield url, process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_package_of_a_session_in_use_shows_the_calls_that_the_root_covers(
    start_node: StartNode, buyer: Buyer, operator: FundedAccount
) -> None:
    async def sign(message: SignedMessage, domain: Domain) -> bytes:
        return operator.key.sign_digest(message.digest(domain))

    meeting = meeting_of(9)
    async with start_node(FUNCTIONS) as node:
        signed = await Signed.opened(buyer, node)
        signed.sign("note", "a")
        signed.sign("meet", "b")
        signed.sign("note", "c")
        first = await signed.send(node, 0)
        running = asyncio.create_task(signed.send(node, 1))
        await until(lambda: meeting.came == ["a", "b"])
        ahead = await signed.send(node, 2)
        stored = await node.store.session(signed.session.channel_id)
        assert stored is not None
        package: Any = await assemble(node.store, stored, claim="quality", narrative="", sign=sign)
        meeting.complete.set()
        await running

    assert (first.status, ahead.status) == (200, 200)
    assert [entry["index"] for entry in package["calls"]] == [0]
    assert [receipt["index"] for receipt in package["receipts"]] == [0]
    assert (package["statement"]["callCount"], package["statement"]["spent"]) == (1, str(PRICE))
    assert [entry["index"] for entry in package["submissions"]["entries"]] == [0, 1]


async def test_node_that_stops_refuses_calls_that_wait_and_finishes_those_that_run(
    start_node: StartNode, buyer: Buyer
) -> None:
    meeting = meeting_of(2)
    async with start_node(FUNCTIONS, turn_wait_ms=PATIENT_MS) as node:
        signed = await Signed.opened(buyer, node)
        signed.sign("meet", "a", "b", "c")
        running = asyncio.create_task(signed.send(node, 0))
        waiting = asyncio.create_task(signed.send(node, 2))
        await until(lambda: meeting.came == ["a"] and node.edge.calls.waiting == 1)

        async def finish() -> Reply:
            # Only when the node has begun to stop, which the call that waits is the first to hear of.
            refused = await waiting
            meeting.complete.set()
            return refused

        finishing = asyncio.create_task(finish())
    refused, answered = await finishing, await running

    assert (refused.status, refused.code) == (503, "stopping")
    assert (answered.status, answered.body) == (200, b"A")


async def test_two_hundred_parallel_replays_of_one_signed_call_are_one_execution_one_leaf_one_charge(
    start_node: StartNode, buyer: Buyer, chain: Chain, payer: FundedAccount
) -> None:
    meeting = meeting_of(9)
    async with (
        start_node(FUNCTIONS) as node,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
    ):
        signed = await Signed.opened(buyer, node)
        signed.sign("meet", "first", "other")
        crowd = Buyer(chain, payer, http)
        sending = [asyncio.create_task(signed.send(node, 0, buyer=crowd)) for _ in range(REQUESTS)]
        await until(lambda: meeting.came == ["first"])
        # Beside it, another call of the session and its replays.
        sending += [asyncio.create_task(signed.send(node, 1, buyer=crowd)) for _ in range(REQUESTS)]
        await until(lambda: meeting.came == ["first", "other"])
        meeting.complete.set()
        replies = await asyncio.gather(*sending)
        numbers = (await buyer.read(node, signed.session)).json
        done = await buyer.close_until_settled(node, signed.session, 2)

    assert meeting.came == ["first", "other"]
    answers = {(reply.status, reply.body, reply.headers["Aioum-Receipt"]) for reply in replies}
    assert sorted((status, body) for status, body, _ in answers) == [(200, b"FIRST"), (200, b"OTHER")]
    assert (numbers["callCount"], numbers["recorded"]) == (2, 2)
    assert (numbers["spent"], numbers["reserved"]) == (str(2 * PRICE), "0")
    assert done.json["statement"]["spent"] == str(2 * PRICE)
    anchored = await chain.session(signed.session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (2 * PRICE, 2)
