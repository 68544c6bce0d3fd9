"""Publishing to IPFS by somebody else's nodes: a pinning service, or an endpoint that takes uploads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from aioum.client.publication.cid import Cid
from aioum.client.publication.exchange import Reach
from aioum.client.publication.kubo import FILE_NAME, MAX_ADDRESSES, KuboPublisher, ipfs_uri, multipart_file
from aioum.client.publication.published import Placed, PublishFailed
from aioum.client.publication.service import answer_invalid, ask, read_object, require_same_cid, service_url
from aioum.client.publication.unixfs import file_cid
from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.types import Bytes32

_PINNING: Final = "the pinning service"
_UPLOAD: Final = "the upload endpoint"
_STATES: Final = ("queued", "pinning", "pinned", "failed")
_MAX_REQUEST_ID_CHARACTERS: Final = 512
_CID_MEMBERS: Final = ("cid", "IpfsHash", "Hash")
"""Where endpoints that take uploads put the CID, on top or below `data`."""


@dataclass(frozen=True, slots=True)
class PinningPublisher:
    """A `Publisher` by the IPFS Pinning Service API: the service fetches the file from a Kubo node of ours.

    A pin request that is there already is followed, not repeated.

    Attributes:
        url: of the service; `/pins` is below it.
        token: access token.
        kubo: the node that has the file meanwhile.
        reach: times for one request.
        pin_timeout_seconds: how long the service may take to fetch the file.
        poll_seconds: pause between two looks.
        clock: seconds, monotonic.
    """

    url: str
    token: str = field(repr=False)
    kubo: KuboPublisher
    reach: Reach
    pin_timeout_seconds: float = 300.0
    poll_seconds: float = 2.0
    clock: Callable[[], float] = time.monotonic

    async def place(self, data: bytes, evidence_hash: Bytes32) -> Placed:
        """See `Publisher.place`.

        Raises:
            InvalidInput: `service-url-invalid`.
            PolicyRefused: `plain-http-refused`.
            PublishFailed: as `ask`; `publish-cid-mismatch`; `publish-pin-failed`; `publish-pin-pending`: it
                is not pinned within the time, and may be later.
        """
        service_url(self.url, self.reach)
        placed = await self.kubo.place(data, evidence_hash)
        assert placed.cid is not None  # noqa: S101 - KuboPublisher always gives one
        pin = await self._existing(placed.cid) or await self._request(placed.cid)
        deadline = self.clock() + self.pin_timeout_seconds
        while pin["status"] != "pinned":
            if pin["status"] == "failed":
                raise PublishFailed(
                    f"{_PINNING} could not pin {placed.cid}: {pin.get('info')!s:.200}",
                    code="publish-pin-failed",
                )
            if self.clock() >= deadline:
                raise PublishFailed(
                    f"{_PINNING} has not pinned {placed.cid} within {self.pin_timeout_seconds:g} s",
                    code="publish-pin-pending",
                    hint="keep your IPFS node running and publish again: the same request is followed",
                    details={"requestId": pin["requestid"], "cid": str(placed.cid)},
                )
            await asyncio.sleep(self.poll_seconds)
            pin = _pin(await self._ask("GET", f"/{quote(str(pin['requestid']), safe='')}"), placed.cid)
        return placed

    async def _existing(self, cid: Cid) -> dict[str, JsonValue] | None:
        found = await self._ask("GET", f"?cid={cid}&status=queued,pinning,pinned&limit=1")
        results = found.get("results")
        if not isinstance(results, list):
            raise answer_invalid(_PINNING, "no list of results")
        return _pin(results[0], cid) if results else None

    async def _request(self, cid: Cid) -> dict[str, JsonValue]:
        origins: list[JsonValue] = [*await self.kubo.addresses()]
        wanted: dict[str, JsonValue] = {"cid": str(cid), "name": FILE_NAME, "origins": origins}
        pin = _pin(await self._ask("POST", "", canonical_bytes(wanted)), cid)
        delegates = pin.get("delegates")
        # The service asks nodes that it knows first. A node that cannot be reached is its trouble, not ours.
        async with asyncio.TaskGroup() as group:
            for address in (delegates if isinstance(delegates, list) else [])[:MAX_ADDRESSES]:
                if isinstance(address, str):
                    group.create_task(self.kubo.connect(address))
        return pin

    async def _ask(self, method: str, tail: str, body: bytes | None = None) -> dict[str, JsonValue]:
        answer = await ask(
            method,
            f"{service_url(self.url, self.reach)}/pins{tail}",
            what=_PINNING,
            reach=self.reach,
            token=self.token,
            body=body,
            headers=None if body is None else {"Content-Type": "application/json"},
        )
        return read_object(answer, _PINNING)


@dataclass(frozen=True, slots=True)
class UploadPublisher:
    """A `Publisher` that posts the file as a form, with a bearer token, and is answered with a CID.

    The CID is `cid`, `IpfsHash` or `Hash`, on top of the answered object or in its `data`.

    Attributes:
        url: of the endpoint.
        token: access token.
        reach: times.
        fields: further fields of the form, such as `network` and `public`.
    """

    url: str
    token: str = field(repr=False)
    reach: Reach
    fields: tuple[tuple[str, str], ...] = ()

    async def place(self, data: bytes, evidence_hash: Bytes32) -> Placed:
        """See `Publisher.place`.

        Raises:
            InvalidInput: `service-url-invalid`.
            PolicyRefused: `plain-http-refused`.
            PublishFailed: as `ask`; `publish-cid-mismatch`.
        """
        url = service_url(self.url, self.reach)
        expected = await asyncio.to_thread(file_cid, data)
        form = multipart_file(data, self.fields)
        body = await ask("POST", url, what=_UPLOAD, reach=self.reach, token=self.token, body=form)
        answer = read_object(body, _UPLOAD)
        inner = answer.get("data")
        said = [
            members[name]
            for members in (answer, inner)
            if isinstance(members, dict)
            for name in _CID_MEMBERS
            if name in members
        ]
        require_same_cid(said[0] if said else None, expected, _UPLOAD)
        return Placed(ipfs_uri(expected), expected)


def _pin(status: JsonValue, cid: Cid) -> dict[str, JsonValue]:
    """A PinStatus that is about `cid`."""
    if not isinstance(status, dict):
        raise answer_invalid(_PINNING, "no pin status")
    request_id, pin = status.get("requestid"), status.get("pin")
    if not isinstance(request_id, str) or not 0 < len(request_id) <= _MAX_REQUEST_ID_CHARACTERS:
        raise answer_invalid(_PINNING, "no requestid")
    if status.get("status") not in _STATES:
        raise answer_invalid(_PINNING, f"status {status.get('status')!r:.40}")
    require_same_cid(pin.get("cid") if isinstance(pin, dict) else None, cid, _PINNING)
    return status
