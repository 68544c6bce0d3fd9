"""Canonical JSON of the submission scheme: what rosters, foreign commands and artifacts are hashed in.

It differs from RFC 8785 (`aioum.core.canonical`) in two ways: object keys are sorted by code point, not by
UTF-16 code unit, and a whole number outside ±(2^53-1) is refused however it is spelled.
"""

from __future__ import annotations

import math
from json.encoder import encode_basestring

import rfc8785

from aioum.core.canonical import MAX_SAFE_INTEGER, JsonValue, plain_text, require_json
from aioum.core.errors import CanonicalError


def canonical_json_text(value: JsonValue) -> str:
    """The canonical text of a value, as `canonicalJson` of the scheme gives it.

    Raises:
        CanonicalError: `json-type-unsupported`, `json-number-unsafe`, `json-number-not-finite`,
            `json-lone-surrogate` or `json-too-deep` (more than 64 containers).
    """
    try:
        return plain_text(value) if require_json([value]) else _text(value)
    except RecursionError as error:
        raise CanonicalError(
            "the call stack is too full to serialize the value", code="json-too-deep"
        ) from error


def canonical_json(value: JsonValue) -> bytes:
    """`canonical_json_text` in UTF-8; refuses the same values."""
    return canonical_json_text(value).encode()


def _text(value: JsonValue) -> str:
    # Only for what the C encoder would spell otherwise; `require_json` has checked it.
    match value:
        case dict():
            members = (f"{encode_basestring(key)}:{_text(value[key])}" for key in sorted(value))
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(_text, value)) + "]"
        case float():
            return _number(value)
        case _:
            return plain_text(value)


def _number(value: float) -> str:
    if not value.is_integer():
        return rfc8785.dumps(value).decode()
    if math.fabs(value) > MAX_SAFE_INTEGER:
        raise CanonicalError("a whole number lies outside ±(2^53-1)", code="json-number-unsafe")
    return str(int(value))
