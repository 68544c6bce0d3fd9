"""Searching a chain's past in bounded requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from aioum.chain.rpc import Rpc
from aioum.core.errors import ChainError
from aioum.core.types import Address

MAX_RANGE_BLOCKS: Final = 2_000


async def logs_between(
    rpc: Rpc, at: Address, first: int, last: int, topics: Sequence[str | None] = ()
) -> AsyncIterator[Mapping[str, Any]]:
    """Logs of a contract in order, both blocks included, at most 2,000 blocks a request.

    A range that the endpoint refuses is halved, and later ranges stay that short; one block that it refuses
    is an error.

    Raises:
        ChainError: as `Rpc.logs`.
    """
    size_blocks = MAX_RANGE_BLOCKS
    while first <= last:
        end = min(first + size_blocks - 1, last)
        try:
            found = await rpc.logs(at, first, end, topics)
        except ChainError as error:
            if error.code != "rpc-error" or end == first:
                raise
            size_blocks = max(1, (end - first + 1) // 2)
            continue
        for log in found:
            yield log
        first = end + 1


async def first_block_since(rpc: Rpc, timestamp: int, low: int, high: int) -> int:
    """The first block in low…high whose timestamp (unix seconds) is at least this; high + 1 where none is.

    Raises:
        ChainError: `block-missing` where the endpoint does not keep such old blocks.
    """
    end = high + 1
    while low < end:
        middle = (low + end) // 2
        block = await rpc.block(middle)
        if block is None:
            raise ChainError(
                f"the endpoint does not know block {middle}",
                code="block-missing",
                hint="use an endpoint that keeps the whole chain",
            )
        if block.timestamp < timestamp:
            low = middle + 1
        else:
            end = middle
    return low
