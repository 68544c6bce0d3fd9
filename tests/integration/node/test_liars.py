"""Nodes that lie: each loses everything that is held, by its own words, and the honest one none of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from aioum.chain import dispute_calls
from aioum.core.lies import challengeable, provable_lies
from aioum.core.wire import SignedReceipt
from aioum.devnet.running import RunningDevnet, running_devnet
from tests import lying_node
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.disputing import (
    DISPUTE_TERMS,
    Disputant,
    Words,
    anchored_of,
    close,
    keep_receipt,
    keep_statement,
    serve,
    until,
)
from tests.integration.node.edge_client import Buyer, Opened
from tests.lying_node import LIES, lying

PROVEN_AT_ONCE = {
    "random-root": "StatementAgainstRoot",
    "dropped-tail": "OmittedReceipt",
    "overcharge": "Overcharge",
    "two-receipts": "ConflictingReceipts",
    "two-statements": "ConflictingStatements",
}
CHALLENGED = ("random-root", "inflated-count", "altered-leaf")
DEPOSIT = 1_000_000


@pytest.fixture
async def devnet(anvil: Path, tmp_path: Path) -> AsyncIterator[RunningDevnet]:
    """A chain of the test's own, whose clock it moves."""
    async with running_devnet(tmp_path / "devnet") as own:
        yield own


@pytest.fixture
async def disputant(buyer: Buyer, devnet: RunningDevnet) -> Disputant:
    return await Disputant.of(buyer, devnet.token)


async def bought(start_node: StartNode, buyer: Buyer, lie: str) -> tuple[Opened, Words]:
    """Four calls of a node that tells this lie, one of them failed, every word kept; then it is settled."""
    with lying(lie):
        async with start_node(functions=[lying_node.shout, lying_node.fail], **DISPUTE_TERMS) as node:
            session = await buyer.open(node, DEPOSIT)
            words = await serve(buyer, node, session, 3, price=PRICE)
            # It costs nothing, and the voucher that came with it would pay for a call.
            reply = await buyer.pay(node, session, 4 * PRICE, "fail", {"text": ""})
            keep_receipt(buyer, node, reply, words)
            await keep_statement(buyer, node, session, words)
            # Asked again: an honest operator says the same.
            again = await buyer.pay(node, session, 4 * PRICE, "fail", {"text": ""})
            keep_receipt(buyer, node, again, words)
            await keep_statement(buyer, node, session, words)
            await close(buyer, node, session, 4, words)
    return session, words


def test_every_lie_is_shown_to_lose() -> None:
    assert {*PROVEN_AT_ONCE, *CHALLENGED, "none"} == set(LIES)


@pytest.mark.parametrize("lie", PROVEN_AT_ONCE)
async def test_lie_is_proven_at_once_and_all_that_is_held_goes_back(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, lie: str
) -> None:
    session, words = await bought(start_node, buyer, lie)
    found = provable_lies(words.receipts, words.statements, await anchored_of(disputant, session.channel_id))
    assert type(found[0]).__name__ == PROVEN_AT_ONCE[lie]
    token = (await disputant.session(session.channel_id)).token
    payer = disputant.account.key.address
    before = await disputant.chain.token_balance(token, payer)
    await disputant.send(dispute_calls.prove(disputant.decisions.address, session.channel_id, found[0]))
    after = await disputant.session(session.channel_id)
    assert (after.held, after.awarded) == (0, after.settled)
    assert await disputant.chain.token_balance(token, payer) == before + after.settled > before


@pytest.mark.parametrize("lie", CHALLENGED)
async def test_false_anchor_cannot_be_proven_is_alerted_loudly_and_loses_after_a_day(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, devnet: RunningDevnet, lie: str
) -> None:
    session, words = await bought(start_node, buyer, lie)
    channel_id = session.channel_id
    word = words.receipts[0]
    assert word in challengeable(words.receipts, words.statements, await anchored_of(disputant, channel_id))
    with capture_logs() as logs:
        async with start_node(functions=[lying_node.shout, lying_node.fail], **DISPUTE_TERMS) as node:
            await disputant.challenge(channel_id, word)

            async def alerted() -> bool:
                return any(entry["event"] == "challenge-unanswerable" for entry in logs)

            await until(alerted, "the node says that it cannot prove it")
            await devnet.increase_time(86_400)
            await disputant.send(dispute_calls.claim_unanswered(disputant.decisions.address, channel_id))

            async def over() -> bool:
                return await node.store.held() == []

            await until(over, "the node sees that it lost")
    (alert,) = [entry for entry in logs if entry["event"] == "challenge-unanswerable"]
    assert alert["log_level"] == "critical"
    reason = "history-incomplete" if lie == "inflated-count" else "proof-root-mismatch"
    assert alert["details"]["reason"] == reason
    assert "lie-proven" in [entry["event"] for entry in logs]
    lost = await disputant.session(channel_id)
    assert (lost.held, lost.awarded) == (0, lost.settled)


async def test_word_that_somebody_else_signed_with_the_key_is_alerted_as_unknown(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, operator: FundedAccount
) -> None:
    with capture_logs() as logs:
        async with start_node(**DISPUTE_TERMS) as node:
            session = await buyer.open(node)
            words = await serve(buyer, node, session, 2, price=PRICE)
            await close(buyer, node, session, 2, words)
            first, second = words.receipts
            forged = first.receipt.__class__(session.channel_id, 0, second.receipt.leaf, PRICE)
            signature = operator.key.sign_digest(forged.digest(buyer.chain.domain))
            await disputant.challenge(session.channel_id, SignedReceipt(forged, signature))

            async def alerted() -> bool:
                return any(entry["event"] == "challenge-unanswerable" for entry in logs)

            await until(alerted, "the node says that it cannot prove it")
    (alert,) = [entry for entry in logs if entry["event"] == "challenge-unanswerable"]
    assert alert["details"]["reason"] == "word-unknown"


async def test_honest_node_that_is_asked_the_same_way_says_nothing_that_can_be_proven(
    start_node: StartNode, buyer: Buyer, disputant: Disputant
) -> None:
    session, words = await bought(start_node, buyer, "none")
    anchored = await anchored_of(disputant, session.channel_id)
    assert anchored.captured == 3 * PRICE
    assert provable_lies(words.receipts, words.statements, anchored) == []
