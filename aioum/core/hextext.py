"""Hex text at the edges: lower-case with `0x` out, any case in; addresses are EIP-55 (PROTOCOL 0)."""

from __future__ import annotations

from aioum.core.errors import InvalidInput
from aioum.core.hashing import keccak256
from aioum.core.types import Address, Bytes32, ChannelId


def to_hex(data: bytes) -> str:
    """Return `data` as lower-case hex text with `0x`."""
    return "0x" + data.hex()


def from_hex(text: object, size_bytes: int | None = None) -> bytes:
    """Parse `0x…` hex text.

    Args:
        text: the text; any letter case.
        size_bytes: the exact number of bytes expected, or None for any.

    Raises:
        InvalidInput: `hex-invalid` for anything else.
    """
    try:
        data = bytes.fromhex(text[2:]) if isinstance(text, str) and text.startswith("0x") else None
    except ValueError:
        data = None
    # `fromhex` skips white space, and then gives less than the text is long.
    if data is None or 2 + 2 * len(data) != len(str(text)):
        raise InvalidInput(f"expected 0x-prefixed hex text, got {text!r:.80}", code="hex-invalid")
    if size_bytes is not None and len(data) != size_bytes:
        raise InvalidInput(f"expected {size_bytes} bytes of hex, got {len(data)}", code="hex-invalid")
    return data


def bytes32(text: object) -> Bytes32:
    """Parse 32 bytes of hex text. Raises InvalidInput `hex-invalid`."""
    return Bytes32(from_hex(text, 32))


def channel_id(text: object) -> ChannelId:
    """Parse a channel id. Raises InvalidInput `hex-invalid`."""
    return ChannelId(from_hex(text, 32))


def address(text: object) -> Address:
    """Parse an address in any letter case; a mixed-case one must carry the right EIP-55 checksum.

    Raises:
        InvalidInput: `address-invalid`.
    """
    try:
        data = Address(from_hex(text, 20))
    except InvalidInput as error:
        raise InvalidInput(f"not an address: {text!r:.80}", code="address-invalid") from error
    given = str(text)
    digits = given[2:]
    if digits not in (digits.lower(), digits.upper()) and given != address_text(data):
        raise InvalidInput(f"address checksum is wrong: {text}", code="address-invalid", hint="copy it again")
    return data


def address_text(value: bytes) -> str:
    """Return the EIP-55 text of a 20-byte address."""
    digits = value.hex()
    checksum = keccak256(digits.encode()).hex()
    return "0x" + "".join(c.upper() if int(checksum[i], 16) >= 8 else c for i, c in enumerate(digits))
