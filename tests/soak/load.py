"""Clients of many sessions, each of which makes one call after another with pauses, through the SDK."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field

from aioum.client import Marketplace, PaidSession
from aioum.core.errors import AioumError

_OPENING_TOGETHER = 16
_CLOSING_TOGETHER = 8
_FAILING_SHARE = 0.02
# One price for all; failures stay below what seals a session by pauses between them.
PRICE = 1_000


@dataclass(slots=True)
class Traffic:
    """What the clients saw.

    Attributes:
        seconds: how long each call took, from asking to the verified answer, retries included.
        texts: the text of each call that was answered, by whether it was charged.
        errors: calls that ended in an error, by code; their outcome is settled by recovery.
    """

    seconds: list[float] = field(default_factory=list)
    charged: list[str] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)


async def open_sessions(market: Marketplace, url: str, sessions: int, deposit: int) -> list[PaidSession]:
    """Open so many sessions."""
    gate = asyncio.Semaphore(_OPENING_TOGETHER)

    async def one() -> PaidSession:
        async with gate:
            return await market.open(url, deposit=deposit)

    return list(await asyncio.gather(*(one() for _ in range(sessions))))


async def call_until(
    sessions: list[PaidSession], deadline: float, pause_seconds: float, seed: int, traffic: Traffic
) -> None:
    """Have every session call until `deadline` (monotonic seconds), pausing `pause_seconds` in the mean."""

    async def one(number: int, session: PaidSession) -> None:
        chance = random.Random(seed * 100_003 + number)
        await asyncio.sleep(chance.random() * pause_seconds)
        made = 0
        while time.monotonic() < deadline:
            failing = " fail" if chance.random() < _FAILING_SHARE else ""
            text = f"{number} {made}{failing}"
            made += 1
            start = time.monotonic()
            try:
                result = await session.call("note", text=text)
            except AioumError as error:
                traffic.errors[error.code] = traffic.errors.get(error.code, 0) + 1
                await session.recover()
            else:
                traffic.seconds.append(time.monotonic() - start)
                (traffic.charged if result.charge else traffic.free).append(text)
            await asyncio.sleep(chance.expovariate(1 / pause_seconds))

    await asyncio.gather(*(one(number, session) for number, session in enumerate(sessions)))


async def close_sessions(sessions: list[PaidSession]) -> dict[str, int]:
    """Close all; returns how many could not be, by code."""
    gate = asyncio.Semaphore(_CLOSING_TOGETHER)
    failed: dict[str, int] = {}

    async def one(session: PaidSession) -> None:
        async with gate:
            try:
                await session.close()
            except AioumError as error:
                failed[error.code] = failed.get(error.code, 0) + 1

    await asyncio.gather(*(one(session) for session in sessions))
    return failed
