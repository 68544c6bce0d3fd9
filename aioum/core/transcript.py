"""The transcript of a session: entries, their leaves, the keccak root (PROTOCOL 2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from aioum.core.canonical import JsonValue, canonical_text, parse_json
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.merkle import HASH_BYTES, Frontier, root_of

EMPTY_ROOT = bytes(HASH_BYTES)
"""What stands for the root of an empty transcript; it is never committed."""

_ENTRY_MEMBERS = frozenset({"index", "toolId", "request", "response"})
_REQUEST_MEMBERS = frozenset({"arguments", "tool"})


# A session calls few tools many times.
_tool_id_hash = lru_cache(maxsize=1024)(keccak256)


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded call, made of what the client can see and nothing else.

    Attributes:
        index: position in the session, from 0, without gaps.
        tool_id: the tool's name as called.
        request: canonical text, as `canonical_request` gives it.
        response: the raw text that the tool returned.
    """

    index: int
    tool_id: str
    request: str
    response: str


def canonical_request(tool_id: str, arguments: JsonValue) -> str:
    """The canonical text of a call (PROTOCOL 1).

    The request object is one level of its own, so arguments may be nested one less than MAX_DEPTH deep.

    Raises:
        CanonicalError: the arguments have no canonical form.
    """
    return canonical_text({"arguments": arguments, "tool": tool_id})


def leaf_hash(index: int, request: bytes, response: bytes, tool_id: bytes) -> bytes:
    """The leaf of one call; texts as UTF-8, index 0 to 2^256-1; 32 bytes."""
    return keccak256(
        index.to_bytes(32, "big") + keccak256(request) + keccak256(response) + _tool_id_hash(tool_id)
    )


def entry_leaf(entry: Entry) -> bytes:
    """The leaf of an entry; 32 bytes.

    Raises:
        InvalidInput: `entry-text-invalid`, a text has no UTF-8.
    """
    try:
        return leaf_hash(entry.index, entry.request.encode(), entry.response.encode(), entry.tool_id.encode())
    except UnicodeEncodeError as error:
        raise _text_without_utf8(entry.index) from error


def node_hash(left: bytes, right: bytes) -> bytes:
    """The parent of two nodes of the transcript's tree; 32 bytes each."""
    return keccak256(left + right)


def transcript_root(entries: Iterable[Entry]) -> bytes:
    """The root over all entries of a session from its first; EMPTY_ROOT where there are none.

    Raises:
        InvalidInput: `entry-index-gap`, an entry's index is not its position; `entry-text-invalid`.
    """
    leaves = []
    for position, entry in enumerate(entries):
        if entry.index != position:
            raise _index_gap(entry.index, position)
        leaves.append(entry_leaf(entry))
    return root_of(leaves, node_hash) or EMPTY_ROOT


def append_leaf(frontier: Frontier, leaf: bytes) -> Frontier:
    """The running transcript with one more leaf (32 bytes)."""
    return frontier.append(leaf, node_hash)


def frontier_root(frontier: Frontier) -> bytes:
    """The running transcript's root; EMPTY_ROOT where it is empty."""
    return frontier.root(node_hash) or EMPTY_ROOT


def entry_to_json(entry: Entry) -> dict[str, JsonValue]:
    """The entry as it stands in exports and evidence packages."""
    return {
        "index": entry.index,
        "toolId": entry.tool_id,
        "request": entry.request,
        "response": entry.response,
    }


def entry_from_json(value: JsonValue, expected_index: int | None) -> Entry:
    """Read an entry and hold it against the rules of the transcript.

    Args:
        value: what stands in the place of an entry, already through `parse_json`.
        expected_index: the entry's position, or None where entries are disclosed singly.

    Raises:
        InvalidInput: `entry-members-wrong`, not exactly the four members, or the index is not a non-negative
            integer; `entry-text-invalid`, a text is not text, has no UTF-8, or the tool's name is empty;
            `entry-index-gap`; `entry-request-not-canonical`; `entry-tool-mismatch`, the request names another
            tool.
    """
    if not isinstance(value, dict) or value.keys() != _ENTRY_MEMBERS:
        raise InvalidInput(
            f"an entry has exactly the members {', '.join(sorted(_ENTRY_MEMBERS))}",
            code="entry-members-wrong",
        )
    index = value["index"]
    # A bool is an int to Python.
    if type(index) is not int or index < 0:
        raise InvalidInput("an entry's index is not a non-negative integer", code="entry-members-wrong")
    if expected_index is not None and index != expected_index:
        raise _index_gap(index, expected_index)
    tool_id, request, response = value["toolId"], value["request"], value["response"]
    if not (isinstance(tool_id, str) and isinstance(request, str) and isinstance(response, str) and tool_id):
        raise InvalidInput(
            f"toolId (not empty), request and response of entry {index} are not all text",
            code="entry-text-invalid",
        )
    try:
        tool_id.encode()
        response.encode()
        request_size_bytes = len(request.encode())
    except UnicodeEncodeError as error:
        raise _text_without_utf8(index) from error
    entry = Entry(index, tool_id, request, response)
    _require_request(entry, request_size_bytes)
    return entry


def _require_request(entry: Entry, size_bytes: int) -> None:
    try:
        request = parse_json(entry.request, max_bytes=size_bytes)
        canonical = canonical_text(request)
    except CanonicalError as error:
        raise InvalidInput(
            f"the request of entry {entry.index} is not canonical JSON: {error}",
            code="entry-request-not-canonical",
        ) from error
    if canonical != entry.request or not isinstance(request, dict) or request.keys() != _REQUEST_MEMBERS:
        raise InvalidInput(
            f"the request of entry {entry.index} is not canonical text with just arguments and tool",
            code="entry-request-not-canonical",
        )
    if request["tool"] != entry.tool_id:
        raise InvalidInput(
            f"the request of entry {entry.index} names another tool than its toolId",
            code="entry-tool-mismatch",
        )


def _text_without_utf8(index: int) -> InvalidInput:
    return InvalidInput(f"a text of entry {index} holds an unpaired surrogate", code="entry-text-invalid")


def _index_gap(index: int, position: int) -> InvalidInput:
    return InvalidInput(f"an entry has index {index}, expected {position}", code="entry-index-gap")
