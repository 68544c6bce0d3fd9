"""Timing of alternatives side by side.

All alternatives of a case run in every round, in an order that rotates, so that whatever else the machine
does hits them alike. The best round of each is compared: noise only ever adds time. A need has to be met by
the median of the ratios within the rounds as well, for one lucky round of the subject can lift the other;
their mean and deviation say how far to believe the figure.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter
from typing import Final

from benchmarks.result import Samples

_GROWTH: Final = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure.

    Attributes:
        rounds: measured rounds, at least 2; one more goes before them unmeasured.
        batch_seconds: shortest time that one alternative runs in one round.
    """

    rounds: int
    batch_seconds: float


FULL: Final = Plan(rounds=11, batch_seconds=0.1)
QUICK: Final = Plan(rounds=3, batch_seconds=0.02)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to do the same thing.

    Attributes:
        run: performs so many operations and returns the seconds they took.
        count: operations in one round; None finds a number that fills the plan's time.
    """

    name: str
    run: Callable[[int], float]
    count: int | None = None


def repeated(function: Callable[..., object], *arguments: object) -> Callable[[int], float]:
    """An alternative's `run` that calls a function again and again with the same arguments."""

    def run(count: int) -> float:
        start = perf_counter()
        for _ in repeat(None, count):
            function(*arguments)
        return perf_counter() - start

    return run


def in_batches(function: Callable[[], object], operations: int) -> Callable[[int], float]:
    """An alternative's `run` that calls a function which performs so many operations each time."""

    def run(count: int) -> float:
        # Whole calls only, so the time is that of their number, in proportion.
        calls = max(1, round(count / operations))
        return repeated(function)(calls) * count / (calls * operations)

    return run


def measure(alternatives: Sequence[Alternative], plan: Plan) -> tuple[Samples, ...]:
    """Seconds per operation of each alternative in each round, in the order given."""
    # Finding the number warms caches and allocators up, too.
    counts = [
        _count_for(item.run, plan.batch_seconds) if item.count is None else item.count
        for item in alternatives
    ]
    seconds: list[list[float]] = [[] for _ in alternatives]
    for number in range(plan.rounds + 1):
        for position in range(len(alternatives)):
            chosen = (position + number) % len(alternatives)
            gc.collect()
            elapsed = alternatives[chosen].run(counts[chosen])
            if number:
                seconds[chosen].append(elapsed / counts[chosen])
    return tuple(Samples.of(item.name, values) for item, values in zip(alternatives, seconds, strict=True))


def _count_for(run: Callable[[int], float], batch_seconds: float) -> int:
    count = 1
    while (elapsed := run(count)) < batch_seconds:
        wanted = count * batch_seconds / elapsed if elapsed > 0 else count * _GROWTH
        count = max(count + 1, min(int(wanted * 1.1), count * _GROWTH))
    return count
