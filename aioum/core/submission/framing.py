"""Byte framing of the submission scheme: lengths before bytes, integers in eight bytes, strict base64."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Final

from aioum.core.canonical import MAX_SAFE_INTEGER
from aioum.core.errors import InvalidInput

SCHEME: Final = "gaos.submission.ed25519.v1"
PERIODIC: Final = SCHEME + ".periodic"

MAX_TEXT_BYTES: Final = 65_536
"""Most UTF-8 bytes of an identifier."""

MAX_COMMAND_BYTES: Final = 65_536
"""Most bytes of a command's canonical form."""

_LENGTH: Final = struct.Struct(">I")
_INTEGER: Final = struct.Struct(">Q")


def frame(data: bytes) -> bytes:
    """The bytes behind their length, four bytes big-endian."""
    return _LENGTH.pack(len(data)) + data


def u64(value: int, name: str = "integer") -> bytes:
    """Eight bytes big-endian. Raises InvalidInput `submission-integer-invalid` outside 0 … 2^53-1."""
    if type(value) is not int or not 0 <= value <= MAX_SAFE_INTEGER:
        raise InvalidInput(
            f"{name} must be a whole number from 0 to 2^53-1, got {value!r:.40}",
            code="submission-integer-invalid",
        )
    return _INTEGER.pack(value)


def text(value: str, name: str = "text") -> bytes:
    """UTF-8 of an identifier, 1 to 65,536 bytes. Raises InvalidInput `submission-text-invalid`."""
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name} holds an unpaired surrogate", code="submission-text-invalid") from error
    if not 0 < len(data) <= MAX_TEXT_BYTES:
        raise InvalidInput(
            f"{name} must have 1 to {MAX_TEXT_BYTES} bytes, got {len(data)}", code="submission-text-invalid"
        )
    return data


def encode_base64(data: bytes) -> str:
    """RFC 4648 base64, padded."""
    return base64.b64encode(data).decode()


def decode_base64(value: object, size_bytes: int, *, code: str = "base64-invalid") -> bytes:
    """Read padded standard base64 of exactly `size_bytes` bytes; only its one canonical spelling is taken.

    Raises:
        InvalidInput: `code`. Other alphabets, missing padding and stray trailing bits are refused.
    """
    try:
        if isinstance(value, str):
            data = binascii.a2b_base64(value, strict_mode=True)
            if len(data) == size_bytes and encode_base64(data) == value:
                return data
    except ValueError:
        pass
    raise InvalidInput(f"expected canonical base64 of {size_bytes} bytes, got {value!r:.100}", code=code)
