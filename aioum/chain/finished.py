"""Which sessions of an operator are over, as the chain has them (PROTOCOL 9: what a log has to hold)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aioum.chain.abi import PAYMENT_MANAGER, SERVICE_REGISTRY, event_topic
from aioum.chain.client import Chain
from aioum.chain.model import ChainEvent, ChainSession
from aioum.chain.scan import logs_between
from aioum.core.errors import ChainError
from aioum.core.hextext import to_hex
from aioum.core.types import Address, ChannelId

_READ_AT_ONCE: Final = 16

Choose = Callable[[Sequence[ChannelId]], Awaitable[set[ChannelId]]]
"""Which of some channels are to be read."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A session that is over; its root, number of calls and captured amount change no more.

    Attributes:
        block_number, log_index: where it became so.
    """

    session: ChainSession
    block_number: int
    log_index: int


async def finished_sessions(
    chain: Chain, operator: Address, first: int, last: int
) -> AsyncIterator[Finished]:
    """Sessions under an operator's terms that became final in these blocks, in order. Plain channels have no
    terms.

    Costs one request for each 2,000 blocks, and one for each session of any operator.

    Args:
        chain: where.
        operator: that the terms name.
        first: block number.
        last: block number, likewise included; all sessions are read as of it.

    Raises:
        ChainError: as `Chain`; `block-reorganized`, what became final is not any more.
    """
    async for finished in finished_channels(chain, first, last, last, _all):
        if finished.session.operator == operator:
            yield finished


async def finished_channels(
    chain: Chain, first: int, last: int, as_of: int, choose: Choose
) -> AsyncIterator[Finished]:
    """Channels of whomever that became final in these blocks, in order.

    Args:
        chain: where.
        first: block number.
        last: block number, likewise included.
        as_of: block number at which their state is read, not before `last`. What is final does not change
            any more, and old states are not kept by every endpoint.
        choose: of at most 16 channels those that are to be read; the others are left out.

    Raises:
        ChainError: as `finished_sessions`.
    """
    topics = [to_hex(event_topic(PAYMENT_MANAGER, "Finalized"))]
    waiting: list[ChainEvent] = []

    async def read_all() -> list[Finished]:
        chosen = await choose([_channel_of(event) for event in waiting])
        events = [event for event in waiting if event.channel_id in chosen]
        waiting.clear()
        return await asyncio.gather(*(_read(chain, event, as_of) for event in events))

    async for log in logs_between(chain.rpc, chain.payment_manager, first, last, topics):
        waiting += chain.decode([log])
        if len(waiting) >= _READ_AT_ONCE:
            for finished in await read_all():
                yield finished
    if waiting:
        for finished in await read_all():
            yield finished


async def first_registration(chain: Chain, operator: Address, last: int) -> int | None:
    """The block in which an operator registered its first service, up to block `last`: before that no session
    was under its terms. None where it registered none.

    Raises:
        ChainError: as `Chain`.
    """
    topics = [
        to_hex(event_topic(SERVICE_REGISTRY, "ServiceRegistered")),
        None,
        None,
        to_hex(bytes(12) + operator),
    ]
    async for log in logs_between(chain.rpc, chain.service_registry, chain.first_block, last, topics):
        for event in chain.decode([log]):
            return event.block_number
    return None


async def _read(chain: Chain, event: ChainEvent, as_of: int) -> Finished:
    channel_id = _channel_of(event)
    session = await chain.session(channel_id, as_of)
    if session is None or not session.is_finalized:
        raise ChainError(
            f"channel {to_hex(channel_id)} became final, and is not at block {as_of}",
            code="block-reorganized",
            hint="the endpoint changed its mind; ask again",
        )
    return Finished(session, event.block_number, event.log_index)


def _channel_of(event: ChainEvent) -> ChannelId:
    assert event.channel_id is not None  # noqa: S101 - Finalized has one
    return event.channel_id


async def _all(channels: Sequence[ChannelId]) -> set[ChannelId]:
    return set(channels)
