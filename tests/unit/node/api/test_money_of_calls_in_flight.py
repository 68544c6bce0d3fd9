"""What calls in flight together cost: those that fail, those that the money does not reach for."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioum.core.ledger import Phase
from aioum.core.problem import problem_code
from aioum_node.access import ClientSignatures
from tests.unit.node.api.in_flight import (
    FUNCTIONS,
    PATIENT_MS,
    PRICE,
    Session,
    charges,
    meeting_of,
    meetings,
    statement,
    waits,
)
from tests.unit.node.api.shop import Shop, running_shop, until


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=PATIENT_MS) as running:
        yield running
        meetings[-1].complete.set()


async def test_calls_that_fail_among_those_in_flight_cost_nothing_and_the_others_what_they_cost(
    shop: Shop,
) -> None:
    session, meeting = await Session.opened(shop), meeting_of(8)
    session.sign("a", "no b", "c", "no d", "no e", "f", "g", "no h")
    sent = [session.send(index) for index in reversed(range(8))]
    replies = sorted(await asyncio.gather(*sent), key=lambda reply: reply.receipt.receipt.index)
    paid = [text[:2] != "no" for text in session.texts]

    assert meeting.came == session.texts
    assert charges(replies) == [(index, PRICE if ok else 0) for index, ok in enumerate(paid)]
    assert [problem_code(reply.body) for reply in replies] == [None if ok else "tool-failed" for ok in paid]
    state = await session.state()
    assert (state.spent, state.reserved, state.failures) == (4 * PRICE, 0, 4)
    assert state.accepted == 8 * PRICE
    said = await statement(shop, session)
    assert (said["root"], said["spent"]) == (session.root(replies), str(4 * PRICE))
    # What the failed ones had reserved is free again: the highest voucher pays four calls more.
    session.sign("i", "j", "k", "l", "m", tool_id="note")
    for index in range(8, 12):
        assert charges([await session.send(index, 8 * PRICE)]) == [(index, PRICE)]
    assert (await session.send(12, 8 * PRICE)).code == "payment-insufficient"


async def test_voucher_must_cover_what_calls_in_flight_reserve_until_they_fail(shop: Shop) -> None:
    session, meeting = await Session.opened(shop), meeting_of(9)
    session.sign("no a")
    session.sign("b", tool_id="note")
    running = session.send(0)
    await until(lambda: meeting.came == ["no a"])

    poor = await session.send(1, PRICE)
    meeting.complete.set()
    await running
    enough = await session.send(1, PRICE)

    assert (poor.status, poor.code, poor.json["requiredCumulative"]) == (
        402, "payment-insufficient", str(2 * PRICE),
    )  # fmt: skip
    assert charges([enough]) == [(1, PRICE)]


async def test_too_many_failures_seal_the_session_and_what_is_in_flight_is_still_recorded(
    tmp_path: Path,
) -> None:
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=PATIENT_MS, max_unpaid_calls=3) as shop:
        session = await Session.opened(shop)
        meeting_of(6)
        session.sign("no a", "no b", "c", "no d", "no e", "f", "g", "h")
        waiting = session.send(7)
        await waits(shop, 1)

        replies = await asyncio.gather(*(session.send(index) for index in range(6)))
        # Its gap can never be filled now, which it hears long before its wait is over.
        hopeless = await waiting
        late = await session.send(6)
        state = await session.state()

    assert [reply.receipt.receipt.charge for reply in replies] == [0, 0, PRICE, 0, 0, PRICE]
    assert [(reply.status, reply.code) for reply in (hopeless, late)] == [(410, "session-sealed")] * 2
    assert (state.phase, state.seal_reason) == (Phase.SEALED, "too-many-unpaid-calls")
    assert (state.admitted, state.drained, state.spent, state.failures) == (6, True, 2 * PRICE, 4)


async def test_cooperative_close_counts_the_calls_in_flight_and_refuses_those_that_wait(shop: Shop) -> None:
    session, meeting = await Session.opened(shop), meeting_of(9)
    session.sign("a", "b", "c", "d")
    running = [session.send(0), session.send(1)]
    waiting = session.send(3)
    await until(lambda: len(meeting.came) == 2)
    await waits(shop, 1)

    closed = await shop.close(session.pen.channel_id, 2)
    hopeless = await waiting
    meeting.complete.set()
    replies = await asyncio.gather(*running)
    again = await shop.close(session.pen.channel_id, 2)

    assert (closed.status, closed.json["statement"]) == (202, None)
    assert hopeless.code == "session-sealed"
    assert charges(replies) == [(0, PRICE), (1, PRICE)]
    assert again.json["statement"]["root"] == session.root(replies)


class Counting(ClientSignatures):
    """Counts the vouchers that were found good."""

    checked = 0

    async def require(self, *arguments: Any, **named: Any) -> None:
        await super().require(*arguments, **named)
        self.checked += 1


async def test_retry_with_a_higher_voucher_is_not_refused_for_the_lower_one_of_an_earlier_try(
    tmp_path: Path,
) -> None:
    clients = Counting(None)
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=PATIENT_MS, clients=clients) as shop:
        session, meeting = await Session.opened(shop), meeting_of(9)
        session.sign("a", "b", tool_id="note")
        sent = []
        for amount in (*range(PRICE, PRICE + 8), 3 * PRICE, 2 * PRICE):
            # They wait together, and whichever goes on first tries its voucher for all.
            sent.append(session.send(1, amount))
            await until(lambda: clients.checked == len(sent))

        await session.send(0)
        replies = await asyncio.gather(*sent)

    assert [reply.status for reply in replies[8:]] == [200, 200]
    assert {reply.code for reply in replies[:8] if reply.status != 200} <= {"payment-insufficient"}
    receipts = {reply.headers["Aioum-Receipt"] for reply in replies if reply.status == 200}
    assert len(receipts) == 1
    assert meeting.came == ["a", "b"]
