"""Which sessions of an operator are final on the chain, in the chain's order.

The log follows from the chain alone, in this order: it also holds sessions that this node never served, and a
node that lost its copy comes to the same log again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from aioum.chain.client import Chain
from aioum.chain.finished import finished_channels, first_registration
from aioum.chain.model import BlockRef, ChainSession
from aioum.chain.scan import MAX_RANGE_BLOCKS
from aioum.core.errors import ChainError
from aioum.core.types import Address, Bytes32, ChannelId
from aioum.log.entry import SessionEntry
from aioum.verify.logged import entry_of

WINDOW_BLOCKS: Final = 32
"""Searched again each time: an endpoint may have answered before it had all logs of its newest blocks."""

_MAX_OTHERS: Final = 100_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """Final sessions up to a block, which is final itself.

    Attributes:
        entries: in the order in which the sessions became final.
        block: everything up to it was searched.
    """

    entries: list[SessionEntry]
    block: BlockRef


class FinalSessions:
    """Searches one PaymentManager.

    Args:
        chain: where.
        operator: whose sessions: those opened under terms that name it. Plain channels have no terms.
        confirmations: blocks that make something final, its own included.
        unlogged: which of some sessions are not in the log; only these are asked for.
    """

    def __init__(
        self,
        chain: Chain,
        operator: Address,
        confirmations: int,
        unlogged: Callable[[Sequence[ChannelId]], Awaitable[set[ChannelId]]],
    ) -> None:
        self._chain = chain
        self._operator = operator
        self._confirmations = confirmations
        self._unlogged = unlogged
        # Of other operators, as far as this process looked: each is asked for once.
        self._others: set[ChannelId] = set()

    async def since(self, position: tuple[int, Bytes32] | None) -> AsyncIterator[Found]:
        """What became final behind a position, up to the newest final block, in pieces.

        Args:
            position: a block that was searched, and its hash; None: search everything since the operator
                registered a service. One that the chain does not have any more counts as None.

        Raises:
            ChainError: the chain could not be asked; `block-reorganized`.
        """
        chain = self._chain
        head = await chain.head()
        last = head.number - self._confirmations + 1
        if position is not None and not await self._stands(position):
            _log.warning("log-search-restarted", block=position[0])
            self._others.clear()
            position = None
        if position is None:
            registered = await first_registration(chain, self._operator, last)
            first = chain.first_block if registered is None else registered
        elif position[0] == last:
            return
        else:
            first = max(chain.first_block, position[0] + 1 - WINDOW_BLOCKS)
        for start in range(first, last + 1, MAX_RANGE_BLOCKS):
            end = min(start + MAX_RANGE_BLOCKS - 1, last)
            entries = await self._between(start, end, last)
            block = await chain.block(end)
            if block is None:
                raise ChainError(
                    f"the endpoint does not know block {end}",
                    code="block-missing",
                    hint="it lags behind another one; it is asked again",
                )
            yield Found(entries, block)

    async def _stands(self, position: tuple[int, Bytes32]) -> bool:
        block = await self._chain.block(position[0])
        return block is not None and block.hash == position[1]

    async def _between(self, first: int, last: int, newest: int) -> list[SessionEntry]:
        found = [
            finished
            async for finished in finished_channels(self._chain, first, last, newest, self._unknown)
            if self._is_own(finished.session)
        ]
        found.sort(key=lambda finished: (finished.block_number, finished.log_index))
        return [entry_of(self._chain.domain, finished.session) for finished in found]

    async def _unknown(self, channels: Sequence[ChannelId]) -> set[ChannelId]:
        return await self._unlogged([channel for channel in channels if channel not in self._others])

    def _is_own(self, session: ChainSession) -> bool:
        if session.operator == self._operator:
            return True
        if len(self._others) >= _MAX_OTHERS:
            self._others.clear()
        self._others.add(session.channel_id)
        return False
