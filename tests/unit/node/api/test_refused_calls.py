"""Requests that are refused, with which status and code, and that none of them is recorded."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from aioum.core.wire import Challenge
from tests.unit.node.api.shop import DEPOSIT, STRANGER, Shop, running_shop
from tests.unit.node.api.wares import FUNCTIONS, PRICE, gates, ran


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    ran.clear()
    gates.append(asyncio.Event())
    async with running_shop(tmp_path, FUNCTIONS, max_request_bytes=1_000, max_concurrent_calls=4) as running:
        yield running
        gates[-1].set()


@pytest.mark.parametrize(
    ("amount", "status", "code"),
    [
        (PRICE, 409, "request-conflict"),
        (PRICE - 1, 402, "amount-not-increasing"),
        (PRICE + 1, 402, "payment-insufficient"),
        (DEPOSIT + 1, 402, "amount-exceeds-deposit"),
    ],
)
async def test_voucher_that_does_not_pay_the_next_call_is_refused_with_a_fresh_challenge(
    shop: Shop, amount: int, status: int, code: str
) -> None:
    channel = await shop.open_session()
    await shop.pay(channel, PRICE)

    reply = await shop.pay(channel, amount, "measure")

    assert (reply.status, reply.code) == (status, code)
    if status == 402:
        challenge = Challenge.from_header(reply.headers["WWW-Authenticate"])
        details = challenge.request_json()["methodDetails"]
        assert isinstance(details, dict)
        assert details["channelId"] == "0x" + channel.hex()
        assert reply.json["acceptedCumulative"] == str(PRICE)
    assert "Aioum-Receipt" not in reply.headers


async def test_refusal_says_what_would_be_enough(shop: Shop) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, 1)

    assert reply.json["requiredCumulative"] == str(PRICE)


async def test_voucher_of_a_stranger_is_refused(shop: Shop) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, PRICE, key=STRANGER)

    assert (reply.status, reply.code) == (402, "signer-mismatch")
    assert ran == []


@pytest.mark.parametrize(
    ("signature", "code"),
    [(b"", "signature-malformed"), (b"\x01" * 32 + b"\xff" * 32 + b"\x1b", "signature-high-s")],
)
async def test_signature_that_is_none_is_refused(shop: Shop, signature: bytes, code: str) -> None:
    channel = await shop.open_session()

    assert (await shop.pay(channel, PRICE, signature=signature)).code == code


async def test_authorized_signer_signs_instead_of_the_payer(shop: Shop) -> None:
    channel = await shop.open_session(authorized_signer=STRANGER.address)

    assert (await shop.pay(channel, PRICE)).code == "signer-mismatch"
    assert (await shop.pay(channel, PRICE, key=STRANGER)).status == 200


@pytest.mark.parametrize(
    ("tool_id", "body", "status", "code"),
    [
        ("shout", b'{"text":1}', 400, "arguments-invalid"),
        ("shout", b'{"text":"a","more":1}', 400, "arguments-invalid"),
        ("shout", b"[]", 400, "arguments-invalid"),
        ("shout", b'{"text":"a","text":"b"}', 400, "json-duplicate-key"),
        ("shout", b"{", 400, "json-syntax"),
        ("shout", b"\xff", 400, "json-not-utf8"),
        ("shout", b'{"text":"' + b"a" * 1_000 + b'"}', 413, "request-too-large"),
        ("shout", b'{"text":"' + b"a" * 970 + b'"}', 413, "request-too-large"),
        ("nothing", b"{}", 404, "tool-unknown"),
    ],
)
async def test_request_that_cannot_be_run_is_refused_and_not_recorded(
    shop: Shop, tool_id: str, body: bytes, status: int, code: str
) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, PRICE, tool_id, body=body)

    assert (reply.status, reply.code) == (status, code)
    stored = await shop.store.session(channel)
    assert stored is not None
    assert stored.state.admitted == 0


async def test_unknown_tool_is_not_found_also_without_payment(shop: Shop) -> None:
    assert (await shop.post("/tools/nothing", b"{}")).code == "tool-unknown"


async def test_session_that_the_node_does_not_know_is_gone(shop: Shop) -> None:
    reply = await shop.pay((99_999).to_bytes(32, "big"), PRICE)  # type: ignore[arg-type]

    assert (reply.status, reply.code) == (410, "channel-not-found")


async def test_session_of_another_deployment_is_not_served(shop: Shop) -> None:
    channel = await shop.open_session(payment_manager=STRANGER.address)

    reply = await shop.pay(channel, PRICE)

    assert (reply.status, reply.code) == (410, "session-elsewhere")


async def test_session_whose_receipts_another_key_must_sign_is_not_served(shop: Shop) -> None:
    terms = replace(shop.registration.terms, receipt_signer=STRANGER.address)
    channel = await shop.open_session(terms=terms)

    replies = [await shop.pay(channel, PRICE), await shop.read(channel, "/statement")]

    assert [(reply.status, reply.code) for reply in replies] == [(403, "terms-not-ours")] * 2


@pytest.mark.parametrize(
    ("header", "status", "code"),
    [
        ("Payment nonsense!", 402, "credential-malformed"),
        ("Payment e30", 402, "credential-malformed"),
        ("Bearer x", 402, "credential-malformed"),
    ],
)
async def test_credential_that_makes_no_sense_is_refused(
    shop: Shop, header: str, status: int, code: str
) -> None:
    reply = await shop.post("/tools/shout", b"{}", {"Authorization": header})

    assert (reply.status, reply.code) == (status, code)
    assert "WWW-Authenticate" in reply.headers


async def test_challenge_of_somebody_else_is_refused(shop: Shop) -> None:
    channel = await shop.open_session()
    shop.challenge = Challenge.issue(b"other", "aioum", {"amount": "1"}, None)

    reply = await shop.pay(channel, PRICE)

    assert (reply.status, reply.code) == (402, "challenge-invalid")


async def test_expired_challenge_pays_vouchers_but_opens_nothing(shop: Shop) -> None:
    channel = await shop.open_session()
    unpaid = await shop.post("/tools/shout", b"{}")
    shop.challenge = Challenge.from_header(unpaid.headers["WWW-Authenticate"])
    shop.now_seconds[0] += 3_601

    opening = await shop.pay(channel, PRICE, action="open", transaction=b"\x01" * 32)

    assert (opening.status, opening.code) == (402, "challenge-expired")
    assert (await shop.pay(channel, PRICE)).status == 200


async def test_opening_a_known_session_again_runs_the_call(shop: Shop) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, PRICE, action="open", transaction=b"\x01" * 32)

    assert (reply.status, reply.body) == (200, b"HEY")


async def test_opening_with_amount_zero_answers_with_a_challenge_for_the_session(shop: Shop) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, 0, action="open", transaction=b"\x01" * 32)

    assert (reply.status, reply.code) == (402, "payment-required")
    assert (reply.json["channelId"], reply.json["deposit"]) == ("0x" + channel.hex(), str(DEPOSIT))


async def test_opening_needs_the_clients_signature_also_for_a_known_session(shop: Shop) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, 0, action="open", transaction=b"\x01" * 32, key=STRANGER)

    assert reply.code == "signer-mismatch"


async def test_opening_while_the_chain_does_not_answer_is_unavailable(shop: Shop) -> None:
    reply = await shop.pay((88_888).to_bytes(32, "big"), 0, action="open", transaction=b"\x01" * 32)  # type: ignore[arg-type]

    assert (reply.status, reply.code) == (503, "rpc-unreachable")
    assert "Retry-After" in reply.headers


async def test_body_that_is_not_encoded_as_it_says_is_refused(shop: Shop) -> None:
    credential = shop.credential(await shop.open_session(), PRICE)
    headers = {"Authorization": credential.header(), "Content-Encoding": "gzip"}

    reply = await shop.post("/tools/shout", b"no gzip", headers)

    assert (reply.status, reply.code) == (400, "body-malformed")


async def test_another_method_is_refused_with_those_that_are_allowed(shop: Shop) -> None:
    reply = await shop.get("/tools/shout")

    assert (reply.status, reply.code, reply.headers["Allow"]) == (405, "method-not-allowed", "POST")


async def test_limits_say_when_to_come_back(shop: Shop) -> None:
    reply = await shop.pay(await shop.open_session(), PRICE, body=b" " * 1_000_000)

    assert (reply.status, reply.headers["Retry-After"]) == (413, "2")
