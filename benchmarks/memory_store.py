"""The node's store without the disk: what a call needs is in dictionaries, and gone with the process.

The decisions are those of `aioum.core.ledger`, as in the real store; nothing waits for a thread or a file.
What no paid call needs is the real store's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from aioum.core import ledger
from aioum.core.errors import Refused
from aioum.core.ledger import (
    Admitted,
    Answer,
    Call,
    CallRequest,
    Limits,
    Recorded,
    Repeat,
    SessionState,
)
from aioum.core.types import ChannelId
from aioum_node.store.port import SessionFacts, StoredSession
from aioum_node.store.sqlite import SqliteStore


class MemoryStore(SqliteStore):
    """Opens, admits and records in memory."""

    def __init__(self, path: Path, limits: Limits) -> None:
        """Args: as the real store's."""
        super().__init__(path, limits)
        self._memory_limits = limits
        self._memory: dict[ChannelId, StoredSession] = {}
        self._by_amount: dict[tuple[ChannelId, int], Call] = {}
        self._by_index: dict[tuple[ChannelId, int], Call] = {}

    async def open(self, facts: SessionFacts, state: SessionState, now_ms: int) -> StoredSession:
        """`SessionWriter.open`."""
        return self._memory.setdefault(facts.channel_id, StoredSession(facts, state, now_ms, now_ms))

    async def admit(self, channel_id: ChannelId, request: CallRequest, now_ms: int) -> Admitted | Repeat:
        """`SessionWriter.admit`."""
        stored = self._get(channel_id)
        existing = self._by_amount.get((channel_id, request.amount))
        decision = ledger.admit(stored.state, request, existing, self._memory_limits)
        if isinstance(decision, Admitted):
            self._put(stored, decision.state, decision.call, now_ms)
        return decision

    async def record(self, channel_id: ChannelId, index: int, answer: Answer, now_ms: int) -> Recorded:
        """`SessionWriter.record`."""
        stored = self._get(channel_id)
        call = self._by_index[channel_id, index]
        decision = ledger.record(stored.state, call, answer, self._memory_limits)
        self._put(stored, decision.state, decision.call, now_ms)
        return decision

    async def session(self, channel_id: ChannelId) -> StoredSession | None:
        """`SessionReader.session`."""
        return self._memory.get(channel_id)

    def _get(self, channel_id: ChannelId) -> StoredSession:
        stored = self._memory.get(channel_id)
        if stored is None:
            raise Refused("no such session", code="channel-not-found")
        return stored

    def _put(self, stored: StoredSession, state: SessionState, call: Call, now_ms: int) -> None:
        channel_id = stored.facts.channel_id
        self._memory[channel_id] = replace(stored, state=state, active_at_ms=now_ms)
        self._by_amount[channel_id, call.amount] = self._by_index[channel_id, call.index] = call
