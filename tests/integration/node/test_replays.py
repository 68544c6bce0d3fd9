"""What a client may try with vouchers that are used up, too high or of a failed call: nothing changes."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from aioum.chain.client import Chain
from aioum.core.problem import problem_code
from aioum.core.transcript import canonical_request
from aioum_node.app import RunningNode
from aioum_node.tools import tool
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.edge_client import Buyer, Opened, Reply
from tests.pens import ROSTER, Pen

DEPOSIT = 20 * PRICE
ran: list[str] = []


@tool(price=PRICE)
def shout(text: str) -> str:
    ran.append(text)
    return text.upper()


@tool(price=PRICE)
def spoil(text: str) -> str:
    ran.append(text)
    raise RuntimeError(text)


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@pytest.fixture
async def stranger(chain: Chain, payer: FundedAccount) -> AsyncIterator[Buyer]:
    """The same client over another connection."""
    async with aiohttp.ClientSession() as http:
        yield Buyer(chain, payer, http)


def stored(reply: Reply) -> tuple[int, bytes, str]:
    """What a retry gives again, byte for byte."""
    return reply.status, reply.body, reply.headers["Aioum-Receipt"]


async def record(buyer: Buyer, node: RunningNode, session: Opened) -> Any:
    """Everything that the node says of a session."""
    paths = ("", "/calls", "/statement")
    return [(await buyer.read(node, session, path)).json for path in paths]


async def settled(chain: Chain, session: Opened) -> tuple[int, int, int, bytes]:
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    return anchored.settled, anchored.refunded, anchored.call_count, anchored.root


@pytest.mark.parametrize("another_connection", [False, True])
async def test_voucher_buys_nothing_after_the_settlement(
    start_node: StartNode,
    buyer: Buyer,
    stranger: Buyer,
    operator: FundedAccount,
    chain: Chain,
    another_connection: bool,
) -> None:
    async with start_node([shout, spoil]) as node:
        session = await buyer.open(node, DEPOSIT)
        first = await buyer.enter(node, session, PRICE)
        failed = await buyer.pay(node, session, 3 * PRICE, "spoil")
        last = await buyer.pay(node, session, 4 * PRICE, "shout", {"text": "last"})
        await buyer.close_until_settled(node, session, 3)
        before = await record(buyer, node, session), await settled(chain, session)
        sent = await chain.rpc.transaction_count(operator.key.address, "latest")
        again = stranger if another_connection else buyer

        retries = [
            await again.pay(node, session, PRICE),
            await again.pay(node, session, 3 * PRICE, "spoil"),
            await again.pay(node, session, 4 * PRICE, "shout", {"text": "last"}),
            await again.enter(node, session, PRICE),
        ]
        refused = [
            await again.pay(node, session, amount, "shout", {"text": "more"}, action=action)
            for action in ("voucher", "open")
            # Of a recorded call; what was settled; the highest that was accepted; more; the whole deposit.
            for amount in (PRICE, 2 * PRICE, 4 * PRICE, 5 * PRICE, DEPOSIT)
        ]
        after = await record(buyer, node, session), await settled(chain, session)

    assert [stored(reply) for reply in retries] == [stored(reply) for reply in (first, failed, last, first)]
    conflict, over = (409, "request-conflict"), (410, "session-finalized")
    assert [(reply.status, reply.code) for reply in refused] == [conflict, over, conflict, over, over] * 2
    assert not any("Aioum-Receipt" in reply.headers for reply in refused)
    assert before[1][0] == 2 * PRICE
    assert after == before
    assert ran == ["hey", "hey", "last"]
    assert await chain.rpc.transaction_count(operator.key.address, "latest") == sent


async def test_signed_call_buys_nothing_after_the_settlement(
    start_node: StartNode, buyer: Buyer, stranger: Buyer, chain: Chain
) -> None:
    more: Any = {"text": "more"}
    async with start_node([shout, spoil]) as node:
        session = await buyer.open(node, DEPOSIT, roster_hash=ROSTER.hash)
        pen = Pen(session.channel_id)
        genesis = pen.head
        envelope = pen.sign(canonical_request("shout", {"text": "hey"}).encode(), 0)
        first = await buyer.ask(
            node, session, pen, 0, PRICE, envelope=envelope, action="open", roster=ROSTER.to_json()
        )
        await buyer.close_until_settled(node, session, 1)
        before = await settled(chain, session)

        retries = [
            await stranger.ask(node, session, pen, 0, amount, envelope=envelope)
            for amount in (0, PRICE, 2 * PRICE)
        ]
        other = pen.draft(canonical_request("shout", more).encode(), 0, prev_head=genesis)
        conflict = await stranger.ask(node, session, pen, 0, PRICE, "shout", more, envelope=other)
        over = [await stranger.ask(node, session, pen, 1, amount) for amount in (PRICE, 2 * PRICE)]

    assert [stored(reply) for reply in retries] == [stored(first)] * 3
    assert (conflict.status, conflict.code) == (409, "submission-conflict")
    assert [(reply.status, reply.code) for reply in over] == [(410, "session-finalized")] * 2
    assert await settled(chain, session) == before
    assert ran == ["hey"]


@pytest.mark.parametrize("signed", [False, True])
async def test_voucher_above_the_deposit_is_refused_and_the_last_good_one_settles(
    start_node: StartNode, buyer: Buyer, chain: Chain, signed: bool
) -> None:
    async with start_node([shout]) as node:
        how: Any = {"roster_hash": ROSTER.hash} if signed else {}
        session = await buyer.open(node, DEPOSIT, **how)
        pen = Pen(session.channel_id)
        roster: Any = {"roster": ROSTER.to_json()} if signed else {}
        await buyer.enter(node, session, **roster)

        async def pay(index: int, amount: int) -> Reply:
            if not signed:
                return await buyer.pay(node, session, amount)
            request = canonical_request("shout", {"text": "hey"}).encode()
            envelope = pen.draft(request, index) if index else pen.sign(request, index)
            return await buyer.ask(node, session, pen, index, amount, envelope=envelope)

        good = await pay(0, PRICE)
        numbers = (await buyer.read(node, session)).json
        refused = [await pay(1, amount) for amount in (DEPOSIT + 1, 2**128 - 1)]
        unchanged = (await buyer.read(node, session)).json
        done = await buyer.close_until_settled(node, session, 1)

    assert good.status == 200
    assert [(reply.status, reply.code) for reply in refused] == [(402, "amount-exceeds-deposit")] * 2
    assert unchanged == numbers
    assert (numbers["accepted"], numbers["spent"]) == (str(PRICE), str(PRICE))
    assert (await settled(chain, session))[:3] == (PRICE, DEPOSIT - PRICE, 1)
    assert done.json["statement"]["spent"] == str(PRICE)
    assert ran == ["hey"]


async def test_client_that_reconnects_after_its_tool_raised_finds_everything_as_it_was(
    start_node: StartNode, buyer: Buyer, stranger: Buyer, chain: Chain
) -> None:
    async with start_node([shout, spoil]) as node:
        session = await buyer.open(node, DEPOSIT)
        await buyer.enter(node, session, PRICE)
        failed = await buyer.pay(node, session, 2 * PRICE, "spoil")
        before = await record(buyer, node, session)

        again = await stranger.pay(node, session, 2 * PRICE, "spoil")
        entered = await stranger.enter(node, session)
        reconnected = await record(stranger, node, session)
    async with start_node([shout, spoil]) as node:
        session.challenge = None
        restarted = [
            await stranger.pay(node, session, 2 * PRICE, "spoil"),
            await record(stranger, node, session),
        ]
        following = await stranger.pay(node, session, 2 * PRICE + 1, "shout", {"text": "ho"})
        done = await stranger.close_until_settled(node, session, 3)

    assert (failed.status, problem_code(failed.body)) == (500, "tool-failed")
    assert buyer.receipt(node, failed).receipt.charge == 0
    assert stored(again) == stored(failed)
    assert entered.code == "payment-required"
    assert reconnected == before
    assert [stored(restarted[0]), restarted[1]] == [stored(failed), before]
    assert before[0]["spent"] == str(PRICE)
    assert following.status == 200
    assert (await settled(chain, session))[:3] == (2 * PRICE, DEPOSIT - 2 * PRICE, 3)
    assert done.json["statement"]["callCount"] == 3
    assert ran == ["hey", "hey", "ho"]
