"""The leaves and the hash chain of a run that grows, one event at a time (PROTOCOL 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import JsonValue, canonical_bytes
from aioum.core.merkle import Frontier
from aioum.run.errors import EventMalformed, SealRefused
from aioum.run.event import Event, Header
from aioum.run.suite import Suite, suite_named

MAX_EVENTS: Final = 100_000
"""Most events of one run; longer work is several runs."""


@dataclass(frozen=True, slots=True)
class ChainedEvent:
    """An event with its place in the hashes of its run.

    Attributes:
        event: the event.
        leaf: its hash, 32 bytes.
        chain: the chain's value after it, 32 bytes.
    """

    event: Event
    leaf: bytes
    chain: bytes

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object of capsule files."""
        return {
            "event": self.event.to_json(),
            "leaf": "0x" + self.leaf.hex(),
            "chain": "0x" + self.chain.hex(),
        }


class RunChain:
    """Hashes each event once, when it happens; sealing has only the tree's last O(log n) nodes left to hash.

    Not thread-safe: events have an order, which whoever appends decides under a lock.

    Attributes:
        header: of the run.
        suite: that the header names.
        head: the chain's value after the last event, 32 bytes.
        events: in order; append with `append` only.
        frontier: the perfect subtrees over the events' leaves, which the Merkle root is made of.
    """

    __slots__ = ("events", "frontier", "head", "header", "suite")

    def __init__(self, header: Header) -> None:
        """Args: header: of the run. Raises SuiteUnknown `suite-unknown`."""
        self.header = header
        self.suite: Suite = suite_named(header.suite)
        self.head = self.suite.chain_start(canonical_bytes(header.to_json()))
        self.events: list[ChainedEvent] = []
        self.frontier = Frontier()

    def append(self, event: Event) -> ChainedEvent:
        """Add the next event.

        Raises:
            EventMalformed: `event-index-wrong`, its index is not the number of events before it.
            SealRefused: `run-too-long`, there are MAX_EVENTS already.
        """
        if event.index != len(self.events):
            raise EventMalformed(
                f"the event has index {event.index}, expected {len(self.events)}", code="event-index-wrong"
            )
        if event.index >= MAX_EVENTS:
            raise SealRefused(f"a run has at most {MAX_EVENTS} events", code="run-too-long")
        leaf = self.suite.leaf_hash(canonical_bytes(event.to_json()))
        self.head = self.suite.chain_next(self.head, leaf)
        chained = ChainedEvent(event, leaf, self.head)
        self.events.append(chained)
        self.frontier = self.frontier.append(leaf, self.suite.node_hash)
        return chained
