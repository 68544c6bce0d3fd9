"""A replica in front of anvil that is some blocks behind, whatever it is asked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientSession, web

from tests.serving import served_posts

_BLOCK_POSITION = {"eth_call": 1, "eth_getBalance": 1, "eth_getCode": 1, "eth_getTransactionCount": 1}


@asynccontextmanager
async def lagging_replica(behind: str, lag: int, seen: dict[str, int] | None = None) -> AsyncIterator[str]:
    """Serve on a free port; `seen` counts the requests by method."""
    counts = {} if seen is None else seen
    async with ClientSession() as session:

        async def ask(method: str, *params: Any) -> dict[str, Any]:
            question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
            async with session.post(behind, json=question) as response:
                answer: dict[str, Any] = await response.json()
                return answer

        async def answer_to(method: str, params: list[Any]) -> dict[str, Any]:
            head = int((await ask("eth_blockNumber"))["result"], 16) - lag
            if method == "eth_blockNumber":
                return {"result": hex(head)}
            if method == "eth_getTransactionReceipt":
                answer = await ask(method, *params)
                mined = answer.get("result")
                return {"result": None} if mined and int(mined["blockNumber"], 16) > head else answer
            if method == "eth_estimateGas":
                return await ask(method, params[0], hex(head))
            position = 0 if method == "eth_getBlockByNumber" else _BLOCK_POSITION.get(method)
            if position is not None:
                named = params[position]
                if named.startswith("0x") and int(named, 16) > head:
                    missing = {"error": {"code": -32000, "message": "header not found"}}
                    return {"result": None} if position == 0 else missing
                if not named.startswith("0x"):
                    params[position] = hex(head)
            return await ask(method, *params)

        async def handle(request: web.Request) -> web.Response:
            question = await request.json()
            method = question["method"]
            counts[method] = counts.get(method, 0) + 1
            answer = await answer_to(method, question["params"])
            return web.json_response({"jsonrpc": "2.0", **answer, "id": question["id"]})

        async with served_posts(handle) as url:
            yield url
