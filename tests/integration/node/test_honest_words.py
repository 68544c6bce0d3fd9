"""An operator that records and seals as PROTOCOL 3.2 says never loses to its own words (PROTOCOL 4.3).

Every receipt and statement is kept that ever came over the wire, retries around a kill and parallel calls
included. Nothing can be proven from them at once, the contract refuses each accusation, and each word that is
challenged is answered.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from aioum.core.lies import challengeable
from aioum.core.transcript import canonical_request
from aioum.core.wire import RECEIPT_HEADER, SignedReceipt, SignedStatement
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import StartNode
from tests.integration.node.crashing_node import CALL_STEPS, PRICE, SETTLEMENT_STEPS, note
from tests.integration.node.disputing import (
    DISPUTE_TERMS,
    Disputant,
    Words,
    anchored_of,
    challenge_each,
    close,
    require_no_lie,
)
from tests.integration.node.doomed_process import doomed_process
from tests.integration.node.edge_client import Buyer, Opened, Reply
from tests.many import some_of
from tests.pens import ROSTER, Pen

PARALLEL = 12
TERMS = {**DISPUTE_TERMS, "public_url": "http://node.example"}


@pytest.fixture
async def buyer(chain: Any, payer: FundedAccount) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        yield Buyer(chain, payer, http)


@pytest.fixture
async def disputant(buyer: Buyer, devnet: RunningDevnet) -> Disputant:
    return await Disputant.of(buyer, devnet.token)


class Customer:
    """Buys signed calls, several at once, and keeps every word of every answer."""

    def __init__(self, buyer: Buyer, session: Opened, folder: Path) -> None:
        self.buyer = buyer
        self.session = session
        self.words = Words()
        self._folder = folder
        self._pen = Pen(session.channel_id)
        self._envelopes: list[Any] = []

    def _arguments(self, index: int) -> Any:
        return {"text": f"call {index}", "folder": str(self._folder)}

    def sign(self, count: int) -> None:
        """Sign so many further calls."""
        for index in range(len(self._envelopes), len(self._envelopes) + count):
            request = canonical_request("note", self._arguments(index)).encode()
            self._envelopes.append(self._pen.sign(request, index))

    async def send(self, node: RunningNode, index: int, **how: Any) -> Reply | None:
        """Send a call, or send it again; None where no answer came."""
        try:
            reply = await self.buyer.ask(
                node,
                self.session,
                self._pen,
                index,
                (index + 1) * PRICE,
                "note",
                self._arguments(index),
                envelope=self._envelopes[index],
                **how,
            )
        except aiohttp.ClientError:
            return None
        if RECEIPT_HEADER in reply.headers:
            self.words.receipts.append(self.buyer.receipt(node, reply))
        return reply

    async def send_all(self, node: RunningNode) -> None:
        """Send all calls at once, those that were answered as well, and ask for statements meanwhile."""
        await asyncio.gather(
            *(self.send(node, index) for index in range(len(self._envelopes))),
            *(self.ask(node) for _ in range(3)),
        )
        await self.ask(node)

    async def ask(self, node: RunningNode) -> None:
        """Ask for a statement, and for every receipt that the transcript has."""
        try:
            said = await self.buyer.read(node, self.session, "/statement")
            calls = await self.buyer.read(node, self.session, "/calls")
        except aiohttp.ClientError:
            return
        if said.status == 200:
            self.words.statements.append(SignedStatement.from_json(said.json, self.session.channel_id))
        if calls.status == 200:
            self.words.receipts += [
                SignedReceipt.from_header(entry["receipt"]) for entry in calls.json["calls"]
            ]

    async def enter(self, node: RunningNode) -> None:
        self.sign(1)
        assert (await self.send(node, 0, action="open", roster=ROSTER.to_json())) is not None

    @property
    def count(self) -> int:
        return len(self._envelopes)


STEPS = (*CALL_STEPS, *SETTLEMENT_STEPS)


@pytest.mark.parametrize(
    "step",
    some_of(STEPS, 4, first=1),
)
async def test_node_that_was_killed_amid_parallel_calls_never_loses_to_its_words(
    start_node: StartNode,
    buyer: Buyer,
    disputant: Disputant,
    operator: FundedAccount,
    devnet: RunningDevnet,
    repository: Path,
    tmp_path: Path,
    step: str,
) -> None:
    settings = {
        **TERMS,
        "node_dir": str(tmp_path / "node"),
        "listen_port": 0,
        "admin_port": 0,
        "deployment_file": str(devnet.deployment_file),
        "settle_interval_seconds": 0.1,
    }
    async with start_node(functions=[note], **TERMS) as node:
        session = await buyer.open(node, roster_hash=ROSTER.hash)
        customer = Customer(buyer, session, tmp_path)
        await customer.enter(node)
    customer.sign(PARALLEL)
    async with doomed_process(repository, step, settings, operator.key) as doomed:
        dying = replace(node, url=doomed.url)
        await customer.send_all(dying)
        if step in SETTLEMENT_STEPS:
            for _ in range(100):
                try:
                    reply = await buyer.close(dying, session, customer.count)
                except aiohttp.ClientError:
                    break
                keep_last(customer, reply)
                await asyncio.sleep(0.02)
        assert await asyncio.wait_for(doomed.process.wait(), 60) == -signal.SIGKILL
    async with start_node(functions=[note], **TERMS) as node:
        await customer.ask(node)
        await customer.send_all(node)
        await close(buyer, node, session, customer.count, customer.words)
        # After its end it says the same as before.
        await customer.send_all(node)
        await require_no_lie(disputant, session.channel_id, customer.words)
        indexes = {word.receipt.index for word in customer.words.receipts}
        assert indexes == set(range(PARALLEL + 1))
        # A sample: each of them is challenged where no kill takes the time.
        sample = Words(customer.words.receipts[-2:], customer.words.statements[:1])
        anchored = await anchored_of(disputant, session.channel_id)
        expected = len(challengeable(sample.receipts[-2:], sample.statements, anchored))
        assert await challenge_each(disputant, session.channel_id, sample) == expected


async def test_every_word_of_parallel_calls_is_proven_when_it_is_challenged(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, tmp_path: Path
) -> None:
    async with start_node(functions=[note], **TERMS) as node:
        session = await buyer.open(node, roster_hash=ROSTER.hash)
        customer = Customer(buyer, session, tmp_path)
        await customer.enter(node)
        for _ in range(3):
            customer.sign(4)
            await customer.send_all(node)
        await close(buyer, node, session, customer.count, customer.words)
        await require_no_lie(disputant, session.channel_id, customer.words)
        answered = await challenge_each(disputant, session.channel_id, customer.words)
    counts = {word.statement.call_count for word in customer.words.statements} - {customer.count}
    assert answered == customer.count + len(counts)
    held = await disputant.session(session.channel_id)
    assert (held.held, held.awarded) == (customer.count * PRICE, 0)


def keep_last(customer: Customer, reply: Reply) -> None:
    said = reply.json["statement"] if reply.status in (200, 202) else None
    if said is not None:
        customer.words.statements.append(SignedStatement.from_json(said, customer.session.channel_id))
