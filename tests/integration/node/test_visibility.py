"""What an operator sees of a node: loops, endpoints and transactions in metrics, ids in log entries."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import structlog
from prometheus_client.parser import text_string_to_metric_families

from aioum.chain.client import Chain
from aioum.core.hextext import to_hex
from aioum.devnet.running import RunningDevnet
from aioum_node.app import RunningNode, running_node
from aioum_node.keys.identity import Identity
from aioum_node.tools import tool
from tests.integration.chain.faulty_endpoint import faulty_endpoint
from tests.integration.conftest import FundedAccount
from tests.integration.node.edge_client import Buyer
from tests.integration.node.test_node_and_chain import PRICE, settings_for, shout, until

_log = structlog.get_logger(__name__)


@tool(price=PRICE)
async def muse(text: str) -> str:
    _log.info("musing")
    return text


@tool(price=PRICE)
def ponder(text: str) -> str:
    _log.info("musing")
    return text


GWEI = 10**9

# The series of each loop, by the coroutine that goes round in it.
LOOPS = {
    "ChainWatcher.run": "watch",
    "SettleLoop.run": "settle",
    "DisputeLoop.run": "disputes",
    "RetentionLoop.run": "retention",
    "StoreWatch.run": "store",
    "BalanceWatch.run": "balance",
    "SuspectCount.run": "suspects",
}
# Beside these: of a node with a log, where keys are outside, and where several processes share a store.
LOG_LOOPS = {"LogLoop._keep": "log", "Anchoring.run": "anchor"}
SIGNER_LOOPS = {"SignerWatch.run": "signer"}
SHARED_LOOPS = {
    "LeaseKeeper.run": "lease",
    "Membership.run": "processes",
    "TakeoverLoop.run": "takeover",
}
# Those that only carry others.
CARRIERS = {"_run", "LogLoop.run", "together.<locals>.run"}


QUEUES = (
    "function_threads",
    "command_runs",
    "wasm_processes",
    "upstream_connections",
    "signer",
    "settlement",
)


def node_tasks() -> dict[str, asyncio.Task[Any]]:
    """What a node that serves nobody at the moment has running, by coroutine."""
    tasks = {}
    for task in asyncio.all_tasks():
        coroutine: Any = task.get_coro()
        if "aioum_node" in coroutine.cr_code.co_filename:
            tasks[coroutine.cr_code.co_qualname] = task
    return tasks


async def scraped(http: aiohttp.ClientSession, node: RunningNode) -> dict[tuple[str, ...], float]:
    """Every sample of the node: (name, label values by label name…) → value."""
    async with http.get(node.admin_url + "/metrics") as response:
        text = await response.text()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def loop_series(samples: dict[tuple[str, ...], float]) -> set[str]:
    """The loops that are counted."""
    return {key[1] for key in samples if key[0] == "aioum_loop_rounds_total"}


async def test_every_loop_and_endpoint_is_seen_working_and_failing(
    devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path
) -> None:
    async with (
        faulty_endpoint(devnet.rpc_url) as one,
        faulty_endpoint(devnet.rpc_url) as two,
        aiohttp.ClientSession() as http,
    ):
        urls = [endpoint.url.replace("http://", "http://user:hunter2@") for endpoint in (one, two)]
        settings = settings_for(
            devnet,
            tmp_path,
            rpc_url=" ".join(urls),
            rpc_rest_seconds=0.05,
            rpc_max_rest_seconds=0.1,
            retention_interval_seconds=0.1,
        )
        identity, loops = Identity(operator.key, operator.key), {**LOOPS, **LOG_LOOPS}
        async with running_node(settings, functions=[shout], identity=identity, register=True) as node:

            async def every_loop_went_round() -> bool:
                samples = await scraped(http, node)
                return all(samples["aioum_loop_rounds_total", loop] >= 1 for loop in loops.values())

            await until(every_loop_went_round)
            running = node_tasks()
            working = await scraped(http, node)
            one.silent = True

            async def first_is_out() -> bool:
                samples = await scraped(http, node)
                return samples.get(("aioum_endpoint_in_use", shown(one.url))) == 0

            await until(first_is_out)
            half = await scraped(http, node)
            two.silent = True

            async def watch_failed() -> bool:
                samples = await scraped(http, node)
                return samples.get(("aioum_loop_failures_total", "rpc-unreachable", "watch"), 0) >= 2

            await until(watch_failed)
            async with http.get(node.admin_url + "/endpoints") as response:
                listed = await response.json()
            async with http.get(node.url + "/endpoints") as response:
                public_status = response.status

    # A new loop needs a series, and a row here.
    assert set(running) == loops.keys() | CARRIERS
    assert loop_series(working) == set(loops.values())
    for loop in loops.values():
        assert working["aioum_loop_last_round_timestamp_seconds", loop] > 1_700_000_000
    assert working["aioum_account_balance_wei",] > 10**15
    assert {key[1:]: value for key, value in working.items() if key[0] == "aioum_waiting"} == {
        (queue,): 0 for queue in QUEUES
    }
    for endpoint in (one, two):
        assert working["aioum_endpoint_in_use", shown(endpoint.url)] == 1
        assert working["aioum_endpoint_head_block", shown(endpoint.url)] > 0
    assert half["aioum_endpoint_in_use", shown(two.url)] == 1
    assert half["aioum_endpoint_failures_total", "rpc-unreachable", shown(one.url)] > 0
    assert working["aioum_transactions_in_flight",] == 0
    assert working["aioum_nearest_exit_seconds",] == float("inf")
    assert [entry["url"] for entry in listed["endpoints"]] == [shown(one.url), shown(two.url)]
    assert [entry["inUse"] for entry in listed["endpoints"]] == [False, False]
    assert listed["endpoints"][0]["lastError"] == "rpc-unreachable"
    assert "hunter2" not in str(listed) + str(half)
    assert public_status == 404


async def test_settlement_that_is_dearer_than_allowed_shows_as_alert_and_is_sent_when_blocks_are_cheaper(
    devnet: RunningDevnet, chain: Chain, operator: FundedAccount, buyer: Buyer, tmp_path: Path
) -> None:
    async def next_block_costs(gwei: int) -> None:
        await chain.rpc.request("anvil_setNextBlockBaseFeePerGas", hex(gwei * GWEI))
        await devnet.mine()

    identity = Identity(operator.key, operator.key)
    settings = settings_for(devnet, tmp_path, max_fee_per_gas_wei=20 * GWEI)
    async with running_node(settings, functions=[shout], identity=identity, register=True) as node:

        async def counted(*key: str) -> bool:
            return (await scraped(buyer.http, node)).get(key, 0) >= 1

        session = await buyer.open(node)
        await buyer.enter(node, session, PRICE)
        await next_block_costs(100)
        try:
            await node.settle_loop.close(session.channel_id)
            await until(lambda: counted("aioum_transaction_alerts_total", "fee-cap-reached"))
            dear = await scraped(buyer.http, node)
        finally:
            await next_block_costs(1)
        await until(lambda: counted("aioum_settlements_total"))
        cheap = await scraped(buyer.http, node)

    assert dear["aioum_settlements_total",] == 0
    assert dear["aioum_settlement_failures_total", "fee-cap-reached"] >= 1
    assert (cheap["aioum_settlements_total",], cheap["aioum_captured_base_units_total",]) == (1, PRICE)
    assert cheap["aioum_settlement_gas_total",] > 0


async def test_what_a_tool_logs_carries_the_channel_and_the_call(
    devnet: RunningDevnet, chain: Chain, operator: FundedAccount, payer: FundedAccount, tmp_path: Path
) -> None:
    entries: list[structlog.typing.EventDict] = []

    def keep(_logger: object, _method: str, entry: structlog.typing.EventDict) -> structlog.typing.EventDict:
        entries.append(dict(entry))
        raise structlog.DropEvent

    former = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, keep])
    try:
        async with aiohttp.ClientSession() as http:
            identity = Identity(operator.key, operator.key)
            buyer = Buyer(chain, payer, http)
            async with running_node(
                settings_for(devnet, tmp_path),
                functions=[shout, muse, ponder],
                identity=identity,
                register=True,
            ) as node:
                sessions = [await buyer.open(node) for _ in range(2)]
                for session in sessions:
                    await buyer.enter(node, session)
                for amount, name in ((PRICE, "muse"), (2 * PRICE, "ponder")):
                    answers = await asyncio.gather(
                        *(buyer.pay(node, session, amount, name) for session in sessions)
                    )
                    assert [answer.status for answer in answers] == [200, 200]
    finally:
        structlog.configure(**former)
    musings = [(entry["channel"], entry["call"]) for entry in entries if entry["event"] == "musing"]
    assert sorted(musings) == sorted(
        (to_hex(session.channel_id), index) for session in sessions for index in (0, 1)
    )


def shown(url: str) -> str:
    """An endpoint's address as metrics name it."""
    return url.rstrip("/")
