"""Errors of a chain that cannot be asked just now: nothing was learned, and another look may do better."""

from __future__ import annotations

from typing import Final

from aioum.core.errors import ChainError

_CODES: Final = frozenset({"rpc-timeout", "rpc-unreachable", "rpc-rate-limited", "endpoint-lagging"})


def is_silence(error: ChainError) -> bool:
    """Whether the endpoint said nothing of the chain, rather than something that is final."""
    return error.code in _CODES
