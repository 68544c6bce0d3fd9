"""What a client reads of its own session, the cooperative close, and what a node says of itself."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text
from aioum.core.ledger import finalize
from aioum.core.payment import ReadAccess
from aioum.core.signing import require_signer
from aioum.core.transcript import Entry, transcript_root
from aioum.core.types import Bytes32, ChannelId
from aioum.core.wire import SignedReceipt, SignedStatement, read_access_header
from aioum_node.tools import tool
from tests.unit.node.api.shop import CLIENT, DOMAIN, OPERATOR, REGISTRY, STRANGER, Shop, running_shop, until

PRICE = 10
gates: list[asyncio.Event] = []


@tool(price=PRICE)
def shout(text: str) -> str:
    return text.upper()


@tool(price=PRICE)
def fail() -> str:
    raise RuntimeError


@tool(price=PRICE)
async def wait() -> str:
    await gates[-1].wait()
    return "waited"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    gates.append(asyncio.Event())
    async with running_shop(tmp_path, (shout, fail, wait), page_calls=20, page_bytes=2_000) as running:
        yield running
        gates[-1].set()


async def called(shop: Shop, calls: int) -> ChannelId:
    channel = await shop.open_session()
    for number in range(calls):
        await shop.pay(channel, PRICE * (number + 1), arguments={"text": f"call {number}"})
    return channel


async def test_session_tells_its_accounting(shop: Shop) -> None:
    channel = await called(shop, 2)
    await shop.pay(channel, 3 * PRICE, "fail", {})

    reply = await shop.read(channel)

    stored = await shop.store.session(channel)
    assert stored is not None
    assert reply.status == 200
    assert reply.json == {
        "channelId": "0x" + channel.hex(),
        "sessionId": str(stored.facts.session_id),
        "phase": "open",
        "callCount": 3,
        "recorded": 3,
        "accepted": "30",
        "spent": "20",
        "reserved": "0",
        "deposit": "1000000",
        "closePending": False,
        "sealReason": None,
    }


async def test_transcript_comes_in_pages_with_the_receipts_that_the_calls_had(shop: Shop) -> None:
    channel = await called(shop, 25)
    last = await shop.pay(channel, 25 * PRICE, arguments={"text": "call 24"})

    first = (await shop.read(channel, "/calls")).json
    second = (await shop.read(channel, f"/calls?from={first['next']}")).json

    entries = first["calls"] + second["calls"]
    assert (len(first["calls"]), first["next"], second["next"]) == (20, 20, None)
    assert [entry["index"] for entry in entries] == list(range(25))
    assert entries[24]["receipt"] == last.headers["Aioum-Receipt"]
    assert set(entries[0]) == {"index", "toolId", "request", "response", "status", "receipt"}
    root = transcript_root(Entry(e["index"], e["toolId"], e["request"], e["response"]) for e in entries)
    statement = (await shop.read(channel, "/statement")).json
    assert statement["root"] == "0x" + root.hex()


async def test_page_ends_early_where_it_grows_large(shop: Shop) -> None:
    channel = await shop.open_session()
    for number in range(3):
        await shop.pay(channel, PRICE * (number + 1), arguments={"text": "a" * 1_500})

    page = (await shop.read(channel, "/calls")).json

    assert ([entry["index"] for entry in page["calls"]], page["next"]) == ([0], 1)


async def test_page_ends_before_a_call_that_still_runs(shop: Shop) -> None:
    channel = await called(shop, 1)
    running = asyncio.create_task(shop.pay(channel, 2 * PRICE, "wait", {}))
    await until(lambda: shop.edge.calls.in_flight == 1)
    gates[-1].set()
    await running

    page = (await shop.read(channel, "/calls?from=1")).json

    assert [entry["index"] for entry in page["calls"]] == [1]


async def test_page_beyond_the_end_is_empty(shop: Shop) -> None:
    channel = await called(shop, 1)

    assert (await shop.read(channel, "/calls?from=5")).json == {"calls": [], "next": None}


async def test_receipt_in_the_transcript_is_signed(shop: Shop) -> None:
    channel = await called(shop, 1)

    entry = (await shop.read(channel, "/calls")).json["calls"][0]

    signed = SignedReceipt.from_header(entry["receipt"])
    require_signer(signed.receipt.digest(DOMAIN), signed.signature, OPERATOR.address)
    assert (signed.receipt.channel_id, signed.receipt.index) == (channel, 0)


@pytest.mark.parametrize("first", ["-1", "x", "1e3", "", "99999999999"])
async def test_page_that_begins_nowhere_is_refused(shop: Shop, first: str) -> None:
    channel = await called(shop, 1)

    reply = await shop.read(channel, f"/calls?from={first}")

    assert (reply.status, reply.code) == (400, "call-index-invalid")


async def test_statement_covers_all_recorded_calls(shop: Shop) -> None:
    channel = await called(shop, 3)

    reply = await shop.read(channel, "/statement")

    signed = SignedStatement.from_json(reply.json, channel)
    require_signer(signed.statement.digest(DOMAIN), signed.signature, OPERATOR.address)
    assert (signed.statement.call_count, signed.statement.spent) == (3, 3 * PRICE)


async def test_session_without_calls_has_no_statement(shop: Shop) -> None:
    reply = await shop.read(await shop.open_session(), "/statement")

    assert (reply.status, reply.code) == (409, "nothing-recorded")


async def test_payer_reads_a_session_whose_vouchers_another_key_signs(shop: Shop) -> None:
    channel = await shop.open_session(authorized_signer=STRANGER.address)

    assert (await shop.read(channel)).status == 200
    assert (await shop.read(channel, key=STRANGER)).status == 200


async def test_stranger_reads_nothing(shop: Shop) -> None:
    channel = await called(shop, 1)

    reply = await shop.read(channel, "/calls", key=STRANGER)

    assert (reply.status, reply.code) == (401, "signer-mismatch")
    assert reply.headers["WWW-Authenticate"].startswith("AioumRead")


@pytest.mark.parametrize(("seconds", "code"), [(-1, "read-access-expired"), (86_401, "read-access-too-long")])
async def test_read_access_lasts_at_most_a_day(shop: Shop, seconds: int, code: str) -> None:
    reply = await shop.read(await called(shop, 1), seconds=seconds)

    assert (reply.status, reply.code) == (401, code)


async def test_read_access_is_for_one_session(shop: Shop) -> None:
    mine, other = await called(shop, 1), await called(shop, 1)
    access = ReadAccess(mine, int(shop.now_seconds[0]) + 60)
    header = read_access_header(access, CLIENT.sign_digest(access.digest(DOMAIN)))

    reply = await shop.get(f"/sessions/0x{other.hex()}", {"Authorization": header})

    assert (reply.status, reply.code) == (401, "read-access-malformed")


@pytest.mark.parametrize(
    ("headers", "code"),
    [(None, "read-access-missing"), ({"Authorization": "AioumRead x!"}, "read-access-malformed")],
)
async def test_reading_needs_an_access(shop: Shop, headers: dict[str, str] | None, code: str) -> None:
    channel = await called(shop, 1)

    reply = await shop.get(f"/sessions/0x{channel.hex()}", headers)

    assert (reply.status, reply.code) == (401, code)


async def test_unknown_session_is_gone_and_nonsense_is_no_id(shop: Shop) -> None:
    unknown = await shop.read(ChannelId(b"\xee" * 32))
    nonsense = await shop.get("/sessions/7")

    assert (unknown.status, unknown.code) == (410, "channel-not-found")
    assert (nonsense.status, nonsense.code) == (400, "hex-invalid")


async def test_close_seals_and_asks_for_settlement(shop: Shop) -> None:
    channel = await called(shop, 2)

    reply = await shop.close(channel, 2)
    refused = await shop.pay(channel, 3 * PRICE)
    again = await shop.close(channel, 2)

    assert (reply.status, reply.json["phase"], reply.json["transaction"]) == (202, "sealed", None)
    signed = SignedStatement.from_json(reply.json["statement"], channel)
    require_signer(signed.statement.digest(DOMAIN), signed.signature, OPERATOR.address)
    assert signed.statement.call_count == 2
    assert (refused.status, refused.code) == (410, "session-sealed")
    assert (again.status, again.json["statement"]) == (202, reply.json["statement"])
    assert shop.settled == [channel, channel]


async def test_close_with_another_count_changes_nothing_and_says_the_nodes(shop: Shop) -> None:
    channel = await called(shop, 2)

    reply = await shop.close(channel, 1)

    assert (reply.status, reply.code, reply.json["callCount"]) == (409, "call-count-mismatch", 2)
    assert shop.settled == []
    assert (await shop.pay(channel, 3 * PRICE)).status == 200


async def test_close_while_a_call_runs_waits_with_the_statement(shop: Shop) -> None:
    channel = await called(shop, 1)
    running = asyncio.create_task(shop.pay(channel, 2 * PRICE, "wait", {}))
    await until(lambda: shop.edge.calls.in_flight == 1)
    stored = await shop.store.session(channel)
    while stored is not None and stored.state.admitted < 2:
        await asyncio.sleep(0.005)
        stored = await shop.store.session(channel)

    reply = await shop.close(channel, 2)
    gates[-1].set()

    assert (reply.status, reply.json["statement"]) == (202, None)
    assert (await running).status == 200
    assert (await shop.close(channel, 2)).json["statement"]["callCount"] == 2


async def test_close_of_a_session_without_calls_has_no_statement(shop: Shop) -> None:
    reply = await shop.close(await shop.open_session(), 0)

    assert (reply.status, reply.json["statement"]) == (202, None)


async def test_close_of_a_finalized_session_tells_its_transaction(shop: Shop) -> None:
    channel = await called(shop, 1)
    await shop.close(channel, 1)
    await shop.store.update(channel, finalize, 5, transaction_hash=Bytes32(b"\xaa" * 32))

    reply = await shop.close(channel, 1)

    assert (reply.status, reply.json["phase"]) == (200, "final")
    assert reply.json["transaction"] == "0x" + "aa" * 32
    assert reply.json["statement"]["callCount"] == 1
    assert (await shop.pay(channel, 9 * PRICE)).code == "session-finalized"


async def test_close_by_a_stranger_is_refused(shop: Shop) -> None:
    channel = await called(shop, 1)

    reply = await shop.close(channel, 1, key=STRANGER)

    assert (reply.status, reply.code) == (401, "signer-mismatch")


async def test_close_request_that_makes_no_sense_is_refused(shop: Shop) -> None:
    channel = await called(shop, 1)

    reply = await shop.post(f"/sessions/0x{channel.hex()}/close", canonical_bytes({"callCount": "1"}))

    assert (reply.status, reply.code) == (400, "close-request-malformed")


async def test_session_that_was_removed_is_gone_also_where_it_was_cached(shop: Shop) -> None:
    channel = await called(shop, 1)
    await shop.store.update(channel, finalize, 5)
    await shop.store.delete(channel)

    assert (await shop.read(channel)).code == "channel-not-found"
    assert (await shop.pay(channel, 2 * PRICE)).code == "channel-not-found"


async def test_node_describes_itself_with_the_bytes_that_were_hashed(shop: Shop) -> None:
    reply = await shop.get("/.well-known/aioum.json")

    assert reply.json["chainId"] == 31337
    assert reply.json["serviceId"] == "7"
    assert reply.json["serviceRegistry"] == address_text(REGISTRY)
    assert canonical_bytes(reply.json) == reply.body
    assert keccak256(canonical_bytes(reply.json["card"])) == shop.offer.descriptor_hash


async def test_card_is_served_by_its_hash(shop: Shop) -> None:
    known = await shop.get(f"/cards/0x{shop.offer.descriptor_hash.hex()}")
    unknown = await shop.get("/cards/0x" + "00" * 32)

    assert (known.status, known.body) == (200, shop.offer.canonical)
    assert "immutable" in known.headers["Cache-Control"]
    assert (unknown.status, unknown.code) == (404, "card-unknown")


async def test_health_is_told_on_both_ports(shop: Shop) -> None:
    assert (await shop.get("/healthz")).json == {"status": "ok"}
    for path in ("/healthz", "/readyz"):
        async with shop.admin.get(path) as response:
            assert response.status == 200


async def test_metrics_are_on_the_admin_port_only(shop: Shop) -> None:
    channel = await called(shop, 2)
    await shop.pay(channel, 3 * PRICE, "fail", {})
    await shop.pay(channel, 3 * PRICE)

    async with shop.admin.get("/metrics") as response:
        text = await response.text()

    assert 'aioum_calls_total{outcome="ok",tool="shout"} 2.0' in text
    assert 'aioum_calls_total{outcome="tool-failed",tool="fail"} 1.0' in text
    assert 'aioum_refusals_total{code="request-conflict"} 1.0' in text
    assert "aioum_ready 1.0" in text
    public = await shop.get("/metrics")
    assert (public.status, public.code) == (404, "not-found")


async def test_path_or_method_that_does_not_exist_is_a_problem_document(shop: Shop) -> None:
    assert (await shop.get("/nothing")).code == "not-found"
    assert (await shop.get("/tools/shout")).code == "method-not-allowed"


async def test_transcript_is_json_that_a_strict_reader_takes(shop: Shop) -> None:
    channel = await shop.open_session()
    await shop.pay(channel, PRICE, arguments={"text": "\U0001f600 ü \\ \u0000"})

    body = (await shop.read(channel, "/calls")).body

    assert canonical_bytes(json.loads(body)) == body
