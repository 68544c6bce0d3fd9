"""Content identifiers of IPFS: what a CID's text says, and how one is written.

Known are the forms that evidence is published in: version 0, and version 1 with the codecs `raw` and
`dag-pb`, all over SHA-256 (the specifications of CID, multibase and multihash).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from aioum.core.errors import InvalidInput

RAW: Final = 0x55
"""Codec of a block that is the bytes themselves."""

DAG_PB: Final = 0x70
"""Codec of a block that is a node with links."""

MAX_CID_CHARACTERS: Final = 128
"""Most characters of a CID's text that are looked at; the known forms have 46 to 59."""

_SHA2_256: Final = b"\x12\x20"
"""Multihash: SHA-256, of 32 bytes."""

_DIGEST_BYTES: Final = 32
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Cid:
    """A content identifier.

    Attributes:
        version: 0 or 1.
        codec: `RAW` or `DAG_PB`; version 0 is always `DAG_PB`.
        digest: SHA-256 of the block, 32 bytes.
    """

    version: int
    codec: int
    digest: bytes

    def to_bytes(self) -> bytes:
        """The binary form, as links hold it: 34 bytes in version 0, 36 in version 1."""
        multihash = _SHA2_256 + self.digest
        return multihash if self.version == 0 else bytes((1, self.codec)) + multihash

    def __str__(self) -> str:
        if self.version == 0:
            return _base58_text(self.to_bytes())
        return "b" + base64.b32encode(self.to_bytes()).decode().rstrip("=").lower()


def parse_cid(text: str) -> Cid:
    """Read a CID's text: base58 in version 0; base32 (`b…`, lower case) or base58 (`z…`) in version 1.

    Raises:
        InvalidInput: `cid-invalid`; `cid-unsupported` for another base, codec or hash.
    """
    if not 2 <= len(text) <= MAX_CID_CHARACTERS or not text.isascii():
        raise _invalid(text)
    if text.startswith("Qm"):
        data = _base58_bytes(text)
        if len(data) != 2 + _DIGEST_BYTES or not data.startswith(_SHA2_256):
            raise _invalid(text)
        return Cid(0, DAG_PB, data[2:])
    if text.startswith("z"):
        data = _base58_bytes(text[1:])
    elif text.startswith("b"):
        data = _base32_bytes(text[1:])
    else:
        raise InvalidInput(
            f"the CID {text!r} is in a base that is not known here",
            code="cid-unsupported",
            hint="write it in base32, beginning with b",
        )
    return _from_bytes(data, text)


def _from_bytes(data: bytes, text: str) -> Cid:
    if len(data) < 4 or data[0] != 1:
        raise _invalid(text)
    if data[1] not in (RAW, DAG_PB) or data[2:4] != _SHA2_256:
        raise InvalidInput(
            f"the CID {text} has a codec or a hash that is not known here: known are raw and dag-pb, SHA-256",
            code="cid-unsupported",
        )
    if len(data) != 4 + _DIGEST_BYTES:
        raise _invalid(text)
    return Cid(1, data[1], data[4:])


def _base32_bytes(text: str) -> bytes:
    try:
        data = base64.b32decode(text.upper() + "=" * (-len(text) % 8))
    except ValueError as error:
        raise _invalid("b" + text) from error
    # Upper case, and bits left over in the last character, would be second spellings of one CID.
    if base64.b32encode(data).decode().rstrip("=").lower() != text:
        raise _invalid("b" + text)
    return data


def _base58_bytes(text: str) -> bytes:
    number = 0
    for character in text:
        digit = _BASE58.find(character)
        if digit < 0:
            raise _invalid(text)
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def _base58_text(data: bytes) -> str:
    number = int.from_bytes(data, "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(_BASE58[digit])
    # A multihash begins with 0x12, so there are no leading zeros to be kept.
    return "".join(reversed(digits))


def _invalid(text: str) -> InvalidInput:
    return InvalidInput(f"not a CID: {text!r:.140}", code="cid-invalid")
