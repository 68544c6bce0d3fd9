"""What durability costs a paid call: the node's store against one that forgets, over HTTP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.folder import durable_folder
from benchmarks.measure import QUICK, Alternative, Plan, measure
from benchmarks.paid_calls import Market
from benchmarks.result import Case, Comparison, Difference, Samples

NAME = "durability"
OPERATION = "one paid call"
PACKAGES = ("aiohttp", "coincurve")
NOTES = (
    "The load generator keeps no journal: only the node's store differs.",
    "1 session: medians of single calls. What durability adds may be 6 `fdatasync` for each of a call's two "
    "commits; `fdatasync` is a round's median, each after 4 kB appended to a file of the same disk.",
)

SESSIONS: Final = 256
_DURABLE: Final = "durable store"
_IN_MEMORY: Final = "store in memory"
_BUILDS: Final = {_DURABLE: "aioum", _IN_MEMORY: "memory"}
_SYNC: Final = "fdatasync"
_COMMITS: Final = 2
_SYNCS_ALLOWED: Final = 6
_CALLS_PER_ROUND: Final = 1_536
_QUICK_CALLS_PER_ROUND: Final = 256
_MOST_ROUNDS: Final = 9
_SINGLE_CALLS: Final = 200
_QUICK_SINGLE_CALLS: Final = 40
_SYNCS: Final = 100
_PAGE: Final = bytes(4_096)


@contextmanager
def _markets(folder: Path) -> Iterator[dict[str, Market]]:
    with ExitStack() as stack:
        markets = {}
        for name, build in _BUILDS.items():
            markets[name] = market = Market(folder / build, build, "unkept", SESSIONS)
            stack.callback(market.close)
        yield markets


def run(plan: Plan) -> list[Case]:
    """Measure many sessions, and then one."""
    with durable_folder() as folder, _markets(folder) as markets:
        return [_throughput(markets, plan), _latency(markets, folder, plan)]


def _throughput(markets: dict[str, Market], plan: Plan) -> Case:
    calls = _QUICK_CALLS_PER_ROUND if plan is QUICK else _CALLS_PER_ROUND
    alternatives = [
        Alternative(name, lambda count, market=market: market.load(SESSIONS, count).seconds, calls)  # type: ignore[misc]
        for name, market in markets.items()
    ]
    samples = measure(alternatives, Plan(min(plan.rounds, _MOST_ROUNDS), plan.batch_seconds))
    comparison = Comparison(subject=_DURABLE, baseline=_IN_MEMORY, at_least=0.85)
    return Case(name=f"{SESSIONS} sessions", samples=samples, comparisons=(comparison,))


def _latency(markets: dict[str, Market], folder: Path, plan: Plan) -> Case:
    calls = _QUICK_SINGLE_CALLS if plan is QUICK else _SINGLE_CALLS
    seconds: dict[str, list[float]] = {name: [] for name in (*markets, _SYNC)}
    for _ in range(min(plan.rounds, _MOST_ROUNDS)):
        for name, market in markets.items():
            seconds[name].append(market.load(1, calls).median_seconds)
        seconds[_SYNC].append(_sync_seconds(folder / "synced"))
    allowed = _SYNCS_ALLOWED * _COMMITS
    return Case(
        name="1 session",
        samples=tuple(Samples.of(name, values) for name, values in seconds.items()),
        comparisons=(Comparison(subject=_DURABLE, baseline=_IN_MEMORY),),
        differences=(Difference(subject=_DURABLE, baseline=_IN_MEMORY, unit=_SYNC, at_most=allowed),),
    )


def _sync_seconds(path: Path) -> float:
    """Median of what the disk needs to flush one more page of a file, seconds."""
    times = []
    with path.open("ab", buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(_PAGE)
            start = perf_counter()
            os.fdatasync(file.fileno())
            times.append(perf_counter() - start)
    return median(times)
