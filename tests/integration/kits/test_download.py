"""Fetching kits from real HTTPS servers, honest and otherwise."""

import asyncio
import gzip
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from aioum.client.kit_download import HttpsKitFetcher
from aioum.core.errors import AioumError
from aioum.kits.cache import KitCache
from aioum.kits.resolution import resolve_kit
from tests.integration.kits.conftest import Authority, StartMirror
from tests.unit.kits.samples import make_kit, reference_to

KIT = make_kit(program=bytes(100_000))
OTHER = make_kit(program=b"another")


@pytest.fixture
def fetcher(authority: Authority) -> HttpsKitFetcher:
    return HttpsKitFetcher(
        timeout_seconds=20, connect_timeout_seconds=5, allow_private_addresses=True, tls=authority.client_tls
    )


async def serve(request: web.Request) -> web.StreamResponse:
    """What the paths of a mirror give."""
    match request.path:
        case "/kit":
            return web.Response(body=KIT.archive)
        case "/wrong":
            return web.Response(body=OTHER.archive)
        case "/redirect":
            raise web.HTTPFound("/kit")
        case "/missing":
            raise web.HTTPNotFound
        case "/bomb":
            packed = gzip.compress(bytes(10_000_000))
            return web.Response(body=packed, headers={"Content-Encoding": "gzip"})
        case "/unannounced":
            # Not endless: writing to a connection that the other side left neither fails nor waits.
            stream = web.StreamResponse()
            await stream.prepare(request)
            for _ in range(200):
                await stream.write(bytes(65_536))
            return stream
        case "/silent":
            await asyncio.Event().wait()
    raise AssertionError(request.path)


async def code_of(fetcher: HttpsKitFetcher, url: str, max_bytes: int = 1_000_000) -> str:
    with pytest.raises(AioumError) as caught:
        await fetcher.fetch(url, max_bytes=max_bytes)
    return caught.value.code


async def test_a_kit_is_fetched_past_mirrors_that_give_something_else(
    start_mirror: StartMirror, fetcher: HttpsKitFetcher, tmp_path: Path
) -> None:
    mirror = await start_mirror(serve)
    paths = ["missing", "redirect", "wrong", "bomb", "kit", "kit"]
    reference = reference_to(KIT, *map(mirror.url, paths))
    cache = KitCache(tmp_path / "kits")
    found = await resolve_kit(reference, cache=cache, fetcher=fetcher, authorized={KIT.digest})
    assert (found.retrieval, found.integrity, found.source) == ("fetched", "matched", mirror.url("kit"))
    assert [diagnostic.code for diagnostic in found.diagnostics] == [
        "kit-mirror-status",
        "kit-mirror-redirect",
        "kit-mirror-mismatch",
        "kit-mirror-mismatch",
    ]
    assert mirror.asked == ["/missing", "/redirect", "/wrong", "/bomb", "/kit"]
    assert cache.load(KIT.digest) == KIT


async def test_an_answer_is_read_no_further_than_was_expected(
    start_mirror: StartMirror, fetcher: HttpsKitFetcher
) -> None:
    mirror = await start_mirror(serve)
    size = len(KIT.archive)
    assert await fetcher.fetch(mirror.url("kit"), max_bytes=size) == KIT.archive
    assert await code_of(fetcher, mirror.url("kit"), size - 1) == "kit-mirror-too-large"
    assert await code_of(fetcher, mirror.url("unannounced")) == "kit-mirror-too-large"


async def test_a_mirror_that_says_nothing_is_given_up(
    start_mirror: StartMirror, fetcher: HttpsKitFetcher
) -> None:
    mirror = await start_mirror(serve)
    assert await code_of(replace(fetcher, timeout_seconds=1.0), mirror.url("silent")) == "kit-mirror-timeout"


async def test_this_machine_is_not_asked_unless_the_caller_allows_it(
    start_mirror: StartMirror, fetcher: HttpsKitFetcher
) -> None:
    mirror = await start_mirror(serve)
    careful = replace(fetcher, allow_private_addresses=False)
    for host in ("localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"):
        assert await code_of(careful, mirror.url("kit", host)) == "kit-mirror-address-refused"
    assert mirror.asked == []
    assert await fetcher.fetch(mirror.url("kit", "127.0.0.1"), max_bytes=1_000_000) == KIT.archive


async def test_other_spellings_of_this_machine_s_address_are_refused_too(
    start_mirror: StartMirror, fetcher: HttpsKitFetcher
) -> None:
    mirror = await start_mirror(serve)
    careful = replace(fetcher, allow_private_addresses=False)
    for host in ("2130706433", "0x7f000001", "127.1", "0177.0.0.1"):
        code = await code_of(careful, mirror.url("kit", host))
        # Which of these a system takes for an address differs; none of them is connected to.
        assert code in ("kit-mirror-address-refused", "kit-mirror-unreachable", "kit-mirror-url-invalid")
    assert mirror.asked == []


async def test_a_server_without_a_known_authority_is_not_believed(start_mirror: StartMirror) -> None:
    mirror = await start_mirror(serve)
    stranger = HttpsKitFetcher(timeout_seconds=20, allow_private_addresses=True)
    assert await code_of(stranger, mirror.url("kit")) == "kit-mirror-unreachable"
    assert mirror.asked == []


async def test_plain_http_is_not_spoken(fetcher: HttpsKitFetcher) -> None:
    assert await code_of(fetcher, "http://localhost/kit") == "kit-mirror-not-https"


async def test_a_port_where_nobody_listens_is_unreachable(fetcher: HttpsKitFetcher) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"https://localhost:{taken.getsockname()[1]}/kit"
        assert await code_of(fetcher, url) == "kit-mirror-unreachable"
