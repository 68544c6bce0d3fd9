"""A node whose captured money is held: it answers challenges by itself, follows disputes, and is paid."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from aioum.chain import dispute_calls
from aioum.chain.client import Chain
from aioum.chain.decisions import DisputeState
from aioum.core.hextext import address_text, to_hex
from aioum.core.types import Address
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum_node.app import RunningNode
from aioum_node.disputes.answers import Anchor, find_answer
from aioum_node.edge import Clock
from tests.integration.chain.faulty_endpoint import faulty_endpoint
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.crashing_node import note
from tests.integration.node.disputing import (
    BOND,
    DISPUTE_TERMS,
    WINDOW_SECONDS,
    Disputant,
    Words,
    challenge_each,
    close,
    require_no_lie,
    serve,
    until,
)
from tests.integration.node.doomed_process import doomed_process
from tests.integration.node.edge_client import Buyer, Opened

HOUR_SECONDS = 3_600
DAY_SECONDS = 24 * HOUR_SECONDS


@pytest.fixture
async def devnet(anvil: Path, tmp_path: Path) -> AsyncIterator[RunningDevnet]:
    """A chain of the test's own, whose clock it moves."""
    async with running_devnet(tmp_path / "devnet") as own:
        yield own


@pytest.fixture
async def disputant(buyer: Buyer, devnet: RunningDevnet) -> Disputant:
    return await Disputant.of(buyer, devnet.token)


@dataclass
class Sold:
    """A settled session whose money is held, and every word that was given away in it."""

    session: Opened
    words: Words

    @property
    def channel_id(self) -> Any:
        return self.session.channel_id


async def sell(
    node: RunningNode, buyer: Buyer, calls: int = 3, *, tool: str = "shout", **arguments: str
) -> Sold:
    session = await buyer.open(node)
    words = await serve(buyer, node, session, calls, price=PRICE, tool=tool, **arguments)
    await close(buyer, node, session, calls, words)
    return Sold(session, words)


async def metrics(node: RunningNode, buyer: Buyer) -> list[str]:
    async with buyer.http.get(f"{node.admin_url}/metrics") as response:
        return (await response.text()).splitlines()


async def logged(logs: Sequence[Any], event: str, times: int = 1) -> bool:
    return sum(entry["event"] == event for entry in logs) == times


async def shown(node: RunningNode, buyer: Buyer, sample: str) -> bool:
    return sample in await metrics(node, buyer)


async def not_held(node: RunningNode) -> bool:
    return await node.store.held() == []


async def test_captured_money_is_held_and_released_to_the_payee_after_the_window(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, devnet: RunningDevnet, chain: Chain
) -> None:
    async with start_node(**DISPUTE_TERMS) as node:
        payee, token = node.registration.terms.payee, node.registration.terms.token
        sold = await sell(node, buyer)
        settled = await disputant.session(sold.channel_id)
        before = await chain.token_balance(token, payee)
        assert (settled.settled, settled.held) == (3 * PRICE, 3 * PRICE)
        assert await node.store.held() == [sold.channel_id]
        await devnet.increase_time(WINDOW_SECONDS + 1)
        await until(lambda: not_held(node), "the held money is released")
        assert (await disputant.session(sold.channel_id)).held == 0
        assert await chain.token_balance(token, payee) == before + 3 * PRICE
        released = f"aioum_released_base_units_total {3 * PRICE}.0"
        await until(lambda: shown(node, buyer, released), "the release is counted")


async def test_every_word_is_proven_when_it_is_challenged_and_the_bonds_are_earned(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, chain: Chain
) -> None:
    async with start_node(**DISPUTE_TERMS) as node:
        payee, token = node.registration.terms.payee, node.registration.terms.token
        sold = await sell(node, buyer, 7)
        before = await chain.token_balance(token, payee)
        answered = await challenge_each(disputant, sold.channel_id, sold.words)
        # Seven receipts, and statements over one to six calls; that over all is the root itself.
        assert answered == 13
        assert await chain.token_balance(token, payee) == before + 13 * BOND
        await require_no_lie(disputant, sold.channel_id, sold.words)
        # The chain shows an answer before the node has read its receipt.
        await until(
            lambda: shown(node, buyer, "aioum_challenges_answered_total 13.0"), "the answers are counted"
        )
        await until(
            lambda: shown(node, buyer, "aioum_challenges_pending 0.0"),
            "the node sees that nothing is pending",
        )
        said = await metrics(node, buyer)
        assert 'aioum_dispute_alerts_total{code="challenge-pending"} 13.0' in said
        assert {"aioum_challenges_pending 0.0", "aioum_nearest_answer_seconds +Inf"} <= set(said)


async def test_node_that_is_down_for_most_of_the_day_answers_after_its_restart(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, devnet: RunningDevnet
) -> None:
    async with start_node(**DISPUTE_TERMS) as node:
        sold = await sell(node, buyer)
    await disputant.challenge(sold.channel_id, sold.words.statements[0])
    await devnet.increase_time(23 * HOUR_SECONDS)
    with capture_logs() as logs:
        async with start_node(**DISPUTE_TERMS):
            await disputant.answered(sold.channel_id)
    assert (await disputant.session(sold.channel_id)).held == 3 * PRICE
    late = [entry for entry in logs if entry["event"] == "challenge-pending"]
    assert [entry["seconds_left"] <= HOUR_SECONDS for entry in late] == [True]


async def test_challenge_that_cannot_be_answered_while_the_chain_is_away_is_told_at_each_part_of_the_time(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, devnet: RunningDevnet
) -> None:
    async with faulty_endpoint(devnet.rpc_url) as endpoint:
        hours_gone = 0
        # The machine's clock goes on while the chain is silent; here it jumps.
        clock = Clock(lambda: time.time() + hours_gone * HOUR_SECONDS, time.monotonic)
        async with start_node(
            **DISPUTE_TERMS, rpc_url=endpoint.url, chain_silence_seconds=1_000_000, clock=clock
        ) as node:
            sold = await sell(node, buyer)
            # What reads gets through, so that the challenge is seen; what sends does not.
            endpoint.errors["eth_estimateGas"] = {"code": -32_000, "message": "busy"}
            endpoint.errors["eth_sendRawTransaction"] = {"code": -32_000, "message": "busy"}
            with capture_logs() as logs:
                await disputant.challenge(sold.channel_id, sold.words.receipts[0])
                await until(lambda: logged(logs, "challenge-pending"), "the challenge is seen")
                endpoint.silent = True
                for hours, parts in ((13, 1), (19, 2), (22, 3)):
                    hours_gone = hours
                    told = partial(logged, logs, "challenge-unanswered", parts)
                    await until(told, f"it is told after {hours} hours")
                assert "challenges" in node.readiness.missing()
                endpoint.silent = False
                endpoint.errors.clear()
                await disputant.answered(sold.channel_id)

                async def ready() -> bool:
                    return "challenges" not in node.readiness.missing()

                await until(ready, "the node is ready again")
    alerts = [entry for entry in logs if entry["event"] == "challenge-unanswered"]
    assert [entry["percent_left"] for entry in alerts] == [50, 25, 10]
    assert {entry["log_level"] for entry in alerts} == {"error"}


async def test_answer_of_a_stranger_that_comes_first_is_as_good(
    start_node: StartNode,
    buyer: Buyer,
    disputant: Disputant,
    devnet: RunningDevnet,
    operator: FundedAccount,
    chain: Chain,
) -> None:
    async def in_the_pool(account: Address) -> bool:
        mined = await chain.rpc.transaction_count(account, "latest")
        return await chain.rpc.transaction_count(account, "pending") > mined

    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        start_node(**DISPUTE_TERMS, rpc_url=endpoint.url) as node,
    ):
        sold = await sell(node, buyer)
        endpoint.silent = True
        case = await disputant.challenge(sold.channel_id, sold.words.receipts[1])
        session = await disputant.session(sold.channel_id)
        leaves = [word.receipt.leaf for word in sold.words.receipts]
        answer = find_answer(leaves, case.challenged_word, Anchor(session.root, session.call_count))
        await devnet.pause_mining()
        call = answer.call(disputant.decisions.address, sold.channel_id)
        strangers = asyncio.create_task(disputant.send(call))
        await until(lambda: in_the_pool(disputant.account.key.address), "the stranger's answer is sent")
        with capture_logs() as logs:
            endpoint.silent = False
            await until(lambda: in_the_pool(operator.key.address), "the node's answer is sent")
            await devnet.mine()
            await strangers
            await until(
                lambda: logged(logs, "challenge-over"), "the node sees that nothing is pending any more"
            )
    assert [entry for entry in logs if entry["log_level"] in ("error", "critical")] == []
    assert await disputant.events(sold.channel_id, "ChallengeAnswered") == 1
    assert (await disputant.session(sold.channel_id)).held == 3 * PRICE


@pytest.mark.parametrize("step", ["after-journal", "after-broadcast"])
async def test_node_that_is_killed_while_it_answers_sends_one_answer(
    start_node: StartNode,
    buyer: Buyer,
    disputant: Disputant,
    operator: FundedAccount,
    chain: Chain,
    repository: Path,
    tmp_path: Path,
    devnet: RunningDevnet,
    step: str,
) -> None:
    fixed = {**DISPUTE_TERMS, "public_url": "http://node.example"}
    async with start_node(functions=[note], **fixed) as node:
        sold = await sell(node, buyer, tool="note", folder=str(tmp_path))
    account = operator.key.address
    before = await chain.rpc.transaction_count(account, "latest")
    settings = {
        **fixed,
        "node_dir": str(tmp_path / "node"),
        "listen_port": 0,
        "admin_port": 0,
        "deployment_file": str(devnet.deployment_file),
    }
    async with doomed_process(repository, step, settings, operator.key) as doomed:
        await disputant.challenge(sold.channel_id, sold.words.receipts[2])
        assert await asyncio.wait_for(doomed.process.wait(), 60) == -signal.SIGKILL
    async with start_node(functions=[note], **fixed):
        await disputant.answered(sold.channel_id)
    assert await disputant.events(sold.channel_id, "ChallengeAnswered") == 1
    assert await chain.rpc.transaction_count(account, "latest") == before + 1


async def test_dispute_that_nobody_rules_on_is_lapsed_by_the_node_and_the_money_released(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, devnet: RunningDevnet, chain: Chain
) -> None:
    terms = {**DISPUTE_TERMS, "arbitrator": address_text(devnet.accounts[9].address)}
    with capture_logs() as logs:
        async with start_node(**terms, ruling_period_seconds=10 * DAY_SECONDS) as node:
            payee, token = node.registration.terms.payee, node.registration.terms.token
            sold = await sell(node, buyer)
            before = await chain.token_balance(token, payee)
            await disputant.raise_dispute(sold.channel_id)

            await until(lambda: shown(node, buyer, "aioum_disputes_pending 1.0"), "the dispute is seen")
            # The window is over, and the ruling is still due: nothing may leave.
            await devnet.increase_time(WINDOW_SECONDS + 1)

            async def waits() -> bool:
                return any(entry.get("reason") == "dispute-pending" for entry in logs)

            await until(waits, "the node waits for the ruling")
            assert (await disputant.session(sold.channel_id)).held == 3 * PRICE
            await devnet.increase_time(3 * DAY_SECONDS)
            await until(lambda: not_held(node), "the dispute is over")
            assert await chain.token_balance(token, payee) == before + 3 * PRICE + BOND
    assert (await disputant.case(sold.channel_id)).dispute is DisputeState.LAPSED
    told = [entry["event"] for entry in logs]
    assert told.index("dispute-raised") < told.index("lapse-sent") < told.index("release-sent")


async def test_ruling_ends_the_hold_and_is_told(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, devnet: RunningDevnet, payer: FundedAccount
) -> None:
    # The payer stands in for an arbitrator: what counts here is what the node makes of a ruling.
    terms = {**DISPUTE_TERMS, "arbitrator": address_text(payer.key.address)}
    with capture_logs() as logs:
        async with start_node(**terms) as node:
            sold = await sell(node, buyer)
            await disputant.raise_dispute(sold.channel_id)
            ruling = dispute_calls.rule(disputant.decisions.address, sold.channel_id, PRICE)
            await disputant.send(ruling)
            released = f"aioum_released_base_units_total {2 * PRICE}.0"
            await until(lambda: shown(node, buyer, released), "the hold is over and the release counted")
            assert await not_held(node)
    (over,) = [entry for entry in logs if entry["event"] == "hold-over"]
    assert (over["captured"], over["awarded"]) == (3 * PRICE, PRICE)
    (ruled,) = [entry for entry in logs if entry["event"] == "dispute-ruled"]
    assert (ruled["channel"], ruled["awarded"]) == (to_hex(sold.channel_id), PRICE)


async def test_transcript_outlives_its_retention_for_as_long_as_money_is_held(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, devnet: RunningDevnet
) -> None:
    async with start_node(
        **DISPUTE_TERMS, transcript_retention_ms=0, retention_interval_seconds=0.05
    ) as node:
        sold = await sell(node, buyer)
        assert await challenge_each(disputant, sold.channel_id, sold.words) == 5
        assert await node.store.session(sold.channel_id) is not None
        await devnet.increase_time(WINDOW_SECONDS)

        async def gone() -> bool:
            return await node.store.session(sold.channel_id) is None

        await until(gone, "the transcript goes after the money")
        assert await node.store.calls(sold.channel_id, 0, 9) == []
