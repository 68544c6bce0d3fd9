"""Bytes of an artifact to one JSON value a line (SUBMISSIONS 1.6).

Foreign writers let a repeated key's last value win, so this is the one place beside the strict loader
(`aioum.core.canonical.parse_json`) where JSON enters. It is strict about everything else, and of a paid
session's artifact about that as well.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, Never

from aioum.core.canonical import MAX_SAFE_INTEGER, plain_text, require_json, require_shallow
from aioum.core.errors import CanonicalError, InvalidInput
from aioum.replay.limits import Limits

_WHITE_SPACE: Final = " \t\r"
_LONGEST_SAFE_LITERAL: Final = 15
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def split_lines(data: bytes, limits: Limits) -> list[str]:
    """The lines, without trailing blank ones. Lines end with LF or CRLF and nothing else.

    Raises:
        InvalidInput: `artifact-too-large`, `artifact-not-utf8`, `artifact-bom`, `artifact-empty` or
            `too-many-lines`.
    """
    if len(data) > limits.artifact_bytes:
        raise InvalidInput(
            f"the artifact has {len(data)} bytes, at most {limits.artifact_bytes} are read",
            code="artifact-too-large",
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"not UTF-8 at byte {error.start}: {error.reason}", code="artifact-not-utf8"
        ) from error
    if text.startswith("\ufeff"):
        raise InvalidInput("the artifact begins with a byte order mark", code="artifact-bom")
    lines = text.rstrip(_WHITE_SPACE + "\n").split("\n")
    if not lines[0].strip(_WHITE_SPACE) and len(lines) == 1:
        raise InvalidInput("the artifact is empty, expected a header line", code="artifact-empty")
    if len(lines) - 1 > limits.lines:
        raise InvalidInput(
            f"{len(lines) - 1} lines follow the header, at most {limits.lines} are read",
            code="too-many-lines",
        )
    return lines


def load_json(text: str) -> Any:
    """The JSON value of a text; of a key that is repeated in an object, the last value.

    Raises:
        CanonicalError: `json-syntax`, `json-number-unsafe`, `json-number-not-finite`, `json-lone-surrogate`
            or `json-too-deep` (more than 64 containers).
    """
    return _load(text, _decode)


def require_unique_keys(text: str, value: Any) -> None:
    """Refuse a text in which an object has a key twice. Raises CanonicalError `json-duplicate-key`.

    Args:
        text: a text that `load_json` has read.
        value: what it gave.
    """
    # Canonical text has no key twice, and nearly every line is; only others are worth reading again.
    if plain_text(value) != text:
        _load(text, _decode_unique)


def _load(text: str, decode: Callable[[str, int], tuple[Any, int]]) -> Any:
    require_shallow(text)
    try:
        value, end = decode(text, len(text) - len(text.lstrip(_WHITE_SPACE)))
    except json.JSONDecodeError as error:
        raise _not_json(f"{error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise CanonicalError("the call stack is too full to read the text", code="json-too-deep") from error
    if end != len(text) and text[end:].strip(_WHITE_SPACE):
        raise _not_json(f"something follows the value at character {end}")
    # Only escapes bring in surrogates.
    if "\\u" in text and _SURROGATE_ESCAPE.search(text):
        require_json([value])
    return value


def _not_json(why: str) -> CanonicalError:
    return CanonicalError(f"not JSON: {why}", code="json-syntax")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise CanonicalError("a key occurs twice in one object", code="json-duplicate-key")
    return members


def _integer(literal: str) -> int:
    # int() of a very long literal is slow or an error of its own.
    if len(literal) <= _LONGEST_SAFE_LITERAL:
        return int(literal)
    if len(literal) <= len(str(-MAX_SAFE_INTEGER)):
        value = int(literal)
        if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            return value
    raise CanonicalError("an integer lies outside ±(2^53-1)", code="json-number-unsafe")


def _finite_double(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise CanonicalError("a number overflows a double", code="json-number-not-finite")
    if abs(value) > MAX_SAFE_INTEGER:
        raise CanonicalError("a whole number lies outside ±(2^53-1)", code="json-number-unsafe")
    return value


def _refuse_constant(literal: str) -> Never:
    raise CanonicalError(f"{literal} is not a JSON number", code="json-number-not-finite")


_decode: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=_finite_double, parse_constant=_refuse_constant
).raw_decode
_decode_unique: Final = json.JSONDecoder(
    parse_int=_integer,
    parse_float=_finite_double,
    parse_constant=_refuse_constant,
    object_pairs_hook=_unique_members,
).raw_decode
