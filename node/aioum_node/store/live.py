"""A session in the memory of the writing thread."""

from __future__ import annotations

from aioum.core.ledger import Call, SessionState
from aioum.core.types import Bytes32
from aioum_node.store.port import SessionFacts, StoredSession

Snapshot = tuple[SessionFacts, SessionState, int, int, int | None, Bytes32 | None]
"""The members of a StoredSession, which is made when somebody reads it: every step has one, few are read."""


class Live:
    """A session in memory. `in_flight`: this process's calls that are not recorded yet, with their seq."""

    __slots__ = (
        "active_at_ms",
        "facts",
        "finalized_at_ms",
        "in_flight",
        "opened_at_ms",
        "row_id",
        "state",
        "transaction_hash",
    )

    def __init__(self, row_id: int, stored: StoredSession) -> None:
        self.row_id = row_id
        self.facts = stored.facts
        self.state = stored.state
        self.opened_at_ms = stored.opened_at_ms
        self.active_at_ms = stored.active_at_ms
        self.finalized_at_ms = stored.finalized_at_ms
        self.transaction_hash = stored.transaction_hash
        self.in_flight: dict[int, tuple[int, Call]] = {}

    def snapshot(self) -> Snapshot:
        """Its members now."""
        return (
            self.facts,
            self.state,
            self.opened_at_ms,
            self.active_at_ms,
            self.finalized_at_ms,
            self.transaction_hash,
        )

    def stored(self) -> StoredSession:
        """What a reader gets."""
        return StoredSession(*self.snapshot())
