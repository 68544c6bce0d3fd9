"""A client whose every answer is held against the document, whatever it sends and however it is answered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from yarl import URL

from aioum.core.types import ZERO_BYTES32
from aioum_node.api.openapi import openapi_document
from aioum_node.app import RunningNode
from tests.contract_http.conformance import Document, faults, path_of
from tests.integration.node.edge_client import Buyer, Opened, Reply
from tests.pens import ROSTER

DEADLINE_SECONDS = 20


@dataclass
class Watched(Buyer):
    """A buyer; `seen` are method, path and status of its answers, `faults` what of them is not documented."""

    document: Any = field(default_factory=openapi_document)
    seen: set[tuple[str, str, int]] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    async def _send(self, method: str, url: str, body: Any, headers: dict[str, str] | None = None) -> Reply:
        return self._held(method, url, await super()._send(method, url, body, headers))

    def _held(self, method: str, url: str, reply: Reply) -> Reply:
        path = path_of(self.document, URL(url).path)
        self.seen.add((method, path, reply.status))
        self.faults += faults(self.document, method, path, reply.status, reply.headers, reply.body)
        return reply

    async def ask_for(self, method: str, url: str, **headers: str) -> Reply:
        """Send a request without a body."""
        return await self._send(method, url, None, headers)

    async def post(self, url: str, body: Any, **headers: str) -> Reply:
        """Send anything at all; an iterator of chunks may take its time."""
        return await self._send("POST", url, body, headers)

    async def get(self, url: str, **headers: str) -> Reply:
        """Read anything at all."""
        return await self.ask_for("GET", url, **headers)

    async def begin(self, method: str, url: str) -> Reply:
        """Begin a request on a connection of its own, and read what comes until the node closes it."""
        target = URL(url)
        reader, writer = await asyncio.open_connection(target.host, target.port)
        try:
            writer.write(f"{method} {target.raw_path} HTTP/1.1\r\n".encode())
            async with asyncio.timeout(DEADLINE_SECONDS):
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.transport.abort()
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        return self._held(method, url, Reply(int(first.split()[1]), body, headers))

    async def open_and_enter(self, node: RunningNode, *, signed: bool = False) -> Opened:
        """A session that the node has taken over."""
        shown: dict[str, Any] = {"roster": ROSTER.to_json()} if signed else {}
        session = await self.open(node, roster_hash=ROSTER.hash if signed else ZERO_BYTES32)
        assert (await self.enter(node, session, tool="echo", **shown)).code == "payment-required"
        return session


def each_operation(document: Document, url: str) -> Iterator[tuple[str, str]]:
    """Method and URL of a request for every documented operation; its parameters mean nothing."""
    for path, item in document["paths"].items():
        for method in item:
            yield method.upper(), url + re.sub(r"\{[^}]*\}", "x", path)
