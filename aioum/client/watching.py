"""Following what happens on-chain to the sessions, ratings and logs of some accounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aioum.chain.abi import decode_event
from aioum.chain.client import Chain
from aioum.chain.model import BlockRef, ChainEvent, ChainSession
from aioum.chain.scan import logs_between
from aioum.core.types import Address, Bytes32, ChannelId

WINDOW_BLOCKS: Final = 32
"""Blocks behind the newest one that are read again with every look, so that a reorganization is noticed."""

_EventKey = tuple[Bytes32, Bytes32, int]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One thing that happened, or that a reorganization undid.

    Attributes:
        session: what the event is about, as the chain has it now; None where it is about no session.
        seconds: time of the event's block, unix seconds.
        undone: whether the event was reported before, and its block is no longer part of the chain.
    """

    event: ChainEvent
    session: ChainSession | None
    seconds: int
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Concern:
    """Whose events are wanted. Empty sets want everything.

    Attributes:
        accounts: sessions whose payer, payee or operator one of them is, and what else names one of them.
        channels: sessions.
    """

    accounts: frozenset[Address] = frozenset()
    channels: frozenset[ChannelId] = frozenset()

    def includes(self, event: ChainEvent, session: ChainSession | None) -> bool:
        """Whether an event is wanted."""
        if self.channels and event.channel_id not in self.channels:
            return False
        if not self.accounts:
            return True
        named = {value for value in event.args.values() if isinstance(value, bytes)}
        if session is not None:
            named |= {session.payer, session.payee, session.operator}
        return not self.accounts.isdisjoint(named)


class Watch:
    """Reads the events of our contracts from a block on, each once, and again where one is undone.

    Args:
        chain: where to look.
        contracts: whose events; the PaymentManager, the DisputeManager and whatever else is of interest.
        concern: which of them are wanted.
        first_block: none before it is reported.
    """

    def __init__(
        self, chain: Chain, contracts: Iterable[Address], concern: Concern, *, first_block: int
    ) -> None:
        self._chain = chain
        self._contracts = tuple(contracts)
        self._concern = concern
        self._first = first_block
        self._recent: dict[_EventKey, Sighting] = {}

    async def look(self) -> list[Sighting]:
        """What happened since the last look, in the chain's order; what was undone comes first.

        Raises:
            ChainError: as `Chain`; nothing of this look is lost, the next one reports it.
        """
        head = await self._chain.head()
        events = await self._events(self._first, head.number)
        present = {_key(event) for event in events}
        undone = [
            Sighting(seen.event, seen.session, seen.seconds, undone=True)
            for key, seen in self._recent.items()
            # Behind one address another endpoint may answer, which has not come as far.
            if key not in present and self._first <= seen.event.block_number <= head.number
        ]
        fresh = await self._sightings([event for event in events if _key(event) not in self._recent])
        self._remember(undone, fresh, head)
        return [seen for seen in (*undone, *fresh) if self._concern.includes(seen.event, seen.session)]

    async def _events(self, first: int, last: int) -> list[ChainEvent]:
        found = [
            event
            for contract in self._contracts
            async for log in logs_between(self._chain.rpc, contract, first, last)
            if (event := decode_event(log)) is not None
        ]
        return sorted(found, key=lambda event: (event.block_number, event.log_index))

    async def _sightings(self, events: Sequence[ChainEvent]) -> list[Sighting]:
        sessions: dict[ChannelId, ChainSession | None] = {}
        seconds: dict[Bytes32, int] = {}
        found = []
        for event in events:
            channel_id = event.channel_id
            if channel_id is not None and channel_id not in sessions:
                sessions[channel_id] = await self._chain.session(channel_id)
            if event.block_hash not in seconds:
                block = await self._chain.rpc.block(event.block_hash)
                if block is None:
                    # Reorganized away under our eyes: the next look sees what came instead.
                    continue
                seconds[event.block_hash] = block.timestamp
            session = None if channel_id is None else sessions[channel_id]
            found.append(Sighting(event, session, seconds[event.block_hash]))
        return found

    def _remember(self, undone: Sequence[Sighting], fresh: Sequence[Sighting], head: BlockRef) -> None:
        for seen in undone:
            del self._recent[_key(seen.event)]
        self._recent |= {_key(seen.event): seen for seen in fresh}
        self._first = max(self._first, head.number - WINDOW_BLOCKS + 1)
        self._recent = {
            key: seen for key, seen in self._recent.items() if seen.event.block_number >= self._first
        }


def _key(event: ChainEvent) -> _EventKey:
    return (event.block_hash, event.transaction_hash, event.log_index)
