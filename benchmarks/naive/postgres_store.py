"""A store on PostgreSQL as one writes it first: a pool of connections, one insert for each call.

As in `benchmarks.naive.store`, an admission stays in memory until the answer is there, and one commit keeps
both, together with the session's new account; facts are kept in memory too. States are read from memory as
well, which a store for several processes cannot do. All of it favors this build.
"""

from __future__ import annotations

from dataclasses import replace

import asyncpg

from aioum.core import ledger
from aioum.core.errors import Refused
from aioum.core.ledger import Admitted, Answer, Call, CallRequest, Limits, Recorded, Repeat, SessionState
from aioum.core.types import ChannelId
from aioum_node.store.port import SessionFacts, StoredSession
from aioum_node.store.postgres.store import PostgresStore

_SCHEMA = """
CREATE TABLE IF NOT EXISTS naive_sessions (
    channel_id bytea PRIMARY KEY, spent numeric, admitted bigint, frontier bytea
);
CREATE TABLE IF NOT EXISTS naive_calls (
    channel_id bytea, number bigint, tool_id text, request bytea, price numeric, amount numeric,
    signature bytea, response bytea, status integer, content_type text, failed boolean, leaf bytea,
    charge numeric, PRIMARY KEY (channel_id, number)
);
CREATE UNIQUE INDEX IF NOT EXISTS naive_calls_by_amount ON naive_calls (channel_id, amount);
"""
_PUT_CALL = "INSERT INTO naive_calls VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
_PUT_SESSION = "INSERT INTO naive_sessions VALUES ($1, $2, $3, $4)"
_SET_SESSION = "UPDATE naive_sessions SET spent = $2, admitted = $3, frontier = $4 WHERE channel_id = $1"


class NaivePostgresStore(PostgresStore):
    """Opens, admits and records in tables of its own; what no paid call needs is the real store's."""

    def __init__(self, url: str, limits: Limits, *, schema: str) -> None:
        """Args: as the real store's."""
        super().__init__(url, limits, schema=schema)
        self._naive_url = url
        self._naive_schema = schema
        self._naive_limits = limits
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._memory: dict[ChannelId, StoredSession] = {}
        self._running: dict[tuple[ChannelId, int], Call] = {}

    async def connect(self) -> None:
        """Make the tables; the pool has asyncpg's own size."""
        await super().connect()
        pool = asyncpg.create_pool(self._naive_url, server_settings={"search_path": self._naive_schema})
        self._pool = await pool
        await self._connected.execute(_SCHEMA)

    @property
    def _connected(self) -> asyncpg.Pool[asyncpg.Record]:
        if self._pool is None:
            raise RuntimeError("connect first")
        return self._pool

    async def open(self, facts: SessionFacts, state: SessionState, now_ms: int) -> StoredSession:
        """`SessionWriter.open`."""
        if self._pool is None:
            await self.connect()
        stored = StoredSession(facts, state, now_ms, now_ms)
        self._memory[facts.channel_id] = stored
        row = (facts.channel_id, state.spent, state.admitted, state.frontier.to_bytes())
        await self._connected.execute(_PUT_SESSION, *row)
        return stored

    async def admit(self, channel_id: ChannelId, request: CallRequest, now_ms: int) -> Admitted | Repeat:
        """`SessionWriter.admit`."""
        stored = self._get(channel_id)
        decision = ledger.admit(stored.state, request, None, self._naive_limits)
        if isinstance(decision, Admitted):
            self._running[channel_id, decision.call.index] = decision.call
            self._memory[channel_id] = replace(stored, state=decision.state, active_at_ms=now_ms)
        return decision

    async def record(self, channel_id: ChannelId, index: int, answer: Answer, now_ms: int) -> Recorded:
        """`SessionWriter.record`."""
        stored = self._get(channel_id)
        decision = ledger.record(
            stored.state, self._running.pop((channel_id, index)), answer, self._naive_limits
        )
        state, call = decision.state, decision.call
        self._memory[channel_id] = replace(stored, state=state, active_at_ms=now_ms)
        async with self._connected.acquire() as connection, connection.transaction():
            await connection.execute(
                _PUT_CALL,
                *(channel_id, index, call.tool_id, call.request, call.price, call.amount, call.signature),
                *(answer.response, answer.status, answer.content_type, answer.failed, call.leaf, call.charge),
            )
            await connection.execute(
                _SET_SESSION, channel_id, state.spent, state.admitted, state.frontier.to_bytes()
            )
        return decision

    async def session(self, channel_id: ChannelId) -> StoredSession | None:
        """`SessionReader.session`."""
        return self._memory.get(channel_id)

    async def close(self) -> None:
        """`Store.close`."""
        await self._connected.close()
        await super().close()

    def _get(self, channel_id: ChannelId) -> StoredSession:
        stored = self._memory.get(channel_id)
        if stored is None:
            raise Refused("no such session", code="channel-not-found")
        return stored
