"""Members of events, headers and seals: one spelling each, so that one content has one hash."""

from __future__ import annotations

from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue
from aioum.run.errors import EventMalformed

HASH_BYTES: Final = 32
"""Length of commitments, leaves, links of the chain and roots."""

MAX_NAME_BYTES: Final = 256
"""Most UTF-8 bytes of an event's name, a run's id and an agent's name."""


def read_hash(name: str, text: JsonValue, *, code: str | None = None) -> bytes:
    """Read 32 bytes of hex in the one spelling that canonical files have: `0x` and lower case.

    Raises:
        EventMalformed: `code`, or `event-malformed`.
    """
    if type(text) is str and len(text) == 2 + 2 * HASH_BYTES and text.startswith("0x"):
        digits = text[2:]
        try:
            data = bytes.fromhex(digits)
        except ValueError:
            data = b""
        if data.hex() == digits:
            return data
    raise malformed(f"{name} is {text!r:.80}, expected 0x and {2 * HASH_BYTES} lower-case digits", code)


def require_name(name: str, text: str, *, code: str | None = None) -> None:
    """Refuse what is no text of 1 to MAX_NAME_BYTES bytes. Raises EventMalformed `code`."""
    if type(text) is not str:
        raise malformed(f"{name} must be text", code)
    try:
        size_bytes = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        raise malformed(f"{name} holds an unpaired surrogate", code) from error
    if not 0 < size_bytes <= MAX_NAME_BYTES:
        raise malformed(f"{name} has {size_bytes} bytes, expected 1 to {MAX_NAME_BYTES}", code)


def integer(name: str, value: JsonValue) -> int:
    """Refuse what is no JSON integer. Raises EventMalformed `event-malformed`."""
    if type(value) is not int:
        raise malformed(f"{name} is {value!r:.40}, expected an integer")
    return value


def require_integer(name: str, value: int, code: str | None = None) -> None:
    """Refuse what is no integer of 0 to 2^53-1. Raises EventMalformed `code`."""
    if type(value) is not int or not 0 <= value <= MAX_SAFE_INTEGER:
        raise malformed(f"{name} is {value!r:.40}, expected 0 to 2^53-1", code)


def require_hash(name: str, value: bytes) -> None:
    """Refuse what is not 32 bytes. Raises EventMalformed `event-malformed`."""
    if type(value) is not bytes or len(value) != HASH_BYTES:
        raise malformed(f"{name} must have {HASH_BYTES} bytes")


def malformed(why: str, code: str | None = None) -> EventMalformed:
    """The error for a member of an event or a header; `event-malformed` unless there is another code."""
    return EventMalformed(
        f"malformed {'header' if code == 'header-malformed' else 'event'}: {why}", code=code
    )
