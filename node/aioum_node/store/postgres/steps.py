"""Steps of sessions' lives as values, so that they can wait together and be decided together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aioum.core.ledger import Admitted, Answer, Call, CallRequest, Recorded, Repeat, SessionState
from aioum.core.types import Bytes32, ChannelId
from aioum_node.store.port import SessionFacts, StoredSession


@dataclass(frozen=True, slots=True)
class Open:
    """`SessionWriter.open`."""

    channel_id: ChannelId
    facts: SessionFacts
    state: SessionState
    now_ms: int


@dataclass(frozen=True, slots=True)
class Admit:
    """`SessionWriter.admit`."""

    channel_id: ChannelId
    request: CallRequest
    now_ms: int


@dataclass(frozen=True, slots=True)
class Record:
    """`SessionWriter.record`."""

    channel_id: ChannelId
    index: int
    answer: Answer
    now_ms: int


@dataclass(frozen=True, slots=True)
class Update:
    """`SessionWriter.update`."""

    channel_id: ChannelId
    change: Callable[[SessionState], SessionState]
    now_ms: int
    transaction_hash: Bytes32 | None


@dataclass(frozen=True, slots=True)
class Delete:
    """`SessionWriter.delete`. It is a group's only step."""

    channel_id: ChannelId


@dataclass(frozen=True, slots=True)
class Reimport:
    """`IncarnationStore.reimport`."""

    channel_id: ChannelId
    calls: tuple[Call, ...]
    now_ms: int


Step: TypeAlias = Open | Admit | Record | Update | Delete | Reimport
Result: TypeAlias = StoredSession | Admitted | Repeat | Recorded | None
