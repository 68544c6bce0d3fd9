"""The connection is cut after the node committed a call and before its client has the body."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.core.errors import OutcomeUnknown
from aioum.core.transcript import frontier_root
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.faulty_proxy import faulty_proxy
from tests.integration.client.real_node import RUNS, StartNode, node_starter
from tests.integration.conftest import FundedAccount

CUTS = pytest.mark.parametrize("cut", ["drop", "cut", "truncate"])


@pytest.fixture
def start_node(devnet: RunningDevnet, operator: FundedAccount, tmp_path: Path) -> StartNode:
    return node_starter(devnet, operator, tmp_path / "node")


@CUTS
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
async def test_the_retry_gets_the_stored_bytes_and_both_roots_are_equal(
    cut: str, signed: bool, start_node: StartNode, marketplace: MakeMarketplace, chain: Chain
) -> None:
    async with start_node() as node, faulty_proxy(node.url) as (proxy, url), marketplace() as market:
        async with market.open(url, deposit=10_000, signed=signed) as session:
            await session.call("wordcount", text="before")
            for tool, text in (("wordcount", "a b c"), ("broken", "fails")):
                proxy.answered.clear()
                proxy.faults = [cut, cut]
                result = await session.call(tool, text=text)
                # The node gave the same bytes each time: status, receipt and body.
                assert len(proxy.answered) == 3
                assert len(set(proxy.answered)) == 1
                assert (result.status, result.receipt.header(), result.text.encode()) == proxy.answered[0]
            assert RUNS == ["before", "a b c", "fails"]
            assert session.spent == 200
            stored = await node.store.session(session.channel_id)
            assert stored is not None
            assert (frontier_root(stored.state.frontier), stored.state.spent) == (session.root, 200)
        on_chain = await chain.session(session.channel_id)
        assert on_chain is not None
        assert (on_chain.root, on_chain.call_count, on_chain.settled) == (session.root, 3, 200)


@CUTS
async def test_a_client_and_a_node_that_restart_after_the_cut_get_and_give_the_stored_bytes(
    cut: str, start_node: StartNode, marketplace: MakeMarketplace
) -> None:
    async with AsyncExitStack() as stack:
        async with start_node() as node, marketplace() as market:
            port = int(node.url.rsplit(":", 1)[1])
            proxy, url = await stack.enter_async_context(faulty_proxy(node.url))
            session = await market.open(url, deposit=10_000)
            await session.call("wordcount", text="before")
            proxy.answered.clear()
            proxy.faults = [cut] * 99
            lost = await asyncio.gather(
                *(session.call("wordcount", text="x " * n) for n in range(1, 4)), return_exceptions=True
            )
            assert all(isinstance(item, OutcomeUnknown) for item in lost)
            given = {item for item in proxy.answered if item[1]}
            assert len(given) == 3
        async with start_node(listen_port=port) as node, marketplace() as market:
            proxy.answered.clear()
            proxy.faults = []
            resumed = await market.resume(session.channel_id)
            await resumed.recover()
            assert set(proxy.answered) == given
            assert [result.json() for result in resumed.results[1:]] == [{"words": n} for n in (1, 2, 3)]
            assert sorted(RUNS) == ["before", "x ", "x x ", "x x x "]
            stored = await node.store.session(session.channel_id)
            assert stored is not None
            assert frontier_root(stored.state.frontier) == resumed.root
            closed = await resumed.close()
    assert (closed.root, closed.call_count, closed.settled) == (resumed.root, 4, 400)
