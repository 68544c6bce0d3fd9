"""What an operator sees of a node: loops, endpoints and transactions in metrics, ids in log entries."""

import asyncio
from pathlib import Path

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


async def scraped(http: aiohttp.ClientSession, node: RunningNode) -> dict[tuple[str, ...], float]:
    """Every sample of the node: (name, label values by label name…) → value."""
    async with http.get(node.admin_url + "/metrics") as response:
        text = await response.text()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


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
        identity = Identity(operator.key, operator.key)
        async with running_node(settings, functions=[shout], identity=identity, register=True) as node:

            async def every_loop_went_round() -> bool:
                samples = await scraped(http, node)
                loops = ("settle", "watch", "retention")
                return all(samples.get(("aioum_loop_rounds_total", loop), 0) >= 2 for loop in loops)

            await until(every_loop_went_round)
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

    for loop in ("settle", "watch", "retention"):
        assert working["aioum_loop_last_round_timestamp_seconds", loop] > 1_700_000_000
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
                settings_for(devnet, tmp_path), functions=[shout, muse], identity=identity, register=True
            ) as node:
                sessions = [await buyer.open(node) for _ in range(2)]
                for session in sessions:
                    await buyer.enter(node, session)
                for amount in (PRICE, 2 * PRICE):
                    answers = await asyncio.gather(
                        *(buyer.pay(node, session, amount, "muse") for session in sessions)
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
