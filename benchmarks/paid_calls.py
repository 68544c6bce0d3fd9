"""Paid calls per second, end to end over HTTP: ours against a naive build of the same path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.child import Child
from benchmarks.folder import durable_folder
from benchmarks.measure import QUICK, Alternative, Plan, measure
from benchmarks.result import Case, Comparison

NAME = "paid-calls"
OPERATION = "one paid call, from signing the voucher to the durable answer"
PACKAGES = ("aiohttp", "coincurve", "eth-account", "rfc8785")
NOTES = (
    "Node and clients are two processes; HTTP over loopback; no chain: the sessions are put into the store.",
    "A session makes one call at a time (PROTOCOL 3.1); every 16th is followed by a signed statement.",
)

SESSIONS: Final = (1, 32, 256)
_CALLS_PER_ROUND: Final = {1: 75, 32: 384, 256: 768}
_MOST_ROUNDS: Final = 7
_QUICK_CALLS_PER_ROUND: Final = {1: 20, 32: 96, 256: 256}
_MORE_OF_OURS: Final = 3
"""The faster one makes more calls, so that its rounds are not over at once."""
_AIOUM: Final = "aioum"
_NAIVE: Final = "naive client and node"
_SAME_CLIENT: Final = "naive node, same client"
_NAIVE_WAL: Final = "naive client and node, both with WAL"
_SAME_CLIENT_WAL: Final = "naive node with WAL, same client"
# Alternative → build of the node, build of the client.
_PAIRS: Final = {
    _AIOUM: ("aioum", "aioum"),
    _NAIVE: ("naive", "naive"),
    _SAME_CLIENT: ("naive", "aioum"),
    _NAIVE_WAL: ("naive-wal", "naive-wal"),
    _SAME_CLIENT_WAL: ("naive-wal", "aioum"),
}


@dataclass(frozen=True, slots=True)
class Load:
    """How long calls took.

    Attributes:
        seconds: all of them together.
        median_seconds: one of them.
    """

    seconds: float
    median_seconds: float


class Market:
    """One node with its clients."""

    def __init__(
        self,
        folder: Path,
        node_build: str,
        client_build: str,
        sessions: int,
        *,
        first: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start both processes.

        Args:
            folder: made here; both keep their databases in it.
            node_build: a name in `benchmarks.node_process`.
            client_build: a name in `benchmarks.client_builds`.
            sessions: how many there are at most.
            first: the number of the first of them.
            environment: of the processes, added to this one's.
        """
        folder.mkdir()
        added = environment or {}
        with ExitStack() as children:
            node = Child(
                "benchmarks.node_process", node_build, str(folder), str(first + sessions), environment=added
            )
            children.callback(node.close)
            url = node.read()
            self._load = Child(
                *("benchmarks.load_process", client_build, str(folder), url, str(sessions), str(first)),
                environment=added,
            )
            children.callback(self._load.close)
            self._load.read()
            self._children = children.pop_all()

    def load(self, sessions: int, calls: int) -> Load:
        """Have so many sessions make so many calls in all."""
        return Load(*map(float, self._load.ask(f"{sessions} {calls}").split()))

    def seconds(self, sessions: int, calls: int) -> float:
        """`load`, where only the time in all counts."""
        return self.load(sessions, calls).seconds

    def close(self) -> None:
        """End both processes."""
        self._children.close()


@contextmanager
def _markets(folder: Path) -> Iterator[dict[str, Market]]:
    with ExitStack() as stack:
        markets = {}
        for number, (name, (node_build, client_build)) in enumerate(_PAIRS.items()):
            markets[name] = market = Market(folder / str(number), node_build, client_build, max(SESSIONS))
            stack.callback(market.close)
        yield markets


def run(plan: Plan) -> list[Case]:
    """Measure at each number of sessions."""
    calls = _QUICK_CALLS_PER_ROUND if plan is QUICK else _CALLS_PER_ROUND
    with durable_folder() as folder, _markets(folder) as markets:
        return [_case(markets, sessions, calls[sessions], plan) for sessions in SESSIONS]


def _case(markets: dict[str, Market], sessions: int, calls: int, plan: Plan) -> Case:
    alternatives = [
        Alternative(name, partial(market.seconds, sessions), calls * (_MORE_OF_OURS if name == _AIOUM else 1))
        for name, market in markets.items()
    ]
    samples = measure(alternatives, Plan(min(plan.rounds, _MOST_ROUNDS), plan.batch_seconds))
    most = sessions == max(SESSIONS)
    return Case(name=_label(sessions), samples=samples, comparisons=_comparisons(most))


def _label(sessions: int) -> str:
    return "1 session" if sessions == 1 else f"{sessions} sessions"


def _comparisons(most: bool) -> tuple[Comparison, ...]:
    return (
        Comparison(subject=_AIOUM, baseline=_NAIVE, at_least=4 if most else None),
        Comparison(subject=_AIOUM, baseline=_SAME_CLIENT, at_least=3 if most else None),
        Comparison(subject=_AIOUM, baseline=_NAIVE_WAL),
        Comparison(subject=_AIOUM, baseline=_SAME_CLIENT_WAL),
    )
