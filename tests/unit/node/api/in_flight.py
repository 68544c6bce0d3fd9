"""Tools that run together, and signed sessions whose calls are sent when a test wants them to be."""

from __future__ import annotations

import asyncio
from typing import Any

from aioum.core.hextext import to_hex
from aioum.core.ledger import SessionState
from aioum.core.transcript import Entry, canonical_request, transcript_root
from aioum_node.tools import ToolError, tool
from tests.pens import Pen
from tests.unit.node.api.shop import Reply, Shop, until

PRICE = 1_000
PATIENT_MS = 60_000
"""A wait that no test outlasts: who is answered earlier was woken."""


class Meeting:
    """Runs of a tool that wait for each other: with fewer than `size` at the same time, none ever ends."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.came: list[str] = []
        self.complete = asyncio.Event()

    async def join(self, text: str) -> None:
        self.came.append(text)
        if len(self.came) == self.size:
            self.complete.set()
        await self.complete.wait()


meetings: list[Meeting] = []


@tool(price=PRICE)
async def meet(text: str) -> str:
    """Answers once everybody has come; a text that begins with `no` fails then."""
    await meetings[-1].join(text)
    if text.startswith("no"):
        raise ToolError(text)
    return text.upper()


@tool(price=PRICE)
async def note(text: str) -> str:
    meetings[-1].came.append(text)
    return text.upper()


FUNCTIONS = (meet, note)


def meeting_of(size: int) -> Meeting:
    meetings.append(Meeting(size))
    return meetings[-1]


class Session:
    """A signed session whose calls are sent when a test wants them to be."""

    def __init__(self, shop: Shop, pen: Pen) -> None:
        self._shop = shop
        self._pen = pen
        self.texts: list[str] = []
        self.calls: list[Any] = []

    @classmethod
    async def opened(cls, shop: Shop, **how: Any) -> Session:
        return cls(shop, await shop.open_signed(**how))

    @property
    def pen(self) -> Pen:
        return self._pen

    def sign(self, *texts: str, tool_id: str = "meet", seat: Pen | None = None) -> None:
        """The next calls, each on the one before it."""
        for text in texts:
            arguments: Any = {"text": text}
            request = canonical_request(tool_id, arguments).encode()
            cursor = len(self.calls)
            envelope = (seat or self._pen).sign(request, cursor)
            self.calls.append((cursor, tool_id, arguments, envelope))
            self.texts.append(text)

    def send(self, index: int, amount: int | None = None, *, shop: Shop | None = None) -> asyncio.Task[Reply]:
        """Send a call; `shop` instead of the one that the session was opened in."""
        cursor, tool_id, arguments, envelope = self.calls[index]
        money = (index + 1) * PRICE if amount is None else amount
        return asyncio.create_task(
            (shop or self._shop).ask(self._pen, cursor, money, tool_id, arguments, envelope=envelope)
        )

    async def state(self) -> SessionState:
        stored = await self._shop.store.session(self._pen.channel_id)
        assert stored is not None
        return stored.state

    def root(self, replies: list[Reply]) -> str:
        """Of the client's own transcript over these answers."""
        entries = [
            Entry(index, call[1], canonical_request(call[1], call[2]), reply.body.decode())
            for index, (call, reply) in enumerate(zip(self.calls, replies, strict=False))
        ]
        return to_hex(transcript_root(entries))


def charges(replies: list[Reply]) -> list[tuple[int, int]]:
    return [(reply.receipt.receipt.index, reply.receipt.receipt.charge) for reply in replies]


async def waits(shop: Shop, count: int) -> None:
    await until(lambda: shop.edge.calls.waiting == count)


async def statement(shop: Shop, session: Session) -> Any:
    return (await shop.read(session.pen.channel_id, "/statement")).json
