"""HTTP services as tools."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from aioum.core.errors import ConfigError
from aioum.core.ledger import Answer
from aioum.core.problem import problem_code
from aioum.core.wire import JsonObject
from aioum_node.upstream.addresses import require_upstream_url
from aioum_node.upstream.http import HttpUpstream

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/tool", handler)
    async with TestServer(application) as server:
        yield str(server.make_url("/tool"))


async def post(
    url: str, *, arguments: JsonObject | None = None, timeout_seconds: float = 30, trusted: bool = True
) -> Answer:
    upstream = HttpUpstream(
        url,
        tool_id="tested",
        headers={"X-Key": "value"},
        connect_timeout_seconds=5,
        max_connections=4,
        max_response_bytes=1_000,
        trusted_host=urlsplit(url).hostname if trusted else None,
    )
    try:
        return await upstream.run(arguments or {}, b"{}", timeout_seconds)
    finally:
        await upstream.close()


async def test_calls_beyond_the_connections_wait_within_their_time_and_are_counted() -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        asked.set()
        await release.wait()
        return web.Response(text="late")

    async with served(slow) as url:
        upstream = HttpUpstream(
            url,
            tool_id="tested",
            headers={},
            connect_timeout_seconds=5,
            max_connections=1,
            max_response_bytes=1_000,
            trusted_host=urlsplit(url).hostname,
        )
        first = asyncio.create_task(upstream.run({}, b"{}", 30))
        await asked.wait()
        second = asyncio.create_task(upstream.run({}, b"{}", 30))
        while upstream.waiting == 0:
            await asyncio.sleep(0)
        third = await upstream.run({}, b"{}", 0.01)
        waiting = upstream.waiting
        release.set()
        answers = [await first, await second]
        await upstream.close()

    assert problem_code(third.response) == "tool-timeout"
    assert (waiting, upstream.waiting) == (1, 0)
    assert [answer.response for answer in answers] == [b"late", b"late"]


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


async def test_what_a_call_says_never_chooses_where_it_is_posted() -> None:
    async def where(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.host.partition(':')[0]} {request.raw_path}")

    arguments: JsonObject = {
        "url": "http://169.254.169.254/",
        "http": "//elsewhere/",
        "host": "elsewhere",
        "path": "../secret",
        "Host": "elsewhere",
        "\r\nHost": "elsewhere",
    }
    async with served(where) as url:
        answer = await post(url, arguments=arguments)

    assert answer.response == b"127.0.0.1 /tool"


INSIDE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",  # metadata of clouds
    "100.100.100.200",  # metadata of another
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fc00::1]",
    "[fd00:ec2::254]",  # metadata over IPv6
    "[ff02::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::1]",
    "[2001:db8::1]",
    "[fec0::1]",
]


@pytest.mark.parametrize("host", INSIDE)
async def test_address_inside_is_refused_when_the_tools_are_loaded(host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await post(f"http://{host}/", trusted=False)

    assert caught.value.code == "upstream-address-refused"


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0",
        "0x7f.1",
    ],
)
async def test_name_that_leads_inside_is_refused_when_it_is_looked_up(host: str) -> None:
    async def reached(request: web.Request) -> web.Response:
        return web.Response(text="inside")

    async with served(reached) as url:
        answer = await post(f"http://{host}:{urlsplit(url).port}/tool", trusted=False)

    assert problem_code(answer.response) == "upstream-unreachable"


async def test_host_that_the_operator_trusts_is_reached_also_inside() -> None:
    async def reached(request: web.Request) -> web.Response:
        return web.Response(text="inside")

    async with served(reached) as url:
        answer = await post(f"http://localhost:{urlsplit(url).port}/tool")

    assert answer.response == b"inside"


def test_trust_in_another_host_than_the_url_s_is_a_mistake() -> None:
    with pytest.raises(ConfigError) as caught:
        require_upstream_url("http://10.0.0.1/", tool_id="t", trusted_host="10.0.0.2")

    assert caught.value.code == "upstream-host-untrusted"


@pytest.mark.parametrize(
    "url", ["http://", "http://[::1/", "http://a:port/", "http://a b/", "http://\u00e4/"]
)
def test_text_that_is_no_url_of_a_service_is_a_mistake(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_upstream_url(url, tool_id="t", trusted_host=None)

    assert caught.value.code == "upstream-url-invalid"


async def test_answer_with_headers_over_the_limit_is_unreachable() -> None:
    async def answer_raw(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"\r\nContent-Length: 2\r\n\r\nok")
        with suppress(ConnectionError):
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer_raw, "127.0.0.1", 0) as server:
        answer = await post(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/tool")

    assert problem_code(answer.response) == "upstream-unreachable"
