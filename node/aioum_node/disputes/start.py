"""The dispute loop of a node, told apart from the rest of it by what it reports to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

from prometheus_client import CollectorRegistry

from aioum.chain.client import Chain
from aioum.chain.sender import Sender
from aioum_node.disputes.loop import DisputeLoop
from aioum_node.disputes.metrics import DisputeMetrics
from aioum_node.loops import LoopObserver
from aioum_node.readiness import Readiness
from aioum_node.settings import Settings
from aioum_node.store.port import Store

CHALLENGES: Final = "challenges"
"""Names the readiness condition that no challenge is unanswered for more than half of its time."""

Work = Callable[[], Coroutine[None, None, None]]


def make_dispute_loop(
    settings: Settings,
    *,
    store: Store,
    chain: Chain,
    sender: Sender,
    now_ms: Callable[[], int],
    readiness: Readiness,
    registry: CollectorRegistry,
    rounds: LoopObserver,
) -> DisputeLoop:
    """The loop, with its metrics and its readiness condition.

    A node whose challenges stay unanswered takes no more calls: what it earned is about to be lost, and what
    it will earn would go the same way.
    """

    def note_late(is_late: bool) -> None:
        if is_late:
            readiness.unmet(CHALLENGES)
        else:
            readiness.met(CHALLENGES)

    readiness.met(CHALLENGES)
    metrics = DisputeMetrics(registry)
    loop = DisputeLoop(
        store=store,
        chain=chain,
        sender=sender,
        confirmations=settings.confirmations,
        interval_seconds=settings.dispute_interval_seconds,
        now_ms=now_ms,
        observer=metrics,
        on_late=note_late,
        rounds=rounds,
    )
    metrics.watch(loop.book)
    return loop


def together(*works: Work) -> Work:
    """Several works as one: while this process may do them, all run; the failure of one ends all."""

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work())

    return run
