"""Calls whose process died: recorded as failed, never run again (PROTOCOL 3.2)."""

from __future__ import annotations

from typing import Final

from aioum_node.failures import failed
from aioum_node.store.port import Store, StoredSession

_CALLS_PER_READ: Final = 64


async def recover_interrupted(store: Store, now_ms: int) -> int:
    """Record every admitted call without an answer as `interrupted`; run before calls are served.

    Returns:
        how many there were.

    Raises:
        AioumError: `store-failed`.
    """
    interrupted = 0
    for channel_id, call in await store.unrecorded():
        recorded = await store.record(channel_id, call.index, failed("interrupted"), now_ms)
        interrupted += recorded.won
    return interrupted


async def interrupt_session(store: Store, session: StoredSession, now_ms: int) -> None:
    """Record the calls that one session still has in flight as `interrupted`.

    Raises:
        AioumError: `store-failed`.
    """
    state = session.state
    first = state.frontier.size
    while first < state.admitted:
        for call in await store.calls(state.channel_id, first, _CALLS_PER_READ):
            if not call.recorded:
                await store.record(state.channel_id, call.index, failed("interrupted"), now_ms)
        first += _CALLS_PER_READ
