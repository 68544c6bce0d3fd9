"""Checks of single members. Each returns the value or raises InvalidInput with a code and no place.

The loader has already refused integers outside ±(2^53-1) and unpaired surrogates. A whole number spelled as
a fraction (`0.0`) is a float here, and a bool is no integer.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, Final

from aioum.core.errors import InvalidInput
from aioum.core.submission.framing import MAX_TEXT_BYTES
from aioum.replay.model import JsonObject

MAX_U32: Final = 2**32 - 1

_ABSENT: Final = object()
_LONGEST_UTF8: Final = 4
_LONGEST_SHOWN: Final = 60
_HASH_HEX: Final = re.compile(r"[0-9a-f]{64}")
_SALT_HEX: Final = re.compile(r"(?:[0-9a-f]{2}){16,64}")


def shown(value: object) -> str:
    """A value for a message, short and in ASCII."""
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, str):
        return ascii(value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…")
    return str(value) if value is None or isinstance(value, int | float) else type(value).__name__


def members(value: Any, allowed: frozenset[str], required: frozenset[str]) -> JsonObject:
    """An object with all of the required members and none but the allowed.

    Raises:
        InvalidInput: `not-an-object`, `unknown-property` or `missing-property`.
    """
    if type(value) is not dict:
        raise InvalidInput(f"must be an object, got {shown(value)}", code="not-an-object")
    if not allowed.issuperset(value):
        unknown = next(key for key in value if key not in allowed)
        raise InvalidInput(f"unknown property {shown(unknown)}", code="unknown-property")
    if not value.keys() >= required:
        missing = next(name for name in sorted(required) if name not in value)
        raise InvalidInput(f"{missing} is missing", code="missing-property")
    return value


def text(value: JsonObject, name: str) -> str:
    """A text of 1 to 65,536 bytes of UTF-8. Raises InvalidInput `text-invalid` or `text-too-large`."""
    found = value.get(name, _ABSENT)
    if type(found) is not str or not found:
        raise InvalidInput(f"{name} must be a non-empty string, got {shown(found)}", code="text-invalid")
    if len(found) * _LONGEST_UTF8 > MAX_TEXT_BYTES and len(found.encode()) > MAX_TEXT_BYTES:
        raise InvalidInput(f"{name} has over {MAX_TEXT_BYTES} bytes", code="text-too-large")
    return found


def optional_text(value: JsonObject, name: str) -> str | None:
    """As `text`, or None where it is absent (null is refused)."""
    return text(value, name) if name in value else None


def count(value: JsonObject, name: str) -> int:
    """A whole number from 0 to 2^53-1. Raises InvalidInput `integer-invalid`."""
    found = value.get(name, _ABSENT)
    if type(found) is not int or found < 0:
        raise InvalidInput(
            f"{name} must be a whole number from 0 to 2^53-1, got {shown(found)}", code="integer-invalid"
        )
    return found


def optional_count(value: JsonObject, name: str) -> int | None:
    """As `count`, or None where it is absent (null is refused)."""
    return count(value, name) if name in value else None


def u32(value: JsonObject, name: str) -> int:
    """A whole number from 0 to 2^32-1. Raises InvalidInput `integer-invalid`."""
    found = count(value, name)
    if found > MAX_U32:
        raise InvalidInput(f"{name} must be at most 2^32-1, got {found}", code="integer-invalid")
    return found


def number(value: JsonObject, name: str) -> int | float:
    """A number. Raises InvalidInput `number-invalid`."""
    found = value.get(name, _ABSENT)
    if type(found) is int or type(found) is float:
        return found
    raise InvalidInput(f"{name} must be a number, got {shown(found)}", code="number-invalid")


def optional_object(value: JsonObject, name: str) -> JsonObject | None:
    """An object of any members, or None where it is absent. Raises InvalidInput `not-an-object`."""
    found = value.get(name, _ABSENT)
    if found is _ABSENT:
        return None
    if type(found) is not dict:
        raise InvalidInput(f"{name} must be an object, got {shown(found)}", code="not-an-object")
    return found


def one_of(value: JsonObject, name: str, allowed: Container[str], code: str) -> str:
    """One of some texts. Raises InvalidInput `code`."""
    found = value.get(name, _ABSENT)
    if type(found) is str and found in allowed:
        return found
    raise InvalidInput(f"{name} is {shown(found)}, expected {allowed}", code=code)


def hash_hex(value: JsonObject, name: str, code: str) -> bytes:
    """32 bytes in lower-case hex. Raises InvalidInput `code`."""
    found = value.get(name)
    if type(found) is str and _HASH_HEX.fullmatch(found):
        return bytes.fromhex(found)
    raise InvalidInput(f"{name} must be 64 lower-case hex digits, got {shown(found)}", code=code)


def salt_hex(value: JsonObject, name: str, code: str) -> bytes:
    """16 to 64 bytes in lower-case hex. Raises InvalidInput `code`."""
    found = value.get(name)
    if type(found) is str and _SALT_HEX.fullmatch(found):
        return bytes.fromhex(found)
    raise InvalidInput(f"{name} must be 16 to 64 bytes in lower-case hex, got {shown(found)}", code=code)
