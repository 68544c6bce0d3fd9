"""The tools that the tests of the edge buy."""

import asyncio

from aioum_node.tools import ToolError, tool

PRICE = 1_000
ran: list[str] = []
gates: list[asyncio.Event] = []


@tool(price=PRICE)
def shout(text: str) -> str:
    ran.append(text)
    return text.upper()


@tool(price=PRICE)
async def measure(text: str) -> dict[str, int]:
    return {"length": len(text)}


@tool(price=PRICE)
async def fail(why: str = "no such document") -> str:
    raise ToolError(why)


@tool(price=PRICE)
async def wait(text: str = "") -> str:
    ran.append("wait")
    await gates[-1].wait()
    return "waited"


@tool(price=0)
async def gift() -> str:
    return "free"


@tool(price=PRICE)
async def give_up() -> str:
    """Ends as a library does whose own task was cancelled."""
    raise asyncio.CancelledError


@tool(price=PRICE)
def exhausted() -> str:
    return str(next(iter(())))


FUNCTIONS = (shout, measure, fail, wait, gift, give_up, exhausted)
