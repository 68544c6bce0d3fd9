"""Durable appends: one call admitted and recorded, both steps durable, by one writer and by many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final

from aioum.core.ledger import Admitted, Answer, CallRequest, Limits
from aioum.core.payment import Domain
from aioum.core.types import Address, Bytes32, ChannelId
from aioum_node.collector import relax_collector
from aioum_node.store.port import Store
from aioum_node.store.sqlite import SqliteStore
from benchmarks.folder import durable_folder
from benchmarks.measure import Alternative, Plan, measure
from benchmarks.naive.store import NaiveStore
from benchmarks.result import Case, Comparison
from benchmarks.sessions import funded, session_facts

NAME = "appends"
OPERATION = "admitting and recording one call, two durable steps"
PACKAGES = ()
NOTES = (
    "Every writer has a session of its own; the database lies on the disk of the checkout.",
    "`one commit per call`: plain sqlite3 with WAL and `synchronous=FULL`, as the real store has them.",
)

WRITERS: Final = 32
_ALONE: Final = "1 writer"
_TOGETHER: Final = f"{WRITERS} writers"
_NAIVE: Final = f"{WRITERS} writers, one commit per call"
_ROUND_FACTOR: Final = 5
"""A disk's answers vary more than a processor's: longer rounds."""

_PRICE: Final = 1_000
_NO_CARD: Final = Bytes32(bytes(32))
_DOMAIN: Final = Domain(31_337, Address(bytes(19) + b"\x01"))
_PARTY: Final = Address(bytes(19) + b"\x02")
_REQUEST: Final = b'{"arguments":{"text":"' + b"to be counted " * 20 + b'"},"tool":"wordcount"}'
_ANSWER: Final = Answer(b'{"characters":280,"words":60}', 200, "application/json", False)


async def open_writers(store: Store, count: int) -> list[Writer]:
    """Put so many sessions into a store."""
    writers = []
    for number in range(count):
        facts = session_facts(
            number, _DOMAIN, payer=_PARTY, payee=_PARTY, token=_PARTY, descriptor_hash=_NO_CARD
        )
        await store.open(facts, funded(facts.channel_id), 0)
        writers.append(Writer(store, facts.channel_id))
    return writers


class Writer:
    """One session's calls, one after another."""

    def __init__(self, store: Store, channel_id: ChannelId) -> None:
        self._store = store
        self._channel_id = channel_id
        self._amount = 0

    async def append(self, count: int) -> None:
        """Make so many calls."""
        for _ in range(count):
            self._amount += _PRICE
            request = CallRequest("wordcount", _REQUEST, _PRICE, self._amount, bytes(65))
            admitted = await self._store.admit(self._channel_id, request, self._amount)
            if not isinstance(admitted, Admitted):
                raise RuntimeError("the store took a new call for a repeated one")
            await self._store.record(self._channel_id, admitted.call.index, _ANSWER, self._amount)


class _Shop:
    """A store with its writers; the last one works alone."""

    def __init__(self, store: Store, writers: list[Writer]) -> None:
        self._store = store
        self._writers = writers

    @classmethod
    async def open(cls, make: Callable[[], Store]) -> _Shop:
        store = make()
        return cls(store, await open_writers(store, WRITERS + 1))

    async def alone(self, count: int) -> float:
        start = perf_counter()
        await self._writers[-1].append(count)
        return perf_counter() - start

    async def together(self, count: int) -> float:
        each, more = divmod(count, WRITERS)
        start = perf_counter()
        async with asyncio.TaskGroup() as group:
            for number, writer in enumerate(self._writers[:WRITERS]):
                group.create_task(writer.append(each + (number < more)))
        return perf_counter() - start

    async def close(self) -> None:
        await self._store.close()


def run(plan: Plan) -> list[Case]:
    """Measure one writer and many, in the real store and in the naive one."""
    # As in a node that serves.
    relax_collector()
    with durable_folder() as folder, asyncio.Runner() as runner:
        grouped = runner.run(_Shop.open(lambda: SqliteStore(folder / "grouped.sqlite3", Limits())))
        naive = runner.run(_Shop.open(lambda: NaiveStore(folder / "naive.sqlite3", Limits(), wal=True)))
        try:
            samples = measure(
                [
                    Alternative(_ALONE, lambda count: runner.run(grouped.alone(count))),
                    Alternative(_TOGETHER, lambda count: runner.run(grouped.together(count))),
                    Alternative(_NAIVE, lambda count: runner.run(naive.together(count))),
                ],
                Plan(plan.rounds, _ROUND_FACTOR * plan.batch_seconds),
            )
        finally:
            runner.run(grouped.close())
            runner.run(naive.close())
    comparisons = (
        Comparison(subject=_TOGETHER, baseline=_ALONE, at_least=8),
        Comparison(subject=_TOGETHER, baseline=_NAIVE),
    )
    return [Case(name="SQLite", samples=samples, comparisons=comparisons)]
