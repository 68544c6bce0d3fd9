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
from tests.soak.nodes import Memory

_MEBIBYTE = 1 << 20
_SETTLED_IN_SECONDS = 30
"""After a start, until caches are warm."""

_LONG_ENOUGH_SECONDS = 180
"""Of a life after that. What a shorter one gains or loses is noise."""

FLAT = 1.25
"""How far a process's memory may grow from the first to the last third of its life."""


@dataclass(frozen=True, slots=True)
class Account:
    """The outcome.

    Attributes:
        calls: calls on record, all sessions; charged: those of them that were paid for.
        charges: base units, as the clients have it.
        captured: base units that the chain gave the operator.
        lost: calls that a client has an answer for and that are missing in what was anchored or never ran,
            and sessions whose anchored record or capture is another than the client's.
        duplicated: tool runs beyond the first of a call.
        interrupted: calls on record that a killed process left without an answer; they are free.
        unsettled: sessions that the chain does not have as finalized.
        p50_seconds, p99_seconds: of a call, retries included.
        growth: largest growth of a process's memory within one life, or None where none lived long enough.
        most_bytes: largest memory of a process.
    """

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
        """Whether nothing was lost, doubled or left over, and memory stayed flat."""
        flat = self.growth is None or self.growth <= FLAT
        return not (self.lost or self.duplicated or self.unsettled) and flat and self.charges == self.captured

    def lines(self) -> list[str]:
        """As it is printed."""
        growth = "unknown (no life was long enough)" if self.growth is None else f"{self.growth:.2f}x"
        return [
            f"calls on record     {self.calls}",
            f"charged             {self.charged}, {self.charges} base units, captured {self.captured}",
            f"interrupted, free   {self.interrupted}",
            f"lost                {self.lost}",
            f"duplicated          {self.duplicated}",
            f"unsettled           {self.unsettled}",
            f"p50 / p99           {self.p50_seconds * 1000:.1f} / {self.p99_seconds * 1000:.1f} ms",
            f"memory              {self.most_bytes / _MEBIBYTE:.0f} MiB at most; largest growth {growth}",
        ]


async def draw_up(
    chain: Chain, sessions: Sequence[PaidSession], traffic: Traffic, runs: Path, lives: Sequence[Memory]
) -> Account:
    """Compare everything."""
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
    return Account(
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
        growth=max((found for life in lives if (found := _growth(life)) is not None), default=None),
        most_bytes=max(size for life in lives for _, size in life.samples),
    )


def _growth(life: Memory) -> float | None:
    settled = [(age, size) for age, size in life.samples if age >= _SETTLED_IN_SECONDS]
    if not settled or settled[-1][0] - settled[0][0] < _LONG_ENOUGH_SECONDS:
        return None
    sizes = [size for _, size in settled]
    third = len(sizes) // 3
    return median(sizes[-third:]) / median(sizes[:third])
