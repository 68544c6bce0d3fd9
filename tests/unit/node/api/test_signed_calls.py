"""Signed calls over HTTP: what is recorded, what is a retry, and that everything goes on from the head."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.problem import problem_code
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import encode_base64
from aioum.core.transcript import Entry, canonical_request, entry_leaf
from tests.pens import ROSTER, Pen, signed_again
from tests.unit.node.api.shop import Reply, Shop, running_shop, until
from tests.unit.node.api.wares import FUNCTIONS, PRICE, gates, ran

HEY = canonical_request("shout", {"text": "hey"}).encode()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    ran.clear()
    gates.append(asyncio.Event())
    async with running_shop(tmp_path, FUNCTIONS, max_unpaid_calls=3, max_seats=3) as running:
        yield running
        gates[-1].set()


async def numbers(shop: Shop, pen: Pen) -> Any:
    return (await shop.read(pen.channel_id)).json


def receipt_of(reply: Reply) -> tuple[int, int]:
    receipt = reply.receipt.receipt
    return receipt.index, receipt.charge


async def test_signed_call_is_answered_with_a_receipt_and_moves_the_head_of_its_seat(shop: Shop) -> None:
    pen = await shop.open_signed()
    before = (await numbers(shop, pen))["heads"]

    reply = await shop.ask(pen, 0, PRICE)

    assert (reply.status, reply.body) == (200, b"HEY")
    assert reply.receipt.receipt.leaf == entry_leaf(Entry(0, "shout", HEY.decode(), "HEY"))
    after = (await numbers(shop, pen))["heads"]
    assert after == {**before, "client": encode_base64(pen.head)}
    assert list(after) == list(ROSTER.seats)


async def test_seats_take_turns_under_one_count_of_calls(shop: Shop) -> None:
    client = await shop.open_signed()
    researcher = Pen(client.channel_id, "researcher")

    replies = [
        await shop.ask(client, 0, PRICE),
        await shop.ask(researcher, 1, 2 * PRICE),
        await shop.ask(client, 2, 3 * PRICE),
        await shop.ask(researcher, 3, 4 * PRICE),
    ]

    assert [receipt_of(reply) for reply in replies] == [(index, PRICE) for index in range(4)]
    entries = (await shop.read(client.channel_id, "/calls")).json["calls"]
    assert [entry["submission"]["seat"] for entry in entries] == ["client", "researcher"] * 2


async def test_record_of_a_call_carries_its_envelope_so_that_a_client_recovers_it(shop: Shop) -> None:
    pen = await shop.open_signed()
    envelope = pen.sign(HEY, 0)
    await shop.ask(pen, 0, PRICE, envelope=envelope)

    (entry,) = (await shop.read(pen.channel_id, "/calls")).json["calls"]

    assert Envelope.from_json(entry["submission"]) == envelope
    assert entry["request"].encode() == HEY


async def test_same_envelope_gets_the_same_bytes_whatever_voucher_comes_with_it(shop: Shop) -> None:
    pen = await shop.open_signed()
    envelope = pen.sign(HEY, 0)
    first = await shop.ask(pen, 0, PRICE, envelope=envelope)
    await shop.ask(pen, 1, 2 * PRICE)

    for amount in (PRICE, 5 * PRICE, 0):
        retry = await shop.ask(pen, 0, amount, envelope=envelope)
        assert (retry.status, retry.body) == (first.status, first.body)
        assert retry.headers["Aioum-Receipt"] == first.headers["Aioum-Receipt"]
    assert ran == ["hey", "hey"]


async def test_parallel_identical_requests_are_one_call(shop: Shop) -> None:
    pen = await shop.open_signed()
    envelope = pen.sign(canonical_request("wait", {"text": "hey"}).encode(), 0)

    requests = [
        asyncio.create_task(shop.ask(pen, 0, PRICE + number % 3, "wait", envelope=envelope))
        for number in range(60)
    ]
    await until(lambda: ran == ["wait"])
    gates[-1].set()
    replies = await asyncio.gather(*requests)

    assert {(reply.status, reply.body, reply.headers["Aioum-Receipt"]) for reply in replies} == {
        (200, b"waited", replies[0].headers["Aioum-Receipt"])
    }
    assert ran == ["wait"]


async def test_of_two_envelopes_on_one_head_at_once_one_runs(shop: Shop) -> None:
    pen = await shop.open_signed()
    texts = ("a", "b")
    drafts = [pen.draft(canonical_request("shout", {"text": text}).encode(), 0) for text in texts]

    replies = await asyncio.gather(
        *(
            shop.ask(pen, 0, PRICE, arguments={"text": text}, envelope=draft)
            for text, draft in zip(texts, drafts, strict=True)
        )
    )

    assert sorted(reply.status for reply in replies) == [200, 409]
    assert len(ran) == 1
    assert [item["cursor"] for item in (await numbers(shop, pen))["equivocations"]] == [0]


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "code"),
    [
        ("nothing", {"any": 1}, 404, "tool-unknown"),
        ("shout", {"text": 1}, 400, "arguments-invalid"),
        ("shout", {"more": True}, 400, "arguments-invalid"),
        ("fail", {}, 500, "tool-failed"),
    ],
)
async def test_every_failure_is_recorded_at_its_index_and_costs_nothing(
    shop: Shop, tool: str, arguments: Any, status: int, code: str
) -> None:
    pen = await shop.open_signed()
    envelope = pen.sign(canonical_request(tool, arguments).encode(), 0)

    reply = await shop.ask(pen, 0, PRICE, tool, arguments, envelope=envelope)
    again = await shop.ask(pen, 0, PRICE, tool, arguments, envelope=envelope)
    following = await shop.ask(pen, 1, PRICE)

    assert (reply.status, problem_code(reply.body), receipt_of(reply)) == (status, code, (0, 0))
    assert "Payment-Receipt" not in reply.headers
    assert (again.body, again.headers["Aioum-Receipt"]) == (reply.body, reply.headers["Aioum-Receipt"])
    assert (following.status, receipt_of(following)) == (200, (1, PRICE))
    assert ran == ["hey"]


async def test_failures_that_no_tool_had_a_part_in_count_and_are_counted(shop: Shop) -> None:
    pen = await shop.open_signed()
    for cursor in range(3):
        assert (await shop.ask(pen, cursor, 0, f"nothing-{cursor}", {})).status == 404

    sealed = await shop.ask(pen, 3, PRICE)

    assert (sealed.status, sealed.code) == (410, "session-sealed")
    async with shop.admin.get("/metrics") as metrics:
        text = await metrics.text()
    assert 'aioum_calls_total{outcome="tool-unknown",tool="(unknown)"} 3.0' in text
    assert "nothing-" not in text


async def test_voucher_that_does_not_fund_the_call_leaves_the_turn_and_the_same_envelope_may_come_again(
    shop: Shop,
) -> None:
    pen = await shop.open_signed(deposit=2 * PRICE)
    envelope = pen.sign(HEY, 0)

    poor = await shop.ask(pen, 0, PRICE - 1, envelope=envelope)
    rich = await shop.ask(pen, 0, 2 * PRICE + 1, envelope=envelope)
    paid = await shop.ask(pen, 0, PRICE, envelope=envelope)

    assert (poor.status, poor.code) == (402, "payment-insufficient")
    assert (rich.status, rich.code) == (402, "amount-exceeds-deposit")
    assert (paid.status, receipt_of(paid)) == (200, (0, PRICE))


async def test_call_after_a_failure_may_come_with_the_same_voucher(shop: Shop) -> None:
    pen = await shop.open_signed()
    await shop.ask(pen, 0, PRICE, "fail", {})

    assert receipt_of(await shop.ask(pen, 1, PRICE)) == (1, PRICE)


async def test_free_call_needs_no_money_also_where_it_opens_the_session(shop: Shop) -> None:
    pen = await shop.open_signed()

    first = await shop.ask(pen, 0, 0, "gift", {}, action="open", transaction=b"\x01" * 32)
    second = await shop.ask(pen, 1, 0, "gift", {})

    assert [(reply.status, receipt_of(reply)) for reply in (first, second)] == [(200, (0, 0)), (200, (1, 0))]


async def test_spelling_of_the_body_does_not_matter_to_the_signature(shop: Shop) -> None:
    pen = await shop.open_signed()

    reply = await shop.ask(pen, 0, PRICE, body=b'{ "text" : "h\\u0065y" }')

    assert (reply.status, reply.body) == (200, b"HEY")


# --- rosters ---


async def present(shop: Shop, pen: Pen, roster: Any = None, **changes: Any) -> Reply:
    entries = ROSTER.to_json() if roster is None else roster
    return await shop.pay(
        pen.channel_id, 0, action="open", transaction=b"\x01" * 32, roster=entries, **changes
    )


async def test_session_without_its_roster_takes_calls_once_an_open_shows_it(shop: Shop) -> None:
    pen = await shop.open_signed(shown=False)
    envelope = pen.sign(HEY, 0)

    early = await shop.ask(pen, 0, PRICE, envelope=envelope)
    shown = await present(shop, pen)
    again = await present(shop, pen)
    late = await shop.ask(pen, 0, PRICE, envelope=envelope)

    assert (early.status, early.code) == (409, "roster-required")
    assert [(reply.status, reply.code) for reply in (shown, again)] == [(402, "payment-required")] * 2
    assert (late.status, receipt_of(late)) == (200, (0, PRICE))


async def test_first_call_may_show_the_roster_itself(shop: Shop) -> None:
    pen = await shop.open_signed(shown=False)

    reply = await shop.ask(pen, 0, PRICE, action="open", transaction=b"\x01" * 32, roster=ROSTER.to_json())

    assert (reply.status, receipt_of(reply)) == (200, (0, PRICE))


async def test_session_whose_roster_nobody_showed_can_be_closed(shop: Shop) -> None:
    pen = await shop.open_signed(shown=False)

    closed = await shop.close(pen.channel_id, 0)

    assert (closed.status, closed.json["phase"]) == (202, "sealed")
    assert shop.settled == [pen.channel_id]


async def test_showing_the_roster_again_keeps_the_heads(shop: Shop) -> None:
    pen = await shop.open_signed()
    await shop.ask(pen, 0, PRICE)
    await present(shop, pen)

    assert receipt_of(await shop.ask(pen, 1, 2 * PRICE)) == (1, PRICE)


ENTRIES: Any = ROSTER.to_json()


@pytest.mark.parametrize(
    ("roster", "status", "code"),
    [
        (ENTRIES[:1], 409, "roster-mismatch"),
        ([{**ENTRIES[0], "signingTier": {"N": 2}}, ENTRIES[1]], 409, "roster-mismatch"),
        ([{**ENTRIES[0], "id": "researcher"}, {**ENTRIES[1], "id": "client"}], 409, "roster-mismatch"),
        ([], 400, "roster-invalid"),
        ([ENTRIES[0], ENTRIES[0]], 400, "roster-invalid"),
        ([{**ENTRIES[0], "more": 1}], 400, "roster-invalid"),
        ([{**ENTRIES[0], "publicKey": ENTRIES[0]["publicKey"].rstrip("=")}], 400, "roster-invalid"),
        ([{**ENTRIES[0], "id": f"seat-{number}"} for number in range(4)], 400, "roster-invalid"),
        ({}, 402, "credential-malformed"),
    ],
)
async def test_roster_that_is_not_the_openings_is_refused(
    shop: Shop, roster: Any, status: int, code: str
) -> None:
    pen = await shop.open_signed(shown=False)

    reply = await present(shop, pen, roster)

    assert (reply.status, reply.code) == (status, code)
    assert (await numbers(shop, pen))["heads"] == {}


async def test_roster_of_a_stranger_is_not_taken(shop: Shop) -> None:
    pen = await shop.open_signed(shown=False)

    assert (await present(shop, pen, signature=b"\x01" * 65)).status == 402
    assert (await numbers(shop, pen))["heads"] == {}


async def test_roster_for_an_unsigned_session_is_refused(shop: Shop) -> None:
    pen = Pen(await shop.open_session())

    reply = await present(shop, pen)

    assert (reply.status, reply.code) == (409, "roster-unexpected")


async def test_signed_members_come_with_calls_only(shop: Shop) -> None:
    pen = await shop.open_signed()
    credential = shop.credential(
        pen.channel_id, 0, action="topUp", transaction=b"\x01" * 32, submission={"seat": "client"}
    )

    reply = await shop.post("/tools/shout", canonical_bytes({}), {"Authorization": credential.header()})

    assert (reply.status, reply.code) == (402, "credential-malformed")


async def test_unsigned_sessions_show_nothing_of_signatures(shop: Shop) -> None:
    channel = await shop.open_session()
    await shop.pay(channel, PRICE)

    session = (await shop.read(channel)).json
    (entry,) = (await shop.read(channel, "/calls")).json["calls"]

    assert not {"heads", "equivocations"} & session.keys()
    assert "submission" not in entry


async def test_retry_after_a_restart_finds_the_recorded_call_and_the_head(tmp_path: Path) -> None:
    ran.clear()
    async with running_shop(tmp_path, FUNCTIONS) as shop:
        pen = await shop.open_signed()
        envelope = pen.sign(HEY, 0)
        first = await shop.ask(pen, 0, PRICE, envelope=envelope)
    async with running_shop(tmp_path, FUNCTIONS) as shop:
        retry = await shop.ask(pen, 0, PRICE, envelope=envelope)
        stale = await shop.ask(pen, 1, 2 * PRICE, envelope=pen.draft(HEY, 1, prev_head=bytes(32)))
        following = await shop.ask(pen, 1, 2 * PRICE)

    assert (retry.body, retry.headers["Aioum-Receipt"]) == (first.body, first.headers["Aioum-Receipt"])
    assert stale.code == "head-mismatch"
    assert receipt_of(following) == (1, PRICE)
    assert ran == ["hey", "hey"]


async def test_second_signature_of_the_same_bytes_is_the_same_call(shop: Shop) -> None:
    pen = await shop.open_signed()
    envelope = pen.sign(HEY, 0)
    first = await shop.ask(pen, 0, PRICE, envelope=envelope)

    other = await shop.ask(
        pen, 0, PRICE, envelope=replace(envelope, signature=signed_again(pen, envelope, HEY))
    )

    assert other.headers["Aioum-Receipt"] == first.headers["Aioum-Receipt"]
    assert (await numbers(shop, pen))["equivocations"] == []
