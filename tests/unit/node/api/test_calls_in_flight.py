"""Several calls of one signed session at the same time: in index order, in parallel, each at its index."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioum.core.ledger import Admitted, CallRequest
from aioum.core.payment import Voucher
from aioum.core.submission.framing import encode_base64
from aioum.core.transcript import canonical_request
from tests.pens import Pen, forged
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
from tests.unit.node.api.shop import CLIENT, DOMAIN, Reply, Shop, running_shop, until


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=PATIENT_MS) as running:
        yield running
        meetings[-1].complete.set()


async def test_sixteen_calls_sent_in_reverse_are_admitted_in_order_and_run_in_parallel(shop: Shop) -> None:
    session, meeting = await Session.opened(shop), meeting_of(16)
    session.sign(*(f"call {index}" for index in range(16)))
    sent = {}
    for count, index in enumerate(reversed(range(1, 16)), start=1):
        sent[index] = session.send(index)
        await waits(shop, count)

    sent[0] = session.send(0)
    replies = [await sent[index] for index in range(16)]

    assert meeting.came == session.texts
    assert [reply.body.decode() for reply in replies] == [text.upper() for text in session.texts]
    assert charges(replies) == [(index, PRICE) for index in range(16)]
    said = await statement(shop, session)
    assert (said["callCount"], said["spent"]) == (16, str(16 * PRICE))
    assert said["root"] == session.root(replies)
    assert shop.edge.calls.waiting == 0


async def test_calls_of_two_seats_are_in_flight_together_under_one_count(shop: Shop) -> None:
    session = await Session.opened(shop)
    researcher = Pen(session.pen.channel_id, "researcher")
    meeting = meeting_of(4)
    for number in range(2):
        session.sign(f"client {number}")
        session.sign(f"researcher {number}", seat=researcher)

    sent = [session.send(index) for index in (3, 1, 2, 0)]
    replies = sorted(await asyncio.gather(*sent), key=lambda reply: reply.receipt.receipt.index)

    assert meeting.came == session.texts
    assert charges(replies) == [(index, PRICE) for index in range(4)]


async def test_call_recorded_before_an_earlier_one_keeps_its_index_and_joins_the_root_later(
    shop: Shop,
) -> None:
    session, meeting = await Session.opened(shop), meeting_of(9)
    session.sign("slow")
    session.sign("quick", tool_id="note")
    slow = session.send(0)
    await until(lambda: meeting.came == ["slow"])

    quick, again = await session.send(1), await session.send(1)
    early = await shop.read(session.pen.channel_id, "/statement")
    shown = (await shop.read(session.pen.channel_id, "/calls")).json
    numbers = (await shop.read(session.pen.channel_id)).json
    meeting.complete.set()
    replies = [await slow, quick]

    assert (again.body, again.headers["Aioum-Receipt"]) == (quick.body, quick.headers["Aioum-Receipt"])
    assert meeting.came == ["slow", "quick"]
    assert (early.status, early.code) == (409, "nothing-recorded")
    assert shown == {"calls": [], "next": None}
    assert (numbers["callCount"], numbers["recorded"]) == (2, 0)
    assert (numbers["spent"], numbers["reserved"]) == (str(PRICE), str(PRICE))
    said = await statement(shop, session)
    assert (said["callCount"], said["root"]) == (2, session.root(replies))


async def test_gap_that_is_not_filled_in_time_is_a_conflict_with_the_expected_index(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=30) as shop:
        session, meeting = await Session.opened(shop), meeting_of(9)
        head = encode_base64(session.pen.head)
        session.sign("first", "second", tool_id="note")
        loop = asyncio.get_running_loop()
        began = loop.time()

        early = await session.send(1)
        waited_seconds = loop.time() - began
        state = await session.state()
        replies = [await session.send(0), await session.send(1)]

    assert (early.status, early.code) == (409, "cursor-out-of-order")
    assert (early.json["expectedIndex"], early.json["expectedHead"]) == (0, head)
    assert "Aioum-Receipt" not in early.headers
    assert waited_seconds >= 0.03
    assert (state.admitted, state.accepted) == (0, 0)
    assert charges(replies) == [(0, PRICE), (1, PRICE)]
    assert meeting.came == ["first", "second"]


async def test_call_further_ahead_than_any_that_may_be_open_does_not_wait(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=PATIENT_MS, max_in_flight=3) as shop:
        session, meeting = await Session.opened(shop), meeting_of(9)
        session.sign("a", "b", "c", "d", tool_id="note")

        far = await session.send(3)
        near = session.send(2)
        await waits(shop, 1)
        await asyncio.gather(session.send(1), session.send(0), near)

    assert (far.status, far.code, far.json["expectedIndex"]) == (409, "cursor-out-of-order", 0)
    assert meeting.came == ["a", "b", "c"]


async def test_gap_that_another_process_fills_is_seen(shop: Shop) -> None:
    session, meeting = await Session.opened(shop), meeting_of(9)
    session.sign("elsewhere", "here", tool_id="note")
    waiting = session.send(1)
    await waits(shop, 1)
    _, tool_id, arguments, envelope = session.calls[0]
    voucher = Voucher(session.pen.channel_id, PRICE)
    request = CallRequest(
        tool_id,
        canonical_request(tool_id, arguments).encode(),
        PRICE,
        PRICE,
        CLIENT.sign_digest(voucher.digest(DOMAIN)),
        envelope,
    )

    # Nothing in this process hears of what goes straight to the store.
    assert isinstance(await shop.store.admit(session.pen.channel_id, request, 0), Admitted)

    assert charges([await waiting]) == [(1, PRICE)]
    assert meeting.came == ["here"]


async def test_sessions_whose_calls_arrive_in_any_order_all_come_to_the_transcript_of_their_client(
    tmp_path: Path,
) -> None:
    order = random.Random(4)
    async with running_shop(
        tmp_path, FUNCTIONS, turn_wait_ms=PATIENT_MS, max_concurrent_calls=1_000, max_waiting_calls=1_000
    ) as shop:
        meeting_of(1).complete.set()
        sessions = [await Session.opened(shop) for _ in range(8)]
        for session in sessions:
            for index in range(16):
                tool_id = order.choice(("meet", "note"))
                session.sign(f"no {index}" if order.random() < 0.3 else f"call {index}", tool_id=tool_id)
        wanted = [(session, index) for session in sessions for index in range(16)]
        order.shuffle(wanted)
        sent = {(id(session), index): session.send(index) for session, index in wanted}
        for session in sessions:
            replies = [await sent[id(session), index] for index in range(16)]

            assert [index for index, _ in charges(replies)] == list(range(16))
            said = await statement(shop, session)
            assert said["root"] == session.root(replies)
            assert said["spent"] == str(sum(charge for _, charge in charges(replies)))
            assert (await session.state()).reserved == 0


# --- limits ---


async def test_one_call_more_than_may_be_open_is_asked_to_come_again(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, max_in_flight=2) as shop:
        session, meeting = await Session.opened(shop), meeting_of(9)
        session.sign("a", "b", "c")
        running = [session.send(0), session.send(1)]
        await until(lambda: len(meeting.came) == 2)

        refused = await session.send(2)
        meeting.complete.set()
        await asyncio.gather(*running)
        taken = await session.send(2)

    assert (refused.status, refused.code) == (429, "too-many-in-flight")
    assert refused.headers["Retry-After"] == "2"
    assert charges([taken]) == [(2, PRICE)]


async def test_node_may_be_set_to_one_call_at_a_time(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, max_in_flight=1, turn_wait_ms=PATIENT_MS) as shop:
        session, meeting = await Session.opened(shop), meeting_of(9)
        session.sign("a", "b", "c")
        running = session.send(0)
        await until(lambda: meeting.came == ["a"])

        refused = [await session.send(1), await session.send(2)]
        meeting.complete.set()
        replies = [await running, await session.send(1), await session.send(2)]

    assert [reply.code for reply in refused] == ["too-many-in-flight", "cursor-out-of-order"]
    assert shop.offer.card.limits.max_in_flight == 1
    assert charges(replies) == [(index, PRICE) for index in range(3)]


async def test_as_many_wait_as_the_node_allows(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=PATIENT_MS, max_waiting_calls=1) as shop:
        first, second = await Session.opened(shop), await Session.opened(shop)
        meeting_of(9)
        for session in (first, second):
            session.sign("a", "b", tool_id="note")
        waiting = first.send(1)
        await waits(shop, 1)

        refused = await second.send(1)
        async with shop.admin.get("/metrics") as metrics:
            assert "aioum_calls_waiting 1.0" in await metrics.text()
        await first.send(0)
        late = await waiting

    assert (refused.status, refused.code) == (429, "node-busy")
    assert charges([late]) == [(1, PRICE)]


async def test_seat_that_contradicts_itself_ahead_of_its_turn_takes_few_places(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=PATIENT_MS, max_in_flight=2) as shop:
        session, meeting = await Session.opened(shop), meeting_of(9)
        session.sign("a", tool_id="note")
        arguments: Any = {"text": "b"}
        request = canonical_request("note", arguments).encode()
        drafts = [session.pen.draft(request, 1) for _ in range(3)]

        def send(number: int) -> asyncio.Task[Reply]:
            asked = shop.ask(session.pen, 1, 2 * PRICE, "note", arguments, envelope=drafts[number])
            return asyncio.create_task(asked)

        waiting = []
        for number in range(2):
            waiting.append(send(number))
            await waits(shop, number + 1)
        refused = await send(2)
        await session.send(0)
        replies = await asyncio.gather(*waiting)
        kept = (await shop.read(session.pen.channel_id)).json["equivocations"]

    assert (refused.status, refused.code) == (429, "too-many-in-flight")
    assert sorted(reply.status for reply in replies) == [200, 409]
    assert (meeting.came, len(kept)) == (["a", "b"], 1)


async def test_what_nobody_signed_or_paid_for_takes_no_place(shop: Shop) -> None:
    session = await Session.opened(shop)
    meeting_of(1)
    request = canonical_request("note", {"text": "b"}).encode()
    early = session.pen.draft(request, 1)

    unsigned = await shop.ask(session.pen, 1, PRICE, "note", {"text": "b"}, envelope=forged(early))
    unpaid = await shop.ask(
        session.pen, 1, PRICE, "note", {"text": "b"}, envelope=early, signature=b"\x01" * 65
    )

    assert (unsigned.status, unsigned.code) == (403, "bad-signature")
    assert unpaid.status == 402
    assert shop.edge.calls.waiting == 0


async def test_envelope_that_is_sent_often_before_its_turn_takes_one_place_and_runs_once(shop: Shop) -> None:
    session, meeting = await Session.opened(shop), meeting_of(9)
    session.sign("a", "b", tool_id="note")
    early = [session.send(1, PRICE * (2 + number % 3)) for number in range(60)]
    await waits(shop, 1)

    await session.send(0)
    replies = await asyncio.gather(*early)

    assert meeting.came == ["a", "b"]
    assert {(reply.status, reply.headers["Aioum-Receipt"]) for reply in replies} == {
        (200, replies[0].headers["Aioum-Receipt"])
    }
    assert (await session.state()).spent == 2 * PRICE


async def test_calls_that_wait_are_refused_when_the_node_stops_and_nothing_of_them_is_kept(
    shop: Shop,
) -> None:
    session, meeting = await Session.opened(shop), meeting_of(9)
    session.sign("a", "b", "c")
    running, waiting = session.send(0), session.send(2)
    await until(lambda: meeting.came == ["a"])
    await waits(shop, 1)

    draining = asyncio.create_task(shop.edge.calls.drain(60))
    released = await waiting
    late = await session.send(2)
    meeting.complete.set()
    await draining

    assert [(reply.status, reply.code) for reply in (released, late)] == [(503, "stopping")] * 2
    assert charges([await running]) == [(0, PRICE)]
    assert (await session.state()).admitted == 1
