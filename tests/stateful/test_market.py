"""Client, node, chain and clock, in any order of what happens to them; the invariants after each step."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

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
from tests.stateful.market import PRICE, Lot, Market, Stage, opened_stage

T = TypeVar("T")
EXAMPLES = int(os.environ.get("AIOUM_STATEFUL_EXAMPLES", "8"))
STEPS = int(os.environ.get("AIOUM_STATEFUL_STEPS", "14"))
MOST_SESSIONS = 4

pytestmark = [pytest.mark.integration, pytest.mark.slow]
numbers = st.integers(0, MOST_SESSIONS - 1)
some_session_is_free = precondition(lambda self: bool(self.free))


class Life(RuleBasedStateMachine):
    """What can happen to a market. Each example begins on the same chain with a new node and a new client."""

    stage: Stage
    runner: asyncio.Runner
    answered = 0

    def __init__(self) -> None:
        super().__init__()
        self.market = Market(self.stage)
        self.run(self.market.start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Let everything go on until `work` is done, and a little longer."""

        async def stepped() -> T:
            result = await work
            await asyncio.sleep(0.1)
            return result

        return self.runner.run(stepped())

    def lot(self, number: int) -> Lot:
        """One of the sessions that nothing holds: an exit keeps its session until the grace is over."""
        free = self.free
        return free[number % len(free)]

    @property
    def free(self) -> list[Lot]:
        lots = self.market.lots.values()
        return [lot for lot in lots if lot.ending is None or lot.ending.done()]

    def teardown(self) -> None:
        async def end() -> None:
            try:
                await self.market.finish()
                type(self).answered += self.market.answered
            finally:
                await self.market.stop()
                await self.stage.devnet.revert(self.stage.snapshot)
                self.stage.snapshot = await self.stage.devnet.snapshot()

        self.runner.run(end())

    @initialize(signed=st.booleans(), calls=st.integers(1, 4))
    def open_first(self, signed: bool, calls: int) -> None:
        async def opened() -> None:
            await self.market.open(signed=signed)
            for _ in range(calls):
                await self.market.call(self.lot(0), "echo")

        self.run(opened())

    @precondition(lambda self: len(self.market.lots) < MOST_SESSIONS)
    @rule(signed=st.booleans())
    def open_another(self, signed: bool) -> None:
        self.run(self.market.open(signed=signed))

    @some_session_is_free
    @rule(number=numbers, tool_id=st.sampled_from(["echo", "echo", "broken"]), times=st.integers(1, 4))
    def call(self, number: int, tool_id: str, times: int) -> None:
        async def calls() -> None:
            for _ in range(times):
                await self.market.call(self.lot(number), tool_id)

        self.run(calls())

    @some_session_is_free
    @rule(number=numbers, together=st.integers(2, 6))
    def call_together(self, number: int, together: int) -> None:
        async def calls() -> None:
            lot = self.lot(number)
            await asyncio.gather(*(self.market.call(lot, "echo") for _ in range(together)))

        self.run(calls())

    @some_session_is_free
    @rule(number=numbers, losses=st.integers(1, 5))
    def call_whose_answers_are_lost(self, number: int, losses: int) -> None:
        self.run(self.market.call(self.lot(number), "echo", losses=losses))

    @some_session_is_free
    @rule(number=numbers)
    def repeat_what_is_unanswered(self, number: int) -> None:
        self.run(self.market.attempt(self.lot(number).session.recover()))

    @some_session_is_free
    @rule(number=numbers)
    def agree_on_a_statement(self, number: int) -> None:
        self.run(self.market.attempt(self.lot(number).session.statement()))

    @some_session_is_free
    @rule(number=numbers, in_a_call=st.booleans())
    def crash_the_node(self, number: int, in_a_call: bool) -> None:
        async def crash() -> None:
            calling = await self.market.held_call(self.lot(number)) if in_a_call else None
            await self.market.crash_node()
            if calling is not None:
                await calling

        self.run(crash())

    @some_session_is_free
    @rule(number=numbers, in_a_call=st.booleans())
    def crash_the_client(self, number: int, in_a_call: bool) -> None:
        async def crash() -> None:
            calling = await self.market.held_call(self.lot(number)) if in_a_call else None
            if calling is not None:
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)
            await self.market.crash_client()
            self.market.open_gate()

        self.run(crash())

    @some_session_is_free
    @rule(number=numbers, calls=st.integers(1, 5))
    def top_up(self, number: int, calls: int) -> None:
        self.run(self.market.attempt(self.lot(number).session.top_up(calls * PRICE)))

    @some_session_is_free
    @rule(number=numbers, blocks=st.integers(1, 2), spend=st.booleans())
    def top_up_is_reorganized_away_once(self, number: int, blocks: int, spend: bool) -> None:
        async def reorganized() -> None:
            lot = self.lot(number)
            await self.market.reorganize(blocks, lot.session.top_up(PRICE))
            if spend:
                await self.market.call(lot, "echo")

        self.run(reorganized())

    @some_session_is_free
    @rule(number=numbers, blocks=st.integers(1, 2))
    def close_is_reorganized_away_once(self, number: int, blocks: int) -> None:
        self.run(self.market.reorganize(blocks, self.lot(number).session.close()))

    @some_session_is_free
    @rule(number=numbers)
    def close(self, number: int) -> None:
        self.run(self.market.attempt(self.lot(number).session.close()))

    @some_session_is_free
    @rule(number=numbers)
    def exit(self, number: int) -> None:
        async def leave() -> None:
            self.market.exit(self.lot(number))
            await asyncio.sleep(0.3)

        self.run(leave())

    @some_session_is_free
    @rule(number=numbers)
    def exit_without_an_operator(self, number: int) -> None:
        self.run(self.market.leave_without_operator(self.lot(number)))

    @rule(seconds=st.sampled_from([1, 400, 1_000, 90_000]))
    def time_passes(self, seconds: int) -> None:
        self.run(self.market.pass_time(seconds))

    @invariant()
    def everybody_agrees(self) -> None:
        self.runner.run(self.market.check())


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Stage]]:
    try:
        find_anvil()
    except ConfigError as error:
        pytest.skip(str(error))
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
    Life.answered = 0

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

    # Each example begins with a call, so that what happens next happens to something.
    assert Life.answered >= EXAMPLES
