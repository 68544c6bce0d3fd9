"""Text of strangers made safe for a terminal: names, descriptions and responses come from operators."""

from __future__ import annotations

_KEPT = "\n\t"


def printable(text: str) -> str:
    """`text` with every control character but newline and tab written as an escape.

    A terminal acts on control sequences, so text that an operator chose could rewrite what a person sees.
    Characters that reorder text on a line are written as escapes too.
    """
    return "".join(
        character if character in _KEPT or not _acts_on_terminal(character) else _escape(character)
        for character in text
    )


def one_line(text: str) -> str:
    """As `printable`, with line breaks and tabs as spaces."""
    return " ".join(printable(text).split())


def _acts_on_terminal(character: str) -> bool:
    point = ord(character)
    control = point < 0x20 or 0x7F <= point <= 0x9F
    reorders = 0x202A <= point <= 0x202E or 0x2066 <= point <= 0x2069 or point in (0x200E, 0x200F, 0x061C)
    return control or reorders or 0xD800 <= point <= 0xDFFF or point in (0x2028, 0x2029)


def _escape(character: str) -> str:
    point = ord(character)
    return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"
