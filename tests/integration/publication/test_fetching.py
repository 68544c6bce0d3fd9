"""Getting evidence from honest places and others."""

import asyncio
import gzip
import os
import socket
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aioum.client.publication import FetchPolicy, Reach, fetch_evidence
from aioum.client.publication.cid import RAW, Cid
from aioum.client.publication.unixfs import Layout, file_cid
from aioum.core.errors import AioumError
from aioum.core.hashing import keccak256
from tests.integration.publication.conftest import Authority, FakeKubo, StartServer, other_cid, package

EVIDENCE = package()
LARGE = package("long " * 200_000)
HASH = keccak256(EVIDENCE)


async def code_of(attempt: Awaitable[object]) -> str:
    with pytest.raises(AioumError) as caught:
        await attempt
    return caught.value.code


async def site(request: web.Request) -> web.StreamResponse:
    """What the paths of a web server give."""
    match request.path:
        case "/evidence.json":
            return web.Response(body=EVIDENCE)
        case "/other":
            return web.Response(body=EVIDENCE.replace(b"sum", b"Sum"))
        case "/missing":
            raise web.HTTPNotFound
        case "/partial":
            return web.Response(status=206, body=EVIDENCE)
        case "/packed":
            return web.Response(body=gzip.compress(EVIDENCE), headers={"Content-Encoding": "gzip"})
        case "/announced":
            return web.Response(body=bytes(1_000_000))
        case "/unannounced":
            stream = web.StreamResponse()
            await stream.prepare(request)
            for _ in range(100):
                await stream.write(bytes(65_536))
            return stream
        case "/silent":
            await asyncio.Event().wait()
        case "/unfinished":
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(EVIDENCE[:-1])
            await asyncio.Event().wait()
        case "/broken":
            stream = web.StreamResponse(headers={"Content-Length": "1000"})
            await stream.prepare(request)
            await stream.write(b"half")
            assert request.transport is not None
            request.transport.abort()
            return stream
        case "/to":
            return web.Response(status=302, headers={"Location": request.query["url"]})
        case "/nowhere":
            return web.Response(status=301)
        case path if path.startswith("/hop/"):
            left = int(path.removeprefix("/hop/"))
            target = f"/hop/{left - 1}" if left else "/evidence.json"
            return web.Response(status=307, headers={"Location": target})
    raise AssertionError(request.path)


# https: and http:


async def test_evidence_is_fetched_over_https_and_held_against_its_hash(
    start_server: StartServer, authority: Authority, local: Reach
) -> None:
    server = await start_server(site, authority.server_tls)
    policy = FetchPolicy(reach=local)
    url = server.url("/evidence.json")
    fetched = await fetch_evidence(url, HASH, policy=policy)
    assert (fetched.data, fetched.evidence_hash, fetched.source) == (EVIDENCE, HASH, url)
    other = await fetch_evidence(server.url("/other"), policy=policy)
    assert other.evidence_hash == keccak256(other.data) != HASH
    with pytest.raises(AioumError) as caught:
        await fetch_evidence(server.url("/other"), HASH, policy=policy)
    assert caught.value.code == "evidence-hash-mismatch"
    assert caught.value.details == {"found": f"0x{other.evidence_hash.hex()}", "expected": f"0x{HASH.hex()}"}


@pytest.mark.parametrize(
    "path, code",
    [
        ("/missing", "evidence-status"),
        ("/partial", "evidence-status"),
        # What is not asked for is not unpacked, so it is other bytes.
        ("/packed", "evidence-hash-mismatch"),
        ("/announced", "evidence-too-large"),
        ("/unannounced", "evidence-too-large"),
        ("/broken", "evidence-unreachable"),
        ("/nowhere", "evidence-redirect-refused"),
    ],
)
async def test_a_server_that_gives_no_evidence_is_an_error(
    path: str, code: str, start_server: StartServer, local: Reach
) -> None:
    server = await start_server(site)
    policy = FetchPolicy(reach=local)
    assert await code_of(fetch_evidence(server.url(path), HASH, max_bytes=900_000, policy=policy)) == code


async def test_an_answer_is_read_no_further_than_the_limit(start_server: StartServer, local: Reach) -> None:
    server, policy, size = await start_server(site), FetchPolicy(reach=local), len(EVIDENCE)
    url = server.url("/evidence.json")
    assert (await fetch_evidence(url, max_bytes=size, policy=policy)).data == EVIDENCE
    assert await code_of(fetch_evidence(url, max_bytes=size - 1, policy=policy)) == "evidence-too-large"


@pytest.mark.parametrize("path", ["/silent", "/unfinished"])
async def test_a_server_that_does_not_finish_is_given_up(
    path: str, start_server: StartServer, local: Reach
) -> None:
    server = await start_server(site)
    policy = FetchPolicy(reach=replace(local, timeout_seconds=0.5))
    assert await code_of(fetch_evidence(server.url(path), policy=policy)) == "evidence-timeout"


async def test_a_port_where_nobody_listens_is_unreachable(local: Reach) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        assert await code_of(fetch_evidence(url, policy=FetchPolicy(reach=local))) == "evidence-unreachable"


async def test_a_server_without_a_known_authority_is_not_believed(
    start_server: StartServer, authority: Authority
) -> None:
    server = await start_server(site, authority.server_tls)
    policy = FetchPolicy(reach=Reach(timeout_seconds=20, allow_private_addresses=True))
    url = server.url("/evidence.json")
    assert await code_of(fetch_evidence(url, policy=policy)) == "evidence-unreachable"
    assert server.asked == []


# Where it may come from


async def test_this_machine_is_not_asked_by_default_however_it_is_named(
    start_server: StartServer, authority: Authority, careful: Reach
) -> None:
    server = await start_server(site, authority.server_tls)
    policy = FetchPolicy(reach=careful)
    for host in ("localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "169.254.169.254"):
        url = server.url("/evidence.json", host)
        assert await code_of(fetch_evidence(url, policy=policy)) == "evidence-address-refused", host
    for host in (
        "2130706433",
        "0x7f000001",
        "127.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "[::1%25lo]",
        "a@127.0.0.1",
    ):
        code = await code_of(fetch_evidence(server.url("/evidence.json", host), policy=policy))
        assert code in ("evidence-address-refused", "evidence-unreachable", "evidence-uri-invalid"), host
    assert server.asked == []


async def test_plain_http_needs_to_be_allowed_and_does_not_allow_this_machine(
    start_server: StartServer, careful: Reach, local: Reach
) -> None:
    server = await start_server(site)
    url = server.url("/evidence.json")
    for reach, code in (
        (careful, "plain-http-refused"),
        (replace(careful, allow_plain_http=True), "evidence-address-refused"),
    ):
        assert await code_of(fetch_evidence(url, policy=FetchPolicy(reach=reach))) == code
    # Private addresses allow plain HTTP to this machine, and to no other.
    assert (await fetch_evidence(url, policy=FetchPolicy(reach=local))).data == EVIDENCE
    away = fetch_evidence("http://files.example/", policy=FetchPolicy(reach=local))
    assert await code_of(away) == "plain-http-refused"
    assert server.asked == ["/evidence.json"]


async def test_redirects_are_followed_as_often_as_allowed(start_server: StartServer, local: Reach) -> None:
    server, policy = await start_server(site), FetchPolicy(reach=replace(local, max_redirects=3))
    assert (await fetch_evidence(server.url("/hop/2"), HASH, policy=policy)).data == EVIDENCE
    assert await code_of(fetch_evidence(server.url("/hop/3"), policy=policy)) == "evidence-redirect-refused"


async def test_a_redirect_is_checked_like_the_uri_itself(
    start_server: StartServer, authority: Authority, careful: Reach
) -> None:
    hidden = await start_server(site, authority.server_tls)
    inside = await start_server(site)
    # A gateway is the caller's choice, so it may be on this machine; where it points to may not.
    for target, code in (
        (hidden.url("/evidence.json"), "evidence-address-refused"),
        (hidden.url("/evidence.json", "localhost"), "evidence-address-refused"),
        (inside.url("/evidence.json"), "plain-http-refused"),
        ("file:///etc/hostname", "evidence-redirect-refused"),
        ("data:,x", "evidence-redirect-refused"),
        ("https://user@files.example/", "evidence-redirect-refused"),
        ("https://files.example/#" + "x" * 9_000, "evidence-redirect-refused"),
    ):

        async def away(_request: web.Request, target: str = target) -> web.StreamResponse:
            return web.Response(status=302, headers={"Location": target})

        gateway = await start_server(away)
        policy = FetchPolicy(reach=careful, gateways=(gateway.url(),))
        assert await code_of(fetch_evidence(f"ipfs://{other_cid()}", policy=policy)) == code, target
        assert gateway.asked == [f"/ipfs/{other_cid()}"]
    assert hidden.asked == inside.asked == []


@pytest.mark.parametrize(
    "uri, code",
    [
        ("", "evidence-scheme-unsupported"),
        ("evidence.json", "evidence-scheme-unsupported"),
        ("ftp://files.example/x", "evidence-scheme-unsupported"),
        ("https:", "evidence-uri-invalid"),
        ("https://", "evidence-uri-invalid"),
        ("https://files.example/a b", "evidence-uri-invalid"),
        ("https://files.example/\r\nHost: x", "evidence-uri-invalid"),
        ("https://user:password@files.example/", "evidence-uri-invalid"),
        ("https://files.example/#x", "evidence-uri-invalid"),
        ("https://files.example:x/", "evidence-uri-invalid"),
        ("https://files.exämple/", "evidence-uri-invalid"),
        ("https://files.example/" + "x" * 9_000, "evidence-uri-invalid"),
        ("ipfs:bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku", "evidence-uri-invalid"),
        ("ipfs://", "cid-invalid"),
        ("ipfs://bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku/a/b", "cid-invalid"),
        ("ipfs://k51qzi5uqu5dgutdk6i1ynyzgkqngpha5xpgia3a5qqp4jsh0u4csozksxel2r", "cid-unsupported"),
        ("data:application/json", "evidence-uri-invalid"),
        ("data:;base64,???", "evidence-uri-invalid"),
        ("data:,ü", "evidence-uri-invalid"),
    ],
)
async def test_what_is_no_uri_of_evidence_is_refused(uri: str, code: str, careful: Reach) -> None:
    assert await code_of(fetch_evidence(uri, policy=FetchPolicy(reach=careful))) == code


# ipfs:


@pytest.mark.parametrize(
    "cid",
    [
        file_cid(LARGE),
        file_cid(LARGE, Layout(raw_leaves=False, version=0)),
        file_cid(LARGE, Layout(chunk_bytes=1_048_576, max_links=1_024)),
    ],
)
async def test_a_gateway_is_believed_where_the_bytes_give_the_cid(
    cid: Cid, start_server: StartServer, careful: Reach
) -> None:
    async def gateway(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=LARGE)

    server = await start_server(gateway)
    policy = FetchPolicy(reach=careful, gateways=(server.url("/below/"),))
    fetched = await fetch_evidence(f"ipfs://{cid}", policy=policy)
    assert (fetched.data, fetched.source) == (LARGE, server.url("/below"))
    assert server.asked == [f"/below/ipfs/{cid}"]


async def test_one_block_is_believed_under_a_cid_of_its_hash(
    start_server: StartServer, careful: Reach
) -> None:
    async def gateway(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=EVIDENCE)

    server = await start_server(gateway)
    policy = FetchPolicy(reach=careful, gateways=(server.url(),))
    single = file_cid(EVIDENCE)
    assert single.codec == RAW
    for cid in (single, file_cid(EVIDENCE, Layout(raw_leaves=False, version=0))):
        assert (await fetch_evidence(f"ipfs://{cid}", HASH, policy=policy)).data == EVIDENCE
    # The right file of an IPFS URI may still not be the one of the dispute.
    wrong = fetch_evidence(f"ipfs://{single}", bytes(32), policy=policy)
    assert await code_of(wrong) == "evidence-hash-mismatch"


async def test_sources_of_ipfs_are_asked_in_order_until_one_gives_the_file(
    start_server: StartServer, careful: Reach
) -> None:
    async def wrong(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=EVIDENCE + b" ")

    async def missing(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound

    async def right(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=EVIDENCE)

    node = await start_server(FakeKubo().handle)
    servers = [await start_server(handler) for handler in (wrong, missing, right, right)]
    uri = f"ipfs://{file_cid(EVIDENCE)}"
    policy = FetchPolicy(
        reach=careful, ipfs_api=node.url(), gateways=tuple(server.url() for server in servers)
    )
    fetched = await fetch_evidence(uri, HASH, policy=policy)
    assert (fetched.data, fetched.source) == (EVIDENCE, servers[2].url())
    assert [len(server.asked) for server in (node, *servers)] == [1, 1, 1, 1, 0]
    with pytest.raises(AioumError) as caught:
        await fetch_evidence(uri, HASH, policy=replace(policy, gateways=policy.gateways[:2]))
    assert caught.value.code == "evidence-status"
    assert [failure["code"] for failure in caught.value.details["sources"]] == [
        "evidence-status",
        "evidence-cid-mismatch",
        "evidence-status",
    ]
    only_wrong = replace(policy, ipfs_api=None, gateways=policy.gateways[:1])
    assert await code_of(fetch_evidence(uri, HASH, policy=only_wrong)) == "evidence-cid-mismatch"


async def test_a_node_is_not_read_past_the_limit(start_server: StartServer, careful: Reach) -> None:
    cid = str(file_cid(LARGE))
    server = await start_server(FakeKubo(files={cid: LARGE}).handle)
    policy = FetchPolicy(reach=careful, ipfs_api=server.url(), gateways=())
    short = fetch_evidence(f"ipfs://{cid}", max_bytes=len(LARGE) - 1, policy=policy)
    assert await code_of(short) == "evidence-too-large"
    assert (await fetch_evidence(f"ipfs://{cid}", max_bytes=len(LARGE), policy=policy)).data == LARGE


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"gateways": ()}, "ipfs-source-missing"),
        ({"gateways": ("ftp://x",)}, "service-url-invalid"),
        ({"gateways": ("http://gateway.example",)}, "plain-http-refused"),
        ({"ipfs_api": "http://node.example:5001"}, "plain-http-refused"),
    ],
)
async def test_sources_that_cannot_be_asked_are_said(
    changes: dict[str, Any], code: str, careful: Reach
) -> None:
    policy = replace(FetchPolicy(reach=careful, gateways=()), **changes)
    assert await code_of(fetch_evidence(f"ipfs://{other_cid()}", policy=policy)) == code


# data: and file:


@pytest.mark.parametrize(
    "uri, data",
    [
        ("data:,a%20b", b"a b"),
        ("DATA:text/plain;charset=utf-8,%7B%7D", b"{}"),
        ("data:application/json;base64,e30=", b"{}"),
        ("data:;BASE64,e30%3D", b"{}"),
        ("data:,", b""),
    ],
)
async def test_a_data_uri_holds_its_bytes_in_either_encoding(uri: str, data: bytes, careful: Reach) -> None:
    policy = FetchPolicy(reach=careful)
    assert (await fetch_evidence(uri, keccak256(data), policy=policy)).data == data
    if data:
        code = await code_of(fetch_evidence(uri, max_bytes=len(data) - 1, policy=policy))
        assert code == "evidence-too-large"
    assert await code_of(fetch_evidence(uri, HASH, policy=policy)) == "evidence-hash-mismatch"


async def test_files_are_read_only_where_the_caller_says_so(careful: Reach, tmp_path: Path) -> None:
    file = tmp_path / "evi dence.json"
    file.write_bytes(EVIDENCE)
    careless = FetchPolicy(reach=careful, allow_files=True)
    assert await code_of(fetch_evidence(file.as_uri(), HASH)) == "evidence-file-refused"
    assert (await fetch_evidence(file.as_uri(), HASH, policy=careless)).data == EVIDENCE
    short = fetch_evidence(file.as_uri(), max_bytes=len(EVIDENCE) - 1, policy=careless)
    assert await code_of(short) == "evidence-too-large"


@pytest.mark.parametrize(
    "tail, code",
    [
        ("none.json", "file-unusable"),
        ("", "file-unusable"),
        ("pipe", "file-unusable"),
        ("x?y", "evidence-uri-invalid"),
        ("x%00", "evidence-uri-invalid"),
    ],
)
async def test_what_is_no_regular_file_is_not_opened(
    tail: str, code: str, careful: Reach, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    careless = FetchPolicy(reach=careful, allow_files=True)
    assert await code_of(fetch_evidence(f"{tmp_path.as_uri()}/{tail}", policy=careless)) == code
    away = fetch_evidence("file://files.example/x", policy=careless)
    assert await code_of(away) == "evidence-uri-invalid"
