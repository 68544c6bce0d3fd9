"""What has to hold in a market at any moment, and at its end."""

from __future__ import annotations

from collections import Counter

from aioum.core.hextext import to_hex
from aioum.core.transcript import Entry, frontier_root
from aioum_node.store.reader import SqliteReader
from tests.stateful.market import Lot, Market

Runs = Counter[tuple[str, int]]


async def check(market: Market) -> None:
    """Hold what both sides and the chain have against the invariants; an exit that failed fails here."""
    runs = market.job.runs()
    assert {call: times for call, times in runs.items() if times > 1} == {}, "a tool ran twice for one call"
    reader = market.reader()
    try:
        for lot in market.lots:
            if lot.ending is not None and lot.ending.done():
                lot.ending.result()
            await _check(market, lot, reader, runs)
    finally:
        await reader.close()


async def _check(market: Market, lot: Lot, reader: SqliteReader, runs: Runs) -> None:
    # The node goes on meanwhile: the chain is looked at first, because what it shows the node has done.
    on_chain = await market.stage.chain.session(lot.channel_id)
    stored = await reader.session(lot.channel_id)
    assert on_chain is not None
    assert on_chain.settled <= lot.session.authorized <= on_chain.deposit, "signed above the deposit"
    assert lot.session.spent <= lot.session.authorized
    if stored is None:
        # The node was never shown the session: it cannot have earned or done anything.
        assert (on_chain.settled, len(lot.session.calls)) == (0, 0)
        assert all(channel != to_hex(lot.channel_id) for channel, _ in runs)
        return
    state = stored.state
    assert lot.session.spent <= state.spent <= state.accepted <= lot.session.authorized
    assert on_chain.settled <= state.spent, "captured more than was spent"
    recorded = [call for call in await reader.calls(lot.channel_id, 0, 1_000) if call.answer is not None]
    theirs = [
        Entry(call.index, call.tool_id, call.request.decode(), call.answer.response.decode())
        for call in recorded
        if call.answer is not None
    ]
    ours = list(lot.session.calls)
    # What the client has an answer of, the node has recorded.
    assert theirs[: len(ours)] == ours, "two histories of one session"
    paid = {(to_hex(lot.channel_id), call.index) for call in recorded if call.charge}
    assert paid <= runs.keys(), "paid for what never ran"
    if on_chain.settled:
        assert stored.facts.commit_required
        assert on_chain.has_root, "settled without an anchored root"
    if on_chain.has_root:
        assert (on_chain.root, on_chain.call_count) == (frontier_root(state.frontier), state.admitted)


async def finish(market: Market) -> None:
    """Bring every session to its end, which must be the same for both sides."""
    await market.bring_all_out()
    for lot in market.lots:
        await _finish(market, lot)
    await check(market)


async def _finish(market: Market, lot: Lot) -> None:
    # Of a session that is over it says again what became of it.
    closed = await lot.session.close()
    assert lot.closed in (None, closed)
    if lot.withdrawn:
        assert (closed.settled, closed.refunded) == (0, closed.deposit)
        return
    assert (closed.root, closed.call_count) == (lot.session.root, len(lot.session.calls))
    assert closed.settled == lot.session.spent
    reader = market.reader()
    try:
        stored = await reader.session(lot.channel_id)
    finally:
        await reader.close()
    if stored is not None:
        assert closed.settled == stored.state.spent
