"""Keccak-256 choices, alone and beside a thread that keeps the interpreter busy.

A library that gives up the interpreter lock for every short hash waits behind the busy thread each time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from eth_hash.auto import keccak as eth_hash_keccak
from eth_utils.crypto import keccak as eth_utils_keccak

from aioum.core.hashing import (
    gives_known_answers,
    keccak256,
    openssl_keccak256,
    pycryptodome_keccak256,
    pysha3_keccak256,
)
from benchmarks.measure import Alternative, Plan, measure, repeated
from benchmarks.result import Case, Comparison

NAME = "keccak"
OPERATION = "hashing one input"
PACKAGES = ("safe-pysha3", "pycryptodome", "eth-hash", "eth-utils")
NOTES = ()

SIZES_BYTES: Final = {"64 bytes (node)": 64, "128 bytes (leaf)": 128, "16 kB (response)": 16_384}


@contextmanager
def busy_thread() -> Iterator[None]:
    """A thread that computes in Python for as long as the context lasts."""
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(500))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def choices() -> dict[str, Callable[[bytes], bytes]]:
    """The functions to choose from; ours first, under the name of the library it took."""
    # In the order in which aioum takes them.
    faster = {"safe-pysha3": pysha3_keccak256(), "OpenSSL": openssl_keccak256()}
    ours = next((name for name, function in faster.items() if _is_keccak(function)), "pycryptodome")
    return {
        f"aioum ({ours})": keccak256,
        "pycryptodome": pycryptodome_keccak256,
        "eth-hash": eth_hash_keccak,
        "eth-utils": eth_utils_keccak,
    }


def _is_keccak(function: Callable[[bytes], bytes] | None) -> bool:
    return function is not None and gives_known_answers(function)


def run(plan: Plan) -> list[Case]:
    """Measure every size alone and beside a busy thread."""
    return [*_cases("alone", nullcontext, plan), *_cases("beside a busy thread", busy_thread, _longer(plan))]


def _longer(plan: Plan) -> Plan:
    # Two busy threads exchange the lock every 5 ms: a round has to hold many turns to be typical.
    return Plan(plan.rounds, max(plan.batch_seconds, 100 * sys.getswitchinterval()))


def _cases(condition: str, context: Callable[[], AbstractContextManager[None]], plan: Plan) -> list[Case]:
    functions = choices()
    subject, *baselines = functions
    cases = []
    for size, size_bytes in SIZES_BYTES.items():
        data = bytes(index % 251 for index in range(size_bytes))
        if any(function(data) != keccak256(data) for function in functions.values()):
            raise RuntimeError("the alternatives do not agree")
        with context():
            samples = measure(
                [Alternative(name, repeated(function, data)) for name, function in functions.items()], plan
            )
        comparisons = tuple(Comparison(subject=subject, baseline=name) for name in baselines)
        cases.append(Case(name=f"{size}, {condition}", samples=samples, comparisons=comparisons))
    return cases
