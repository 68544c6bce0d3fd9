"""Contents of events as bytes: what a commitment is over."""

from __future__ import annotations

from typing import Final, TypeAlias

from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.errors import AioumError, CanonicalError, InvalidInput

MAX_CONTENT_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of one content."""

Content: TypeAlias = "bytes | JsonValue"
"""Bytes count as they are, text as its UTF-8, everything else as its canonical JSON."""


def content_bytes(content: Content) -> bytes:
    """The bytes of a content.

    Raises:
        InvalidInput: `content-too-large`, of over MAX_CONTENT_BYTES; `content-unsupported`, neither bytes nor
            text nor JSON.
    """
    try:
        data = _bytes(content)
    except (CanonicalError, UnicodeEncodeError) as error:
        raise InvalidInput(
            f"an event cannot commit to this content: {error}",
            code="content-unsupported",
            hint="hand in bytes, text, or what JSON can say",
        ) from error
    if len(data) > MAX_CONTENT_BYTES:
        raise InvalidInput(
            f"a content of {len(data)} bytes, at most {MAX_CONTENT_BYTES} are taken",
            code="content-too-large",
            hint="hand in its hash, and keep the content elsewhere",
        )
    return data


def error_content(error: BaseException) -> bytes:
    """What stands for an output where an error came instead: its code, or its type's name."""
    return canonical_bytes({"error": error.code if isinstance(error, AioumError) else type(error).__name__})


INTERRUPTED: Final = canonical_bytes({"error": "interrupted"})
"""What stands for the output of a span that was open when its recorder crashed."""


def _bytes(content: Content) -> bytes:
    if type(content) is bytes:
        return content
    if type(content) is str:
        return content.encode()
    return canonical_bytes(content)  # type: ignore[arg-type] # it refuses what is no JSON
