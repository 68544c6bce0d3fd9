"""Client, node, chain and clock, in any order of what happens to them; the invariants after each step."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from aioum.core.errors import ConfigError
from aioum.devnet.anvil import find_anvil
from tests.stateful import market_events as events
from tests.stateful.market import ATTEMPTS, Lot, Market
from tests.stateful.market_checks import check, finish
from tests.stateful.market_node import PRICE
from tests.stateful.market_stage import Stage, opened_stage
from tests.tools import missing

T = TypeVar("T")
EXAMPLES = int(os.environ.get("AIOUM_STATEFUL_EXAMPLES", "3"))
STEPS = int(os.environ.get("AIOUM_STATEFUL_STEPS", "8"))
MOST_OPEN = 3
MOST_SESSIONS = 9

pytestmark = [pytest.mark.integration, pytest.mark.slow]
numbers = st.integers(0, MOST_OPEN - 1)
depths = st.integers(1, 2)
some_session_is_open = precondition(lambda self: bool(self.open_lots))
a_session_is_over = precondition(lambda self: bool(self.closed_lots))


async def _recover(market: Market, lot: Lot) -> None:
    await events.buy(market, lot, losses=ATTEMPTS)
    await events.recover(market, lot)


async def _stay_over(market: Market, lot: Lot) -> None:
    await events.close(market, lot)
    await events.stays_over(market, lot)


async def _kill_busy_node(market: Market, lot: Lot) -> None:
    # Its calls come one after the other, so that the first is answered and the last is not.
    await events.kill_busy_node(market, await market.open(signed=False), 4)


Event = Callable[[Market, Lot], Awaitable[Any]]

EFFECTS: Final[dict[str, Event]] = {
    "call-answered": events.buy,
    "tool-failed": lambda market, lot: events.buy(market, lot, "broken"),
    "calls-together": lambda market, lot: events.buy_together(market, lot, 3),
    "answer-repeated": lambda market, lot: events.buy(market, lot, losses=ATTEMPTS - 1),
    "answer-lost": lambda market, lot: events.buy(market, lot, losses=ATTEMPTS),
    "call-recovered": _recover,
    "statement-agreed": events.state,
    "topped-up": lambda market, lot: events.top_up(market, lot, PRICE),
    "top-up-reorganized": lambda market, lot: events.reorganize_top_up(market, lot, 2),
    "opening-reorganized": lambda market, lot: events.reorganize_opening(market, signed=True, blocks=2),
    "session-closed": events.close,
    "settlement-reorganized": lambda market, lot: events.reorganize_close(market, lot, 2),
    "session-exited": lambda market, lot: events.leave(market, lot, to_its_end=True),
    "request-reorganized": lambda market, lot: events.reorganize_exit(market, lot, 2),
    "session-withdrawn": lambda market, lot: events.withdraw(market, lot, 0),
    "withdrawal-reorganized": lambda market, lot: events.withdraw(market, lot, 1),
    "refused-when-over": _stay_over,
    "node-restarted": lambda market, lot: events.restart_node(market),
    "node-killed": lambda market, lot: events.kill_node(market, lot, recovers=True),
    "busy-node-killed": _kill_busy_node,
    "client-restarted": lambda market, lot: events.restart_client(market, lot, recovers=True),
    "idle-settled": lambda market, lot: events.let_idle(market),
}
"""What has to take effect at least once, and what surely does that in a session with one call.

Each example ends with a share of those that chance left out until then.
"""


class Life(RuleBasedStateMachine):
    """What can happen to a market. Each example begins on the same chain with a new node and a new client."""

    stage: Stage
    runner: asyncio.Runner
    ended = 0
    happened: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.market = Market(self.stage, happened=self.happened)
        self.broken = False
        self.run(self.market.start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let everything go on until `work` is done, and a little longer."""

        async def stepped() -> T:
            result = await work
            await asyncio.sleep(0.05)
            return result

        try:
            return self.runner.run(stepped())
        except BaseException:
            self.broken = True
            raise

    @property
    def open_lots(self) -> list[Lot]:
        return [lot for lot in self.market.lots if lot.is_open]

    @property
    def closed_lots(self) -> list[Lot]:
        return [lot for lot in self.market.lots if lot.closed is not None]

    def lot(self, number: int) -> Lot:
        """One of the sessions in which calls can be bought."""
        return self.open_lots[number % len(self.open_lots)]

    def teardown(self) -> None:
        try:
            if not self.broken:
                self.end_well()
        finally:
            self.runner.run(self.end())

    def end_well(self) -> None:
        share = list(EFFECTS)[type(self).ended % EXAMPLES :: EXAMPLES]
        type(self).ended += 1
        for effect in share:
            if not self.happened[effect]:
                self.run(self.happens(EFFECTS[effect]))
        self.run(finish(self.market))

    async def happens(self, event: Event) -> None:
        lot = await self.market.open(signed=True)
        await events.buy(self.market, lot)
        await event(self.market, lot)
        await check(self.market)

    async def end(self) -> None:
        await self.market.stop()
        await self.stage.begin_again()

    @initialize(signed=st.booleans(), calls=st.integers(1, 4))
    def begin(self, signed: bool, calls: int) -> None:
        async def opened() -> None:
            lot = await self.market.open(signed=signed)
            for _ in range(calls):
                await events.buy(self.market, lot)

        self.run(opened())

    @precondition(lambda self: len(self.open_lots) < MOST_OPEN and len(self.market.lots) < MOST_SESSIONS)
    @rule(signed=st.booleans(), blocks=st.integers(0, 2))
    def open_another(self, signed: bool, blocks: int) -> None:
        if blocks:
            self.run(events.reorganize_opening(self.market, signed, blocks))
        else:
            self.run(self.market.open(signed=signed))

    @some_session_is_open
    @rule(number=numbers, tool_id=st.sampled_from(["echo", "echo", "broken"]), times=st.integers(1, 4))
    def call(self, number: int, tool_id: str, times: int) -> None:
        async def calls() -> None:
            for _ in range(times):
                await events.buy(self.market, self.lot(number), tool_id)

        self.run(calls())

    @some_session_is_open
    @rule(number=numbers, together=st.integers(2, 6))
    def call_together(self, number: int, together: int) -> None:
        self.run(events.buy_together(self.market, self.lot(number), together))

    @some_session_is_open
    @rule(number=numbers, losses=st.integers(1, 5))
    def call_whose_answers_are_lost(self, number: int, losses: int) -> None:
        self.run(events.buy(self.market, self.lot(number), losses=losses))

    @some_session_is_open
    @rule(number=numbers)
    def repeat_what_is_unanswered(self, number: int) -> None:
        self.run(events.recover(self.market, self.lot(number)))

    @some_session_is_open
    @rule(number=numbers)
    def agree_on_a_statement(self, number: int) -> None:
        self.run(events.state(self.market, self.lot(number)))

    @rule()
    def restart_the_node(self) -> None:
        self.run(events.restart_node(self.market))

    @some_session_is_open
    @rule(number=numbers, recovers=st.booleans())
    def kill_the_node_in_a_call(self, number: int, recovers: bool) -> None:
        self.run(events.kill_node(self.market, self.lot(number), recovers))

    @some_session_is_open
    @rule(number=numbers, together=st.integers(2, 6))
    def kill_the_node_among_calls(self, number: int, together: int) -> None:
        self.run(events.kill_busy_node(self.market, self.lot(number), together))

    @some_session_is_open
    @rule(number=numbers, recovers=st.booleans())
    def restart_the_client_in_a_call(self, number: int, recovers: bool) -> None:
        self.run(events.restart_client(self.market, self.lot(number), recovers))

    @some_session_is_open
    @rule(number=numbers, calls=st.integers(1, 5), blocks=st.integers(0, 2))
    def top_up(self, number: int, calls: int, blocks: int) -> None:
        if blocks:
            self.run(events.reorganize_top_up(self.market, self.lot(number), blocks))
        else:
            self.run(events.top_up(self.market, self.lot(number), calls * PRICE))

    @some_session_is_open
    @rule(number=numbers, blocks=st.integers(0, 2))
    def close(self, number: int, blocks: int) -> None:
        if blocks:
            self.run(events.reorganize_close(self.market, self.lot(number), blocks))
        else:
            self.run(events.close(self.market, self.lot(number)))

    @some_session_is_open
    @rule(number=numbers, to_its_end=st.booleans())
    def exit(self, number: int, to_its_end: bool) -> None:
        self.run(events.leave(self.market, self.lot(number), to_its_end))

    @some_session_is_open
    @rule(number=numbers, blocks=depths)
    def exit_is_reorganized_away_once(self, number: int, blocks: int) -> None:
        self.run(events.reorganize_exit(self.market, self.lot(number), blocks))

    @some_session_is_open
    @rule(number=numbers, blocks=st.integers(0, 2))
    def exit_without_an_operator(self, number: int, blocks: int) -> None:
        self.run(events.withdraw(self.market, self.lot(number), blocks))

    @a_session_is_over
    @rule(number=numbers)
    def ask_what_is_over(self, number: int) -> None:
        lots = self.closed_lots
        self.run(events.stays_over(self.market, lots[number % len(lots)]))

    @rule(seconds=st.sampled_from([1, 400, 1_000]))
    def time_passes(self, seconds: int) -> None:
        async def passes() -> None:
            # An operator that is there settles long before the grace is over.
            await self.market.bring_all_out()
            await self.stage.pass_time(seconds)

        self.run(passes())

    @invariant()
    def everybody_agrees(self) -> None:
        self.run(check(self.market))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Stage]]:
    try:
        find_anvil()
    except ConfigError as error:
        missing(str(error))
    with asyncio.Runner() as runner:
        opening = opened_stage(tmp_path_factory.mktemp("stage"))
        opened = runner.run(opening.__aenter__())
        try:
            yield runner, opened
        finally:
            runner.run(opening.__aexit__(None, None, None))


@pytest.mark.timeout(0)
def test_whatever_happens_both_sides_and_the_chain_agree(stage: tuple[asyncio.Runner, Stage]) -> None:
    Life.runner, Life.stage = stage
    Life.ended, Life.happened = 0, Counter()

    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            # Shrinking takes many times as long as finding; the steps that are printed are few as they are.
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )

    # Whatever chance chose, nothing of it was missing.
    assert {effect for effect in EFFECTS if not Life.happened[effect]} == set()
