"""A node whose keys lie in an external signer that gives another signature each time."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.core.hextext import address_text
from aioum.core.signing import LocalKey, require_signer
from aioum.core.wire import RECEIPT_HEADER, SignedReceipt
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode, running_node
from aioum_node.keys.identity import Identity
from aioum_node.settings import Settings
from aioum_node.settings_signer import RetiredKey, SignerSettings
from tests.fake_signer import FakeSigner, Refusal, served_over_http
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, fail, shout
from tests.integration.node.edge_client import Buyer, Opened, Reply
from tests.integration.node.test_visibility import (
    CARRIERS,
    LOG_LOOPS,
    LOOPS,
    SIGNER_LOOPS,
    loop_series,
    node_tasks,
    scraped,
)
from tests.postgres import PostgresServer, schema_of

FORMER = LocalKey(b"\x61" * 32)
RECEIPTS = LocalKey(b"\x62" * 32)

Start = Callable[..., AbstractAsyncContextManager[RunningNode]]


@pytest.fixture
async def fake(operator: FundedAccount) -> FakeSigner:
    return FakeSigner([operator.key, RECEIPTS, FORMER], entropy=True)


@pytest.fixture
async def start(
    fake: FakeSigner, operator: FundedAccount, devnet: RunningDevnet, tmp_path: Path
) -> AsyncIterator[Start]:
    """Starts nodes in one folder whose keys are in the fake signer; settings may be changed."""
    async with served_over_http(fake) as url:

        def started(**changes: Any) -> Any:
            members = {
                "url": url,
                "operator": address_text(operator.key.address),
                "receipts": address_text(RECEIPTS.address),
                "check_seconds": 0.1,
                **changes.pop("signer", {}),
            }
            identity, register = changes.pop("identity", None), changes.pop("register", True)
            settings = Settings(
                node_dir=tmp_path / changes.pop("folder", "node"),
                listen_port=0,
                admin_port=0,
                deployment_file=devnet.deployment_file,
                watch_interval_seconds=0.1,
                settle_interval_seconds=0.1,
                signer=SignerSettings(**members),
                **changes,
            )
            return running_node(settings, functions=[shout, fail], identity=identity, register=register)

        yield started


async def settled(buyer: Buyer, node: RunningNode, session: Opened, call_count: int) -> Reply:
    deadline = time.monotonic() + 60
    while (reply := await buyer.close(node, session, call_count)).status in (202, 503):
        assert time.monotonic() < deadline, "the session was not settled in time"
        await asyncio.sleep(0.1)
    return reply


def signed_by(buyer: Buyer, reply: Reply, key: LocalKey) -> bool:
    signed = SignedReceipt.from_header(reply.headers[RECEIPT_HEADER])
    require_signer(signed.receipt.digest(buyer.chain.domain), signed.signature, key.address)
    return True


async def test_a_session_is_served_and_settled_and_every_retry_has_the_same_bytes(
    start: Start, fake: FakeSigner, buyer: Buyer, chain: Chain
) -> None:
    async with start() as node:
        session = await buyer.open(node, 5_000)
        first = await buyer.enter(node, session, PRICE)
        again = await buyer.pay(node, session, PRICE)
    async with start() as node:
        after_restart = await buyer.pay(node, session, PRICE)
        second = await buyer.pay(node, session, 2 * PRICE)
        statement = (await buyer.read(node, session, "/statement")).json
        page = (await buyer.read(node, session, "/calls")).json
        done = await settled(buyer, node, session, 2)

    headers = [reply.headers[RECEIPT_HEADER] for reply in (first, again, after_restart, second)]
    assert len(set(headers)) == 2
    assert [entry["receipt"] for entry in page["calls"]] == [headers[0], headers[3]]
    assert buyer.receipt(node, second).receipt.index == 1
    assert done.json["statement"] == statement
    anchored = await chain.session(session.channel_id)
    assert anchored is not None
    assert (anchored.settled, anchored.refunded) == (2 * PRICE, 5_000 - 2 * PRICE)
    assert {"eth_signTypedData", "eth_signTransaction"} <= {method for method, _ in fake.asked}


async def test_a_call_whose_receipt_cannot_be_signed_is_recorded_once_and_answered_later(
    start: Start, fake: FakeSigner, buyer: Buyer
) -> None:
    def refuse(method: str, result: Any) -> Any:
        raise Refusal

    async with start(signer={"check_seconds": 60}) as node:
        session = await buyer.open(node)
        await buyer.enter(node, session)
        fake.tamper = refuse
        unsigned = await buyer.pay(node, session, PRICE)
        refused = await buyer.pay(node, session, 2 * PRICE)
        fake.tamper = lambda method, result: result
    async with start() as node:
        answered = await buyer.pay(node, session, PRICE)
        following = await buyer.pay(node, session, 2 * PRICE)

    assert (unsigned.status, unsigned.code) == (503, "signer-refused")
    assert (refused.status, refused.code) == (503, "not-ready")
    assert (answered.status, answered.body) == (200, b"HEY")
    assert [buyer.receipt(node, reply).receipt.index for reply in (answered, following)] == [0, 1]


async def test_an_altered_settlement_is_never_sent_and_the_right_one_is_sent_later(
    start: Start, fake: FakeSigner, buyer: Buyer, chain: Chain, operator: FundedAccount
) -> None:
    def alter(method: str, result: Any) -> Any:
        if method != "eth_signTransaction":
            return result
        return "0x" + fake.transaction(fake.asked[-1][1][0], gas="0x1e8480", value="0x1").hex()

    async with start() as node:
        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
        nonce = await chain.rpc.transaction_count(operator.key.address, "latest")
        fake.tamper = alter
        await buyer.close(node, session, 1)
        while sum(method == "eth_signTransaction" for method, _ in fake.asked) < 3:
            await asyncio.sleep(0.05)
        assert await chain.rpc.transaction_count(operator.key.address, "pending") == nonce
        failing, running = await scraped(buyer.http, node), set(node_tasks())
        fake.tamper = lambda method, result: result
        done = await settled(buyer, node, session, 1)
        async with asyncio.timeout(30):
            while not (over := await scraped(buyer.http, node))["aioum_settlements_total",]:
                await asyncio.sleep(0.05)

    anchored = await chain.session(session.channel_id)
    assert (done.status, anchored is not None and anchored.settled) == (200, PRICE)
    assert failing["aioum_settlement_failures_total", "signer-altered"] >= 2
    assert (failing["aioum_waiting", "settlement"], failing["aioum_transactions_in_flight",]) == (1, 0)
    assert (over["aioum_settlements_total",], over["aioum_captured_base_units_total",]) == (1, PRICE)
    loops = {**LOOPS, **LOG_LOOPS, **SIGNER_LOOPS}
    assert loops.keys() <= running <= loops.keys() | CARRIERS
    assert loop_series(over) == set(loops.values())


async def test_a_session_under_former_terms_is_served_and_settled_by_the_retired_receipt_key(
    start: Start, buyer: Buyer, chain: Chain
) -> None:
    former = {"receipts": address_text(FORMER.address)}
    retired = (RetiredKey(address=address_text(FORMER.address)),)
    async with start(signer=former) as node:
        old = await buyer.open(node)
        first = await buyer.enter(node, old, PRICE)
    async with start() as node:
        old.challenge = None
        forgotten = await buyer.pay(node, old, 2 * PRICE)
    async with start(retired_receipt_keys=retired) as node:
        topped = await buyer.account.sender.send(
            calls.top_up(chain.payment_manager, old.channel_id, 1_000), "top-up"
        )
        retry = await buyer.pay(node, old, PRICE)
        raised = await buyer.pay(node, old, PRICE, action="topUp", transaction=topped.transaction_hash)
        following = await buyer.pay(node, old, 2 * PRICE)
        fresh = await buyer.open(node)
        new = await buyer.enter(node, fresh, PRICE)
        done = await settled(buyer, node, old, 2)

    assert (forgotten.status, forgotten.code) == (403, "terms-not-ours")
    assert retry.headers[RECEIPT_HEADER] == first.headers[RECEIPT_HEADER]
    assert raised.json["deposit"] == "10001000"
    assert signed_by(buyer, following, FORMER)
    assert signed_by(buyer, new, RECEIPTS)
    anchored = await chain.session(old.channel_id)
    assert (done.status, anchored is not None and anchored.settled) == (200, 2 * PRICE)


async def test_a_local_key_can_be_retired_for_one_that_is_outside(
    start: Start, buyer: Buyer, operator: FundedAccount
) -> None:
    """From key stores to an external signer, without an end to the sessions that are open."""
    async with start(identity=Identity(operator.key, operator.key)) as node:
        old = await buyer.open(node)
        first = await buyer.enter(node, old, PRICE)
    retired = RetiredKey(address=address_text(operator.key.address))
    async with start(retired_receipt_keys=(retired,)) as node:
        old.challenge = None
        following = await buyer.pay(node, old, 2 * PRICE)

    for reply in (first, following):
        assert signed_by(buyer, reply, operator.key)


async def test_nodes_that_share_a_database_give_the_same_receipt(
    start: Start, buyer: Buyer, postgres: PostgresServer, tmp_path: Path
) -> None:
    url = tmp_path / "database.url"
    url.write_text(postgres.url)
    url.chmod(0o600)
    shared = {
        "store": "postgresql",
        "database_url_file": url,
        "database_schema": schema_of(tmp_path),
        "public_url": "http://node.example",
    }
    async with start(folder="first", **shared) as first:
        session = await buyer.open(first)
        answered = await buyer.enter(first, session, PRICE)
        statement = await buyer.read(first, session, "/statement")
        (tmp_path / "second").mkdir()
        for file in ("registration.json", "challenge.secret"):
            shutil.copy(tmp_path / "first" / file, tmp_path / "second")
        async with start(folder="second", register=False, **shared) as second:
            retry = await buyer.pay(second, session, PRICE)
            repeated = await buyer.read(second, session, "/statement")
            done = await settled(buyer, second, session, 1)

    assert retry.headers[RECEIPT_HEADER] == answered.headers[RECEIPT_HEADER]
    assert repeated.json == statement.json == done.json["statement"]
