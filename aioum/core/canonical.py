"""Canonical JSON (RFC 8785) out, strict JSON in: the one serializer and the one loader (PROTOCOL 1)."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Never, TypeAlias, cast

import rfc8785

from aioum.core.errors import CanonicalError

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
"""What JSON can say. Exactly these types: subclasses, tuples, bytes and Decimal are refused."""

MAX_DEPTH = 64
"""Most containers open at once, in values and in texts."""

MAX_SAFE_INTEGER = 2**53 - 1

_LONGEST_SAFE_LITERAL = 15
_LONGEST_ES6_INTEGER_LITERAL = len("-999999999999999900000")
# At and above this character, UTF-16 code-unit order can differ from code-point order.
_FIRST_REORDERED_CHARACTER = "\ue000"
# Between these, repr() of a float with a fraction is its ES6 text: no exponent in either.
_PLAIN_FLOAT_MIN = 1e-4
_PLAIN_FLOAT_MAX = 1e15

_plain_encoder = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)
plain_text = _plain_encoder.encode
"""JSON by the C encoder: keys by code point, floats in Python's spelling."""


def canonical_text(value: JsonValue) -> str:
    """The canonical JSON text of a value (RFC 8785).

    Args:
        value: dict with str keys, list, str, int within ±(2^53-1), finite float, bool or None, nested at most
            MAX_DEPTH deep. Floats are doubles: `1.0` becomes `1` and `-0.0` becomes `0`.

    Raises:
        CanonicalError: `json-type-unsupported`, `json-number-unsafe`, `json-number-not-finite`,
            `json-lone-surrogate` or `json-too-deep`.
    """
    try:
        if require_json([value]):
            return plain_text(value)
        return rfc8785.dumps(cast("Any", value)).decode()
    except RecursionError as error:
        raise CanonicalError(
            "the call stack is too full to serialize the value", code="json-too-deep"
        ) from error


def canonical_bytes(value: JsonValue) -> bytes:
    """`canonical_text` in UTF-8; refuses the same values."""
    return canonical_text(value).encode()


def require_json(container: dict[str, Any] | list[Any], levels_left: int = MAX_DEPTH) -> bool:
    """Refuse what has no canonical form; say whether `plain_text` gives that form.

    It does where every key sorts alike by code point and by UTF-16 code unit, and every float has a
    fraction and no exponent. Outside of that rfc8785 serializes, more slowly.
    """
    plain = True
    if type(container) is dict:
        for key in container:
            if type(key) is not str:
                raise CanonicalError(
                    f"an object key is of type {type(key).__name__}, expected str",
                    code="json-type-unsupported",
                )
            if not key.isascii():
                _require_no_lone_surrogate(key)
                plain = plain and max(key) < _FIRST_REORDERED_CHARACTER
        members: Any = container.values()
    else:
        members = container
    for member in members:
        kind = type(member)
        if kind is str:
            if not member.isascii():
                _require_no_lone_surrogate(member)
        elif kind is int:
            if not -MAX_SAFE_INTEGER <= member <= MAX_SAFE_INTEGER:
                raise CanonicalError("an integer lies outside ±(2^53-1)", code="json-number-unsafe")
        elif kind is dict or kind is list:
            if not levels_left:
                raise CanonicalError(f"more than {MAX_DEPTH} containers are nested", code="json-too-deep")
            plain = require_json(member, levels_left - 1) and plain
        elif kind is float:
            if not _PLAIN_FLOAT_MIN <= abs(member) < _PLAIN_FLOAT_MAX:
                if not math.isfinite(member):
                    raise CanonicalError(f"{member} is not a JSON number", code="json-number-not-finite")
                plain = False
            elif member.is_integer():
                plain = False
        elif kind is not bool and member is not None:
            raise CanonicalError(
                f"a value is of type {kind.__name__}, which JSON lacks", code="json-type-unsupported"
            )
    return plain


def _require_no_lone_surrogate(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _lone_surrogate(error) from error


def _lone_surrogate(error: UnicodeEncodeError) -> CanonicalError:
    return CanonicalError(
        f"a text holds an unpaired surrogate U+{ord(error.object[error.start]):04X}",
        code="json-lone-surrogate",
    )


def parse_json(data: str | bytes, *, max_bytes: int) -> JsonValue:
    """Read one JSON value, strictly (PROTOCOL 1).

    Numbers with a fraction or an exponent become float. Integer literals become int within ±(2^53-1); beyond
    it they become float, and only where the literal is exactly what ES6 prints for that double.

    Args:
        data: the text, or its UTF-8.
        max_bytes: most bytes of UTF-8 to accept.

    Raises:
        CanonicalError: `json-too-large`, `json-not-utf8`, `json-bom`, `json-too-deep`, `json-syntax`,
            `json-trailing-bytes`, `json-duplicate-key`, `json-number-not-finite`, `json-number-unsafe` or
            `json-lone-surrogate`. Where one is known, `details` has the `position` (characters from 0).
    """
    text = _text_within(data, max_bytes)
    require_shallow(text)
    start = _skip_white_space(text, 0)
    try:
        value, end = _strict_decoder.raw_decode(text, start)
        if _SURROGATE_ESCAPE.search(text):
            # Only escapes can bring in an unpaired one; the decoder joined pairs, and the rest has no UTF-8.
            plain_text(value).encode()
    except json.JSONDecodeError as error:
        raise CanonicalError(
            f"not JSON: {error.msg} at line {error.lineno} column {error.colno}",
            code="json-syntax",
            details={"position": error.pos},
        ) from error
    except UnicodeEncodeError as error:
        raise _lone_surrogate(error) from error
    except RecursionError as error:
        raise CanonicalError("the call stack is too full to read the text", code="json-too-deep") from error
    end = _skip_white_space(text, end)
    if end != len(text):
        raise CanonicalError(
            f"something follows the value at position {end}",
            code="json-trailing-bytes",
            details={"position": end},
        )
    return cast("JsonValue", value)


def _text_within(data: str | bytes, max_bytes: int) -> str:
    if isinstance(data, str):
        try:
            size_bytes = len(data) if data.isascii() or len(data) > max_bytes else len(data.encode())
        except UnicodeEncodeError as error:
            raise _lone_surrogate(error) from error
    else:
        size_bytes = len(data)
    if size_bytes > max_bytes:
        raise CanonicalError(f"JSON text of over {max_bytes} bytes", code="json-too-large")
    if isinstance(data, str):
        text = data
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise CanonicalError(
                f"not UTF-8 at byte {error.start}: {error.reason}",
                code="json-not-utf8",
                details={"byte_position": error.start},
            ) from error
    if text.startswith("\ufeff"):
        raise CanonicalError(
            "the text begins with a byte order mark", code="json-bom", details={"position": 0}
        )
    return text


_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[]}]', re.DOTALL)


def require_shallow(text: str) -> None:
    """Refuse a JSON text with more than MAX_DEPTH open brackets, before a decoder sees it.

    The C decoder recurses on the machine's stack; a process may have set a recursion limit that is too high
    for it. Raises CanonicalError `json-too-deep`.
    """
    # Counting runs in C and settles nearly every text; strings can only make it count too many.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    open_brackets = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        if token in "[{":
            open_brackets += 1
            if open_brackets > MAX_DEPTH:
                raise CanonicalError(
                    f"more than {MAX_DEPTH} open brackets at position {match.start()}",
                    code="json-too-deep",
                    details={"position": match.start()},
                )
        elif token in "]}":
            open_brackets -= 1


_WHITE_SPACE = " \t\n\r"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def _skip_white_space(text: str, position: int) -> int:
    return len(text) - len(text[position:].lstrip(_WHITE_SPACE))


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise CanonicalError(
                    f"the key {_shown(key)} occurs twice in one object", code="json-duplicate-key"
                )
            seen.add(key)
    return members


def _integer(literal: str) -> int | float:
    if len(literal) <= _LONGEST_SAFE_LITERAL:
        return int(literal)
    # A longer literal is no double's text, and int() of a very long one is slow or an error of its own.
    if len(literal) <= _LONGEST_ES6_INTEGER_LITERAL:
        number = int(literal)
        if -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER:
            return number
        double = float(literal)
        if rfc8785.dumps(double).decode() == literal:
            return double
    raise CanonicalError(
        f"the integer {_shown(literal)} lies outside ±(2^53-1) and is not how a double is written",
        code="json-number-unsafe",
    )


def _finite_double(literal: str) -> float:
    double = float(literal)
    if math.isinf(double):
        raise CanonicalError(
            f"the number {_shown(literal)} overflows a double", code="json-number-not-finite"
        )
    return double


def _refuse_constant(literal: str) -> Never:
    raise CanonicalError(f"{literal} is not a JSON number", code="json-number-not-finite")


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else text[:40] + "…")


_strict_decoder = json.JSONDecoder(
    object_pairs_hook=_unique_members,
    parse_int=_integer,
    parse_float=_finite_double,
    parse_constant=_refuse_constant,
)
