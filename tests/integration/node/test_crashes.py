"""kill -9 of a node at each step of a call and of a settlement: nothing lost, charged or executed twice."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from aioum.chain.client import Chain
from aioum.core.hextext import to_hex
from aioum.core.problem import problem_code
from aioum.core.submission.framing import encode_base64
from aioum.core.transcript import canonical_request
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode, running_node
from aioum_node.keys.identity import Identity
from aioum_node.settings import Settings
from tests.integration.conftest import FundedAccount
from tests.integration.node.crashing_node import CALL_STEPS, PRICE, SETTLEMENT_STEPS, note
from tests.integration.node.doomed_process import doomed_process
from tests.integration.node.edge_client import Buyer, Opened, Reply
from tests.many import some_of
from tests.pens import ROSTER, Pen


class Shop:
    """One operator's node, started again and again in one folder."""

    def __init__(
        self, folder: Path, devnet: RunningDevnet, operator: FundedAccount, repository: Path
    ) -> None:
        self._operator = operator
        self._repository = repository
        self.folder = folder
        self._settings: dict[str, Any] = {
            "node_dir": str(folder),
            "listen_port": 0,
            "admin_port": 0,
            # Published once, so that a later start sends no transaction of its own.
            "public_url": "http://node.example",
            "deployment_file": str(devnet.deployment_file),
            "watch_interval_seconds": 0.1,
            "settle_interval_seconds": 0.1,
        }

    def running(self, **changes: Any) -> Any:
        """The node in this process."""
        settings = Settings(**{**self._settings, **changes})
        identity = Identity(self._operator.key, self._operator.key)
        return running_node(settings, functions=[note], identity=identity, register=True)

    @asynccontextmanager
    async def doomed(self, step: str, node: RunningNode) -> AsyncIterator[RunningNode]:
        """The node in a process that crashes at `step`; the block must bring it there."""
        async with doomed_process(self._repository, step, self._settings, self._operator.key) as started:
            yield replace(node, url=started.url)
            assert await asyncio.wait_for(started.process.wait(), 60) == -signal.SIGKILL

    def ran(self) -> list[str]:
        """What the tool noted, in order."""
        return (self.folder / "ran").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def shop(tmp_path: Path, devnet: RunningDevnet, operator: FundedAccount, repository: Path) -> Shop:
    return Shop(tmp_path / "node", devnet, operator, repository)


@pytest.fixture
async def buyer(chain: Chain, payer: FundedAccount) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as http:
        yield Buyer(chain, payer, http)


async def call(
    shop: Shop, buyer: Buyer, node: RunningNode, session: Opened, amount: int, text: str, **how: Any
) -> Reply:
    arguments = {"text": text, "folder": str(shop.folder)}
    return await buyer.pay(node, session, amount, "note", arguments, **how)


@pytest.mark.parametrize("step", some_of(CALL_STEPS, 4))
async def test_call_whose_node_is_killed_is_answered_once_and_the_session_goes_on(
    shop: Shop, buyer: Buyer, chain: Chain, step: str
) -> None:
    async with shop.running() as node:
        session = await buyer.open(node, 50_000)
        first = await call(shop, buyer, node, session, PRICE, "first", action="open")
    async with shop.doomed(step, node) as dying:
        with pytest.raises(aiohttp.ClientError):
            await call(shop, buyer, dying, session, 2 * PRICE, "second")
    async with shop.running() as node:
        retry = await call(shop, buyer, node, session, 2 * PRICE, "second")
        again = await call(shop, buyer, node, session, 2 * PRICE, "second")
        spent_before = sum(buyer.receipt(node, reply).receipt.charge for reply in (first, retry))
        third = await call(shop, buyer, node, session, max(2 * PRICE + 1, spent_before + PRICE), "third")
        done = await buyer.close_until_settled(node, session, 3)

    interrupted = step in ("after-admit", "in-tool", "before-record")
    receipts = [buyer.receipt(node, reply).receipt for reply in (first, retry, third)]
    assert (problem_code(retry.body) == "interrupted") == interrupted
    assert (again.body, again.headers["Aioum-Receipt"]) == (retry.body, retry.headers["Aioum-Receipt"])
    assert [receipt.index for receipt in receipts] == [0, 1, 2]
    assert [receipt.charge for receipt in receipts] == [PRICE, 0 if interrupted else PRICE, PRICE]
    assert shop.ran().count("second") == (0 if step == "after-admit" else 1)
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.call_count) == (sum(r.charge for r in receipts), 3)
    assert done.json["statement"]["root"] == to_hex(anchored.root)


@pytest.mark.parametrize("step", some_of(CALL_STEPS, 3, first=1))
async def test_signed_call_whose_node_is_killed_keeps_its_envelope_and_the_head_of_its_seat(
    shop: Shop, buyer: Buyer, step: str
) -> None:
    def arguments(text: str) -> Any:
        return {"text": text, "folder": str(shop.folder)}

    async def ask(node: RunningNode, index: int, text: str, **how: Any) -> Reply:
        amount = (index + 1) * PRICE
        return await buyer.ask(node, session, pen, index, amount, "note", arguments(text), **how)

    async with shop.running() as node:
        session = await buyer.open(node, 50_000, roster_hash=ROSTER.hash)
        pen = Pen(session.channel_id)
        first = await ask(node, 0, "first", action="open", roster=ROSTER.to_json())
    before = pen.head
    second = pen.sign(canonical_request("note", arguments("second")).encode(), 1)
    other = pen.draft(canonical_request("note", arguments("other")).encode(), 1, prev_head=before)
    async with shop.doomed(step, node) as dying:
        with pytest.raises(aiohttp.ClientError):
            await ask(dying, 1, "second", envelope=second)
    async with shop.running() as node:
        heads = (await buyer.read(node, session)).json["heads"]
        retry = await ask(node, 1, "second", envelope=second)
        again = await ask(node, 1, "second", envelope=second)
        contradiction = await ask(node, 1, "other", envelope=other)
        third = await ask(node, 2, "third")
        recorded = (await buyer.read(node, session, "/calls")).json["calls"]
        done = await buyer.close_until_settled(node, session, 3)

    assert (heads["client"] == encode_base64(before)) == (step == "before-admit")
    interrupted = step in ("after-admit", "in-tool", "before-record")
    receipts = [buyer.receipt(node, reply).receipt for reply in (first, retry, third)]
    assert (problem_code(retry.body) == "interrupted") == interrupted
    assert (again.body, again.headers["Aioum-Receipt"]) == (retry.body, retry.headers["Aioum-Receipt"])
    assert (contradiction.status, contradiction.code) == (409, "submission-conflict")
    assert [receipt.charge for receipt in receipts] == [PRICE, 0 if interrupted else PRICE, PRICE]
    assert [entry["submission"]["cursor"] for entry in recorded] == [0, 1, 2]
    assert shop.ran().count("second") == (0 if step == "after-admit" else 1)
    assert "other" not in shop.ran()
    assert done.json["phase"] == "final"


@pytest.mark.parametrize("step", some_of(SETTLEMENT_STEPS, 2, first=1))
async def test_settlement_whose_node_is_killed_happens_once_for_what_was_spent(
    shop: Shop, buyer: Buyer, chain: Chain, step: str
) -> None:
    async with shop.running() as node:
        session = await buyer.open(node, 50_000)
        await call(shop, buyer, node, session, PRICE, "first", action="open")
        await call(shop, buyer, node, session, 2 * PRICE, "second")
        statement = (await buyer.read(node, session, "/statement")).json
    async with shop.doomed(step, node) as dying:
        try:
            await buyer.close(dying, session, 2)
        except aiohttp.ClientError:
            assert step == "after-seal"
    async with shop.running() as node:
        refused = await call(shop, buyer, node, session, 3 * PRICE, "third")
        done = await buyer.close_until_settled(node, session, 2)

    assert refused.code in ("session-sealed", "session-finalized")
    assert done.json["statement"] == statement
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.refunded) == (2 * PRICE, 50_000 - 2 * PRICE)
    assert (to_hex(anchored.root), anchored.call_count) == (statement["root"], 2)
    events = await chain.events(chain.first_block, (await chain.head()).number, session.channel_id)
    finalized = [to_hex(event.transaction_hash) for event in events if event.name == "Finalized"]
    assert finalized == [done.json["transaction"]]
    assert shop.ran() == ["first", "second"]
