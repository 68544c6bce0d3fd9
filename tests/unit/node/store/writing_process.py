"""Writes to a store until it is killed; says on stdout, one line a step, what was acknowledged."""

import asyncio
import os
import sys
from pathlib import Path

from aioum.core.errors import Refused
from aioum.core.ledger import Admitted, Limits
from aioum_node.interrupted_calls import recover_interrupted
from aioum_node.store.sqlite import SqliteStore
from tests.unit.node.store.samples import NOW_MS, PRICE, answer, channel, facts, opened, request


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def client(store: SqliteStore, number: int) -> None:
    stored = await store.open(facts(number), opened(number), NOW_MS)
    say("opened", number)
    amount = stored.state.accepted
    while True:
        amount = max(amount, stored.state.spent) + PRICE
        step = await store.admit(channel(number), request(amount, text=f"{number}:{amount}"), NOW_MS)
        if not isinstance(step, Admitted):
            raise Refused("a new amount is a new call", code="request-conflict")
        index = step.call.index
        say("admitted", number, index)
        recorded = await store.record(
            channel(number), index, answer(f"{amount}" * 50, failed=amount % 70 == 0), NOW_MS
        )
        say("recorded", number, index)
        assert recorded.won


async def main(path: Path, clients: int) -> None:
    store = SqliteStore(path, Limits(max_unpaid_calls=1_000_000))
    await recover_interrupted(store, NOW_MS)
    async with asyncio.TaskGroup() as group:
        for number in range(1, clients + 1):
            group.create_task(client(store, number))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
