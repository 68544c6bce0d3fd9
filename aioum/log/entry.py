"""Entries of a log: canonical JSON, of one spelling each (PROTOCOL 9)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aioum.core.amounts import check_amount, parse_amount
from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue, canonical_bytes, parse_json
from aioum.core.errors import InvalidInput
from aioum.core.hextext import address, address_text, bytes32, channel_id, to_hex
from aioum.core.types import Address, Bytes32, ChannelId

SESSION_TYPE: Final = "aioum.session.v1"
CAPSULE_TYPE: Final = "aioum.capsule.v1"

MAX_ENTRY_BYTES: Final = 1_024
"""Most bytes of an entry; the longest session has some 500. Bundles could hold 65,535."""

_MAX_SESSION_ID: Final = 2**256 - 1
_SESSION_ID: Final = re.compile(r"[1-9][0-9]{0,77}", re.ASCII)
_SESSION_MEMBERS: Final = {
    "callCount",
    "captured",
    "chainId",
    "channelId",
    "paymentManager",
    "resultsRoot",
    "sessionId",
    "type",
}
_CAPSULE_MEMBERS: Final = {"root", "type"}


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A finalized channel.

    Attributes:
        chain_id: 1 to 2^53-1.
        payment_manager: 20 bytes.
        channel_id: 32 bytes.
        session_id: the contract's number of it at finality depth, 1 to 2^256-1.
        call_count: calls under the root, 0 to 2^53-1.
        captured: base units that the operator got, 0 to 2^128-1.
        results_root: 32 bytes; zero where the channel was closed without one.

    Raises:
        InvalidInput: `log-entry-malformed`.
    """

    chain_id: int
    payment_manager: Address
    channel_id: ChannelId
    session_id: int
    call_count: int
    captured: int
    results_root: Bytes32

    def __post_init__(self) -> None:
        _require_integer("chainId", self.chain_id, 1, MAX_SAFE_INTEGER)
        _require_integer("sessionId", self.session_id, 1, _MAX_SESSION_ID)
        _require_integer("callCount", self.call_count, 0, MAX_SAFE_INTEGER)
        _require_size("paymentManager", self.payment_manager, 20)
        _require_size("channelId", self.channel_id, 32)
        _require_size("resultsRoot", self.results_root, 32)
        try:
            check_amount(self.captured)
        except InvalidInput as error:
            raise _malformed(str(error)) from error

    def to_bytes(self) -> bytes:
        """The canonical JSON of the entry."""
        return canonical_bytes(
            {
                "callCount": self.call_count,
                "captured": str(self.captured),
                "chainId": self.chain_id,
                "channelId": to_hex(self.channel_id),
                "paymentManager": address_text(self.payment_manager),
                "resultsRoot": to_hex(self.results_root),
                "sessionId": str(self.session_id),
                "type": SESSION_TYPE,
            }
        )


@dataclass(frozen=True, slots=True)
class CapsuleEntry:
    """A sealed run.

    Attributes:
        root: of the capsule's events, 32 bytes (PROTOCOL 8).

    Raises:
        InvalidInput: `log-entry-malformed`.
    """

    root: Bytes32

    def __post_init__(self) -> None:
        _require_size("root", self.root, 32)

    def to_bytes(self) -> bytes:
        """The canonical JSON of the entry."""
        return canonical_bytes({"root": to_hex(self.root), "type": CAPSULE_TYPE})


Entry = SessionEntry | CapsuleEntry


def read_entry(data: bytes) -> Entry:
    """Read what `to_bytes` writes, in that spelling only.

    Args:
        data: at most MAX_ENTRY_BYTES.

    Raises:
        CanonicalError: as `parse_json`.
        InvalidInput: `log-entry-type-unknown`; `log-entry-malformed`, a member is missing, too many or out of
            range; `log-entry-not-canonical`, the same content is written in another way.
    """
    value = parse_json(data, max_bytes=MAX_ENTRY_BYTES)
    if not isinstance(value, dict):
        raise _malformed("it is no JSON object")
    kind = value.get("type")
    entry: Entry
    if kind == SESSION_TYPE:
        entry = _session(value)
    elif kind == CAPSULE_TYPE:
        entry = _capsule(value)
    else:
        raise InvalidInput(
            f"a log entry has type {kind!r:.60}, expected {SESSION_TYPE} or {CAPSULE_TYPE}",
            code="log-entry-type-unknown",
        )
    if entry.to_bytes() != data:
        # Two spellings would be two leaves for one session.
        raise InvalidInput("a log entry is not written canonically", code="log-entry-not-canonical")
    return entry


def _session(value: dict[str, JsonValue]) -> SessionEntry:
    _require_members(value, _SESSION_MEMBERS)
    chain_id, call_count, session_id = value["chainId"], value["callCount"], value["sessionId"]
    if type(chain_id) is not int or type(call_count) is not int:
        raise _malformed("chainId and callCount must be integers")
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        raise _malformed("sessionId must be the decimal text of a positive integer")
    try:
        return SessionEntry(
            chain_id,
            address(value["paymentManager"]),
            channel_id(value["channelId"]),
            int(session_id),
            call_count,
            parse_amount(value["captured"]),
            bytes32(value["resultsRoot"]),
        )
    except InvalidInput as error:
        raise _malformed(str(error)) from error


def _capsule(value: dict[str, JsonValue]) -> CapsuleEntry:
    _require_members(value, _CAPSULE_MEMBERS)
    try:
        return CapsuleEntry(bytes32(value["root"]))
    except InvalidInput as error:
        raise _malformed(str(error)) from error


def _require_members(value: dict[str, JsonValue], expected: set[str]) -> None:
    if value.keys() != expected:
        raise _malformed(f"its members are {sorted(value)!r:.200}, expected {sorted(expected)}")


def _require_integer(name: str, value: int, lowest: int, highest: int) -> None:
    if type(value) is not int or not lowest <= value <= highest:
        raise _malformed(f"{name} is {value!r:.100}, expected {lowest} to {highest}")


def _require_size(name: str, value: bytes, size_bytes: int) -> None:
    if len(value) != size_bytes:
        raise _malformed(f"{name} has {len(value)} bytes, expected {size_bytes}")


def _malformed(why: str) -> InvalidInput:
    return InvalidInput(f"malformed log entry: {why}", code="log-entry-malformed")
