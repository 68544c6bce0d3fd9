"""What a timestamp of a sealed run is over (RFC 3161)."""

from __future__ import annotations

import hashlib

from aioum.core.canonical import canonical_bytes
from aioum.run.dsse import Envelope


def seal_digest(envelope: Envelope) -> bytes:
    """SHA-256 of the canonical JSON of a signed seal, 32 bytes.

    The signatures are part of it: a stamp then shows that they were made while their keys were good.
    """
    return hashlib.sha256(canonical_bytes(envelope.to_json())).digest()
