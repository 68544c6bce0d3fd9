"""What a client could try against a node that it signs calls to, each with the code that it gets."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.submission.chain import Periodic, paid_session_id
from aioum.core.submission.envelope import Envelope
from aioum.core.submission.framing import MAX_COMMAND_BYTES, encode_base64
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.transcript import canonical_request
from tests.pens import ORDER, ROSTER, Pen, forged, key_of
from tests.unit.node.api.shop import Reply, Shop, running_shop
from tests.unit.node.api.wares import FUNCTIONS, PRICE, ran

HEY = canonical_request("shout", {"text": "hey"}).encode()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    ran.clear()
    async with running_shop(tmp_path, FUNCTIONS, turn_wait_ms=0) as running:
        yield running


async def admitted(shop: Shop, pen: Pen) -> int:
    stored = await shop.store.session(pen.channel_id)
    assert stored is not None
    return stored.state.admitted


async def equivocations(shop: Shop, pen: Pen) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await shop.read(pen.channel_id)).json["equivocations"]
    return found


def outcome(reply: Reply) -> tuple[int, str]:
    assert "Aioum-Receipt" not in reply.headers
    return reply.status, reply.code


# --- form of the session ---


async def test_unsigned_call_in_a_signed_session_is_refused(shop: Shop) -> None:
    pen = await shop.open_signed()

    assert outcome(await shop.pay(pen.channel_id, PRICE)) == (403, "signature-required")
    assert (await admitted(shop, pen), ran) == (0, [])


async def test_signed_call_in_an_unsigned_session_is_refused(shop: Shop) -> None:
    pen = Pen(await shop.open_session())

    assert outcome(await shop.ask(pen, 0, PRICE)) == (403, "session-unsigned")


# --- position ---


async def test_wrong_head_and_wrong_cursor_hear_what_is_expected_and_change_nothing(shop: Shop) -> None:
    pen = await shop.open_signed()
    genesis = pen.head
    await shop.ask(pen, 0, PRICE)
    expected = {"expectedIndex": 1, "expectedHead": encode_base64(pen.head)}
    unknown, other_seat = bytes(32), Pen(pen.channel_id, "researcher").head

    for prev_head in (unknown, other_seat):
        reply = await shop.ask(pen, 1, 2 * PRICE, envelope=pen.draft(HEY, 1, prev_head=prev_head))
        assert outcome(reply) == (409, "head-mismatch")
        assert {name: reply.json[name] for name in expected} == expected
    for cursor in (0, 2, 2**53 - 1):
        draft = pen.draft(HEY, cursor)
        reply = await shop.ask(pen, cursor, 2 * PRICE, envelope=draft)
        assert outcome(reply) == (409, "cursor-out-of-order")
        assert {name: reply.json[name] for name in expected} == expected
    assert genesis != pen.head
    assert await equivocations(shop, pen) == []
    assert (await shop.ask(pen, 1, 2 * PRICE)).status == 200


async def test_position_is_judged_before_limits_and_these_before_the_signature(shop: Shop) -> None:
    pen = await shop.open_signed()
    elsewhere, soon, here = (forged(pen.draft(HEY, cursor)) for cursor in (16, 1, 0))

    assert outcome(await shop.ask(pen, 16, PRICE, envelope=elsewhere, body=b"{"))[1] == "cursor-out-of-order"
    assert outcome(await shop.ask(pen, 1, PRICE, envelope=soon, body=b"{"))[1] == "json-syntax"
    assert outcome(await shop.ask(pen, 1, PRICE, envelope=soon))[1] == "bad-signature"
    assert outcome(await shop.ask(pen, 0, PRICE, envelope=here, body=b"{"))[1] == "json-syntax"
    assert outcome(await shop.ask(pen, 0, PRICE, envelope=here, signature=b""))[1] == "bad-signature"
    assert outcome(await shop.ask(pen, 0, PRICE, envelope=pen.draft(HEY, 0), signature=b""))[1] == (
        "signature-malformed"
    )


async def test_seat_that_is_not_in_the_roster_is_refused(shop: Shop) -> None:
    pen = await shop.open_signed()

    reply = await shop.ask(pen, 0, PRICE, envelope=pen.draft(HEY, 0, seat="auditor"))

    assert outcome(reply) == (403, "seat-unknown")


# --- limits ---


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"[]", 400, "arguments-invalid"),
        (b"{", 400, "json-syntax"),
        (b'{"text":"a","text":"b"}', 400, "json-duplicate-key"),
        (b'{"deep":' + b"[" * 500 + b"]" * 500 + b"}", 400, "json-too-deep"),
        (b'{"deep":' + b"[" * 63 + b"]" * 63 + b"}", 400, "json-too-deep"),
        (b'{"n":1e20}', 400, "json-number-unsafe"),
        (b'{"n":100000000000000000000}', 400, "json-number-unsafe"),
        ('{"\uffff":1,"\U0001f600":2}'.encode(), 400, "request-not-portable"),
    ],
)
async def test_arguments_that_no_seat_could_have_signed_are_refused_unrecorded(
    shop: Shop, body: bytes, status: int, code: str
) -> None:
    pen = await shop.open_signed()

    assert outcome(await shop.ask(pen, 0, PRICE, envelope=pen.draft(HEY, 0), body=body)) == (status, code)
    assert await admitted(shop, pen) == 0


async def test_command_of_64_kib_is_taken_and_one_byte_more_is_not(shop: Shop) -> None:
    pen = await shop.open_signed()
    room = MAX_COMMAND_BYTES - len(canonical_request("shout", {"text": ""}))
    longest: Any = {"text": "a" * room}
    longer: Any = {"text": "a" * (room + 1)}

    refused = await shop.ask(pen, 0, PRICE, arguments=longer, envelope=pen.draft(HEY, 0))
    taken = await shop.ask(pen, 0, PRICE, arguments=longest)

    assert outcome(refused) == (413, "request-too-large")
    assert taken.status == 200


async def test_a_larger_limit_of_the_node_does_not_let_larger_commands_through(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, max_request_bytes=1_000_000) as shop:
        pen = await shop.open_signed()
        arguments: Any = {"text": "a" * MAX_COMMAND_BYTES}

        reply = await shop.ask(pen, 0, PRICE, arguments=arguments, envelope=pen.draft(HEY, 0))

        assert outcome(reply) == (413, "request-too-large")


async def test_name_that_no_tool_can_have_is_refused_unrecorded(shop: Shop) -> None:
    pen = await shop.open_signed()

    reply = await shop.ask(pen, 0, PRICE, "no%20tool", {}, envelope=pen.draft(HEY, 0))

    assert outcome(reply) == (404, "tool-unknown")
    assert await admitted(shop, pen) == 0


# --- form of the envelope ---


def _replaced(text: str, position: int, character: str) -> str:
    return text[:position] + character + text[position + 1 :]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda e: e | {"sig": _replaced(e["sig"], 85, "B")}, id="trailing-bits"),
        pytest.param(lambda e: e | {"prevHead": _replaced(e["prevHead"], 42, "9")}, id="trailing-bits-head"),
        pytest.param(lambda e: e | {"sig": "-" * 86 + "=="}, id="base64url"),
        pytest.param(lambda e: e | {"sig": e["sig"].rstrip("=")}, id="no-padding"),
        pytest.param(lambda e: e | {"prevHead": e["sig"]}, id="length"),
        pytest.param(lambda e: e | {"cursor": 0.5}, id="fraction"),
        pytest.param(lambda e: e | {"cursor": False}, id="bool"),
        pytest.param(lambda e: e | {"cursor": -1}, id="negative"),
        pytest.param(lambda e: e | {"clientTime": None}, id="null"),
        pytest.param(lambda e: e | {"seat": ""}, id="empty-seat"),
        pytest.param(lambda e: e | {"submissionId": "a b"}, id="space"),
        pytest.param(lambda e: e | {"submissionId": "a" * 129}, id="long-id"),
        pytest.param(lambda e: e | {"more": 1}, id="more"),
        pytest.param(lambda e: {"seat": e["seat"]}, id="less"),
        pytest.param(lambda e: e | {"roster": ROSTER.to_json()}, id="roster-with-a-voucher"),
    ],
)
async def test_envelope_with_another_form_is_refused(
    shop: Shop, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    pen = await shop.open_signed()
    draft = pen.draft(HEY, 0)

    reply = await shop.ask(pen, 0, PRICE, envelope=draft, submission=change(draft.to_json()))

    assert outcome(reply) == (400, "submission-malformed")


# --- authorship ---


def _larger_s(signature: bytes) -> bytes:
    scalar = int.from_bytes(signature[32:], "little") + ORDER
    return signature[:32] + scalar.to_bytes(32, "little")


def _periodic(pen: Pen, envelope: Envelope) -> bytes:
    session_id = paid_session_id(pen.channel_id)
    record = Periodic(session_id, pen.seat, envelope.cursor, envelope.client_time, envelope.prev_head)
    return pen.key.sign(record.preimage())


def _elsewhere(pen: Pen, envelope: Envelope) -> bytes:
    other = Pen(type(pen.channel_id)(b"\x77" * 32))
    return other.key.sign(envelope.submission(other.channel_id, HEY).preimage())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda pen, e: forged(e), id="no-signature"),
        pytest.param(lambda pen, e: replace(e, signature=_larger_s(e.signature)), id="s-plus-l"),
        pytest.param(lambda pen, e: replace(e, signature=b"\x01" + bytes(63)), id="small-order-r"),
        pytest.param(lambda pen, e: replace(e, signature=_periodic(pen, e)), id="periodic"),
        pytest.param(lambda pen, e: replace(e, signature=_elsewhere(pen, e)), id="of-another-session"),
        pytest.param(
            lambda pen, e: Pen(pen.channel_id, key=key_of("researcher")).draft(HEY, 0),
            id="of-another-seats-key",
        ),
        pytest.param(
            lambda pen, e: replace(e, seat="researcher", prev_head=Pen(pen.channel_id, "researcher").head),
            id="re-attributed",
        ),
        pytest.param(lambda pen, e: replace(e, submission_id="other"), id="other-id"),
        pytest.param(lambda pen, e: replace(e, client_time=1), id="other-time"),
        pytest.param(
            lambda pen, e: pen.draft(canonical_request("shout", {"text": "ho"}).encode(), 0), id="text"
        ),
        pytest.param(
            lambda pen, e: pen.draft(canonical_request("measure", {"text": "hey"}).encode(), 0), id="tool"
        ),
    ],
)
async def test_call_that_the_seat_did_not_sign_is_refused(
    shop: Shop, change: Callable[[Pen, Envelope], Envelope]
) -> None:
    pen = await shop.open_signed()

    reply = await shop.ask(pen, 0, PRICE, envelope=change(pen, pen.draft(HEY, 0)))

    assert outcome(reply) == (403, "bad-signature")
    assert (await admitted(shop, pen), ran) == (0, [])
    assert await equivocations(shop, pen) == []


async def test_envelope_of_another_session_is_out_of_place(shop: Shop) -> None:
    mine, other = await shop.open_signed(), await shop.open_signed()

    reply = await shop.ask(mine, 0, PRICE, envelope=other.draft(HEY, 0))

    assert outcome(reply) == (409, "head-mismatch")


WEAK_KEYS = {
    "identity": b"\x01" + bytes(31),
    "order-two": b"\xec" + b"\xff" * 30 + b"\x7f",
    "order-four": bytes(32),
    "order-eight": bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    "no-point": b"\x02" + bytes(31),
    "not-canonical": b"\xee" + b"\xff" * 30 + b"\x7f",
}


@pytest.mark.parametrize("kind", WEAK_KEYS)
async def test_roster_with_a_key_that_could_speak_for_anybody_is_refused(shop: Shop, kind: str) -> None:
    roster = Roster.of(
        RosterEntry("client", key_of("client").public_key), RosterEntry("weak", WEAK_KEYS[kind])
    )
    channel = await shop.open_session(roster_hash=roster.hash)

    reply = await shop.pay(channel, 0, action="open", transaction=b"\x01" * 32, roster=roster.to_json())

    assert outcome(reply) == (403, "submission-key-invalid")
    assert (await shop.read(channel)).json["heads"] == {}


async def test_seat_with_a_name_of_another_form_is_refused(shop: Shop) -> None:
    roster = Roster.of(RosterEntry("the client", key_of("client").public_key))
    channel = await shop.open_session(roster_hash=roster.hash)

    reply = await shop.pay(channel, 0, action="open", transaction=b"\x01" * 32, roster=roster.to_json())

    assert outcome(reply) == (400, "roster-invalid")


# --- equivocation ---


async def test_second_envelope_on_one_head_is_refused_and_both_are_kept(shop: Shop) -> None:
    pen = await shop.open_signed()
    genesis = pen.head
    first = pen.sign(HEY, 0, submission_id="first")
    answered = await shop.ask(pen, 0, PRICE, envelope=first)
    ho: Any = {"text": "ho"}
    asked = canonical_request("shout", ho).encode()
    seconds = {
        "same position": (0, pen.draft(asked, 0, prev_head=genesis)),
        "same head later": (1, pen.draft(asked, 1, prev_head=genesis)),
        "same id": (1, pen.draft(asked, 1, submission_id="first")),
    }

    for cursor, envelope in seconds.values():
        for _ in range(2):
            reply = await shop.ask(pen, cursor, 2 * PRICE, arguments=ho, envelope=envelope)
            assert outcome(reply) == (409, "submission-conflict")
            assert reply.json["expectedIndex"] == 1
            assert reply.json["expectedHead"] == encode_base64(pen.head)

    kept = await equivocations(shop, pen)
    assert [Envelope.from_json(_members(item)) for item in kept] == [item[1] for item in seconds.values()]
    assert [(item["index"], item["toolId"], item["request"].encode()) for item in kept] == [
        (0, "shout", asked)
    ] * 3
    retry = await shop.ask(pen, 0, PRICE, envelope=first)
    assert retry.headers["Aioum-Receipt"] == answered.headers["Aioum-Receipt"]
    assert (await shop.ask(pen, 1, 2 * PRICE)).status == 200
    assert ran == ["hey", "hey"]
    async with shop.admin.get("/metrics") as metrics:
        assert 'aioum_refusals_total{code="submission-conflict"} 6.0' in await metrics.text()


def _members(item: dict[str, Any]) -> Any:
    names = ("seat", "submissionId", "cursor", "clientTime", "prevHead", "sig")
    return {name: item[name] for name in names}


async def test_what_somebody_else_signed_is_no_evidence_against_the_seat(shop: Shop) -> None:
    pen = await shop.open_signed()
    genesis = pen.head
    await shop.ask(pen, 0, PRICE)
    stranger = Pen(pen.channel_id, key=key_of("stranger"))

    for cursor in (0, 1):
        draft = stranger.draft(HEY, cursor, prev_head=genesis)
        assert outcome(await shop.ask(pen, cursor, 2 * PRICE, envelope=draft)) == (403, "bad-signature")
    assert await equivocations(shop, pen) == []


async def test_contradiction_without_a_valid_voucher_is_refused_for_the_voucher(shop: Shop) -> None:
    pen = await shop.open_signed()
    genesis = pen.head
    await shop.ask(pen, 0, PRICE)

    draft = pen.draft(HEY, 0, prev_head=genesis)
    reply = await shop.ask(pen, 0, PRICE, envelope=draft, signature=b"\x01" * 65)

    assert reply.status == 402
    assert await equivocations(shop, pen) == []


async def test_contradiction_is_kept_also_after_the_session_was_sealed(shop: Shop) -> None:
    pen = await shop.open_signed()
    genesis = pen.head
    await shop.ask(pen, 0, PRICE)
    await shop.close(pen.channel_id, 1)

    draft = pen.draft(HEY, 0, prev_head=genesis)
    late = await shop.ask(pen, 0, PRICE, envelope=draft)
    following = await shop.ask(pen, 1, 2 * PRICE)

    assert outcome(late) == (409, "submission-conflict")
    assert outcome(following) == (410, "session-sealed")
    assert len(await equivocations(shop, pen)) == 1


async def test_body_that_the_envelope_was_not_signed_for_does_not_get_the_stored_answer(shop: Shop) -> None:
    pen = await shop.open_signed()
    envelope = pen.sign(HEY, 0)
    await shop.ask(pen, 0, PRICE, envelope=envelope)

    reply = await shop.ask(pen, 0, PRICE, envelope=envelope, body=canonical_bytes({"text": "ho"}))

    assert outcome(reply) == (403, "bad-signature")
