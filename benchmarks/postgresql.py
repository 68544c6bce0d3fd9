"""The store on PostgreSQL: steps that share a transaction against one for each; one process against two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Final

from aioum.core.ledger import Limits
from aioum_node.collector import relax_collector
from aioum_node.store.postgres.store import PostgresStore
from benchmarks.appends import Writer, open_writers
from benchmarks.folder import durable_folder
from benchmarks.measure import QUICK, Alternative, Plan, measure
from benchmarks.naive.postgres_store import NaivePostgresStore
from benchmarks.node_process import DATABASE_VARIABLE, SCHEMA_VARIABLE
from benchmarks.paid_calls import Market
from benchmarks.result import Case, Comparison
from tests.postgres import PostgresServer, running_server, server_programs

NAME = "postgresql"
OPERATION = "one call: admitted and recorded, or paid over HTTP"
PACKAGES = ("aiohttp", "asyncpg")
NOTES = (
    "Server, node and load generator share the machine; the server is durable, behind a Unix socket.",
    "`one insert for each`: the same store, every step in a transaction of its own, 8 at a time.",
    "`one commit per call`: benchmarks/naive/postgres_store.py, a pool of 10 connections.",
)

SESSIONS: Final = 256
_GROUPED: Final = "grouped"
_UNGROUPED: Final = "one insert for each"
_NAIVE: Final = "one commit per call"
_BUILDS: Final = {
    _GROUPED: "postgresql",
    _UNGROUPED: "postgresql-ungrouped",
    _NAIVE: "postgresql-naive",
}
_ONE: Final = "1 process"
_TWO: Final = "2 processes"
_STORE_CALLS: Final = {_GROUPED: 4_096, _UNGROUPED: 512, _NAIVE: 1_024}
_PATH_CALLS: Final = {_GROUPED: 1_024, _UNGROUPED: 512, _NAIVE: 1_024}
_PROCESS_CALLS: Final = 1_024
_QUICK_CALLS: Final = 256
_MOST_ROUNDS: Final = 7


@contextmanager
def _server() -> Iterator[PostgresServer]:
    programs = server_programs()
    if programs is None:
        raise RuntimeError("PostgreSQL is not installed (initdb)")
    with durable_folder() as folder:
        # The server's account has to reach its own folder.
        folder.chmod(0o711)
        with running_server(programs, folder) as server:
            yield server


def run(plan: Plan) -> list[Case]:
    """Measure the store alone, the whole path, and two processes."""
    rounds = Plan(min(plan.rounds, _MOST_ROUNDS), plan.batch_seconds)
    with _server() as server:
        return [_store(server, rounds), _path(server, rounds), _processes(server, rounds)]


def _calls(calls: int, plan: Plan) -> int:
    return min(calls, _QUICK_CALLS) if plan.rounds <= QUICK.rounds else calls


def _store(server: PostgresServer, plan: Plan) -> Case:
    relax_collector()
    with asyncio.Runner() as runner:
        stores = {
            _GROUPED: PostgresStore(server.url, Limits(), schema="grouped"),
            _UNGROUPED: PostgresStore(
                server.url, Limits(), schema="ungrouped", max_steps_per_group=1, max_groups=8
            ),
            _NAIVE: NaivePostgresStore(server.url, Limits(), schema="naive"),
        }
        alternatives = []
        for name, store in stores.items():
            runner.run(store.connect())
            writers = runner.run(open_writers(store, SESSIONS))

            def append(count: int, writers: Sequence[Writer] = writers) -> float:
                return runner.run(_together(writers, count))

            alternatives.append(Alternative(name, append, _calls(_STORE_CALLS[name], plan)))
        try:
            samples = measure(alternatives, plan)
        finally:
            for store in stores.values():
                runner.run(store.close())
    return Case(
        name=f"store alone, {SESSIONS} sessions", samples=samples, comparisons=_comparisons(at_least=5)
    )


def _comparisons(at_least: float) -> tuple[Comparison, ...]:
    return (
        Comparison(subject=_GROUPED, baseline=_UNGROUPED, at_least=at_least),
        Comparison(subject=_GROUPED, baseline=_NAIVE),
    )


async def _together(writers: Sequence[Writer], count: int) -> float:
    start = perf_counter()
    async with asyncio.TaskGroup() as group:
        for writer in writers:
            group.create_task(writer.append(count // len(writers)))
    return perf_counter() - start


def _environment(server: PostgresServer, schema: str) -> dict[str, str]:
    return {DATABASE_VARIABLE: server.url, SCHEMA_VARIABLE: schema}


def _path(server: PostgresServer, plan: Plan) -> Case:
    with durable_folder() as folder, ExitStack() as stack:
        alternatives = []
        for name, build in _BUILDS.items():
            environment = _environment(server, f"path_{build.replace('-', '_')}")
            market = Market(folder / build, build, "unkept", SESSIONS, environment=environment)
            stack.callback(market.close)

            def buy(count: int, market: Market = market) -> float:
                return market.seconds(SESSIONS, count)

            alternatives.append(Alternative(name, buy, _calls(_PATH_CALLS[name], plan)))
        samples = measure(alternatives, plan)
    return Case(
        name=f"paid calls, {SESSIONS} sessions", samples=samples, comparisons=_comparisons(at_least=1.3)
    )


def _processes(server: PostgresServer, plan: Plan) -> Case:
    half = SESSIONS // 2
    with durable_folder() as folder, ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(2))

        def market(name: str, schema: str, sessions: int, first: int) -> Market:
            environment = _environment(server, schema)
            made = Market(
                folder / name, "postgresql", "unkept", sessions, first=first, environment=environment
            )
            stack.callback(made.close)
            return made

        one = market("one", "one_process", SESSIONS, 0)
        two = [market(f"two-{first}", "two_processes", half, first) for first in (0, half)]

        def together(count: int) -> float:
            seconds: list[float] = list(threads.map(lambda each: each.seconds(half, count // 2), two))
            return max(seconds)

        calls = _calls(_PROCESS_CALLS, plan)
        samples = measure(
            [
                Alternative(_ONE, lambda count: one.seconds(SESSIONS, count), calls),
                Alternative(_TWO, together, calls),
            ],
            plan,
        )
    return Case(
        name=f"paid calls, {SESSIONS} sessions in all",
        samples=samples,
        comparisons=(Comparison(subject=_TWO, baseline=_ONE),),
    )
