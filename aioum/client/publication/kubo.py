"""Publishing to IPFS by the RPC of a Kubo node (`/api/v0`)."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import aiohttp

from aioum.client.publication.cid import Cid
from aioum.client.publication.exchange import Reach
from aioum.client.publication.published import Placed, PublishFailed
from aioum.client.publication.service import answer_invalid, ask, read_object, require_same_cid, service_url
from aioum.client.publication.unixfs import PUBLISHED, file_cid
from aioum.core.types import Bytes32

FILE_NAME: Final = "evidence.json"
MAX_ADDRESSES: Final = 20
"""Most addresses that a pin request or its answer names (Pinning Service API)."""

_ADD: Final = (
    f"add?cid-version=1&raw-leaves=true&chunker=size-{PUBLISHED.chunk_bytes}&pin=true&progress=false"
)
_WHAT: Final = "the IPFS node"


@dataclass(frozen=True, slots=True)
class KuboPublisher:
    """A `Publisher` that adds files to a Kubo node and pins them there.

    Attributes:
        url: of the RPC, such as `http://127.0.0.1:5001`. Whoever reaches it governs the node.
        reach: times, and whether plain HTTP is allowed to other machines.
    """

    url: str
    reach: Reach

    async def place(self, data: bytes, evidence_hash: Bytes32) -> Placed:
        """See `Publisher.place`.

        Raises:
            InvalidInput: `service-url-invalid`.
            PolicyRefused: `plain-http-refused`.
            PublishFailed: as `ask`; `publish-cid-mismatch`.
        """
        expected = await asyncio.to_thread(file_cid, data)
        body = await self._ask(_ADD, multipart_file(data))
        # One object a line, for every file added.
        lines = [line for line in body.splitlines() if line.strip()]
        if len(lines) != 1:
            raise answer_invalid(_WHAT, f"{len(lines)} files added, not one")
        require_same_cid(read_object(lines[0], _WHAT).get("Hash"), expected, _WHAT)
        return Placed(ipfs_uri(expected), expected)

    async def addresses(self) -> list[str]:
        """Where other nodes reach this one, as multiaddrs that end in its peer id.

        Raises:
            PublishFailed: as `ask`.
        """
        found = read_object(await self._ask("id"), _WHAT).get("Addresses")
        addresses = [text for text in found or () if isinstance(text, str)] if isinstance(found, list) else []
        away = [text for text in addresses if not text.startswith(("/ip4/127.", "/ip6/::1/"))]
        return away[:MAX_ADDRESSES]

    async def connect(self, address: str) -> bool:
        """Connect the node to another one; whether it did."""
        try:
            await self._ask(f"swarm/connect?arg={quote(address, safe='')}")
        except PublishFailed:
            return False
        return True

    async def _ask(self, command: str, body: aiohttp.FormData | None = None) -> bytes:
        base = service_url(self.url, self.reach)
        return await ask("POST", f"{base}/api/v0/{command}", what=_WHAT, reach=self.reach, body=body)


def multipart_file(data: bytes, fields: tuple[tuple[str, str], ...] = ()) -> aiohttp.FormData:
    """A form with one file, in the field `file`."""
    form = aiohttp.FormData(default_to_multipart=True)
    for name, value in fields:
        form.add_field(name, value)
    form.add_field("file", io.BytesIO(data), filename=FILE_NAME, content_type="application/json")
    return form


def ipfs_uri(cid: Cid) -> str:
    """The URI of a file on IPFS."""
    return f"ipfs://{cid}"
