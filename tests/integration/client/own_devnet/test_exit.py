"""Getting the deposit back without the operator."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from aioum.chain.client import Chain
from aioum.chain.model import ChainSession
from aioum.client import Closed, SessionPhase
from aioum.core.errors import ChainError, OutcomeUnknown, PolicyRefused
from aioum.core.types import ChannelId
from aioum.devnet.running import RunningDevnet
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.faulty_proxy import faulty_proxy
from tests.integration.client.scripted_operator import ScriptedOperator, card_json, serving
from tests.integration.conftest import FundedAccount


@asynccontextmanager
async def operator_for_now(
    chain: Chain, devnet: RunningDevnet, operator: FundedAccount
) -> AsyncIterator[ScriptedOperator]:
    """An operator that vanishes with the block."""
    card = card_json(chain, operator.key, devnet.token)
    scripted = ScriptedOperator(chain, operator.key, operator.sender, card)
    async with serving(scripted.app()) as url:
        scripted.url = url
        await scripted.register()
        yield scripted


async def until(
    chain: Chain, channel_id: ChannelId, condition: Callable[[ChainSession], bool]
) -> ChainSession:
    deadline = time.monotonic() + 30
    while True:
        session = await chain.session(channel_id)
        assert session is not None
        if condition(session):
            return session
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def with_time_passing(
    exiting: Awaitable[Closed], chain: Chain, devnet: RunningDevnet, channel_id: ChannelId
) -> Closed:
    """Wait for an exit while the grace period passes."""
    task = asyncio.ensure_future(exiting)
    await until(chain, channel_id, lambda session: session.is_closing)
    await devnet.increase_time(await chain.grace_period_seconds())
    return await task


async def test_after_the_grace_period_a_client_has_its_deposit_back_from_a_vanished_operator(
    marketplace: MakeMarketplace,
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    payer: FundedAccount,
) -> None:
    async with operator_for_now(chain, devnet, operator) as scripted, marketplace() as market:
        session = await market.open(scripted.url, deposit=1_000)
        await session.call("echo", text="1")
    before = await chain.token_balance(devnet.token, payer.key.address)
    async with marketplace() as market:
        resumed = await market.resume(session.channel_id)
        with pytest.raises(OutcomeUnknown) as caught:
            await resumed.call("echo", text="2")
        assert caught.value.code == "node-unreachable"
        closed = await with_time_passing(resumed.exit(), chain, devnet, session.channel_id)
        assert (closed.settled, closed.refunded, closed.call_count) == (0, 1_000, 0)
        assert await chain.token_balance(devnet.token, payer.key.address) == before + 1_000
        assert resumed.phase is SessionPhase.CLOSED
        assert await resumed.exit() == closed


async def test_closing_with_a_vanished_operator_says_so_and_exit_goes_on(
    marketplace: MakeMarketplace, chain: Chain, devnet: RunningDevnet, operator: FundedAccount
) -> None:
    async with marketplace(settings={"close_timeout_seconds": 0.3}) as market:
        async with operator_for_now(chain, devnet, operator) as scripted:
            session = await market.open(scripted.url, deposit=1_000)
            await session.call("echo", text="1")
        with pytest.raises(OutcomeUnknown) as caught:
            await session.close()
        assert caught.value.code == "close-unconfirmed"
        with pytest.raises(PolicyRefused) as refused:
            await session.call("echo", text="2")
        assert refused.value.code == "session-not-open"
        await with_time_passing(session.exit(), chain, devnet, session.channel_id)


async def test_an_exit_that_was_begun_is_finished_by_a_restarted_client(
    marketplace: MakeMarketplace, chain: Chain, devnet: RunningDevnet, operator: FundedAccount
) -> None:
    async with operator_for_now(chain, devnet, operator) as scripted:
        async with marketplace() as market:
            session = await market.open(scripted.url, deposit=1_000)
            exiting = asyncio.create_task(session.exit())
            requested = await until(chain, session.channel_id, lambda found: found.is_closing)
            exiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await exiting
        await devnet.increase_time(await chain.grace_period_seconds())
        async with marketplace() as market:
            resumed = await market.resume(session.channel_id)
            assert resumed.phase is SessionPhase.EXITING
            with pytest.raises(PolicyRefused) as caught:
                await resumed.call("echo", text="1")
            assert caught.value.code == "session-not-open"
            closed = await resumed.exit()
            assert closed.refunded == 1_000
            final = await chain.session(session.channel_id)
            assert final is not None
            assert final.opened_at == requested.opened_at


async def never_answers(request: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError("it never answers")


async def test_with_calls_out_to_an_operator_that_takes_connections_and_never_answers_an_exit_completes(
    marketplace: MakeMarketplace,
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    payer: FundedAccount,
) -> None:
    silent = web.Application()
    silent.router.add_route("*", "/{path:.*}", never_answers)
    before = await chain.token_balance(devnet.token, payer.key.address)
    card = card_json(chain, operator.key, devnet.token, limits={"maxInFlight": 4})
    scripted = ScriptedOperator(chain, operator.key, operator.sender, card)
    async with serving(scripted.app()) as url, faulty_proxy(url) as (proxy, scripted.url):
        await scripted.register()
        async with marketplace() as market:
            session = await market.open(scripted.url, deposit=1_000)
            await session.call("echo", text="1")
            async with serving(silent) as proxy.upstream:
                calls = [asyncio.ensure_future(session.call("echo", text=str(n))) for n in range(3)]
                while session.authorized < 400:
                    await asyncio.sleep(0)
                # The program ends with three calls out, and the next one begins the exit and ends as well.
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
        async with serving(silent) as proxy.upstream:
            async with marketplace() as market:
                second = await market.resume(session.channel_id)
                assert second.unattended
                exiting = asyncio.ensure_future(second.exit())
                await until(chain, session.channel_id, lambda found: found.is_closing)
                exiting.cancel()
                await asyncio.gather(exiting, return_exceptions=True)
            await devnet.increase_time(await chain.grace_period_seconds())
            async with marketplace() as market:
                third = await market.resume(session.channel_id)
                assert third.phase is SessionPhase.EXITING
                closed = await third.exit()
    assert (closed.settled, closed.refunded, closed.call_count) == (0, 1_000, 0)
    assert await chain.token_balance(devnet.token, payer.key.address) == before
    assert (third.phase, third.stopped) == (SessionPhase.CLOSED, "session-closed")


async def test_an_operator_that_settles_in_the_grace_period_ends_the_exit(
    marketplace: MakeMarketplace, chain: Chain, devnet: RunningDevnet, operator: FundedAccount
) -> None:
    async with operator_for_now(chain, devnet, operator) as scripted, marketplace() as market:
        session = await market.open(scripted.url, deposit=1_000)
        await session.call("echo", text="1")
        exiting = asyncio.create_task(session.exit())
        await until(chain, session.channel_id, lambda found: found.is_closing)
        await scripted.settle(session.channel_id)
        closed = await exiting
        assert (closed.settled, closed.refunded, closed.root) == (100, 900, session.root)


async def test_a_close_that_another_program_requested_stops_calls_until_exit(
    marketplace: MakeMarketplace,
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    payer: FundedAccount,
) -> None:
    from aioum.chain import calls

    async with operator_for_now(chain, devnet, operator) as scripted:
        async with marketplace() as market:
            session = await market.open(scripted.url, deposit=1_000)
        await payer.sender.send(calls.request_close(chain.payment_manager, session.channel_id), "close")
        async with marketplace() as market:
            resumed = await market.resume(session.channel_id)
            with pytest.raises(PolicyRefused) as caught:
                await resumed.call("echo", text="1")
            assert caught.value.code == "close-pending"
            await devnet.increase_time(await chain.grace_period_seconds())
            assert (await resumed.exit()).refunded == 1_000


async def test_a_session_that_a_reset_chain_does_not_know_is_named_as_such(
    marketplace: MakeMarketplace,
    chain: Chain,
    devnet: RunningDevnet,
    operator: FundedAccount,
    payer: FundedAccount,
) -> None:
    async with operator_for_now(chain, devnet, operator) as scripted:
        snapshot = await devnet.snapshot()
        async with marketplace() as market:
            session = await market.open(scripted.url, deposit=1_000)
            await devnet.revert(snapshot)
            for step in (session.close, session.exit):
                with pytest.raises(ChainError) as caught:
                    await step()
                assert caught.value.code == "session-not-on-chain"
        async with marketplace() as market:
            with pytest.raises(ChainError) as caught:
                await market.resume(session.channel_id)
            assert caught.value.code == "session-not-on-chain"
