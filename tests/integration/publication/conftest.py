"""Places where evidence is published: web servers, a Kubo node's RPC and pinning services, on loopback."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import BodyPartReader, web

from aioum.client.publication.cid import Cid
from aioum.client.publication.exchange import Reach
from aioum.client.publication.unixfs import file_cid
from aioum.core.evidence import package_bytes
from tests.integration.kits.conftest import Authority, authority
from tests.unit.verify.honest import Honest

__all__ = ["Authority", "authority"]

TOKEN = "token-of-tests"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def package(narrative: str = "the sum is off") -> bytes:
    """A package's canonical bytes; a long narrative makes them long."""
    return package_bytes(Honest().package() | {"narrative": narrative})


@dataclass
class Server:
    """A web server; `asked` are path and query of its requests in order."""

    port: int
    scheme: str
    asked: list[str]

    def url(self, path: str = "", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"


StartServer = Callable[..., Awaitable[Server]]


@pytest.fixture
async def start_server() -> AsyncIterator[StartServer]:
    """Starts a server that gives every request to one handler."""
    runners: list[web.AppRunner] = []

    async def start(handler: Handler, tls: ssl.SSLContext | None = None) -> Server:
        asked: list[str] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            asked.append(request.path_qs)
            return await handler(request)

        app = web.Application(client_max_size=128 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        return Server(runner.addresses[0][1], "http" if tls is None else "https", asked)

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
def careful(authority: Authority) -> Reach:
    """What is allowed by default, with the authority of the tests."""
    return Reach(timeout_seconds=20, connect_timeout_seconds=5, tls=authority.client_tls)


@pytest.fixture
def local(authority: Authority) -> Reach:
    """As a developer has it, with servers on the own machine."""
    return Reach(
        timeout_seconds=20, connect_timeout_seconds=5, allow_private_addresses=True, tls=authority.client_tls
    )


async def sent_file(request: web.Request) -> tuple[bytes, dict[str, str]]:
    """The file and the other fields of a posted form."""
    content, fields = None, {}
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        if part.name == "file":
            assert part.filename == "evidence.json"
            content = bytes(await part.read())
        else:
            fields[str(part.name)] = await part.text()
    assert content is not None
    return content, fields


@dataclass
class FakeKubo:
    """The RPC of a Kubo node, as far as it is used.

    Attributes:
        files: what it has, by CID.
        says: the CID that it answers, in place of the file's.
        answer: what it answers to `add`, in place of everything.
        connected: multiaddrs it was connected to.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    says: str | None = None
    answer: web.Response | None = None
    connected: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            raise web.HTTPMethodNotAllowed(request.method, ["POST"])
        match request.path:
            case "/api/v0/add":
                return await self._add(request)
            case "/api/v0/cat":
                content = self.files.get(request.query["arg"])
                if content is None:
                    return web.json_response({"Message": "not found", "Code": 0, "Type": "error"}, status=500)
                return web.Response(body=content[: int(request.query["length"])])
            case "/api/v0/id":
                away = "/ip4/192.0.2.7/tcp/4001/p2p/12D3KooWtest"
                return web.json_response(
                    {"ID": "12D3KooWtest", "Addresses": ["/ip4/127.0.0.1/tcp/4001", away]}
                )
            case "/api/v0/swarm/connect":
                self.connected.append(request.query["arg"])
                return web.json_response({"Message": "no route", "Code": 0, "Type": "error"}, status=500)
        raise web.HTTPNotFound

    async def _add(self, request: web.Request) -> web.StreamResponse:
        assert dict(request.query) == {
            "cid-version": "1",
            "raw-leaves": "true",
            "chunker": "size-262144",
            "pin": "true",
            "progress": "false",
        }
        content, _ = await sent_file(request)
        if self.answer is not None:
            return self.answer
        cid = str(file_cid(content))
        self.files[cid] = content
        added = {"Name": "evidence.json", "Hash": self.says or cid, "Size": str(len(content))}
        return web.Response(text=json.dumps(added) + "\n", content_type="application/json")


@dataclass
class FakePinning:
    """A service of the IPFS Pinning Service API, and an endpoint for uploads beside it.

    Attributes:
        states: what it says of a request, look by look; the last one for ever.
        pins: requests by id.
        says: the CID that it answers, in place of the right one.
        upload_answer: makes the answer to an upload out of the CID.
        uploads: files and fields that were posted.
    """

    states: list[str] = field(default_factory=lambda: ["queued", "pinning", "pinned"])
    pins: dict[str, dict[str, Any]] = field(default_factory=dict)
    says: str | None = None
    upload_answer: Callable[[str], Any] = lambda cid: {"data": {"cid": cid}}
    uploads: list[tuple[bytes, dict[str, str]]] = field(default_factory=list)
    looks: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error": {"reason": "UNAUTHORIZED"}}, status=401)
        if request.path == "/upload" and request.method == "POST":
            content, fields = await sent_file(request)
            self.uploads.append((content, fields))
            return web.json_response(self.upload_answer(self.says or str(file_cid(content))))
        if request.path == "/psa/pins" and request.method == "GET":
            wanted = request.query["status"].split(",")
            found = [pin for pin in self.pins.values() if pin["cid"] == request.query["cid"]]
            results = [self._status(pin) for pin in found if self.states[0] in wanted]
            return web.json_response({"count": len(results), "results": results})
        if request.path == "/psa/pins" and request.method == "POST":
            pin = await request.json()
            self.pins[f"id/{len(self.pins)}"] = pin
            return web.json_response(self._status(pin), status=202)
        if request.method == "GET":
            return web.json_response(self._status(self.pins[request.path.removeprefix("/psa/pins/")]))
        raise web.HTTPNotFound

    def _status(self, pin: dict[str, Any]) -> dict[str, Any]:
        state = self.states[min(self.looks, len(self.states) - 1)]
        self.looks += 1
        return {
            "requestid": next(name for name, known in self.pins.items() if known is pin),
            "status": state,
            "created": "2026-01-01T00:00:00Z",
            "pin": pin | ({"cid": self.says} if self.says else {}),
            "delegates": ["/ip4/198.51.100.9/tcp/4001/p2p/12D3KooWservice"],
            "info": {"why": "told so"} if state == "failed" else {},
        }


def other_cid() -> Cid:
    """The CID of other bytes."""
    return file_cid(b"other bytes")
