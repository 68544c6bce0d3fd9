"""Attacks on a sealed run, to show what a seal stops and what it does not (PROTOCOL 8).

Whoever holds a capsule file and not its owner's keys can alter it in eight ways, and each is refused by name.
The ninth is the owner's: to record another run and seal it. No hash stops that; only a root that others had
before does, as a pin, in a log or on a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aioum.core.canonical import canonical_bytes, parse_json
from aioum.core.submission.framing import encode_base64
from aioum.run.capsule import MAX_CAPSULE_BYTES, Capsule
from aioum.run.chain import ChainedEvent
from aioum.run.dsse import sign_envelope
from aioum.run.event import Event
from aioum.run.keys import SigningKey
from aioum.run.seal import PAYLOAD_TYPE, read_seal, seal_run
from aioum.run.suite import suite_named
from aioum.run.verification import Reason

MIN_EVENTS: Final = 4
"""Fewest events of a run that all attacks can be shown on."""


@dataclass(frozen=True, slots=True)
class Means:
    """What an attacker has.

    Attributes:
        capsule: that is attacked, of at least MIN_EVENTS events.
        other: another run's, of as many events, sealed by the same owner.
        key: the attacker's own.
    """

    capsule: Capsule
    other: Capsule
    key: SigningKey


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to alter a capsule without its owner's keys.

    Attributes:
        name: of the attack.
        story: what is altered, and what the attacker mends so that it does not show elsewhere.
        reason: that PROTOCOL 8 gives for refusing it.
        forge: makes the altered file.
    """

    name: str
    story: str
    reason: Reason
    forge: Callable[[Means], bytes]


def reseal(capsule: Capsule, index: int, output: bytes, signers: Sequence[SigningKey]) -> Capsule:
    """What no seal stops: its owner changes an event, hashes everything anew and signs it.

    Args:
        capsule: the honest one.
        index: of the event to change.
        output: its new commitment, 32 bytes.
        signers: the owner's keys.

    Raises:
        SealRefused: as `seal_run`.
    """
    events = [item.event for item in capsule.events]
    events[index] = replace(events[index], output=output)
    return seal_run(read_seal(capsule.envelope.payload).header, events, signers)


def _rewrite_output(means: Means) -> bytes:
    def change(file: Any) -> None:
        output = file["events"][1]["event"]["output"]
        file["events"][1]["event"]["output"] = "0x" + output[:1:-1]

    return _altered(means.capsule, change)


def _delete_event(means: Means) -> bytes:
    events = [item.event for item in means.capsule.events]
    return _rechained(means.capsule, events[:1] + events[2:])


def _insert_event(means: Means) -> bytes:
    events = [item.event for item in means.capsule.events]
    return _rechained(means.capsule, [*events[:2], events[1], *events[2:]])


def _reorder(means: Means) -> bytes:
    def change(file: Any) -> None:
        events = file["events"]
        events[1], events[2] = events[2], events[1]

    return _altered(means.capsule, change)


def _truncate(means: Means) -> bytes:
    def change(file: Any) -> None:
        del file["events"][-1]

    def count(seal: Any) -> None:
        seal["eventCount"] -= 1

    return _altered(means.capsule, change, count)


def _downgrade(means: Means) -> bytes:
    def change(seal: Any) -> None:
        seal["header"]["suite"]["leafHash"] = "sha256"

    return _altered(means.capsule, lambda _: None, change)


def _other_key(means: Means) -> bytes:
    envelope = sign_envelope(PAYLOAD_TYPE, means.capsule.envelope.payload, [means.key])

    def change(file: Any) -> None:
        for signature in file["seal"]["signatures"]:
            signature["sig"] = encode_base64(envelope.signatures[0].signature)

    return _altered(means.capsule, change)


def _other_seal(means: Means) -> bytes:
    return Capsule(means.other.envelope, means.capsule.events).to_bytes()


ATTACKS: Final = (
    Attack(
        "rewrite-output",
        "the output of an event is another one",
        Reason.LEAF_HASH_MISMATCH,
        _rewrite_output,
    ),
    Attack(
        "delete-event",
        "an event is gone, the rest is numbered and hashed anew",
        Reason.EVENT_COUNT_MISMATCH,
        _delete_event,
    ),
    Attack(
        "insert-event",
        "an event is there twice, the rest is numbered and hashed anew",
        Reason.EVENT_COUNT_MISMATCH,
        _insert_event,
    ),
    Attack("reorder", "two events have changed places", Reason.CHAIN_BREAK, _reorder),
    Attack(
        "truncate",
        "the last event is gone, and the count in the seal is one less",
        Reason.CHAIN_HEAD_MISMATCH,
        _truncate,
    ),
    Attack(
        "downgrade-hash",
        "the header names a hash that may be broken first",
        Reason.LEAF_HASH_MISMATCH,
        _downgrade,
    ),
    Attack(
        "other-key",
        "the seal is signed by a stranger in the owner's name",
        Reason.SIGNATURE_INVALID,
        _other_key,
    ),
    Attack("other-seal", "the seal is that of another run", Reason.CHAIN_BREAK, _other_seal),
)
"""The eight, each with the reason for refusing it."""


def _altered(
    capsule: Capsule, change: Callable[[Any], None], change_seal: Callable[[Any], None] | None = None
) -> bytes:
    file: Any = parse_json(capsule.to_bytes(), max_bytes=MAX_CAPSULE_BYTES)
    change(file)
    if change_seal is not None:
        payload: Any = parse_json(capsule.envelope.payload, max_bytes=MAX_CAPSULE_BYTES)
        change_seal(payload)
        file["seal"]["payload"] = encode_base64(canonical_bytes(payload))
    return canonical_bytes(file)


def _rechained(capsule: Capsule, events: Sequence[Event]) -> bytes:
    """The file with these events, numbered and chained as an honest recorder would, under the old seal."""
    header = read_seal(capsule.envelope.payload).header
    suite = suite_named(header.suite)
    head = suite.chain_start(canonical_bytes(header.to_json()))
    chained = []
    for index, event in enumerate(events):
        moved = replace(event, index=index, parent=None if event.parent == index else event.parent)
        leaf = suite.leaf_hash(canonical_bytes(moved.to_json()))
        head = suite.chain_next(head, leaf)
        chained.append(ChainedEvent(moved, leaf, head))
    return Capsule(capsule.envelope, tuple(chained)).to_bytes()
