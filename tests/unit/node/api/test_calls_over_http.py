"""Paid calls over HTTP: answers, receipts, retries, refusals."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aioum.core.problem import problem_code
from aioum.core.transcript import Entry, entry_leaf
from aioum.core.wire import Challenge
from aioum_node.settings import ToolSettings
from aioum_node.tools import tool
from tests.unit.node.api.shop import Shop, running_shop, until
from tests.unit.node.api.wares import FUNCTIONS, PRICE, gates, ran


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    ran.clear()
    gates.append(asyncio.Event())
    async with running_shop(tmp_path, FUNCTIONS, max_request_bytes=1_000, max_concurrent_calls=4) as running:
        yield running
        gates[-1].set()


async def test_unpaid_call_gets_a_challenge_that_says_what_it_costs(shop: Shop) -> None:
    reply = await shop.post("/tools/shout", b"{}")

    assert (reply.status, reply.code) == (402, "payment-required")
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.headers["Cache-Control"] == "no-store"
    challenge = Challenge.from_header(reply.headers["WWW-Authenticate"])
    request = challenge.request_json()
    assert request["amount"] == str(PRICE)
    assert request["suggestedDeposit"] == str(PRICE * 100)
    assert challenge.expires == "2023-11-14T23:13:20Z"


async def test_challenge_of_the_node_itself_pays(shop: Shop) -> None:
    channel = await shop.open_session()
    unpaid = await shop.post("/tools/shout", b"{}")
    shop.challenge = Challenge.from_header(unpaid.headers["WWW-Authenticate"])

    assert (await shop.pay(channel, PRICE)).status == 200


async def test_paid_call_is_answered_with_a_receipt_over_both_texts(shop: Shop) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, PRICE)

    assert (reply.status, reply.body) == (200, b"HEY")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert reply.headers["Cache-Control"] == "private"
    receipt = reply.receipt.receipt
    entry = Entry(0, "shout", '{"arguments":{"text":"hey"},"tool":"shout"}', "HEY")
    assert (receipt.channel_id, receipt.index, receipt.charge) == (channel, 0, PRICE)
    assert receipt.leaf == entry_leaf(entry)


async def test_payment_receipt_names_session_and_money(shop: Shop) -> None:
    channel = await shop.open_session()
    await shop.pay(channel, PRICE)

    text = (await shop.pay(channel, 2 * PRICE + 5, "measure")).headers["Payment-Receipt"]

    receipt = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    assert receipt["status"] == "success"
    assert (receipt["method"], receipt["intent"], receipt["chainId"]) == ("evm", "session", 31337)
    assert receipt["reference"] == receipt["channelId"] == "0x" + channel.hex()
    assert (receipt["acceptedCumulative"], receipt["spent"]) == (str(2 * PRICE + 5), str(2 * PRICE))
    assert receipt["challengeId"] == shop.challenge.id
    assert receipt["timestamp"] == "2023-11-14T22:13:20+00:00"


async def test_body_is_canonicalized_so_that_spelling_does_not_matter(shop: Shop) -> None:
    channel = await shop.open_session()

    first = await shop.pay(channel, PRICE, body=b'{ "text" : "h\\u0065y" }')
    retry = await shop.pay(channel, PRICE, body=b'{"text":"hey"}')

    assert (retry.status, retry.body) == (200, b"HEY")
    assert retry.headers["Aioum-Receipt"] == first.headers["Aioum-Receipt"]
    assert ran == ["hey"]


async def test_empty_body_stands_for_no_arguments(shop: Shop) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, PRICE, "fail", body=b"")

    assert problem_code(reply.body) == "tool-failed"


async def test_retry_gets_the_stored_answer_and_the_same_receipt_bytes(shop: Shop) -> None:
    channel = await shop.open_session()
    first = await shop.pay(channel, PRICE)
    await shop.pay(channel, 2 * PRICE, "measure")

    retry = await shop.pay(channel, PRICE)

    assert (retry.status, retry.body) == (first.status, first.body)
    assert retry.headers["Aioum-Receipt"] == first.headers["Aioum-Receipt"]
    assert ran == ["hey"]


async def test_failed_call_is_recorded_costs_nothing_and_keeps_its_bytes_on_retry(shop: Shop) -> None:
    channel = await shop.open_session()

    first = await shop.pay(channel, PRICE, "fail", {})
    retry = await shop.pay(channel, PRICE, "fail", {})

    assert first.status == retry.status == 500
    assert first.headers["Content-Type"] == "application/problem+json"
    assert problem_code(first.body) == "tool-failed"
    assert set(first.json) == {"status", "title", "type"}
    assert first.receipt.receipt.charge == 0
    assert "Payment-Receipt" not in first.headers
    assert (retry.body, retry.headers["Aioum-Receipt"]) == (first.body, first.headers["Aioum-Receipt"])


@pytest.mark.parametrize("tool_id", ["give_up", "exhausted"])
async def test_tool_that_ends_like_a_cancelled_or_exhausted_one_has_failed_at_once(
    shop: Shop, tool_id: str
) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, PRICE, tool_id, {})

    assert (reply.status, problem_code(reply.body)) == (500, "tool-failed")
    assert reply.receipt.receipt.charge == 0


async def test_call_after_a_failure_pays_for_itself_alone(shop: Shop) -> None:
    channel = await shop.open_session()
    await shop.pay(channel, PRICE, "fail", {})

    reply = await shop.pay(channel, PRICE + 1)

    assert (reply.status, reply.receipt.receipt.charge) == (200, PRICE)


async def test_free_tool_still_needs_a_higher_voucher(shop: Shop) -> None:
    channel = await shop.open_session()

    reply = await shop.pay(channel, 1, "gift", {})

    assert (reply.status, reply.body, reply.receipt.receipt.charge) == (200, b"free", 0)
    assert (await shop.pay(channel, 0, "gift", {})).code == "amount-not-increasing"


async def test_200_parallel_identical_requests_are_one_execution_one_charge_one_leaf(shop: Shop) -> None:
    channel = await shop.open_session()

    requests = [asyncio.create_task(shop.pay(channel, PRICE, "wait")) for _ in range(200)]
    await until(lambda: ran == ["wait"])
    gates[-1].set()
    replies = await asyncio.gather(*requests)

    assert {(reply.status, reply.body) for reply in replies} == {(200, b"waited")}
    assert len({reply.headers["Aioum-Receipt"] for reply in replies}) == 1
    assert ran == ["wait"]
    stored = await shop.store.session(channel)
    assert stored is not None
    assert (stored.state.spent, stored.state.admitted, stored.state.frontier.size) == (PRICE, 1, 1)


async def test_client_that_goes_away_does_not_cancel_its_call(shop: Shop) -> None:
    channel = await shop.open_session()
    request = asyncio.create_task(shop.pay(channel, PRICE, "wait"))
    await until(lambda: ran == ["wait"])

    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    gates[-1].set()
    await until(lambda: shop.edge.calls.in_flight == 0)

    reply = await shop.pay(channel, PRICE, "wait")
    assert (reply.status, reply.body, ran) == (200, b"waited", ["wait"])


async def test_other_request_with_the_voucher_of_a_running_call_is_a_conflict(shop: Shop) -> None:
    channel = await shop.open_session()
    running = asyncio.create_task(shop.pay(channel, PRICE, "wait"))
    await until(lambda: ran == ["wait"])

    assert (await shop.pay(channel, PRICE)).code == "request-conflict"
    gates[-1].set()
    await running


async def test_second_call_while_one_runs_is_too_many_in_flight(shop: Shop) -> None:
    channel = await shop.open_session()
    running = asyncio.create_task(shop.pay(channel, PRICE, "wait"))
    await until(lambda: ran == ["wait"])

    reply = await shop.pay(channel, 3 * PRICE)

    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (429, "too-many-in-flight", "2")
    gates[-1].set()
    await running


async def test_node_that_runs_all_it_can_asks_for_patience_but_answers_retries(shop: Shop) -> None:
    channels = [await shop.open_session() for _ in range(5)]
    running = [asyncio.create_task(shop.pay(channel, PRICE, "wait")) for channel in channels[:4]]
    await until(lambda: len(ran) == 4)

    refused = await shop.pay(channels[4], PRICE, "wait")
    retry = asyncio.create_task(shop.pay(channels[0], PRICE, "wait"))
    gates[-1].set()

    assert (refused.status, refused.code, refused.headers["Retry-After"]) == (429, "node-busy", "2")
    assert (await retry).status == 200
    await asyncio.gather(*running)


async def test_too_many_failures_seal_the_session_but_stored_answers_stay(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, max_unpaid_calls=2) as shop:
        channel = await shop.open_session()
        first = await shop.pay(channel, PRICE, "fail", {})
        await shop.pay(channel, PRICE + 1, "fail", {})

        refused = await shop.pay(channel, PRICE + 2)
        retry = await shop.pay(channel, PRICE, "fail", {})

        assert (refused.status, refused.code) == (410, "session-sealed")
        assert retry.headers["Aioum-Receipt"] == first.headers["Aioum-Receipt"]


async def test_call_whose_run_died_is_recorded_as_interrupted_and_never_run(shop: Shop) -> None:
    channel = await shop.open_session()
    request = asyncio.create_task(shop.pay(channel, PRICE, "wait"))
    await until(lambda: ran == ["wait"])
    await shop.edge.calls.drain(0)
    interrupted = await request

    reply = await shop.pay(channel, PRICE, "wait")

    assert (interrupted.status, interrupted.code) == (503, "stopping")
    assert "Aioum-Receipt" not in interrupted.headers
    assert problem_code(reply.body) == "interrupted"
    assert (reply.receipt.receipt.charge, ran) == (0, ["wait"])


async def test_session_keeps_the_prices_of_the_card_it_was_opened_under(tmp_path: Path) -> None:
    def shout(text: str) -> str:
        return text.upper()

    old_folder, new_folder = tmp_path / "old", tmp_path / "new"
    async with running_shop(old_folder, [tool(price=10)(shout)]) as before:
        old = before.offer
    async with running_shop(new_folder, [tool(price=500)(shout)], earlier=[old]) as shop:
        kept = await shop.open_session(descriptor_hash=old.descriptor_hash)
        fresh = await shop.open_session()

        assert (await shop.pay(kept, 10)).receipt.receipt.charge == 10
        assert (await shop.pay(fresh, 10)).code == "payment-insufficient"
        assert (await shop.pay(fresh, 500)).receipt.receipt.charge == 500
        assert (await shop.get(f"/cards/0x{old.descriptor_hash.hex()}")).body == old.canonical


async def test_tool_that_the_card_promises_but_the_node_dropped_fails_without_charge(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, drop_tools=["shout"]) as shop:
        channel = await shop.open_session()

        reply = await shop.pay(channel, PRICE)

        assert (reply.status, problem_code(reply.body)) == (503, "tool-withdrawn")
        assert reply.receipt.receipt.charge == 0


async def test_commands_and_functions_are_served_alike(tmp_path: Path) -> None:
    tools = (ToolSettings(command=("cat",), id="mirror", price=5),)
    async with running_shop(tmp_path, FUNCTIONS, tools=tools) as shop:
        channel = await shop.open_session()

        reply = await shop.pay(channel, 5, "mirror", {"b": 1, "a": 2})

        assert reply.body == b'{"arguments":{"a":2,"b":1},"tool":"mirror"}'
        assert reply.receipt.receipt.charge == 5


async def test_node_that_is_not_ready_takes_no_paid_calls(shop: Shop) -> None:
    channel = await shop.open_session()
    shop.readiness.require("chain")

    refused, ready = await shop.pay(channel, PRICE), await shop.get("/readyz")

    assert (refused.status, refused.code) == (503, "not-ready")
    assert (ready.status, ready.json) == (503, {"missing": ["chain"], "ready": False})
    shop.readiness.met("chain")
    assert (await shop.pay(channel, PRICE)).status == 200
    assert (await shop.get("/readyz")).status == 200


async def test_broken_store_is_an_internal_error_that_tells_nothing(shop: Shop) -> None:
    channel = await shop.open_session()
    await shop.pay(channel, PRICE)
    await shop.store.close()

    reply = await shop.pay(channel, 2 * PRICE)

    assert reply.status in (500, 503)
    assert "Aioum-Receipt" not in reply.headers


async def test_body_that_does_not_arrive_in_time_is_refused(tmp_path: Path) -> None:
    async with running_shop(tmp_path, FUNCTIONS, body_timeout_seconds=0.05) as shop:
        channel = await shop.open_session()
        release = asyncio.Event()

        async def dribble() -> AsyncIterator[bytes]:
            yield b'{"text"'
            await release.wait()
            yield b':"a"}'

        headers = {"Authorization": shop.credential(channel, PRICE).header()}
        async with shop.http.post("/tools/shout", data=dribble(), headers=headers) as response:
            body = await response.json(content_type="application/problem+json")
            release.set()

    assert (response.status, body["type"]) == (408, "https://aioum.org/problems/request-timeout")
