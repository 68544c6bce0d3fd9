"""The limits of a running node's public port: that its settings reach the sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tests.integration.node.conftest import StartNode

DEADLINE_SECONDS = 20
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@asynccontextmanager
async def connection(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer_to(url: str, content: bytes) -> tuple[int, Any]:
    """Status and JSON of what the node says to these bytes, on a connection of their own."""
    async with connection(url) as (reader, writer), asyncio.timeout(DEADLINE_SECONDS):
        writer.write(content)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
        return int(head.split()[1]), json.loads(await reader.readexactly(length))


def code(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], answer[1]["type"].rpartition("/")[2]


async def test_slow_and_large_requests_are_cut_off(start_node: StartNode) -> None:
    limits = {"header_timeout_seconds": 0.2, "body_timeout_seconds": 0.2, "max_header_bytes": 2_048}
    async with start_node(**limits) as node:
        close = f"POST /sessions/0x{'ab' * 32}/close HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{{"
        slow_header = await answer_to(node.url, HEALTH[:-2])
        slow_body = await answer_to(node.url, close.encode())
        large_header = await answer_to(node.url, HEALTH[:-2] + b"X: " + b"x" * 3_000)

    assert code(slow_header) == code(slow_body) == (408, "request-timeout")
    assert code(large_header) == (431, "headers-too-large")


async def test_connections_are_limited_idle_ones_end_and_all_are_counted(start_node: StartNode) -> None:
    async with (
        start_node(max_connections=1, idle_timeout_seconds=0.5) as node,
        aiohttp.ClientSession() as http,
    ):
        async with connection(node.url) as (reader, writer):
            writer.write(HEALTH)
            await reader.readuntil(b"}")
            full = await answer_to(node.url, b"")
            async with asyncio.timeout(DEADLINE_SECONDS):
                assert await reader.read() == b""
        after = await answer_to(node.url, HEALTH)
        async with http.get(node.admin_url + "/metrics") as answer:
            metrics = await answer.text()

    assert code(full) == (503, "too-many-connections")
    assert after == (200, {"status": "ok"})
    assert 'aioum_refusals_total{code="too-many-connections"} 1.0' in metrics
    assert "aioum_connections " in metrics
    assert "aioum_openings_in_flight 0.0" in metrics


async def test_address_that_asks_too_often_waits_unless_a_proxy_names_other_clients(
    start_node: StartNode,
) -> None:
    rates = {"address_requests_per_second": 0.01, "address_request_burst": 2}
    async with start_node(trusted_proxies=(), **rates) as node:
        alone = [(await answer_to(node.url, HEALTH))[0] for _ in range(3)]
    async with start_node(register=False, **rates) as node:
        named = [
            await answer_to(node.url, HEALTH[:-2] + b"X-Forwarded-For: 198.51.100.%d\r\n\r\n" % (number // 2))
            for number in range(4)
        ]
        again = await answer_to(node.url, HEALTH[:-2] + b"X-Forwarded-For: 198.51.100.0\r\n\r\n")

    assert alone == [200, 200, 429]
    assert [status for status, _ in named] == [200] * 4
    assert code(again) == (429, "rate-limited")
    assert again[1]["retryAfterSeconds"] >= 1
