"""The process that a module runs in: `python -I -m aioum.kits.wasm_process`, started by `aioum.kits.wasm`.

It reads one job on standard input (a line of JSON, the module, the module's own standard input), gives up
what it does not need, runs the module once, and writes one line of JSON and the module's output.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

OVERHEAD_BYTES = 1_073_741_824
"""Memory of the process beside the module's: interpreter, compiler and compiled code."""
OUTPUT_OVERHEAD_BYTES = 65_536


def main() -> None:
    """Do the one job. Always exits with 0; what happened is in the answer."""
    source = sys.stdin.buffer
    job = json.loads(source.readline())
    module, stdin = source.read(job["moduleBytes"]), source.read()
    try:
        # Before `confine`: afterwards no file can be opened.
        from aioum.kits.wasm_engine import run
    except (ImportError, OSError, RuntimeError) as error:
        # RuntimeError: its own, on a platform that it has no library for.
        answer(sys.stdout.buffer, {"code": "wasm-unavailable", "detail": str(error)[:300]}, b"")
        return
    try:
        confine(job)
    except MemoryError as error:
        answer(sys.stdout.buffer, {"code": "wasm-process-failed", "detail": str(error)}, b"")
        return
    outcome, output = run(job, module, stdin)
    answer(sys.stdout.buffer, outcome, output)


def answer(sink: Any, outcome: dict[str, Any], output: bytes) -> None:
    """Write the answer: a line of JSON, then the output."""
    sink.write(json.dumps(outcome).encode() + b"\n" + output)
    sink.flush()


def confine(job: dict[str, Any]) -> None:
    """Give up what the run does not need, should the module ever leave its sandbox.

    No further file, socket or pipe can be opened, nothing but the answer can be written, and processor time
    and memory have an end.

    Raises:
        MemoryError: this system grants less memory than every module is promised. A module would see that,
            and could answer otherwise than elsewhere.
    """
    seconds = int(job["wallSeconds"]) + 2
    memory = job["memoryBytes"] + OVERHEAD_BYTES
    _, granted = resource.getrlimit(resource.RLIMIT_DATA)
    if granted != resource.RLIM_INFINITY and granted < memory:
        raise MemoryError(f"a run is given {memory} bytes, and a limit of this system is {granted}")
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: job["outputBytes"] + OUTPUT_OVERHEAD_BYTES,
        resource.RLIMIT_NOFILE: 3,
    }
    for limit, value in limits.items():
        _, highest = resource.getrlimit(limit)
        value = value if highest == resource.RLIM_INFINITY else min(value, highest)
        resource.setrlimit(limit, (value, value))


if __name__ == "__main__":
    main()
