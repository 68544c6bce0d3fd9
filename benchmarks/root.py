"""The running root after one more call: the frontier against building the tree anew from all leaves."""

from __future__ import annotations

from itertools import islice
from time import perf_counter
from typing import Final

from aioum.core.hashing import keccak256
from aioum.core.merkle import Frontier, root_of
from aioum.core.transcript import append_leaf, frontier_root, node_hash
from benchmarks.measure import Alternative, Plan, measure, repeated
from benchmarks.result import Case, Comparison

NAME = "root"
OPERATION = "the root after one more call"
PACKAGES = ("safe-pysha3",)
NOTES = ()

_APPENDED: Final = 1_024
"""Appending costs between one hash and log n of them: so many calls in a row give the average."""


def run(plan: Plan) -> list[Case]:
    """Measure at a thousand and at a hundred thousand calls."""
    leaves = [keccak256(index.to_bytes(8, "big")) for index in range(100_000 + _APPENDED)]
    return [
        _case(leaves, 1_000, "1,000 calls", None, plan),
        _case(leaves, 100_000, "100,000 calls", 1_000, plan),
    ]


def _case(leaves: list[bytes], size: int, name: str, at_least: float | None, plan: Plan) -> Case:
    frontier = Frontier()
    for leaf in islice(leaves, size):
        frontier = append_leaf(frontier, leaf)
    present = leaves[:size]
    if frontier_root(frontier) != root_of(present, node_hash):
        raise RuntimeError("the alternatives do not agree")
    following = leaves[size : size + _APPENDED]

    def append(count: int) -> float:
        start = perf_counter()
        while count > 0:
            grown = frontier
            for leaf in following[:count]:
                grown = append_leaf(grown, leaf)
                frontier_root(grown)
            count -= len(following)
        return perf_counter() - start

    alternatives = [
        Alternative("frontier", append),
        # From kept leaf hashes: hashing all texts again would take longer still.
        Alternative("rebuilding", repeated(root_of, present, node_hash)),
    ]
    comparison = Comparison(subject="frontier", baseline="rebuilding", at_least=at_least)
    return Case(name=name, samples=measure(alternatives, plan), comparisons=(comparison,))
