"""What cards name is fetched from the public Internet alone; what a person names may be anywhere."""

import asyncio
from collections.abc import Mapping

import pytest
from aiohttp.web import Request, StreamResponse

from aioum.client.http import HttpAnswer
from aioum.client.logs.sources import open_source
from aioum.client.logs.web import GatedTransport, PublicTransport, open_web
from aioum.core.errors import AioumError, OutcomeUnknown
from aioum.log.checkpoint import MAX_NOTE_BYTES
from aioum.log.tiles import MAX_BUNDLE_BYTES
from tests.serving import served_posts


class Asked:
    """A transport that remembers what it was asked for, and with which limit."""

    def __init__(self) -> None:
        self.limits: dict[str, int] = {}

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        max_bytes: int,
        timeout_seconds: float,
    ) -> HttpAnswer:
        """Answer with nothing."""
        self.limits[url] = max_bytes
        return HttpAnswer(200, {}, b"")

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "[::1]", "[::]",
        "[fe80::1]", "[fd00::1]", "[::ffff:127.0.0.1]", "[64:ff9b::a00:1]", "[2002:7f00:1::]",
    ],
)  # fmt: skip
async def test_an_address_of_no_public_network_is_refused_before_anything_is_sent(host: str) -> None:
    asked = Asked()
    source = open_source(f"https://{host}/log", PublicTransport(asked))
    with pytest.raises(AioumError) as caught:
        await source.note()
    assert caught.value.code == "log-address-refused"
    assert asked.limits == {}


async def test_a_name_of_this_machine_is_refused_unless_a_person_allows_it() -> None:
    async def never(_request: Request) -> StreamResponse:
        pytest.fail("nothing is posted")

    async with served_posts(never) as url:
        named = url.replace("127.0.0.1", "localhost")
        async with open_web() as web:
            with pytest.raises(AioumError) as caught:
                await open_source(named, web.found).note()
            assert caught.value.code == "log-address-refused"
            with pytest.raises(AioumError) as answered:
                await open_source(named, web.named).note()
        async with open_web(allow_private_addresses=True) as web:
            assert web.found is web.named
    assert answered.value.code == "log-resource-missing"


@pytest.mark.parametrize("host", ["log..example", f"{'a' * 64}.example"])
async def test_a_name_that_cannot_be_looked_up_is_out_of_reach(host: str) -> None:
    async with open_web() as web:
        for transport in (web.named, web.found):
            with pytest.raises(OutcomeUnknown) as caught:
                await open_source(f"https://{host}/log", transport).note()
            assert caught.value.code == "node-unreachable"


async def test_each_file_of_a_log_has_a_limit_of_its_own() -> None:
    asked = Asked()
    source = open_source("https://example.com/log/", asked)
    for path in ("checkpoint", "tile/0/000", "tile/entries/000.p/7"):
        await source.fetch(path)
    assert asked.limits == {
        "https://example.com/log/checkpoint": MAX_NOTE_BYTES,
        "https://example.com/log/tile/0/000": 8_192,
        "https://example.com/log/tile/entries/000.p/7": MAX_BUNDLE_BYTES,
    }


async def test_requests_beyond_the_limit_wait_in_order_and_are_all_sent() -> None:
    gate, asked = asyncio.Semaphore(1), Asked()
    source = open_source("https://example.com/log", GatedTransport(asked, gate))
    await gate.acquire()
    waiting = [asyncio.ensure_future(source.fetch(path)) for path in ("checkpoint", "tile/0/000")]
    await asyncio.sleep(0)
    assert asked.limits == {}
    gate.release()
    await asyncio.gather(*waiting)
    assert len(asked.limits) == 2
