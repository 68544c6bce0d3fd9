"""Rating sessions, with what the record suggests and why."""

from dataclasses import replace

import pytest

from aioum.chain import ratings
from aioum.chain.client import Chain
from aioum.core.errors import ChainError, ConfigError, Divergence, InvalidInput
from aioum.core.types import Bytes32
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.scripted_operator import ScriptedOperator


async def test_a_session_is_rated_once_and_counts_by_what_it_cost(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, chain: Chain, devnet: RunningDevnet
) -> None:
    registry = devnet.deployment.rating_registry
    assert registry is not None
    async with marketplace() as market:
        async with market.open(scripted.url, deposit=1_000) as session:
            await session.call("echo", text="a")
            with pytest.raises(ChainError) as caught:
                await session.rate(80)
            assert caught.value.code == "session-not-final"
        suggested = await session.suggest_score()
        assert (suggested.score, suggested.reasons) == (100, ())
        with pytest.raises(InvalidInput) as invalid:
            await session.rate(101)
        assert invalid.value.code == "score-out-of-range"
        await session.rate(80, "https://files.example/review")
        known = await ratings.service_ratings(chain.rpc, registry, scripted.service_id, devnet.token)
        assert (known.count, known.mean, known.amount, known.weighted_mean) == (1, 80.0, 100, 80.0)
        with pytest.raises(ChainError) as caught:
            await session.rate(20)
        assert caught.value.code == "already-rated"


async def test_failed_calls_and_slow_answers_are_reasons_that_survive_a_restart(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    times = iter(range(10**9, 2 * 10**9, 4))
    # Each look at the clock is four seconds later, and the card allows five.
    async with (
        marketplace(clock=lambda: float(next(times))) as market,
        market.open(scripted.url, deposit=1_000) as session,
    ):
        await session.call("echo", text="a")
        await session.call("fail", text="b")
    async with marketplace() as market:
        resumed = await market.resume(session.channel_id)
        suggested = await resumed.suggest_score()
        points = {reason.code: reason.points for reason in suggested.reasons}
        assert points["calls-failed"] == 25
        assert 0 < points["answers-slow"] <= 30
        assert suggested.score == 100 - sum(points.values())


async def test_a_session_that_cost_nothing_is_not_rated(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    async with marketplace() as market:
        async with market.open(scripted.url, deposit=1_000) as session:
            await session.call("fail", text="b")
        with pytest.raises(ChainError) as caught:
            await session.rate(50)
        assert caught.value.code == "nothing-captured"


async def test_an_operator_that_contradicts_itself_is_suggested_nothing(
    marketplace: MakeMarketplace, scripted: ScriptedOperator
) -> None:
    scripted.lies.settle = lambda right: replace(right, root=Bytes32(b"\x77" * 32))
    async with marketplace() as market:
        session = await market.open(scripted.url, deposit=1_000)
        await session.call("echo", text="a")
        with pytest.raises(Divergence):
            await session.close()
        suggested = await session.suggest_score()
        assert suggested.score == 0
        assert suggested.reasons[0].code == "operator-contradicted"


async def test_a_deployment_without_ratings_says_so(
    marketplace: MakeMarketplace, scripted: ScriptedOperator, devnet: RunningDevnet
) -> None:
    older = replace(devnet.deployment, rating_registry=None)
    async with marketplace(deployment=older) as market:
        async with market.open(scripted.url, deposit=1_000) as session:
            await session.call("echo", text="a")
        with pytest.raises(ConfigError) as caught:
            await session.rate(50)
        assert caught.value.code == "rating-registry-unknown"
        await session.rate(50, registry=devnet.deployment.rating_registry)
