"""The public port's limits, over real sockets."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from aioum.core.errors import AioumError
from aioum_node.api.bodies import read_body
from aioum_node.api.problems import refusal, status_of
from aioum_node.limits.addresses import ProxyTrust
from aioum_node.limits.connections import ConnectionLimits, Gate
from aioum_node.limits.rates import Rate, TokenBuckets
from aioum_node.limits.requests import client_of, request_limits
from aioum_node.serving import ServingTimes, serving

LIMITS = ConnectionLimits(
    max_connections=100,
    max_connections_per_address=100,
    max_header_bytes=4_096,
    header_timeout_seconds=60,
    write_timeout_seconds=60,
)
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
NO_RATE = Rate(1_000, 1_000)
DEADLINE_SECONDS = 20


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        return str(json.loads(self.body)["type"]).removeprefix("https://aioum.org/problems/")


@dataclass
class Caller:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, content: bytes) -> None:
        self.writer.write(content)
        await self.writer.drain()

    async def answer(self) -> Answer:
        async with asyncio.timeout(DEADLINE_SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Answer(int(head[0].split()[1]), headers, body)

    async def get(self, *headers: str) -> Answer:
        lines = "".join(f"{line}\r\n" for line in headers)
        await self.send(f"GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
        return await self.answer()

    async def ended(self) -> bytes:
        """What came until the node closed the connection."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


@dataclass
class Port:
    """A running port."""

    number: int
    gate: Gate
    handled: asyncio.Event
    refusals: list[str]
    callers: list[Caller] = field(default_factory=list)

    async def connect(self) -> Caller:
        caller = Caller(*await asyncio.open_connection("127.0.0.1", self.number))
        self.callers.append(caller)
        return caller

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not condition():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def port(
    *,
    rate: Rate = NO_RATE,
    proxies: Sequence[str] = (),
    idle_seconds: float = 60,
    body_seconds: float = 60,
    **changes: Any,
) -> AsyncIterator[Port]:
    """The limits of a node in front of an application that says whom it counts a request by."""
    refusals: list[str] = []
    trust = ProxyTrust(proxies, "x-forwarded-for")
    limits = dataclasses.replace(LIMITS, **changes)
    gate = Gate(limits, trusts=trust.trusts, refused=refusals.append, retry_after_seconds=2)
    released = asyncio.Event()

    async def root(request: web.Request) -> web.Response:
        return web.Response(text=str(client_of(request)))

    async def body(request: web.Request) -> web.Response:
        try:
            return web.Response(body=await read_body(request, body_seconds))
        except AioumError as error:
            return refusal(error, status_of(error, signature_status=402), retry_after_seconds=2)

    async def large(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * 30_000_000)

    async def held(request: web.Request) -> web.Response:
        await released.wait()
        return web.Response()

    addresses = TokenBuckets(rate, max_entries=100, monotonic=asyncio.get_running_loop().time)
    application = web.Application(
        middlewares=[request_limits(gate, trust, addresses, refused=refusals.append)], client_max_size=10_000
    )
    application.add_routes(
        [
            web.get("/", root),
            web.post("/", root),
            web.post("/body", body),
            web.get("/large", large),
            web.get("/held", held),
        ]
    )
    listening = socket.create_server(("127.0.0.1", 0))
    async with serving(application, listening, ServingTimes(idle_seconds, 1), gate):
        running = Port(listening.getsockname()[1], gate, released, refusals)
        try:
            yield running
        finally:
            released.set()
            for caller in running.callers:
                caller.writer.transport.abort()
    await running.until(lambda: gate.connections == 0)
    assert len(gate.shares) == 0
    assert gate.parting == 0


async def test_connections_over_the_limit_are_told_to_come_again_and_a_free_place_is_given() -> None:
    async with port(max_connections=2) as node:
        first, second, third = [await node.connect() for _ in range(3)]

        assert [(await caller.get()).status for caller in (first, second)] == [200, 200]
        full = await third.answer()
        assert (full.status, full.code, full.headers["retry-after"]) == (503, "too-many-connections", "2")
        assert await third.ended() == b""
        first.writer.close()
        await node.until(lambda: node.gate.connections == 1)
        assert (await (await node.connect()).get()).status == 200
    assert node.refusals == ["too-many-connections"]


async def test_one_address_has_a_share_of_the_connections_and_a_proxy_has_them_for_many() -> None:
    async with port(max_connections_per_address=1) as node:
        first, second = await node.connect(), await node.connect()
        refused = await second.answer()
        assert (await first.get()).status == 200
    async with port(max_connections_per_address=1, proxies=("127.0.0.1",)) as behind:
        statuses = [(await (await behind.connect()).get()).status for _ in range(5)]

    assert (refused.status, refused.code) == (429, "too-many-connections")
    assert "retry-after" in refused.headers
    assert statuses == [200] * 5


async def test_answer_comes_through_to_a_client_that_sends_on_while_it_is_turned_away() -> None:
    async with port(max_connections=1) as node:
        await (await node.connect()).get()
        late = await node.connect()
        await late.send(GET + b"x" * 100_000)

        assert (await late.answer()).status == 503


async def test_requests_over_an_address_s_rate_are_refused_with_a_time() -> None:
    async with port(rate=Rate(0.1, 3)) as node:
        caller, other = await node.connect(), await node.connect()
        answers = [await caller.get() for _ in range(3)] + [await other.get()]

    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].code == "rate-limited"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 10
    assert node.refusals == ["rate-limited"]


async def test_rate_counts_the_client_that_a_trusted_proxy_names_and_no_stranger_s_word() -> None:
    async with port(rate=Rate(0.1, 2), proxies=("127.0.0.0/8",)) as node:
        caller = await node.connect()
        one = [await caller.get(f"X-Forwarded-For: 9.9.9.{n}, 198.51.100.1") for n in range(3)]
        another = await caller.get("X-Forwarded-For: 198.51.100.2")
        its_own = [await caller.get() for _ in range(5)]
    async with port(rate=Rate(0.1, 2)) as open_node:
        liar = await open_node.connect()
        lies = [await liar.get(f"X-Forwarded-For: 198.51.100.{n}") for n in range(3)]

    assert [answer.status for answer in one] == [200, 200, 429]
    assert (another.status, another.body) == (200, b"198.51.100.2")
    assert {(answer.status, answer.body) for answer in its_own} == {(200, b"None")}
    assert [answer.status for answer in lies] == [200, 200, 429]
    assert lies[0].body == b"127.0.0.1"


async def test_headers_that_trickle_in_are_cut_off_in_time() -> None:
    async with port(header_timeout_seconds=0.2) as node:
        caller = await node.connect()
        await caller.send(b"GET / HTTP/1.1\r\nHost: a\r\n")
        for _ in range(3):
            await caller.send(b"X: y\r\n")

        answer = await caller.answer()

    assert (answer.status, answer.code) == (408, "request-timeout")


async def test_headers_of_a_later_request_are_cut_off_as_well() -> None:
    async with port(header_timeout_seconds=0.2) as node:
        caller = await node.connect()
        await caller.send(POST + b"body")
        assert (await caller.answer()).body == b"body"
        await caller.send(b"G")

        assert (await caller.answer()).status == 408


async def test_request_that_is_being_answered_is_no_slow_header() -> None:
    async with port(header_timeout_seconds=0.1) as node:
        caller, quick = await node.connect(), await node.connect()
        await caller.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        # As long as the limit twice: another connection is cut meanwhile.
        for slow in (await node.connect(), await node.connect()):
            await slow.send(b"GET")
            assert (await slow.answer()).status == 408
        node.handled.set()

        assert (await caller.answer()).status == 200
        assert (await quick.get()).status == 200


async def test_headers_that_are_too_large_together_are_refused() -> None:
    async with port(max_header_bytes=4_096) as node:
        caller, modest = await node.connect(), await node.connect()
        await caller.send(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"y" * 1_000 + b"\r\n")
        for number in range(4):
            await caller.send(f"X-{number}: ".encode() + b"y" * 1_000 + b"\r\n")
        answer = await caller.answer()
        fits = await modest.get("X: " + "y" * 3_000)
        again = await modest.get("X: " + "y" * 3_000)

    assert (answer.status, answer.code) == (431, "headers-too-large")
    assert (fits.status, again.status) == (200, 200)


async def test_body_is_not_counted_as_headers_wherever_it_is_cut() -> None:
    body = b"\r\n\r\n" + b"x" * 9_000
    head = f"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    whole = head + body
    async with port(max_header_bytes=1_024) as node:
        caller = await node.connect()
        for cut in (1, len(head) - 3, len(head) - 1, len(head), len(head) + 1, len(whole) - 1):
            await caller.send(whole[:cut])
            await node.until(lambda: True)
            await caller.send(whole[cut:])
            assert (await caller.answer()).body == body
        # A body that no handler reads, sent behind its answer.
        await caller.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n")
        assert (await caller.answer()).status == 200
        await caller.send(b"x" * 9_000)
        assert (await caller.get()).status == 200


async def test_body_that_trickles_in_is_cut_off_in_time() -> None:
    async with port(body_seconds=0.1) as node:
        caller = await node.connect()
        await caller.send(POST + b"b")

        answer = await caller.answer()

    assert (answer.status, answer.code) == (408, "request-timeout")


async def test_body_over_the_limit_is_refused_also_where_it_is_sent_to_its_end() -> None:
    async with port() as node:
        caller = await node.connect()
        await caller.send(
            b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n" + b"x" * 500_000
        )

        answer = await caller.answer()

    assert (answer.status, answer.code) == (413, "request-too-large")
    assert "retry-after" in answer.headers


async def test_connection_without_a_request_is_closed_in_time() -> None:
    async with port(idle_seconds=0.2) as node:
        silent, used = await node.connect(), await node.connect()
        assert (await used.get()).status == 200

        assert await silent.ended() == b""
        assert await used.ended() == b""


async def test_client_that_does_not_read_its_answer_is_cut_off_and_one_that_reads_is_not() -> None:
    async with port(write_timeout_seconds=0.3) as node:
        deaf, listening = await node.connect(), await node.connect()
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for caller in (deaf, listening):
            await caller.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")

        assert len((await listening.answer()).body) == 30_000_000
        await node.until(lambda: node.gate.connections == 1)

    assert node.refusals == ["response-unread"]


async def test_requests_that_are_sent_ahead_are_answered_in_order_and_held_in_bounded_memory() -> None:
    async with port() as node:
        caller = await node.connect()
        await caller.send(GET * 50)

        answers: list[Awaitable[Answer]] = [caller.answer() for _ in range(50)]
        assert {(await answer).status for answer in answers} == {200}
