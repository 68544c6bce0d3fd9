"""The application: public routes with their limits, and the admin port's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError, Refused
from aioum.core.hextext import address_text, bytes32
from aioum.core.types import Address
from aioum.core.wire import JsonObject
from aioum_node.api.log import LogRoutes
from aioum_node.api.openapi import OPENAPI_PATH, openapi_bytes
from aioum_node.api.problems import refusal, refused_read
from aioum_node.api.sessions import SessionRoutes
from aioum_node.api.tools import ToolRoutes
from aioum_node.cards import Cards
from aioum_node.metrics import NodeMetrics
from aioum_node.readiness import Readiness

_log = structlog.get_logger(__name__)
MAX_HEADER_BYTES = 32_768
"""One header field: the largest credential in base64 fits."""

_CACHED_FOR_EVER = "public, max-age=31536000, immutable"
_BROKE: Final = "request-broke"
_HTTP_CODES = {404: "not-found", 405: "method-not-allowed", 413: "request-too-large"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServiceRoutes:
    """What a node says of itself."""

    def __init__(
        self, *, cards: Cards, chain_id: int, service_registry: Address, service_id: int, readiness: Readiness
    ) -> None:
        self._cards = cards
        self._readiness = readiness
        head = canonical_bytes(
            {
                "chainId": chain_id,
                "serviceId": str(service_id),
                "serviceRegistry": address_text(service_registry),
            }
        )
        # The card's canonical bytes go in as they are: they were hashed, and are not encoded again.
        self._description = b'{"card":' + cards.current.canonical + b"," + head[1:]
        self._openapi = openapi_bytes()

    async def describe(self, request: web.Request) -> web.Response:
        """`GET /.well-known/aioum.json`."""
        return _json(self._description, cache="no-cache")

    async def openapi(self, request: web.Request) -> web.Response:
        """`GET /openapi.json`."""
        return _json(self._openapi, cache="no-cache")

    async def card(self, request: web.Request) -> web.Response:
        """`GET /cards/{descriptorHash}`."""
        offer = await self._cards.offer(bytes32(request.match_info["descriptor_hash"]))
        return _json(offer.canonical, cache=_CACHED_FOR_EVER)

    async def health(self, request: web.Request) -> web.Response:
        """`GET /healthz`."""
        return _json(canonical_bytes({"status": "ok"}), cache="no-store")

    async def ready(self, request: web.Request) -> web.Response:
        """`GET /readyz`."""
        missing = self._readiness.missing()
        body: JsonObject = {"missing": list(missing), "ready": not missing}
        return _json(canonical_bytes(body), cache="no-store", status=503 if missing else 200)


def public_application(
    service: ServiceRoutes,
    tools: ToolRoutes,
    sessions: SessionRoutes,
    log: LogRoutes,
    *,
    refused: Callable[[str], None],
    max_request_bytes: int,
) -> web.Application:
    """The public port's application. Args: refused: told the reason code of each refusal."""
    application = web.Application(middlewares=[_problems(refused)], client_max_size=max_request_bytes)
    application.add_routes(
        [
            web.post("/tools/{tool_id}", tools.post),
            web.get("/.well-known/aioum.json", service.describe),
            web.get("/cards/{descriptor_hash}", service.card),
            web.get("/sessions/{channel_id}", sessions.session),
            web.get("/sessions/{channel_id}/calls", sessions.calls),
            web.get("/sessions/{channel_id}/statement", sessions.statement),
            web.post("/sessions/{channel_id}/close", sessions.close),
            web.get("/log/checkpoint", log.checkpoint),
            # Also a path with a line break: what is wrong with it, the handler says.
            web.get(r"/log/tile/{path:[\s\S]+}", log.tile),
            web.get("/log/proof/{channel_id}", log.proof),
            web.get(OPENAPI_PATH, service.openapi),
            web.get("/healthz", service.health),
            web.get("/readyz", service.ready),
        ]
    )
    return application


def admin_application(service: ServiceRoutes, metrics: NodeMetrics) -> web.Application:
    """The admin port's application: nothing here is for clients."""

    async def exposition(request: web.Request) -> web.Response:
        return web.Response(
            body=metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    application = web.Application(middlewares=[_problems(metrics.refused)])
    application.add_routes(
        [
            web.get("/metrics", exposition),
            web.get("/healthz", service.health),
            web.get("/readyz", service.ready),
        ]
    )
    return application


def _problems(refused: Callable[[str], None]) -> Middleware:
    """Whatever goes wrong is a problem document, and counted; what broke inside never leaves."""

    @web.middleware
    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException as error:
            code = _HTTP_CODES.get(error.status)
            if code is None:
                raise
            refused(code)
            answer = refusal(Refused(error.reason, code=code), error.status, retry_after_seconds=1)
            if isinstance(error, web.HTTPMethodNotAllowed):
                answer.headers["Allow"] = error.headers["Allow"]
            return answer
        except AioumError as error:
            refused(error.code)
            return refused_read(request, error)
        except Exception as error:
            refused(_BROKE)
            _log.error(_BROKE, path=request.path, exc_info=error)
            return refusal(AioumError("broken"), 500, retry_after_seconds=1)

    return answered


def _json(body: bytes, *, cache: str, status: int = 200) -> web.Response:
    headers = {"Content-Type": "application/json", "Cache-Control": cache}
    return web.Response(status=status, body=body, headers=headers)
