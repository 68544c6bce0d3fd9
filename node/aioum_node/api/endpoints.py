"""The chain's endpoints as the node sees them, on the admin port."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web

from aioum.chain.endpoints import EndpointState
from aioum.core.canonical import canonical_bytes
from aioum.core.wire import JsonObject

ENDPOINTS_PATH = "/endpoints"


def endpoints_route(states: Callable[[], Sequence[EndpointState]]) -> web.RouteDef:
    """`GET /endpoints`: what is known of each, in the order in which they are asked; nothing secret."""

    async def answer(request: web.Request) -> web.Response:
        body: JsonObject = {"endpoints": [_shown(state) for state in states()]}
        return web.Response(
            body=canonical_bytes(body),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    return web.get(ENDPOINTS_PATH, answer)


def _shown(state: EndpointState) -> JsonObject:
    return {
        "url": state.url,
        "inUse": state.is_in_use,
        "head": state.head,
        "restingSeconds": round(state.resting_seconds),
        "lastError": state.last_error_code,
        "failures": dict(state.failures),
    }
