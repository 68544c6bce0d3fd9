"""An endpoint between a program and anvil that loses what it is told to lose."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from aiohttp import ClientSession, web

from tests.serving import served_posts


class Fault(Enum):
    """What happens to a request."""

    LOST = "the request never arrives"
    ANSWER_LOST = "it arrives, and its answer does not come back"


@dataclass(slots=True)
class FaultyEndpoint:
    """`faults` by JSON-RPC method; `errors` are answered in anvil's place; `seen` counts the requests. With
    `silent` all of them are lost; `block` is where contracts are read instead of the newest one.
    """

    url: str = ""
    faults: dict[str, Fault] = field(default_factory=dict)
    errors: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    silent: bool = False
    block: int | None = None


@asynccontextmanager
async def faulty_endpoint(behind: str) -> AsyncIterator[FaultyEndpoint]:
    """Serve on a free port of the loopback interface."""
    endpoint = FaultyEndpoint()

    async with ClientSession() as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            question = await request.json()
            method = question["method"]
            endpoint.seen[method] = endpoint.seen.get(method, 0) + 1
            if method in endpoint.errors:
                error = endpoint.errors[method]
                return web.json_response({"jsonrpc": "2.0", "id": question["id"], "error": error})
            fault = Fault.LOST if endpoint.silent else endpoint.faults.get(method)
            if fault is Fault.LOST:
                return _cut(request)
            if endpoint.block is not None and method == "eth_call":
                question["params"][1] = hex(endpoint.block)
            async with session.post(behind, json=question) as answer:
                body = await answer.read()
            if fault is Fault.ANSWER_LOST:
                return _cut(request)
            return web.Response(body=body, content_type="application/json")

        async with served_posts(handle) as endpoint.url:
            yield endpoint


def _cut(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
