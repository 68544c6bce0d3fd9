"""A proxy in front of a node that spoils chosen answers, as networks and middle boxes do."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from aioum.core.canonical import canonical_bytes
from aioum.core.problem import PROBLEM_BASE
from tests.integration.client.scripted_operator import serving

Spoil = Callable[[web.Response], web.Response]


def gateway_error(answer: web.Response) -> web.Response:
    return web.Response(status=502, text="<html>Bad Gateway</html>")


def empty(answer: web.Response) -> web.Response:
    return web.Response(status=200)


def without_receipt(answer: web.Response) -> web.Response:
    del answer.headers["Aioum-Receipt"]
    return answer


def altered_body(answer: web.Response) -> web.Response:
    assert isinstance(answer.body, bytes)
    return web.Response(status=answer.status, body=answer.body + b" ", headers=answer.headers)


def not_text(answer: web.Response) -> web.Response:
    return web.Response(status=answer.status, body=b"\xff\xfe", headers=answer.headers)


def altered_receipt(answer: web.Response) -> web.Response:
    receipt = answer.headers["Aioum-Receipt"]
    answer.headers["Aioum-Receipt"] = receipt[:-5] + ("A" if receipt[-5] != "A" else "B") + receipt[-4:]
    return answer


def forged_refusal(code: str, status: int = 409) -> Spoil:
    def spoil(answer: web.Response) -> web.Response:
        body = canonical_bytes({"type": PROBLEM_BASE + code, "title": code, "status": status})
        return web.Response(status=status, body=body, content_type="application/problem+json")

    return spoil


class Replay:
    """Answers with what it kept from the answer before."""

    def __init__(self) -> None:
        self._kept: web.Response | None = None

    def keep(self, answer: web.Response) -> web.Response:
        self._kept = web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        return answer

    def replay(self, answer: web.Response) -> web.Response:
        assert self._kept is not None
        # A response can be sent once.
        return web.Response(status=self._kept.status, body=self._kept.body, headers=self._kept.headers)


class FaultyProxy:
    """Forwards everything; each paid call's answer goes through the next of `faults`, if there is one.

    Attributes:
        faults: `drop` (before anything of the answer), `cut` (before its body) and `truncate` (before its
            end) are done to the connection after the node answered, `unreachable` and `refuse CODE` keep the
            request from it; the rest is done to the answer.
        answered: status, receipt and body of the node's answers to paid calls, as they came.
        seen: Authorization and body of the paid calls, as they came.
        twice: send paid calls to the node twice, and answer with the second answer.
        url: where it listens, once it does.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.faults: list[Spoil | str] = []
        self.seen: list[tuple[str, bytes]] = []
        self.answered: list[tuple[int, str, bytes]] = []
        self.twice = False
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._forward)
        return app

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        authorization = request.headers.get("Authorization", "")
        paid = authorization.startswith("Payment ")
        if paid:
            self.seen.append((authorization, body))
        fault = self.faults.pop(0) if paid and self.faults else None
        if fault == "unreachable":
            return self._drop(request)
        if isinstance(fault, str) and fault.startswith("refuse "):
            return forged_refusal(fault.removeprefix("refuse "))(web.Response())
        answer = await self._ask(request, body)
        if paid and self.twice:
            answer = await self._ask(request, body)
        if paid:
            assert isinstance(answer.body, bytes)
            self.answered.append((answer.status, answer.headers.get("Aioum-Receipt", ""), answer.body))
        if fault is None:
            return answer
        if fault == "drop":
            return self._drop(request)
        if fault in ("cut", "truncate"):
            return await self._truncate(request, answer, whole_body=fault == "truncate")
        assert callable(fault)
        return fault(answer)

    async def _ask(self, request: web.Request, body: bytes) -> web.Response:
        kept = ("Authorization", "Content-Type")
        headers = {name: request.headers[name] for name in kept if name in request.headers}
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method, self.upstream + request.path_qs, headers=headers, data=body
            ) as answer,
        ):
            names = ("Content-Type", "Aioum-Receipt", "WWW-Authenticate", "Retry-After")
            return web.Response(
                status=answer.status,
                body=await answer.read(),
                headers={name: answer.headers[name] for name in names if name in answer.headers},
            )

    def _drop(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def _truncate(
        self, request: web.Request, answer: web.Response, *, whole_body: bool
    ) -> web.StreamResponse:
        assert isinstance(answer.body, bytes)
        headers = {**answer.headers, "Content-Length": str(len(answer.body) + 10)}
        stream = web.StreamResponse(status=answer.status, headers=headers)
        await stream.prepare(request)
        if whole_body:
            await stream.write(answer.body)
        return self._drop(request)


@asynccontextmanager
async def faulty_proxy(upstream: str) -> AsyncIterator[tuple[FaultyProxy, str]]:
    """A proxy in front of a node; yields it with its URL."""
    proxy = FaultyProxy(upstream)
    async with serving(proxy.app()) as proxy.url:
        yield proxy, proxy.url
