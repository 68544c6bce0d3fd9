"""HTTP services as tools."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from aioum.core.ledger import Answer
from aioum.core.problem import problem_code
from aioum.core.wire import JsonObject
from aioum_node.upstream.http import HttpUpstream

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/tool", handler)
    async with TestServer(application) as server:
        yield str(server.make_url("/tool"))


async def post(url: str, *, arguments: JsonObject | None = None, timeout_seconds: float = 30) -> Answer:
    upstream = HttpUpstream(
        url,
        tool_id="tested",
        headers={"X-Key": "value"},
        connect_timeout_seconds=5,
        max_connections=4,
        max_response_bytes=1_000,
    )
    try:
        return await upstream.run(arguments or {}, b"{}", timeout_seconds)
    finally:
        await upstream.close()


async def test_arguments_are_posted_as_canonical_json_and_the_body_is_the_response() -> None:
    async def echo(request: web.Request) -> web.Response:
        assert request.headers["X-Key"] == "value"
        assert request.content_type == "application/json"
        return web.Response(status=201, body=await request.read(), content_type="application/x-echo")

    async with served(echo) as url:
        answer = await post(url, arguments={"b": 1, "a": [True]})

    assert answer == Answer(b'{"a":[true],"b":1}', 200, "application/x-echo", failed=False)


@pytest.mark.parametrize("status", [302, 400, 404, 500])
async def test_answer_other_than_2xx_is_a_failed_call_and_redirects_are_not_followed(status: int) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "/tool"})

    async with served(refuse) as url:
        assert problem_code((await post(url)).response) == "tool-failed"


async def test_compressed_answer_is_measured_unpacked() -> None:
    async def bomb(request: web.Request) -> web.Response:
        return web.Response(body=gzip.compress(b"a" * 1_001), headers={"Content-Encoding": "gzip"})

    async with served(bomb) as url:
        assert problem_code((await post(url)).response) == "response-too-large"


async def test_answer_that_is_not_text_is_a_failed_call() -> None:
    async def binary(request: web.Request) -> web.Response:
        return web.Response(body=b"\x80")

    async with served(binary) as url:
        assert problem_code((await post(url)).response) == "response-not-text"


async def test_answer_that_breaks_off_is_unreachable() -> None:
    async def stop(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with served(stop) as url:
        assert problem_code((await post(url)).response) == "upstream-unreachable"


async def test_service_that_takes_too_long_is_a_timeout() -> None:
    release = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    async with served(slow) as url:
        answer = await post(url, timeout_seconds=0.05)
        release.set()

    assert problem_code(answer.response) == "tool-timeout"


async def test_service_that_does_not_listen_is_unreachable() -> None:
    answer = await post(f"http://127.0.0.1:{unused_port()}/")

    assert problem_code(answer.response) == "upstream-unreachable"


async def test_content_type_that_is_no_text_is_replaced() -> None:
    async def answer_raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/\xff\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer_raw, "127.0.0.1", 0) as server:
        answer = await post(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/tool")

    assert answer == Answer(b"ok", 200, "text/plain; charset=utf-8", failed=False)
