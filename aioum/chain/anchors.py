"""Anchors of operators' transparency logs: reading them, and the call that adds one (PROTOCOL 4.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aioum.chain.abi import LOG_ANCHOR, encode_call
from aioum.chain.calls import ContractCall
from aioum.chain.rpc import Rpc
from aioum.core.hashing import keccak256
from aioum.core.payment import check_uint64
from aioum.core.types import Address, Bytes32


@dataclass(frozen=True, slots=True)
class LogAnchored:
    """The last anchor of a log: entries, root over them, and when it was mined (unix seconds)."""

    size: int
    anchored_at: int
    root: Bytes32


def origin_hash(origin: str) -> Bytes32:
    """How the contract names a log: keccak256 of its origin line."""
    return Bytes32(keccak256(origin.encode()))


def anchor(
    log_anchor: Address, origin: str, size: int, root: Bytes32, proof: Sequence[bytes]
) -> ContractCall:
    """Anchor the caller's log, with the consistency proof from its last anchor. Equal values do nothing."""
    args = (origin_hash(origin), check_uint64(size, "size"), root, list(proof))
    return ContractCall(log_anchor, encode_call(LOG_ANCHOR, "anchor", args), 250_000, "anchor")


async def anchored(rpc: Rpc, log_anchor: Address, operator: Address, origin: str) -> LogAnchored | None:
    """The last anchor of an operator's log, or None. Raises ChainError as `Rpc.read`."""
    size, anchored_at, root = await rpc.read(
        LOG_ANCHOR, log_anchor, "anchored", bytes(operator), origin_hash(origin)
    )
    return LogAnchored(size, anchored_at, Bytes32(bytes(root))) if size else None
