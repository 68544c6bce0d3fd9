"""The transport against a real server on this machine, and what counts as a node's URL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from aioum.client.http import HttpAnswer, HttpTransport, node_base_url
from aioum.core.errors import InvalidInput, OutcomeUnknown, PolicyRefused


@asynccontextmanager
async def transport_to(app: web.Application) -> AsyncIterator[tuple[HttpTransport, str]]:
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    transport = HttpTransport(connect_timeout_seconds=5)
    try:
        yield transport, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await transport.aclose()
        await runner.cleanup()


async def get(
    transport: HttpTransport, url: str, *, max_bytes: int = 100, timeout_seconds: float = 5
) -> HttpAnswer:
    return await transport.request(
        "GET", url, headers={}, body=None, max_bytes=max_bytes, timeout_seconds=timeout_seconds
    )


def app_with(handler: object) -> web.Application:
    app = web.Application()
    app.router.add_get("/", handler)  # type: ignore[arg-type]
    return app


async def test_an_answer_comes_back_whole() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=418, body=b"x" * 100, headers={"X-One": "1"})

    async with transport_to(app_with(handler)) as (transport, url):
        answer = await get(transport, url)
        assert (answer.status, answer.body, answer.headers["x-one"]) == (418, b"x" * 100, "1")


async def test_an_answer_over_the_limit_is_not_read() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 101)

    async with transport_to(app_with(handler)) as (transport, url):
        with pytest.raises(OutcomeUnknown) as caught:
            await get(transport, url)
        assert caught.value.code == "answer-too-large"


async def test_redirects_are_answers_and_not_followed() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})

    async with transport_to(app_with(handler)) as (transport, url):
        assert (await get(transport, url)).status == 302


async def test_silence_and_broken_answers_are_unknown_outcomes() -> None:
    release = asyncio.Event()

    async def silent(request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "50"})
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.close()
        return response

    app = app_with(silent)
    app.router.add_get("/broken", broken)
    async with transport_to(app) as (transport, url):
        with pytest.raises(OutcomeUnknown) as caught:
            await get(transport, url, timeout_seconds=0.05)
        assert caught.value.code == "node-timeout"
        release.set()
        with pytest.raises(OutcomeUnknown) as caught:
            await get(transport, url + "/broken")
        assert caught.value.code == "answer-truncated"


async def test_a_node_that_does_not_listen_is_unreachable(unused_tcp_port: int) -> None:
    transport = HttpTransport(connect_timeout_seconds=5)
    with pytest.raises(OutcomeUnknown) as caught:
        await get(transport, f"http://127.0.0.1:{unused_tcp_port}")
    assert caught.value.code == "node-unreachable"
    await transport.aclose()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://node.example", "https://node.example"),
        ("https://node.example/", "https://node.example"),
        ("https://node.example/paid/.well-known/aioum.json", "https://node.example/paid"),
        ("http://127.0.0.1:8402", "http://127.0.0.1:8402"),
        ("http://localhost:1", "http://localhost:1"),
        ("http://[::1]:8402/", "http://[::1]:8402"),
    ],
)
def test_a_nodes_url_is_reduced_to_its_base(text: str, expected: str) -> None:
    assert node_base_url(text, allow_plain_http=False) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "node.example", "ftp://node.example", "https://", "https://user@node.example",
        "https://node.example?x=1", "https://node.example#x", "https://node.example:port",
        "https://node .example", "https://" + "x" * 3_000,
    ],
)  # fmt: skip
def test_what_is_no_url_of_a_node_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        node_base_url(text, allow_plain_http=True)
    assert caught.value.code == "node-url-invalid"


@pytest.mark.parametrize("host", ["node.example", "169.254.169.254", "10.0.0.1"])
def test_plain_http_beyond_this_machine_is_refused_unless_allowed(host: str) -> None:
    with pytest.raises(PolicyRefused) as caught:
        node_base_url(f"http://{host}", allow_plain_http=False)
    assert caught.value.code == "plain-http-refused"
    assert node_base_url(f"http://{host}", allow_plain_http=True) == f"http://{host}"
