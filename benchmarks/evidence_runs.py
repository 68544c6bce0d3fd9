"""Runs: recording one event, sealing, verifying; with the keccak chosen at import and with pycryptodome's."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Final

from aioum.core.canonical import canonical_bytes
from aioum.core.hashing import keccak256, pycryptodome_keccak256
from aioum.run.chain import ChainedEvent
from aioum.run.event import Kind
from aioum.run.seal import seal_chain, seal_run
from aioum.run.suite import suite_named
from aioum.run.verification import verify_capsule
from benchmarks.child import Child
from benchmarks.evidence_material import (
    HEADER,
    INPUT,
    KEY,
    LONG,
    OUTPUT,
    POLICY,
    SHORT,
    Timed,
    digest,
    events,
    recorded,
    recording,
    same_in_both,
    sealed,
)
from benchmarks.folder import durable_folder
from benchmarks.measure import Alternative, Plan, in_batches, measure, repeated
from benchmarks.result import Case, Comparison, Limit

NAME = "evidence-runs"
OPERATION = "recording one event, or sealing or verifying one run"
PACKAGES = ("blake3", "safe-pysha3", "pycryptodome", "cryptography")
NOTES: tuple[str, ...] = (
    "Sealing begins with a recorded run and ends with the signed envelope; no file is written. Its unit is "
    "runs: 1 ms is 1,000 runs sealed in a second.",
    "`with pycryptodome`: the same in a process that finds no other keccak; capsules have the same bytes.",
    "`tree at the seal` keeps leaves while recording, and builds the tree from them. `hashed at the seal` "
    "keeps events alone.",
    "Verifying begins with the file's bytes; `json.loads` only reads them.",
    "Recorded is a small JSON object and a text, in a folder on the disk of the checkout. `plain JSON lines` "
    "writes the same without commitments and hashes, buffered.",
)
if keccak256 is pycryptodome_keccak256:
    NOTES += ("No faster keccak is installed: `aioum` is pycryptodome, too.",)

_RECORD_SECONDS: Final = 40e-6
_SEAL_SECONDS: Final = 1 / 1_000
_SEAL_SECONDS_PYCRYPTODOME: Final = 1 / 250
_VERIFY_SECONDS: Final = 4e-3
_OURS: Final = "aioum"
_SLOW: Final = "with pycryptodome"


class Slow:
    """A process that finds no keccak but pycryptodome's."""

    def __init__(self, folder: Path) -> None:
        self._process = Child("benchmarks.evidence_slow", str(folder))

    def __enter__(self) -> Slow:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()

    def digest(self) -> str:
        """`digest()`, over there."""
        return self._process.ask("digest")

    def timed(self, name: str) -> Timed:
        """One of `same_in_both`, over there."""

        def run(count: int) -> float:
            return float(self._process.ask(f"{count} {name}"))

        return run


def run(plan: Plan) -> list[Case]:
    """Measure recording, sealing and verifying."""
    if verify_capsule(sealed(SHORT).to_bytes(), POLICY).reason is not None:
        raise RuntimeError("the capsule that is measured does not verify")
    with durable_folder() as folder, Slow(folder / "slow") as slow:
        if slow.digest() != digest():
            raise RuntimeError("the alternatives do not agree")
        fast = same_in_both(folder)
        return [
            _recording(fast, slow, folder, plan),
            _chaining(plan),
            *(_sealing(count, fast, slow, plan) for count in (SHORT, LONG)),
            _verifying(fast, slow, plan),
        ]


def _recording(fast: Mapping[str, Timed], slow: Slow, folder: Path, plan: Plan) -> Case:
    buffered, written, synced, plain = "buffered", "written", "synced", "plain JSON lines"
    samples = measure(
        [
            Alternative(buffered, fast["record"]),
            Alternative(written, recording(folder, written)),
            Alternative(synced, recording(folder, synced)),
            Alternative(f"buffered, {_SLOW}", slow.timed("record")),
            Alternative(plain, _plain_lines(folder / "plain.jsonl")),
        ],
        plan,
    )
    return Case(
        name="recording one event",
        samples=samples,
        comparisons=tuple(Comparison(subject=buffered, baseline=item.name) for item in samples[1:]),
        limits=tuple(
            Limit(subject=name, at_most=_RECORD_SECONDS) for name in (buffered, f"buffered, {_SLOW}")
        ),
    )


def _plain_lines(path: Path) -> Timed:
    def run(count: int) -> float:
        with path.open("w", encoding="utf-8") as file:
            start = perf_counter()
            for index in range(count):
                line = {
                    "index": index,
                    "kind": Kind.TOOL_CALL.value,
                    "at": int(time.time() * 1_000),
                    "name": "flights",
                    "input": INPUT,
                    "output": OUTPUT,
                }
                file.write(json.dumps(line) + "\n")
            return perf_counter() - start

    return run


def _chaining(plan: Plan) -> Case:
    """What the tree adds to hashing an event while recording, so that sealing has next to nothing left."""
    given = events(LONG)
    suite = suite_named(HEADER.suite)

    def leaf_and_chain() -> None:
        chained, head = [], suite.chain_start(canonical_bytes(HEADER.to_json()))
        for event in given:
            leaf = suite.leaf_hash(canonical_bytes(event.to_json()))
            head = suite.chain_next(head, leaf)
            chained.append(ChainedEvent(event, leaf, head))

    with_tree, without = "leaf, chain and tree", "leaf and chain"
    samples = measure(
        [
            Alternative(with_tree, in_batches(lambda: recorded(given), LONG)),
            Alternative(without, in_batches(leaf_and_chain, LONG)),
        ],
        plan,
    )
    comparison = Comparison(subject=with_tree, baseline=without)
    return Case(name="hashing one event", samples=samples, comparisons=(comparison,))


def _sealing(count: int, fast: Mapping[str, Timed], slow: Slow, plan: Plan) -> Case:
    given = events(count)
    chain = recorded(given)
    leaves = [item.leaf for item in chain.events]

    def tree_at_the_seal() -> None:
        # The peaks that sealing hashes too are a handful.
        if chain.suite.root(leaves) is not None:
            seal_chain(chain, [KEY])

    name, anew, everything = f"seal {count}", "tree at the seal", "hashed at the seal"
    samples = measure(
        [
            Alternative(_OURS, fast[name]),
            Alternative(anew, repeated(tree_at_the_seal)),
            Alternative(everything, repeated(seal_run, HEADER, given, [KEY])),
            Alternative(_SLOW, slow.timed(name)),
        ],
        plan,
    )
    seconds = _SEAL_SECONDS_PYCRYPTODOME if keccak256 is pycryptodome_keccak256 else _SEAL_SECONDS
    limits = (
        Limit(subject=_OURS, at_most=seconds),
        Limit(subject=_SLOW, at_most=_SEAL_SECONDS_PYCRYPTODOME),
    )
    return Case(
        name=f"sealing a run of {count:,} events",
        samples=samples,
        comparisons=tuple(Comparison(subject=_OURS, baseline=item.name) for item in samples[1:]),
        limits=limits if count == LONG else (),
    )


def _verifying(fast: Mapping[str, Timed], slow: Slow, plan: Plan) -> Case:
    name = f"verify {SHORT}"
    samples = measure(
        [
            Alternative(_OURS, fast[name]),
            Alternative(_SLOW, slow.timed(name)),
            Alternative("json.loads", repeated(json.loads, sealed(SHORT).to_bytes())),
        ],
        plan,
    )
    return Case(
        name=f"verifying a run of {SHORT} events",
        samples=samples,
        comparisons=tuple(Comparison(subject=_OURS, baseline=item.name) for item in samples[1:]),
        limits=tuple(Limit(subject=of, at_most=_VERIFY_SECONDS) for of in (_OURS, _SLOW)),
    )
