"""Putting settlements together: whoever waits is told, whatever becomes of the transaction."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aioum.chain.calls import Settlement
from aioum.chain.model import Mined
from aioum.core.errors import OutcomeUnknown, TransactionReverted
from aioum.core.types import Bytes32
from aioum_node.settlement.batches import Batches
from tests.unit.node.store.samples import channel


def settlement(number: int) -> Settlement:
    return Settlement(channel(number), 0, 0, 0, Bytes32(bytes(32)), b"")


class Chain:
    """Takes batches; `outcome` is what becomes of each."""

    def __init__(self, outcome: Callable[[], Awaitable[Mined]] | None = None) -> None:
        self.sizes: list[int] = []
        self._outcome = outcome

    async def send(self, items: list[Settlement]) -> Mined:
        self.sizes.append(len(items))
        if self._outcome is not None:
            return await self._outcome()
        return Mined(Bytes32(b"\x01" * 32), 1, 1_000 * len(items) + 1, ())


async def test_those_that_come_together_share_a_transaction_up_to_the_limit() -> None:
    chain = Chain()
    batches = Batches(chain.send, 3)
    await asyncio.gather(*(batches.settle(settlement(number)) for number in range(1, 8)))
    assert sorted(chain.sizes) == [1, 3, 3]
    await batches.settle(settlement(9))
    assert chain.sizes[-1] == 1


@pytest.mark.parametrize("error", [TransactionReverted("no"), OutcomeUnknown("?")])
async def test_a_transaction_that_fails_is_told_to_everybody_in_it(error: Exception) -> None:
    async def fail() -> Mined:
        raise error

    batches = Batches(Chain(fail).send, 8)
    outcomes = await asyncio.gather(
        *(batches.settle(settlement(number)) for number in range(1, 5)), return_exceptions=True
    )
    assert outcomes == [error] * 4


async def test_nobody_waits_for_ever_for_one_that_was_canceled() -> None:
    started = asyncio.Event()

    async def never() -> Mined:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    batches = Batches(Chain(never).send, 8)
    tasks = [asyncio.create_task(batches.settle(settlement(number))) for number in range(1, 4)]
    await started.wait()
    tasks[0].cancel()
    async with asyncio.timeout(5):
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
