"""Disclosures: chosen events of a sealed run, with or without their contents; the rest stays hidden.

    {"type": "aioum.disclosure.v1", "seal": envelope, "events": [
      {"event": {…}, "proof": ["0x…"], "input"?: {"salt": "0x…", "content": base64}, "output"?: {…}}]}

Each event comes with the proof that it is in the sealed run, each content with the salt that opens its
commitment. Of hidden events only hashes appear, over salted commitments, from which nothing can be guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from aioum.core.canonical import JsonValue, canonical_bytes, parse_json
from aioum.core.errors import InvalidInput
from aioum.core.hextext import to_hex
from aioum.core.merkle import inclusion_proof
from aioum.core.submission.framing import decode_base64, encode_base64
from aioum.run.capsule import Capsule
from aioum.run.content import MAX_CONTENT_BYTES
from aioum.run.dsse import Envelope
from aioum.run.event import Event
from aioum.run.fields import read_hash
from aioum.run.policy import SealPolicy
from aioum.run.salts import Side
from aioum.run.suite import SALT_BYTES, commitment, suite_named
from aioum.run.verification import verify_read_capsule

DISCLOSURE_TYPE: Final = "aioum.disclosure.v1"

MAX_DISCLOSURE_BYTES: Final = 128 * 1024 * 1024
"""Most bytes of a disclosure file, as of a capsule."""

MAX_DISCLOSED_EVENTS: Final = 1_000
"""Most events of one disclosure; for more, hand out the capsule, or several disclosures."""

MAX_PROOF_HASHES: Final = 64

_MEMBERS: Final = {"type", "seal", "events"}
_REQUIRED: Final = {"event", "proof"}
_OPENING_MEMBERS: Final = {"salt", "content"}
_SIDES: Final = {side.value for side in Side}


class DisclosureMalformed(InvalidInput):
    """A disclosure cannot be read, or cannot be made like this."""

    default_code = "disclosure-malformed"


@dataclass(frozen=True, slots=True)
class Opening:
    """What opens a commitment.

    Attributes:
        salt: SALT_BYTES.
        content: at most MAX_CONTENT_BYTES.
    """

    salt: bytes = field(repr=False)
    content: bytes = field(repr=False)

    def opens(self, committed: bytes) -> bool:
        """Whether the commitment is to this content."""
        return commitment(self.salt, self.content) == committed

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object."""
        return {"salt": to_hex(self.salt), "content": encode_base64(self.content)}


@dataclass(frozen=True, slots=True)
class DisclosedEvent:
    """An event that is shown.

    Attributes:
        event: it.
        proof: siblings from its leaf to the root, 32 bytes each.
        openings: of those of its contents that are shown.
    """

    event: Event
    proof: tuple[bytes, ...]
    openings: Mapping[Side, Opening]

    def committed(self, side: Side) -> bytes:
        """The commitment of a side, 32 bytes."""
        return self.event.input if side is Side.INPUT else self.event.output

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object."""
        value: dict[str, JsonValue] = {
            "event": self.event.to_json(),
            "proof": [to_hex(sibling) for sibling in self.proof],
        }
        return value | {side.value: opening.to_json() for side, opening in self.openings.items()}


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Chosen events of a sealed run; whether they are true is for `verify_disclosure` to say.

    Attributes:
        envelope: the signed seal.
        events: ascending by index, 1 to MAX_DISCLOSED_EVENTS.
    """

    envelope: Envelope
    events: tuple[DisclosedEvent, ...]

    def to_bytes(self) -> bytes:
        """The file: canonical JSON. Raises DisclosureMalformed `disclosure-too-large`."""
        data = canonical_bytes(
            {
                "type": DISCLOSURE_TYPE,
                "seal": self.envelope.to_json(),
                "events": [event.to_json() for event in self.events],
            }
        )
        if len(data) > MAX_DISCLOSURE_BYTES:
            raise DisclosureMalformed(
                f"a disclosure of over {MAX_DISCLOSURE_BYTES} bytes",
                code="disclosure-too-large",
                hint="make several disclosures",
            )
        return data


def disclose(
    capsule: Capsule, indexes: Iterable[int], openings: Mapping[tuple[int, Side], Opening] | None = None
) -> Disclosure:
    """Show chosen events of a capsule.

    Args:
        capsule: the whole sealed run.
        indexes: of the events to show; those with an opening are shown anyway.
        openings: of the contents to show, by index and side.

    Raises:
        DisclosureMalformed: `disclosure-empty`; `disclosure-too-large`, over MAX_DISCLOSED_EVENTS;
            `disclosure-event-unknown`; `disclosure-capsule-invalid`, the capsule does not verify, and so
            nothing of it would; `content-mismatch`, a commitment is to another content.
    """
    opened = openings or {}
    chosen = sorted({*indexes, *(index for index, _ in opened)})
    if not 0 < len(chosen) <= MAX_DISCLOSED_EVENTS:
        raise DisclosureMalformed(
            f"{len(chosen)} events to disclose, expected 1 to {MAX_DISCLOSED_EVENTS}",
            code="disclosure-too-large" if chosen else "disclosure-empty",
        )
    count = len(capsule.events)
    for index in (chosen[0], chosen[-1]):
        if not 0 <= index < count:
            raise DisclosureMalformed(
                f"the run has no event {index}, it has {count}", code="disclosure-event-unknown"
            )
    verdict = verify_read_capsule(capsule, SealPolicy())
    if verdict.reason is not None or verdict.seal is None:
        raise DisclosureMalformed(
            f"the capsule does not verify: {verdict.reason}", code="disclosure-capsule-invalid"
        )
    leaves = [item.leaf for item in capsule.events]
    # Every proof walks the whole tree; its hashes are made once.
    node_hash = lru_cache(maxsize=2 * count)(suite_named(verdict.seal.header.suite).node_hash)
    return Disclosure(
        capsule.envelope,
        tuple(
            _require_open(
                DisclosedEvent(
                    capsule.events[index].event,
                    tuple(inclusion_proof(leaves, index, node_hash)),
                    {side: opened[index, side] for side in Side if (index, side) in opened},
                )
            )
            for index in chosen
        ),
    )


def read_disclosure(data: bytes) -> Disclosure:
    """Read a disclosure file; nothing is verified.

    Args:
        data: at most MAX_DISCLOSURE_BYTES.

    Raises:
        CanonicalError: as `parse_json`.
        DisclosureMalformed: `disclosure-malformed`.
        EnvelopeMalformed: as `Envelope.from_json`.
        EventMalformed: `event-malformed`.
    """
    value = parse_json(data, max_bytes=MAX_DISCLOSURE_BYTES)
    if type(value) is not dict or value.keys() != _MEMBERS or value["type"] != DISCLOSURE_TYPE:
        raise DisclosureMalformed(f"a disclosure has exactly type {DISCLOSURE_TYPE}, seal and events")
    events = value["events"]
    if type(events) is not list or not 0 < len(events) <= MAX_DISCLOSED_EVENTS:
        raise DisclosureMalformed(f"events must be a list of 1 to {MAX_DISCLOSED_EVENTS}")
    read = tuple(_disclosed(event) for event in events)
    if any(read[i].event.index >= read[i + 1].event.index for i in range(len(read) - 1)):
        raise DisclosureMalformed("events must ascend by index, each once")
    return Disclosure(Envelope.from_json(value["seal"]), read)


def _disclosed(value: JsonValue) -> DisclosedEvent:
    if type(value) is not dict or not _REQUIRED <= value.keys() <= _REQUIRED | _SIDES:
        raise DisclosureMalformed("a disclosed event has event, proof, and maybe input and output")
    proof = value["proof"]
    if type(proof) is not list or len(proof) > MAX_PROOF_HASHES:
        raise DisclosureMalformed(f"proof must be a list of at most {MAX_PROOF_HASHES}")
    return DisclosedEvent(
        Event.from_json(value["event"]),
        tuple(read_hash("proof", sibling, code="disclosure-malformed") for sibling in proof),
        {side: _opening(value[side.value]) for side in Side if side.value in value},
    )


def _opening(value: JsonValue) -> Opening:
    if type(value) is not dict or value.keys() != _OPENING_MEMBERS:
        raise DisclosureMalformed("an opening has exactly the members salt and content")
    salt, content = value["salt"], value["content"]
    if type(salt) is not str or type(content) is not str:
        raise DisclosureMalformed("salt and content must be text")
    salt_bytes = bytes.fromhex(salt[2:]) if _is_salt(salt) else b""
    if to_hex(salt_bytes) != salt:
        raise DisclosureMalformed(f"a salt is 0x and {2 * SALT_BYTES} lower-case digits")
    size_bytes = len(content.rstrip("=")) * 3 // 4
    if size_bytes > MAX_CONTENT_BYTES:
        raise DisclosureMalformed(f"a content of over {MAX_CONTENT_BYTES} bytes")
    return Opening(salt_bytes, decode_base64(content, size_bytes, code="disclosure-malformed"))


def _is_salt(text: str) -> bool:
    digits = text[2:]
    return len(digits) == 2 * SALT_BYTES and all(digit in "0123456789abcdef" for digit in digits)


def _require_open(disclosed: DisclosedEvent) -> DisclosedEvent:
    for side, opening in disclosed.openings.items():
        if not opening.opens(disclosed.committed(side)):
            raise DisclosureMalformed(
                f"the {side.value} of event {disclosed.event.index} is another content",
                code="content-mismatch",
                hint="hand in exactly the bytes that were recorded",
            )
    return disclosed
