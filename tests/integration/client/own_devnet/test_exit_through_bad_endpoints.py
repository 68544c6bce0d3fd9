"""An exit takes a quarter of an hour, and the endpoint need not be well all the time."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest

from aioum.chain.client import Chain
from aioum.client import PaidSession
from aioum.core.errors import ChainError
from aioum.devnet.running import RunningDevnet
from tests.integration.chain.faulty_endpoint import FaultyEndpoint, faulty_endpoint
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.own_devnet.test_exit import operator_for_now, until
from tests.integration.conftest import FundedAccount


async def reached(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@dataclass
class Leaving:
    """A session of a client whose endpoint can be made bad."""

    chain: Chain
    session: PaidSession
    endpoint: FaultyEndpoint

    async def waits(self) -> None:
        """Until its exit waits for the grace period to pass: the request is confirmed, and is looked at."""
        await until(self.chain, self.session.channel_id, lambda found: found.is_closing)
        looks = self.endpoint.seen["eth_call"]
        await reached(lambda: self.endpoint.seen["eth_call"] >= looks + 4)


@pytest.fixture
async def leaving(
    marketplace: MakeMarketplace,
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Leaving]:
    """A session over 1,000 base units, open; the parameter has settings of its client."""
    settings = getattr(request, "param", {})
    async with (
        faulty_endpoint(devnet.rpc_url) as endpoint,
        operator_for_now(chain, devnet, operator) as scripted,
        marketplace(rpc_url=endpoint.url, settings=settings) as market,
    ):
        yield Leaving(chain, await market.open(scripted.url, deposit=1_000), endpoint)


async def test_an_endpoint_that_is_away_while_an_exit_waits_only_delays_it(
    leaving: Leaving, devnet: RunningDevnet
) -> None:
    endpoint = leaving.endpoint
    exiting = asyncio.create_task(leaving.session.exit())
    await leaving.waits()
    endpoint.silent = True
    asked = sum(endpoint.seen.values())
    await devnet.increase_time(await leaving.chain.grace_period_seconds())
    await reached(lambda: sum(endpoint.seen.values()) >= asked + 3)
    assert not exiting.done()
    endpoint.silent = False
    closed = await exiting
    assert (closed.settled, closed.refunded) == (0, 1_000)


@pytest.mark.parametrize("leaving", [{"exit_silence_seconds": 0.2}], indirect=True)
async def test_an_endpoint_that_stays_away_is_named_in_the_end(leaving: Leaving) -> None:
    exiting = asyncio.create_task(leaving.session.exit())
    await leaving.waits()
    leaving.endpoint.silent = True
    with pytest.raises(ChainError) as caught:
        await exiting
    assert caught.value.code == "rpc-unreachable"


async def test_a_look_at_an_older_block_ends_no_exit(leaving: Leaving, devnet: RunningDevnet) -> None:
    """Behind one address there may be several endpoints, and the next question goes to one that is behind."""
    endpoint = leaving.endpoint
    endpoint.block = (await leaving.chain.head()).number
    exiting = asyncio.create_task(leaving.session.exit())
    await leaving.waits()
    sent = endpoint.seen["eth_sendRawTransaction"]
    await leaving.waits()
    assert not exiting.done()
    # What was requested is not requested again.
    assert endpoint.seen["eth_sendRawTransaction"] == sent
    endpoint.block = None
    await devnet.increase_time(await leaving.chain.grace_period_seconds())
    assert (await exiting).refunded == 1_000


@pytest.mark.parametrize("leaving", [{"stale_view_seconds": 0.1}], indirect=True)
async def test_a_step_that_the_chain_refuses_is_an_error(leaving: Leaving) -> None:
    leaving.endpoint.errors["eth_estimateGas"] = {"code": 3, "message": "execution reverted", "data": "0x"}
    with pytest.raises(ChainError) as caught:
        await leaving.session.exit()
    assert caught.value.code == "contract-reverted"
