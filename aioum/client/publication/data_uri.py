"""`data:` URIs (RFC 2397): evidence that is its own address."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from urllib.parse import unquote, unquote_to_bytes

from aioum.client.publication.published import MAX_EVIDENCE_URI_BYTES, Placed, require_uri_length
from aioum.core.errors import InvalidInput
from aioum.core.types import Bytes32

_HEAD = "data:application/json;base64,"


@dataclass(frozen=True, slots=True)
class DataUriPublisher:
    """A `Publisher` that puts the package into its URI, and so on-chain with it.

    Attributes:
        max_uri_bytes: longest URI; a dispute takes no longer one than the default.
    """

    max_uri_bytes: int = MAX_EVIDENCE_URI_BYTES

    async def place(self, data: bytes, evidence_hash: Bytes32) -> Placed:
        """See `Publisher.place`. Raises PublishFailed `publish-uri-too-long`."""
        uri = _HEAD + base64.b64encode(data).decode()
        require_uri_length(uri, self.max_uri_bytes)
        return Placed(uri)


def data_of(uri: str) -> bytes:
    """The bytes that a `data:` URI holds, in base64 or percent-encoding.

    Raises:
        InvalidInput: `evidence-uri-invalid`.
    """
    head, comma, body = uri[len("data:") :].partition(",")
    if not comma or not uri.isascii():
        raise InvalidInput("a data URI is data:[type][;base64],…", code="evidence-uri-invalid")
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(body)
    try:
        return base64.b64decode(unquote(body), validate=True)
    except ValueError as error:
        raise InvalidInput(f"the data URI is not base64: {error}", code="evidence-uri-invalid") from error
