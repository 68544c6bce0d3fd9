"""The run that is recorded, sealed and verified, and doing so a number of times."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from itertools import count as numbers
from pathlib import Path
from time import perf_counter
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.run.capsule import Capsule
from aioum.run.chain import RunChain
from aioum.run.event import Event, Header, Kind
from aioum.run.keys import Ed25519Key
from aioum.run.policy import SealPolicy, TrustedKey
from aioum.run.recorder import Run
from aioum.run.seal import seal_chain
from aioum.run.verification import verify_capsule
from benchmarks.measure import repeated

SHORT: Final = 102
LONG: Final = 1_000
"""Events of the runs that are sealed."""

HEADER: Final = Header("run-0001", 1_760_000_000_000, "agent://travel")
# Throw-away.
KEY: Final = Ed25519Key(b"\x01" * 32)
POLICY: Final = SealPolicy((TrustedKey(KEY.alg, KEY.public_key),))

INPUT: Final[JsonValue] = {"to": "LIS", "passengers": 2, "price": 120}
OUTPUT: Final = "two seats on the morning flight are left; the fare holds until noon and can be changed once"
"""What goes into an event that is recorded, and comes out."""

Timed = Callable[[int], float]
"""Number of operations -> seconds."""


def events(count: int) -> list[Event]:
    """So many events of all kinds, whose commitments are made up."""
    kinds = list(Kind)
    return [
        Event(
            index,
            kinds[index % len(kinds)],
            1_760_000_000_000 + index,
            f"step {index}",
            hashlib.sha256(b"input %d" % index).digest(),
            hashlib.sha256(b"output %d" % index).digest(),
        )
        for index in range(count)
    ]


def recorded(given: Iterable[Event]) -> RunChain:
    """A run of these events, as recording leaves it."""
    chain = RunChain(HEADER)
    for event in given:
        chain.append(event)
    return chain


def sealed(count: int) -> Capsule:
    """A run of so many events, sealed."""
    return seal_chain(recorded(events(count)), [KEY])


def digest() -> str:
    """Hex SHA-256 of all capsules that are measured; it does not depend on who hashes."""
    return hashlib.sha256(b"".join(sealed(count).to_bytes() for count in (SHORT, LONG))).hexdigest()


def same_in_both(folder: Path) -> Mapping[str, Timed]:
    """What is measured with either keccak, by name: operations -> seconds."""
    file = sealed(SHORT).to_bytes()
    return {
        "record": recording(folder, "buffered"),
        f"seal {SHORT}": repeated(seal_chain, recorded(events(SHORT)), [KEY]),
        f"seal {LONG}": repeated(seal_chain, recorded(events(LONG)), [KEY]),
        f"verify {SHORT}": repeated(verify_capsule, file, POLICY),
    }


def recording(folder: Path, durability: str) -> Timed:
    """Record events into runs of 1,000, each in a new folder."""
    names = numbers()

    def run(count: int) -> float:
        elapsed = 0.0
        while count > 0:
            with Run.start(
                folder / f"{durability}-{next(names)}", agent=HEADER.agent, durability=durability
            ) as recorder:
                record = recorder.record
                start = perf_counter()
                for _ in range(min(count, LONG)):
                    record(Kind.TOOL_CALL, "flights", input=INPUT, output=OUTPUT)
                elapsed += perf_counter() - start
            count -= LONG
        return elapsed

    return run
