"""What a client makes of a node's answers."""

import pytest
from aiohttp import web

from aioum.client.http import HttpAnswer
from aioum.client.node import NodeClient, challenge_of, refusal_of, verified_receipt
from aioum.client.settings import ClientSettings
from aioum.core.canonical import canonical_bytes
from aioum.core.errors import OutcomeUnknown, Refused
from aioum.core.payment import CallReceipt, Domain
from aioum.core.problem import PAYMENT_PROBLEM_BASE, PROBLEM_BASE
from aioum.core.signing import LocalKey
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.core.wire import Challenge, SignedReceipt
from tests.unit.client.test_http import transport_to

KEY = LocalKey(b"\x01" * 32)
DOMAIN = Domain(31337, Address(b"\x02" * 20))
CHANNEL = ChannelId(b"\x03" * 32)


def problem(kind: str, status: int = 409, headers: dict[str, str] | None = None, **more: str) -> HttpAnswer:
    return HttpAnswer(status, headers or {}, canonical_bytes({"type": kind, "status": status, **more}))


def test_a_refusal_carries_the_nodes_code_and_details() -> None:
    refusal = refusal_of(
        problem(PROBLEM_BASE + "session-sealed", 410, {"retry-after": "3"}, reason="x", detail="no more")
    )
    assert refusal is not None
    assert (refusal.code, refusal.title, refusal.retry_after_seconds) == ("session-sealed", "no more", 3.0)
    error = refusal.error()
    assert (error.code, error.details) == ("session-sealed", {"status": 410, "reason": "x"})


def test_the_schemes_own_problem_types_are_understood() -> None:
    refusal = refusal_of(problem(PAYMENT_PROBLEM_BASE + "session/channel-not-found"))
    assert refusal is not None
    assert refusal.code == "channel-not-found"


@pytest.mark.parametrize(
    "answer",
    [
        HttpAnswer(502, {}, b"<html>"),
        HttpAnswer(409, {}, b"[]"),
        HttpAnswer(409, {}, b'{"type":1}'),
        problem("https://elsewhere.example/x"),
        problem(PROBLEM_BASE + "Not A Code"),
        problem(PROBLEM_BASE + "x" * 100),
    ],
)
def test_what_is_no_refusal_of_a_node_is_none(answer: HttpAnswer) -> None:
    assert refusal_of(answer) is None


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "99999999"])
def test_an_odd_retry_after_is_ignored(text: str) -> None:
    refusal = refusal_of(problem(PROBLEM_BASE + "node-busy", 429, {"retry-after": text}))
    assert refusal is not None
    assert refusal.retry_after_seconds is None


def test_a_long_retry_after_is_shortened() -> None:
    refusal = refusal_of(problem(PROBLEM_BASE + "node-busy", 429, {"retry-after": "999999"}))
    assert refusal is not None
    assert refusal.retry_after_seconds == 3_600


def test_a_challenge_is_read_from_a_402_only() -> None:
    challenge = Challenge.issue(b"secret", "realm", {"amount": "1"}, None)
    headers = {"www-authenticate": challenge.header()}
    assert challenge_of(HttpAnswer(402, headers, b"")) == challenge
    assert challenge_of(HttpAnswer(401, headers, b"")) is None


def test_a_challenge_with_bytes_that_are_no_text_is_none() -> None:
    header = Challenge.issue(b"secret", "realm", {"amount": "1"}, None).header()
    answer = HttpAnswer(402, {"www-authenticate": header.replace('realm="realm', 'realm="\udcff')}, b"")
    assert challenge_of(answer) is None
    assert challenge_of(HttpAnswer(402, {"www-authenticate": "Basic x"}, b"")) is None
    assert challenge_of(HttpAnswer(402, {}, b"")) is None


def signed(channel_id: ChannelId = CHANNEL, key: LocalKey = KEY) -> HttpAnswer:
    receipt = CallReceipt(channel_id, 0, Bytes32(bytes(32)), 1)
    header = SignedReceipt(receipt, key.sign_digest(receipt.digest(DOMAIN))).header()
    return HttpAnswer(200, {"aioum-receipt": header}, b"")


def test_a_receipt_is_believed_only_with_the_right_signature() -> None:
    found = verified_receipt(signed(), CHANNEL, KEY.address, DOMAIN)
    assert found is not None
    assert found.receipt.charge == 1
    assert verified_receipt(HttpAnswer(200, {}, b""), CHANNEL, KEY.address, DOMAIN) is None
    for answer in (
        signed(ChannelId(b"\x04" * 32)),
        signed(key=LocalKey(b"\x05" * 32)),
        HttpAnswer(200, {"aioum-receipt": "???"}, b""),
    ):
        with pytest.raises(OutcomeUnknown) as caught:
            verified_receipt(answer, CHANNEL, KEY.address, DOMAIN)
        assert caught.value.code == "receipt-invalid"


async def test_a_node_that_neither_asks_for_payment_nor_describes_itself_is_no_node() -> None:
    async def nothing(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def refused(request: web.Request) -> web.Response:
        body = canonical_bytes({"type": PROBLEM_BASE + "tool-unknown", "status": 404})
        return web.Response(status=404, body=body)

    app = web.Application()
    app.router.add_route("*", "/.well-known/aioum.json", nothing)
    app.router.add_post("/tools/echo", nothing)
    app.router.add_post("/tools/other", refused)
    async with transport_to(app) as (transport, url):
        node = NodeClient(transport, url, ClientSettings())
        with pytest.raises(OutcomeUnknown) as caught:
            await node.challenge("echo")
        assert caught.value.code == "challenge-missing"
        with pytest.raises(Refused) as unknown:
            await node.challenge("other")
        assert unknown.value.code == "tool-unknown"
        with pytest.raises(OutcomeUnknown) as caught:
            await node.describe()
        assert caught.value.code == "node-answer-malformed"
