"""An endpoint that answers what a test says, over real HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.serving import served_posts


class RpcRefusal(Exception):
    """Answered as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: str | None = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


Script = Callable[[str, list[Any]], Any]


@asynccontextmanager
async def scripted_endpoint(script: Script) -> AsyncIterator[str]:
    """Serve on a free port; `script` gets method and parameters, and returns a result or an HTTP answer."""

    async def handle(request: web.Request) -> web.StreamResponse:
        question = await request.json()
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": question["id"]}
        try:
            result = script(question["method"], question["params"])
        except RpcRefusal as refusal:
            return web.json_response(answer | {"error": refusal.error})
        return result if isinstance(result, web.Response) else web.json_response(answer | {"result": result})

    async with served_posts(handle) as url:
        yield url
