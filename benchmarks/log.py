"""The log's tree: an append late against an append early, and a build against re-hashing at each append."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from time import perf_counter
from typing import Final

from aioum.core.merkle import root_of
from aioum.log.tree import LogTree, MemoryNodes, leaf_hash, node_hash
from benchmarks.measure import Alternative, Plan, in_batches, measure
from benchmarks.result import Case, Comparison
from benchmarks.year_log_entries import session

NAME = "log"
OPERATION = "appending one entry"
PACKAGES = ()
NOTES = (
    "Nodes in memory, entries of 311 to 333 bytes, no disk: the tree alone.",
    "`re-hashing` hashes all entries and the tree over them again at each append, as a log without stored "
    "nodes does.",
)

_EARLY: Final = 100
_LATE: Final = 100_000
_APPENDED: Final = 1_024
"""Appending costs between no hash of a node and log n of them: so many in a row give the average."""

_BUILT: Final = (500, 1_000, 2_000)
_NEEDED: Final = 480
_FLAT: Final = 1 / 1.5


def run(plan: Plan) -> list[Case]:
    """Measure appends at two sizes, and three builds."""
    entries = [session(number).to_bytes() for number in range(_LATE + _APPENDED)]
    return [_appends(entries, plan), *(_build(entries[:size], plan) for size in _BUILT)]


def _appends(entries: Sequence[bytes], plan: Plan) -> Case:
    samples = measure(
        [Alternative(f"at {size:,} entries", _appending(entries, size)) for size in (_EARLY, _LATE)], plan
    )
    late, early = f"at {_LATE:,} entries", f"at {_EARLY:,} entries"
    comparison = Comparison(subject=late, baseline=early, at_least=round(_FLAT, 3))
    return Case(name="append", samples=samples, comparisons=(comparison,))


def _appending(entries: Sequence[bytes], size: int) -> Callable[[int], float]:
    early = LogTree(MemoryNodes())
    early.extend([leaf_hash(entry) for entry in entries[:size]])
    following = entries[size : size + _APPENDED]

    def run(count: int) -> float:
        elapsed = 0.0
        while count > 0:
            tree = deepcopy(early)
            # An entry that is appended was just made, and copying a large tree drives it out of the caches.
            for entry in following:
                leaf_hash(entry)
            start = perf_counter()
            for entry in following[:count]:
                tree.append(leaf_hash(entry))
            elapsed += perf_counter() - start
            count -= _APPENDED
        return elapsed

    return run


def _build(entries: Sequence[bytes], plan: Plan) -> Case:
    if built(entries).root() != rehashed(entries):
        raise RuntimeError("the alternatives do not agree")
    samples = measure(
        [
            Alternative("stored nodes", in_batches(lambda: built(entries), len(entries))),
            # One build takes seconds: it is its own round.
            Alternative("re-hashing", in_batches(lambda: rehashed_each(entries), len(entries)), len(entries)),
        ],
        Plan(min(plan.rounds, 3), plan.batch_seconds),
    )
    needed = _NEEDED if len(entries) == _BUILT[-1] else None
    comparison = Comparison(subject="stored nodes", baseline="re-hashing", at_least=needed)
    return Case(name=f"build of {len(entries):,}", samples=samples, comparisons=(comparison,))


def built(entries: Sequence[bytes]) -> LogTree:
    """The log's tree, one append for each entry."""
    tree = LogTree(MemoryNodes())
    for entry in entries:
        tree.append(leaf_hash(entry))
    return tree


def rehashed(entries: Sequence[bytes]) -> bytes:
    """The root from nothing but the entries."""
    return root_of([leaf_hash(entry) for entry in entries], node_hash) or b""


def rehashed_each(entries: Sequence[bytes]) -> bytes:
    """The same root, computed anew at each append."""
    root = b""
    for size in range(1, len(entries) + 1):
        root = rehashed(entries[:size])
    return root
