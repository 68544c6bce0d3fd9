"""Problem documents (RFC 9457) of failed and refused calls (PROTOCOL 6)."""

from __future__ import annotations

from typing import Final

from aioum.core.canonical import JsonValue, canonical_bytes, parse_json
from aioum.core.errors import CanonicalError

PROBLEM_BASE: Final = "https://aioum.org/problems/"
PAYMENT_PROBLEM_BASE: Final = "https://paymentauth.org/problems/"
PROBLEM_CONTENT_TYPE: Final = "application/problem+json"
_MAX_PROBLEM_BYTES: Final = 2_048


def problem_bytes(status: int, code: str, title: str) -> bytes:
    """The response of a failed call: canonical JSON with exactly status, title and type."""
    return canonical_bytes({"status": status, "title": title, "type": PROBLEM_BASE + code})


def is_problem(response: bytes) -> bool:
    """Whether a recorded response is a failed call's: canonical JSON of exactly that form."""
    return problem_code(response) is not None


def problem_code(response: bytes) -> str | None:
    """The reason code of a failed call's response, or None where the call did not fail."""
    if len(response) > _MAX_PROBLEM_BYTES or not response.startswith(b'{"status":'):
        return None
    try:
        value: JsonValue = parse_json(response, max_bytes=_MAX_PROBLEM_BYTES)
        if not isinstance(value, dict) or canonical_bytes(value) != response:
            return None
    except CanonicalError:
        return None
    kind = value.get("type")
    if set(value) != {"status", "title", "type"} or not isinstance(kind, str):
        return None
    return kind.removeprefix(PROBLEM_BASE) if kind.startswith(PROBLEM_BASE) else None
