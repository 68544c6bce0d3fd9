"""Publishing to each target, and what is said where a target does not do what it should."""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aioum.client.publication import (
    DataUriPublisher,
    DirectoryPublisher,
    FetchPolicy,
    KuboPublisher,
    PinningPublisher,
    Published,
    Reach,
    UploadPublisher,
    fetch_evidence,
    publish_evidence,
)
from aioum.client.publication.published import MAX_EVIDENCE_URI_BYTES
from aioum.client.publication.unixfs import Layout, file_cid
from aioum.core.errors import AioumError
from aioum.core.hashing import keccak256
from aioum.core.types import Bytes32
from tests.integration.publication.conftest import (
    TOKEN,
    FakeKubo,
    FakePinning,
    Server,
    StartServer,
    other_cid,
    package,
)

PACKAGE = package()
LARGE = package("long " * 200_000)


async def code_of(attempt: Awaitable[object]) -> str:
    with pytest.raises(AioumError) as caught:
        await attempt
    return caught.value.code


async def served_folder(start_server: StartServer, folder: Path) -> Server:
    async def file(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(folder / request.path.removeprefix("/evidence/"))

    return await start_server(file)


# A directory


async def test_a_package_in_a_served_folder_is_fetched_by_its_uri_and_hash(
    start_server: StartServer, local: Reach, tmp_path: Path
) -> None:
    server = await served_folder(start_server, tmp_path)
    published = await publish_evidence(LARGE, DirectoryPublisher(tmp_path, server.url("/evidence/"), local))
    evidence_hash = Bytes32(keccak256(LARGE))
    assert published == Published(
        server.url(f"/evidence/{evidence_hash.hex()}.json"), evidence_hash, len(LARGE), None
    )
    fetched = await fetch_evidence(published.uri, evidence_hash, policy=FetchPolicy(reach=local))
    assert (fetched.data, fetched.evidence_hash) == (LARGE, evidence_hash)


async def test_publishing_again_changes_nothing_and_leaves_no_draft(local: Reach, tmp_path: Path) -> None:
    publisher = DirectoryPublisher(tmp_path, "https://files.example/e", local)
    first = await publish_evidence(PACKAGE, publisher)
    (file,) = tmp_path.iterdir()
    before = file.stat()
    assert await publish_evidence(PACKAGE, publisher) == first
    assert [entry.name for entry in tmp_path.iterdir()] == [first.uri.rpartition("/")[2]]
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


async def test_publishers_at_the_same_time_write_one_file(local: Reach, tmp_path: Path) -> None:
    publisher = DirectoryPublisher(tmp_path, "https://files.example", local)
    published = await asyncio.gather(*(publish_evidence(LARGE, publisher) for _ in range(8)))
    assert len(set(published)) == 1
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [LARGE]


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
async def test_the_file_can_be_read_by_a_web_server_of_another_user(local: Reach, tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        await publish_evidence(PACKAGE, DirectoryPublisher(tmp_path, "https://files.example", local))
    finally:
        os.umask(mask)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("other", [b"", PACKAGE[:-1], PACKAGE + b" ", PACKAGE.replace(b"sum", b"Sum")])
async def test_a_file_with_other_bytes_is_never_replaced(other: bytes, local: Reach, tmp_path: Path) -> None:
    file = tmp_path / f"{keccak256(PACKAGE).hex()}.json"
    file.write_bytes(other)
    publisher = DirectoryPublisher(tmp_path, "https://files.example", local)
    assert await code_of(publish_evidence(PACKAGE, publisher)) == "publish-conflict"
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [other]


async def test_a_folder_that_does_not_exist_is_not_made(local: Reach, tmp_path: Path) -> None:
    publisher = DirectoryPublisher(tmp_path / "none", "https://files.example", local)
    assert await code_of(publish_evidence(PACKAGE, publisher)) == "publish-directory-unusable"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "base_url, code",
    [
        ("http://files.example", "plain-http-refused"),
        ("ftp://files.example", "service-url-invalid"),
        ("https://user:secret@files.example", "service-url-invalid"),
        ("https://files.example/?a=b", "service-url-invalid"),
        ("https://files.example/#top", "service-url-invalid"),
        ("https://files.example/a b", "service-url-invalid"),
        ("https://files.example:99999", "service-url-invalid"),
        ("https:///x", "service-url-invalid"),
        ("https://files.example/" + "x" * 8_150, "publish-uri-too-long"),
    ],
)
async def test_a_base_url_that_a_stranger_could_not_follow_is_refused_before_writing(
    base_url: str, code: str, careful: Reach, tmp_path: Path
) -> None:
    assert await code_of(publish_evidence(PACKAGE, DirectoryPublisher(tmp_path, base_url, careful))) == code
    assert list(tmp_path.iterdir()) == []


async def test_plain_http_elsewhere_needs_to_be_allowed(careful: Reach, tmp_path: Path) -> None:
    allowed = replace(careful, allow_plain_http=True)
    published = await publish_evidence(PACKAGE, DirectoryPublisher(tmp_path, "http://files.example", allowed))
    assert published.uri.startswith("http://files.example/")


# What is no package


@pytest.mark.parametrize(
    "data, code",
    [
        (b"", "json-syntax"),
        (b"[]", "package-malformed"),
        (b"\xff", "json-not-utf8"),
        (PACKAGE + b"\n", "package-not-canonical"),
        (json.dumps(json.loads(PACKAGE)).encode(), "package-not-canonical"),
        (LARGE + b" " * 8, "json-too-large"),
    ],
)
async def test_what_is_no_package_in_canonical_form_is_not_published(
    data: bytes, code: str, local: Reach, tmp_path: Path
) -> None:
    publisher = DirectoryPublisher(tmp_path, "https://files.example", local)
    assert await code_of(publish_evidence(data, publisher, max_bytes=len(LARGE))) == code
    assert list(tmp_path.iterdir()) == []


# data:


async def test_a_small_package_is_its_own_uri() -> None:
    small = package_of_uri_bytes(MAX_EVIDENCE_URI_BYTES)
    published = await publish_evidence(small, DataUriPublisher())
    assert published.cid is None
    assert len(published.uri) <= MAX_EVIDENCE_URI_BYTES
    fetched = await fetch_evidence(published.uri, published.evidence_hash, max_bytes=len(small))
    assert (fetched.data, fetched.source) == (small, "data:")


async def test_a_package_that_a_dispute_cannot_hold_is_refused() -> None:
    small = package_of_uri_bytes(MAX_EVIDENCE_URI_BYTES)
    size = len((await publish_evidence(small, DataUriPublisher())).uri)
    assert await code_of(publish_evidence(small, DataUriPublisher(size - 1))) == "publish-uri-too-long"
    assert await code_of(publish_evidence(LARGE, DataUriPublisher())) == "publish-uri-too-long"


def package_of_uri_bytes(most: int) -> bytes:
    """A package with whatever narrative fits into a data URI of so many bytes."""
    bare = {
        "attestations": [],
        "calls": [],
        "chainId": 1,
        "claim": "quality",
        "formatVersion": 1,
        "narrative": "",
        "paymentManager": "0x" + "11" * 20,
        "resultsRoot": "0x" + "22" * 32,
        "sessionId": "1",
        "vouchers": [],
    }
    size = len(json.dumps(bare, separators=(",", ":"), sort_keys=True))
    room = (most - len("data:application/json;base64,")) // 4 * 3 - size
    bare["narrative"] = "x" * room
    return json.dumps(bare, separators=(",", ":"), sort_keys=True).encode()


# Kubo


@pytest.mark.parametrize("data", [PACKAGE, LARGE])
async def test_a_package_is_added_to_a_node_and_fetched_from_it(
    data: bytes, start_server: StartServer, careful: Reach
) -> None:
    node = FakeKubo()
    server = await start_server(node.handle)
    published = await publish_evidence(data, KuboPublisher(server.url(), careful))
    cid = file_cid(data)
    assert published == Published(f"ipfs://{cid}", Bytes32(keccak256(data)), len(data), cid)
    assert node.files == {str(cid): data}
    policy = FetchPolicy(reach=careful, ipfs_api=server.url("/"), gateways=())
    fetched = await fetch_evidence(published.uri, published.evidence_hash, policy=policy)
    assert (fetched.data, fetched.source) == (data, server.url())


@pytest.mark.parametrize(
    "says",
    [
        str(other_cid()),
        # The same bytes as `ipfs add` imports them without options.
        str(file_cid(PACKAGE, Layout(raw_leaves=False, version=0))),
        str(file_cid(PACKAGE, Layout(raw_leaves=False))),
        # Another codec, and another base.
        "bafyreigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi",
        f"f{file_cid(PACKAGE).to_bytes().hex()}",
    ],
)
async def test_another_cid_than_the_one_computed_here_is_an_error(
    says: str, start_server: StartServer, careful: Reach
) -> None:
    server = await start_server(FakeKubo(says=says).handle)
    publisher = KuboPublisher(server.url(), careful)
    assert await code_of(publish_evidence(PACKAGE, publisher)) == "publish-cid-mismatch"


@pytest.mark.parametrize(
    "answer, code",
    [
        (web.json_response({"Message": "no space", "Code": 0}, status=500), "publish-service-refused"),
        (web.Response(status=403), "publish-service-unauthorized"),
        (web.Response(status=307, headers={"Location": "http://127.0.0.1/"}), "publish-service-refused"),
        (web.Response(text=""), "publish-service-answer-invalid"),
        (web.Response(text="<html>"), "publish-service-answer-invalid"),
        (web.Response(text="[]"), "publish-service-answer-invalid"),
        (web.Response(text="{}"), "publish-service-answer-invalid"),
        (web.Response(text='{"Hash":"Qm"}'), "publish-service-answer-invalid"),
        (web.Response(text='{"Hash":"x"}\n{"Hash":"y"}'), "publish-service-answer-invalid"),
        (web.Response(body=bytes(1_048_577)), "publish-service-answer-invalid"),
    ],
)
async def test_an_answer_that_is_no_addition_is_an_error(
    answer: web.Response, code: str, start_server: StartServer, careful: Reach
) -> None:
    server = await start_server(FakeKubo(answer=answer).handle)
    assert await code_of(publish_evidence(PACKAGE, KuboPublisher(server.url(), careful))) == code


async def test_a_node_that_says_nothing_or_is_not_there_is_given_up(
    start_server: StartServer, careful: Reach
) -> None:
    async def silent(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    server = await start_server(silent)
    impatient = replace(careful, timeout_seconds=0.5)
    publisher = KuboPublisher(server.url(), impatient)
    assert await code_of(publish_evidence(PACKAGE, publisher)) == "publish-service-timeout"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        publisher = KuboPublisher(f"http://127.0.0.1:{taken.getsockname()[1]}", careful)
        assert await code_of(publish_evidence(PACKAGE, publisher)) == "publish-service-unreachable"


async def test_an_rpc_over_plain_http_elsewhere_is_refused(careful: Reach) -> None:
    publisher = KuboPublisher("http://node.example:5001", careful)
    assert await code_of(publish_evidence(PACKAGE, publisher)) == "plain-http-refused"


# A pinning service


def pinning(kubo: Server, service: Server, reach: Reach, **changes: Any) -> PinningPublisher:
    publisher = PinningPublisher(
        service.url("/psa"), TOKEN, KuboPublisher(kubo.url(), reach), reach, poll_seconds=0.001
    )
    return replace(publisher, **changes)


async def test_a_pinning_service_is_told_where_the_file_is_and_waited_for(
    start_server: StartServer, careful: Reach
) -> None:
    node, service = FakeKubo(), FakePinning()
    kubo, remote = await start_server(node.handle), await start_server(service.handle)
    published = await publish_evidence(LARGE, pinning(kubo, remote, careful))
    cid = str(file_cid(LARGE))
    assert published.uri == f"ipfs://{cid}"
    assert node.files == {cid: LARGE}
    assert list(service.pins.values()) == [
        {"cid": cid, "name": "evidence.json", "origins": ["/ip4/192.0.2.7/tcp/4001/p2p/12D3KooWtest"]}
    ]
    # A delegate that the node cannot reach is no failure: the fake one never can.
    assert node.connected == ["/ip4/198.51.100.9/tcp/4001/p2p/12D3KooWservice"]
    assert service.looks >= len(service.states)


async def test_a_pin_request_that_is_there_already_is_followed_and_not_repeated(
    start_server: StartServer, careful: Reach
) -> None:
    service = FakePinning()
    kubo, remote = await start_server(FakeKubo().handle), await start_server(service.handle)
    publisher = pinning(kubo, remote, careful)
    assert await publish_evidence(PACKAGE, publisher) == await publish_evidence(PACKAGE, publisher)
    assert len(service.pins) == 1


@pytest.mark.parametrize(
    "service, code",
    [
        (FakePinning(states=["queued", "failed"]), "publish-pin-failed"),
        (FakePinning(states=["queued", "lost"]), "publish-service-answer-invalid"),
        (FakePinning(says=str(other_cid())), "publish-cid-mismatch"),
        (FakePinning(says="x"), "publish-service-answer-invalid"),
    ],
)
async def test_a_service_that_does_not_pin_the_file_is_an_error(
    service: FakePinning, code: str, start_server: StartServer, careful: Reach
) -> None:
    kubo, remote = await start_server(FakeKubo().handle), await start_server(service.handle)
    assert await code_of(publish_evidence(PACKAGE, pinning(kubo, remote, careful))) == code


async def test_a_pin_that_takes_too_long_is_pending_and_its_request_is_named(
    start_server: StartServer, careful: Reach
) -> None:
    service = FakePinning(states=["queued"])
    kubo, remote = await start_server(FakeKubo().handle), await start_server(service.handle)
    publisher = pinning(kubo, remote, careful, pin_timeout_seconds=5.0, clock=iter(range(1_000)).__next__)
    with pytest.raises(AioumError) as caught:
        await publish_evidence(PACKAGE, publisher)
    assert caught.value.code == "publish-pin-pending"
    assert caught.value.details == {"requestId": "id/0", "cid": str(file_cid(PACKAGE))}
    service.states = ["pinned"]
    assert (await publish_evidence(PACKAGE, publisher)).cid == file_cid(PACKAGE)


@pytest.mark.parametrize(
    "answer",
    [
        "{}",
        '{"results": {}}',
        '{"results": [7]}',
        '{"results": [{"status": "pinned", "pin": {"cid": "x"}}]}',
        '{"results": [{"requestid": "1", "status": "pinned"}]}',
        '{"results": [{"requestid": "", "status": "pinned", "pin": {}}]}',
    ],
)
async def test_an_answer_that_is_not_of_the_pinning_api_is_an_error(
    answer: str, start_server: StartServer, careful: Reach
) -> None:
    async def odd(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=answer)

    kubo, remote = await start_server(FakeKubo().handle), await start_server(odd)
    publisher = pinning(kubo, remote, careful)
    assert await code_of(publish_evidence(PACKAGE, publisher)) == "publish-service-answer-invalid"


async def test_a_wrong_token_is_said_and_not_shown(start_server: StartServer, careful: Reach) -> None:
    kubo, remote = await start_server(FakeKubo().handle), await start_server(FakePinning().handle)
    for publisher in (
        pinning(kubo, remote, careful, token="wrong-secret"),
        UploadPublisher(remote.url("/upload"), "wrong-secret", careful),
    ):
        with pytest.raises(AioumError) as caught:
            await publish_evidence(PACKAGE, publisher)
        assert caught.value.code == "publish-service-unauthorized"
        assert "wrong-secret" not in f"{caught.value}{caught.value.hint}{caught.value.details}{publisher!r}"


async def test_a_token_is_not_sent_over_plain_http_to_another_machine(
    start_server: StartServer, careful: Reach
) -> None:
    kubo = await start_server(FakeKubo().handle)
    away = replace(pinning(kubo, kubo, careful), url="http://pins.example")
    assert await code_of(publish_evidence(PACKAGE, away)) == "plain-http-refused"
    assert kubo.asked == []
    upload = UploadPublisher("http://pins.example/upload", TOKEN, careful)
    assert await code_of(publish_evidence(PACKAGE, upload)) == "plain-http-refused"


# An endpoint that takes uploads


@pytest.mark.parametrize(
    "answer",
    [
        lambda cid: {"data": {"cid": cid, "size": 7}},
        lambda cid: {"cid": cid},
        lambda cid: {"IpfsHash": cid, "PinSize": 7},
        lambda cid: {"Hash": cid},
    ],
)
async def test_an_upload_is_answered_with_the_cid_in_any_of_the_places_in_use(
    answer: Callable[[str], Any], start_server: StartServer, careful: Reach
) -> None:
    service = FakePinning(upload_answer=answer)
    server = await start_server(service.handle)
    publisher = UploadPublisher(server.url("/upload"), TOKEN, careful, (("network", "public"),))
    published = await publish_evidence(LARGE, publisher)
    assert published.cid == file_cid(LARGE)
    assert service.uploads == [(LARGE, {"network": "public"})]


@pytest.mark.parametrize(
    "service, code",
    [
        (FakePinning(says=str(other_cid())), "publish-cid-mismatch"),
        (FakePinning(upload_answer=lambda cid: {"id": cid}), "publish-service-answer-invalid"),
        (FakePinning(upload_answer=lambda cid: [cid]), "publish-service-answer-invalid"),
        (FakePinning(upload_answer=lambda _cid: {"cid": 7}), "publish-service-answer-invalid"),
    ],
)
async def test_an_upload_that_is_answered_with_anything_else_is_an_error(
    service: FakePinning, code: str, start_server: StartServer, careful: Reach
) -> None:
    server = await start_server(service.handle)
    publisher = UploadPublisher(server.url("/upload"), TOKEN, careful)
    assert await code_of(publish_evidence(PACKAGE, publisher)) == code
