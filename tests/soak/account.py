"""What is left when the load is over: what the chain, the clients and the tool say must agree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from aioum.chain.client import Chain
from aioum.client import PaidSession
from tests.soak.load import Traffic
from tests.soak.nodes import Memory, NodeProcess

_MEBIBYTE = 1 << 20
_SETTLED_IN_SECONDS = 30
"""After a start, until caches are warm."""

_LONG_ENOUGH_SECONDS = 180
"""Of a life after that. What a shorter one gains or loses is noise."""

JUDGED_FROM_SECONDS = 600
"""Length of a run from which on one life is long enough: see `kill_at_random`."""

FLAT = 1.15
"""How far a process's memory may grow from the first to the last third of its life."""


@dataclass(frozen=True, slots=True)
class Account:
    """The outcome.

    Attributes:
        seconds: how long there were calls.
        kills: of each process.
        calls: calls on record, all sessions; charged: those of them that were paid for.
        charges: base units, as the clients have it.
        captured: base units that the chain gave the operator.
        lost: calls that a client has an answer for and that are missing in what was anchored or never ran,
            and sessions whose anchored record or capture is another than the client's.
        duplicated: tool runs beyond the first of a call.
        interrupted: calls on record that a killed process left without an answer; they are free.
        unsettled: sessions that the chain does not have as finalized.
        p50_seconds, p99_seconds: of a call, retries included.
        growth: largest growth of a process's memory within one life, or None where none lived long enough,
            which a run of `JUDGED_FROM_SECONDS` must not leave open.
        most_bytes: largest memory of a process that serves.
    """

    seconds: float
    kills: tuple[int, ...]
    calls: int
    charged: int
    charges: int
    captured: int
    lost: int
    duplicated: int
    interrupted: int
    unsettled: int
    p50_seconds: float
    p99_seconds: float
    growth: float | None
    most_bytes: int

    @property
    def sound(self) -> bool:
        """Whether nothing was lost, doubled or left over, and memory stayed flat, where that can be told."""
        flat = self.seconds < JUDGED_FROM_SECONDS if self.growth is None else self.growth <= FLAT
        return not (self.lost or self.duplicated or self.unsettled) and flat and self.charges == self.captured

    def lines(self) -> list[str]:
        """As it is printed."""
        each = ", ".join(map(str, self.kills))
        return [
            f"kills               {sum(self.kills)} ({each}) in {self.seconds:g} s",
            f"calls on record     {self.calls}",
            f"charged             {self.charged}, {self.charges} base units, captured {self.captured}",
            f"interrupted, free   {self.interrupted}",
            f"lost                {self.lost}",
            f"duplicated          {self.duplicated}",
            f"unsettled           {self.unsettled}",
            f"p50 / p99           {self.p50_seconds * 1000:.1f} / {self.p99_seconds * 1000:.1f} ms",
            f"memory              {self.most_bytes / _MEBIBYTE:.0f} MiB at most; {self._growth_text()}",
        ]

    def _growth_text(self) -> str:
        if self.growth is not None:
            return f"largest growth {self.growth:.2f}x of {FLAT:g}x allowed"
        if self.seconds < JUDGED_FROM_SECONDS:
            return f"growth not told, for that the run has to last {JUDGED_FROM_SECONDS} s"
        return "growth NOT TOLD, no life was long enough"


async def draw_up(
    chain: Chain,
    sessions: Sequence[PaidSession],
    traffic: Traffic,
    runs: Path,
    nodes: Sequence[NodeProcess],
    seconds: float,
) -> Account:
    """Compare everything.

    Args:
        chain: what it says is final.
        sessions: closed.
        traffic: what their clients saw.
        runs: the file with a line for each run of the tool.
        nodes: the processes that served them.
        seconds: how long there were calls.
    """
    ran = Counter(runs.read_text(encoding="utf-8").splitlines())
    lost = sum(ran[text] == 0 for text in traffic.charged)
    calls = charged = interrupted = unsettled = captured = 0
    for session in sessions:
        anchored = await chain.session(session.channel_id)
        if anchored is None or not anchored.is_finalized:
            unsettled += 1
            continue
        captured += anchored.settled
        same = (anchored.root, anchored.call_count) == (session.root, len(session.calls))
        lost += not same or anchored.settled != session.spent
        for call, result in zip(session.calls, session.results, strict=True):
            calls += 1
            charged += result.charge > 0
            interrupted += result.failure == "interrupted"
            if result.charge:
                lost += ran[json.loads(call.request)["arguments"]["text"]] == 0
    percentiles = quantiles(traffic.seconds, n=100)
    lives = [life for node in nodes for life in node.lives]
    return Account(
        seconds=seconds,
        kills=tuple(len(node.lives) - 1 for node in nodes),
        calls=calls,
        charged=charged,
        charges=sum(session.spent for session in sessions),
        captured=captured,
        lost=lost,
        duplicated=sum(count - 1 for count in ran.values()),
        interrupted=interrupted,
        unsettled=unsettled,
        p50_seconds=percentiles[49],
        p99_seconds=percentiles[98],
        growth=max((found for life in lives if (found := growth(life)) is not None), default=None),
        most_bytes=max(size for life in lives for _, size in life.samples),
    )


def growth(life: Memory) -> float | None:
    """Memory in the last third of a life over that in the first, medians; None where it was too short."""
    settled = [(age, size) for age, size in life.samples if age >= _SETTLED_IN_SECONDS]
    if not settled or settled[-1][0] - settled[0][0] < _LONG_ENOUGH_SECONDS:
        return None
    sizes = [size for _, size in settled]
    third = len(sizes) // 3
    return median(sizes[-third:]) / median(sizes[:third])
