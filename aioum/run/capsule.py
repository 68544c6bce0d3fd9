"""Capsules: a sealed run as one file without anything secret (PROTOCOL 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import JsonValue, canonical_bytes, parse_json
from aioum.run.chain import MAX_EVENTS, ChainedEvent
from aioum.run.dsse import Envelope
from aioum.run.errors import CapsuleMalformed
from aioum.run.event import Event
from aioum.run.fields import read_hash

MAX_CAPSULE_BYTES: Final = 128 * 1024 * 1024
"""Most bytes of a capsule file; MAX_EVENTS events with short names take some 60 MB."""

_MEMBERS: Final = {"seal", "events"}
_EVENT_MEMBERS: Final = {"event", "leaf", "chain"}


@dataclass(frozen=True, slots=True)
class Capsule:
    """A sealed run, as written in its file; whether it is true is for `verify_capsule` to say.

    Attributes:
        envelope: the signed seal.
        events: all events in the order of the file.
    """

    envelope: Envelope
    events: tuple[ChainedEvent, ...]

    def to_bytes(self) -> bytes:
        """The file: canonical JSON.

        Raises:
            CapsuleMalformed: `capsule-too-large`, of over MAX_CAPSULE_BYTES: nobody would read it.
        """
        data = canonical_bytes(
            {"seal": self.envelope.to_json(), "events": [event.to_json() for event in self.events]}
        )
        if len(data) > MAX_CAPSULE_BYTES:
            raise CapsuleMalformed(
                f"a capsule of over {MAX_CAPSULE_BYTES} bytes",
                code="capsule-too-large",
                hint="shorter names of events, or several runs",
            )
        return data


def read_capsule(data: bytes) -> Capsule:
    """Read a capsule file. Other white space and order of members are taken; nothing is verified.

    Args:
        data: at most MAX_CAPSULE_BYTES.

    Raises:
        CanonicalError: as `parse_json`.
        CapsuleMalformed: `capsule-malformed`.
        EnvelopeMalformed: as `Envelope.from_json`.
        EventMalformed: `event-malformed`.
    """
    value = parse_json(data, max_bytes=MAX_CAPSULE_BYTES)
    if type(value) is not dict or value.keys() != _MEMBERS:
        raise CapsuleMalformed("a capsule has exactly the members seal and events")
    events = value["events"]
    if type(events) is not list or len(events) > MAX_EVENTS:
        raise CapsuleMalformed(f"events must be a list of at most {MAX_EVENTS}")
    return Capsule(Envelope.from_json(value["seal"]), tuple(_event(event) for event in events))


def _event(value: JsonValue) -> ChainedEvent:
    if type(value) is not dict or value.keys() != _EVENT_MEMBERS:
        raise CapsuleMalformed("an item of events has exactly the members event, leaf and chain")
    return ChainedEvent(
        Event.from_json(value["event"]),
        read_hash("leaf", value["leaf"], code="capsule-malformed"),
        read_hash("chain", value["chain"], code="capsule-malformed"),
    )
