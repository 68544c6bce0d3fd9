"""Shared identifiers. Inside the program all of them are bytes or ints; hex text appears only at edges."""

from __future__ import annotations

from typing import NewType

ChannelId = NewType("ChannelId", bytes)
"""32 bytes; the only key of stores, signatures and state-changing functions (PROTOCOL 0)."""

Address = NewType("Address", bytes)
"""20 bytes; compared as bytes, shown as EIP-55."""

Bytes32 = NewType("Bytes32", bytes)
"""32 bytes: a hash, a root, a salt or a nonce."""

ZERO_ADDRESS = Address(bytes(20))
ZERO_BYTES32 = Bytes32(bytes(32))
