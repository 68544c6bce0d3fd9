"""The CID that a file gets on IPFS, computed here: UnixFS over dag-pb, in the balanced layout.

The file is cut into chunks of one size. A chunk is a block of its own (`raw` leaves) or lies in a node;
nodes link to at most so many blocks, level by level, until one is left: the root. A file of one chunk is
that one leaf. Encodings: the dag-pb and UnixFS specifications, links before data, every field in the order
that Kubo writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from aioum.client.publication.cid import DAG_PB, RAW, Cid


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file becomes blocks.

    Attributes:
        chunk_bytes: size of every chunk but the last.
        max_links: most links of one node.
        raw_leaves: whether a chunk is a block of its own, or lies in a node.
        version: of the CIDs of nodes; raw leaves are always version 1.
    """

    chunk_bytes: int = 262_144
    max_links: int = 174
    raw_leaves: bool = True
    version: int = 1


PUBLISHED: Final = Layout()
"""How evidence is published: version 1, raw leaves, 256 KiB chunks, 174 links."""

_KNOWN: Final = (
    PUBLISHED,
    # What `ipfs add` does without options.
    Layout(raw_leaves=False),
    # The profile unixfs-v1-2025.
    Layout(chunk_bytes=1_048_576, max_links=1_024),
)
"""Layouts that a fetched file is tried in."""


@dataclass(frozen=True, slots=True)
class _Block:
    """What a parent says of a block: file bytes below it, and size of all blocks from it down."""

    cid: Cid
    file_bytes: int
    total_bytes: int


def file_cid(data: bytes, layout: Layout = PUBLISHED) -> Cid:
    """The CID of a file's bytes."""
    # Without a byte there is still one leaf.
    starts = range(0, max(len(data), 1), layout.chunk_bytes)
    view = memoryview(data)
    level = [_leaf(bytes(view[start : start + layout.chunk_bytes]), layout) for start in starts]
    while len(level) > 1:
        level = [
            _parent(level[first : first + layout.max_links], layout)
            for first in range(0, len(level), layout.max_links)
        ]
    return level[0].cid


def is_content_of(data: bytes, cid: Cid) -> bool:
    """Whether a file's bytes give `cid`, in one of the layouts that are in use.

    A `raw` CID is the hash of one block, whatever its size. A `dag-pb` CID that was made in another layout
    is not recognized.
    """
    if cid.codec == RAW:
        return hashlib.sha256(data).digest() == cid.digest
    return any(file_cid(data, replace(layout, version=cid.version)) == cid for layout in _KNOWN)


def _leaf(chunk: bytes, layout: Layout) -> _Block:
    if layout.raw_leaves:
        return _Block(Cid(1, RAW, hashlib.sha256(chunk).digest()), len(chunk), len(chunk))
    return _node((), _file_header(chunk, len(chunk), ()), len(chunk), layout)


def _parent(children: list[_Block], layout: Layout) -> _Block:
    sizes = [child.file_bytes for child in children]
    return _node(children, _file_header(b"", sum(sizes), sizes), sum(sizes), layout)


def _node(children: Iterable[_Block], header: bytes, file_bytes: int, layout: Layout) -> _Block:
    """A dag-pb node: PBNode{Links = 2, Data = 1}, PBLink{Hash = 1, Name = 2, Tsize = 3}."""
    encoded, linked_bytes = bytearray(), 0
    for child in children:
        # The name is empty, and yet written.
        link = _text(1, child.cid.to_bytes()) + _text(2, b"") + _number(3, child.total_bytes)
        encoded += _text(2, link)
        linked_bytes += child.total_bytes
    encoded += _text(1, header)
    cid = Cid(layout.version, DAG_PB, hashlib.sha256(encoded).digest())
    return _Block(cid, file_bytes, linked_bytes + len(encoded))


def _file_header(content: bytes, file_bytes: int, child_bytes: Iterable[int]) -> bytes:
    """UnixFS Data{Type = 1, Data = 2, filesize = 3, blocksizes = 4}; the type is 2, a file."""
    inline = _text(2, content) if content else b""
    sizes = b"".join(_number(4, size) for size in child_bytes)
    return _number(1, 2) + inline + _number(3, file_bytes) + sizes


def _text(field: int, content: bytes) -> bytes:
    """A protobuf field of bytes."""
    return bytes((field << 3 | 2,)) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    """A protobuf field of an unsigned number."""
    return bytes((field << 3,)) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
