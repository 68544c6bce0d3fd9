"""Tool calls of a run held against the sessions that they were paid in (PROTOCOL 2, 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.transcript import Entry, entry_leaf
from aioum.core.types import ChannelId
from aioum.run.event import Event

SessionLeaves = Mapping[ChannelId, Mapping[int, bytes]]
"""For each session the leaves of its known calls by index."""


@dataclass(frozen=True, slots=True)
class Links:
    """What became of the paid calls of a run, by index of their events.

    Attributes:
        matched: the session has this very call.
        different: the session has another call at that place.
        unknown: no such call was given.
    """

    matched: tuple[int, ...]
    different: tuple[int, ...]
    unknown: tuple[int, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object."""
        return {
            "matched": list(self.matched),
            "different": list(self.different),
            "unknown": list(self.unknown),
        }


def check_links(events: Iterable[Event], sessions: SessionLeaves) -> Links:
    """Hold the paid calls of events against what is known of their sessions."""
    matched: list[int] = []
    different: list[int] = []
    unknown: list[int] = []
    for event in events:
        if event.call is None:
            continue
        leaf = sessions.get(event.call.channel_id, {}).get(event.call.index)
        place = unknown if leaf is None else matched if leaf == event.call.leaf else different
        place.append(event.index)
    return Links(tuple(matched), tuple(different), tuple(unknown))


def leaves_of(calls: Iterable[JsonValue]) -> dict[int, bytes]:
    """The leaves of a package's calls by index.

    Raises:
        InvalidInput: `package-malformed`, a call lacks what its leaf is made of; `entry-text-invalid`.
    """
    leaves = {}
    for call in calls:
        members = call if type(call) is dict else {}
        index = members.get("index")
        texts = [members.get(name) for name in ("toolId", "request", "response")]
        if type(index) is not int or index < 0 or any(type(text) is not str for text in texts):
            raise InvalidInput(
                "a call of the package lacks index, toolId, request or response", code="package-malformed"
            )
        leaves[index] = entry_leaf(Entry(index, *map(str, texts)))
    return leaves
