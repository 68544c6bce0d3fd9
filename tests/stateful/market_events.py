"""What can happen to a market. An event allows certain refusals alone, and counts whether it took effect."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from aioum.client.results import CallResult
from tests.stateful.market import ATTEMPTS, CONFIRMATIONS, Lot, Market, until
from tests.stateful.market_node import PRICE

IDLE_SECONDS: Final = 90_000
"""More than the node keeps a session that nobody uses."""

NO_MONEY: Final = frozenset({"deposit-exhausted"})
NO_ANSWER: Final = frozenset({"answer-truncated", "node-unreachable"})


async def buy(market: Market, lot: Lot, tool_id: str = "echo", losses: int = 0) -> CallResult | None:
    """Buy a call, of which so many answers are lost; None where it has no answer, or there is no money."""
    market.transport.losses = losses
    refusals = NO_MONEY if losses < ATTEMPTS else NO_MONEY | NO_ANSWER
    result: CallResult | None = await market.attempt(lot.session.call(tool_id, text=market.text()), refusals)
    lost = losses - market.transport.losses
    market.transport.losses = 0
    if result is not None:
        assert result.ok is (tool_id != "broken")
        market.happened["call-answered" if result.ok else "tool-failed"] += 1
        market.happened["answer-repeated"] += lost > 0
    elif lost >= ATTEMPTS:
        market.happened["answer-lost"] += 1
    else:
        assert not can_pay(lot)
    return result


def can_pay(lot: Lot) -> bool:
    """Whether the deposit covers the voucher of another call."""
    session = lot.session
    least = session.authorized if session.roster is not None else session.authorized + 1
    return max(least, session.spent + PRICE) <= session.deposit


async def buy_together(market: Market, lot: Lot, number: int) -> None:
    """Buy calls at the same time."""
    results = await asyncio.gather(*(buy(market, lot) for _ in range(number)))
    market.happened["calls-together"] += sum(result is not None for result in results) > 1


async def recover(market: Market, lot: Lot) -> CallResult | None:
    """Get the answer of a call that has none; None where each has one."""
    was_outstanding = lot.session.outstanding
    result = await lot.session.recover()
    assert (result is not None) is was_outstanding
    assert not lot.session.outstanding
    market.happened["call-recovered"] += was_outstanding
    return result


async def state(market: Market, lot: Lot) -> None:
    """Agree on a statement."""
    signed = await lot.session.statement()
    assert not lot.session.outstanding
    assert (signed is not None) is bool(lot.session.calls)
    market.happened["statement-agreed"] += signed is not None


async def top_up(market: Market, lot: Lot, amount: int) -> None:
    """Top up."""
    before = lot.session.deposit
    assert await lot.session.top_up(amount) == before + amount
    market.happened["topped-up"] += 1


async def reorganize_top_up(market: Market, lot: Lot, blocks: int) -> None:
    """Take a top-up back once."""
    before = lot.session.deposit

    async def begin() -> asyncio.Task[int]:
        return asyncio.create_task(lot.session.top_up(PRICE))

    async def shows() -> bool:
        session = await market.stage.chain.session(lot.channel_id)
        return session is not None and session.deposit > before

    showed, topping_up = await market.reorganize(begin, shows, blocks)
    assert await topping_up == before + PRICE
    market.happened["top-up-reorganized"] += showed


async def reorganize_opening(market: Market, signed: bool, blocks: int) -> None:
    """Take an opening back once."""

    sessions = market.client.sessions
    before = len(await sessions())

    async def begin() -> asyncio.Task[Lot]:
        return asyncio.create_task(market.open(signed=signed))

    async def shows() -> bool:
        opened = (await sessions())[before:]
        return bool(opened) and await market.stage.chain.session(opened[0].channel_id) is not None

    showed, opening = await market.reorganize(begin, shows, blocks)
    assert await buy(market, await opening) is not None
    market.happened["opening-reorganized"] += showed


async def close(market: Market, lot: Lot) -> None:
    """End a session together with the operator."""
    lot.closed = await lot.session.close()
    market.happened["session-closed"] += 1


async def reorganize_close(market: Market, lot: Lot, blocks: int) -> None:
    """Take back once what the operator settles with."""

    async def begin() -> asyncio.Task[Any]:
        return asyncio.create_task(lot.session.close())

    showed, closing = await market.reorganize(begin, partial(_is_over, market, lot), blocks)
    lot.closed = await closing
    market.happened["settlement-reorganized"] += showed


async def leave(market: Market, lot: Lot, to_its_end: bool) -> None:
    """Leave a session without asking the operator, who settles it or does not know it."""
    _ = await market.exit(lot)
    if to_its_end:
        await market.bring_out(lot)


async def reorganize_exit(market: Market, lot: Lot, blocks: int) -> None:
    """Take the request to close back once."""

    async def shows() -> bool:
        session = await market.stage.chain.session(lot.channel_id)
        return session is not None and (session.is_closing or session.is_finalized)

    showed, _ = await market.reorganize(partial(market.exit, lot), shows, blocks)
    await market.bring_out(lot)
    market.happened["request-reorganized"] += showed


async def withdraw(market: Market, lot: Lot, blocks: int) -> None:
    """Leave a session while the node is away for the whole grace; with `blocks`, take the withdrawal back."""
    # Their operator would be away as well.
    await market.bring_all_out()
    market.kill_node()
    ending = await market.exit(lot)
    if blocks:
        await until(partial(_is_closing_for_good, market, lot))

        async def begin() -> asyncio.Task[Any]:
            await market.let_grace_pass(lot)
            return ending

        showed, _ = await market.reorganize(begin, partial(_is_over, market, lot), blocks)
        market.happened["withdrawal-reorganized"] += showed
    closed = await market.bring_out(lot)
    assert (closed.settled, closed.refunded) == (0, closed.deposit)
    await market.start_node()


async def _is_over(market: Market, lot: Lot) -> bool:
    session = await market.stage.chain.session(lot.channel_id)
    return session is not None and session.is_finalized


async def _is_closing_for_good(market: Market, lot: Lot) -> bool:
    chain = market.stage.chain
    block = await chain.block_at_depth(CONFIRMATIONS)
    session = await chain.session(lot.channel_id, block.number)
    return session is not None and session.is_closing


async def restart_node(market: Market) -> None:
    """Let the node end in order and start it again."""
    await market.stop_node()
    await market.start_node()
    market.happened["node-restarted"] += 1


async def kill_node(market: Market, lot: Lot, recovers: bool) -> None:
    """Kill the node while it runs a tool."""
    calling = await _held(market, lot)
    market.kill_node()
    if calling is not None:
        assert await calling is None
    await market.start_node()
    market.happened["node-killed"] += calling is not None
    if recovers:
        result = await recover(market, lot)
        # What ran when its process died is never run again, and costs nothing.
        assert calling is None or (result is not None and (result.ok, result.charge) == (False, 0))


async def kill_busy_node(market: Market, lot: Lot, number: int) -> None:
    """Kill the node while it serves several calls, once the first is answered."""
    calls = [
        asyncio.create_task(
            market.attempt(
                lot.session.call("echo", text=market.text()),
                NO_MONEY | NO_ANSWER | {"statement-unavailable"},
            )
        )
        for _ in range(number)
    ]
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    market.kill_node()
    results = await asyncio.gather(*calls)
    await market.start_node()
    market.happened["busy-node-killed"] += None in results and any(results)
    await recover(market, lot)


async def restart_client(market: Market, lot: Lot, recovers: bool) -> None:
    """Drop the client while it waits for an answer, and start it again on its journal."""
    calling = await _held(market, lot)
    if calling is not None:
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    await market.restart_client()
    if calling is not None:
        market.node.open_gate()
    market.happened["client-restarted"] += calling is not None
    if recovers:
        result = await recover(market, lot)
        assert calling is None or (result is not None and result.ok)


async def _held(market: Market, lot: Lot) -> asyncio.Task[Any] | None:
    """A call whose tool runs and does not end; None where there is no money for it."""
    calling = asyncio.create_task(
        market.attempt(lot.session.call("hold", text=market.text()), NO_MONEY | NO_ANSWER)
    )
    holding = asyncio.create_task(market.node.holding.wait())
    await asyncio.wait({calling, holding}, return_when=asyncio.FIRST_COMPLETED)
    holding.cancel()
    if not calling.done():
        return calling
    assert (await calling, can_pay(lot)) == (None, False)
    return None


async def let_idle(market: Market) -> None:
    """Let so much time pass that the node settles what nobody uses."""
    await market.bring_all_out()
    served = [lot for lot in market.lots if lot.is_open and await market.is_served(lot)]
    await market.stage.pass_time(IDLE_SECONDS)
    for lot in served:
        await until(partial(_is_over, market, lot))
        lot.closed = await lot.session.close()
    market.happened["idle-settled"] += len(served)


async def stays_over(market: Market, lot: Lot) -> None:
    """A session that is over takes nothing any more, and says again how it ended."""
    refused = {"session-not-open"}
    assert await market.attempt(lot.session.call("echo", text=market.text()), refused) is None
    assert await market.attempt(lot.session.top_up(PRICE), refused) is None
    assert await lot.session.close() == lot.closed
    market.happened["refused-when-over"] += 1
