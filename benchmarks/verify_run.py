"""Judging recorded sessions: signatures against the bare curve, the command against its parts, its growth."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from aioum.core.submission.chain import Submission
from aioum.core.types import Bytes32
from aioum.replay.facts import SignatureState
from aioum.replay.model import Artifact
from aioum.replay.reading import read_artifact
from aioum.replay.signatures import Submitted, check_signatures, submissions
from aioum.replay.verdict import judge
from benchmarks.measure import Alternative, Plan, measure
from benchmarks.recorded_run import ADAPTER, recorded_run
from benchmarks.result import Case, Comparison

NAME = "verify-run"
OPERATION = "one call of the recorded session"
PACKAGES = ("cryptography", "click")
NOTES = (
    "`the command` is a process of its own, `aioum verify-run ARTIFACT --adapter FILE`; the adapter "
    "counts calls and maps each.",
    "`its parts` are the same command on a session without calls, the signature check, and `json.loads` of "
    "each line, one after the other.",
    "Growth is that of reading and judging, in one process, without the cyclic collector, as in the command.",
)

DIRECT: Final = 1
PERIODIC: Final = 100
SMALL: Final = 1_000
LARGE: Final = 10_000
LARGEST: Final = 100_000

_MOST_ROUNDS_OF_LARGEST: Final = 3
_COMMAND: Final = "import sys; from aioum.cli.main import main; sys.exit(main())"
_SIGNATURES: Final = "signature check"
_BARE: Final = "bare Ed25519"
_WHOLE: Final = "the command"
_PARTS: Final = "its parts"


def run(plan: Plan) -> list[Case]:
    """Measure all cases."""
    largest = replace(plan, rounds=min(plan.rounds, _MOST_ROUNDS_OF_LARGEST))
    with TemporaryDirectory() as folder:
        command = _Command(Path(folder))
        return [
            _signatures(plan),
            _command(command, SMALL, DIRECT, at_least=0.5, plan=plan),
            _command(command, LARGE, PERIODIC, at_least=0.2, plan=plan),
            _growth(DIRECT, largest),
            _growth(PERIODIC, largest),
        ]


def _signatures(plan: Plan) -> Case:
    artifact = read_artifact(recorded_run(SMALL, signed_every=DIRECT))
    key, signed = _bare_material(artifact)

    def check() -> None:
        if check_signatures(artifact).state is not SignatureState.SIGNED:
            raise RuntimeError("the signature check refuses an honest session")

    def bare() -> None:
        for signature, message in signed:
            key.verify(signature, message)

    samples = measure(
        [
            Alternative(_SIGNATURES, _whole_sessions(check, SMALL), count=SMALL),
            Alternative(_BARE, _whole_sessions(bare, SMALL), count=SMALL),
        ],
        plan,
    )
    comparison = Comparison(subject=_SIGNATURES, baseline=_BARE, at_least=0.8)
    return Case(name=f"{SMALL:,} calls, each signed", samples=samples, comparisons=(comparison,))


def _bare_material(artifact: Artifact) -> tuple[Ed25519PublicKey, list[tuple[bytes, bytes]]]:
    roster = artifact.header.roster
    if roster is None:
        raise RuntimeError("the session has no roster")
    signed = []
    for item in submissions(artifact):
        integrity = item.integrity if isinstance(item, Submitted) else None
        if integrity is None or integrity.signature is None:
            raise RuntimeError("the session is not signed call by call")
        message = Submission(
            artifact.header.session_id,
            item.seat if isinstance(item, Submitted) else "",
            integrity.submission_id,
            integrity.cursor,
            item.tick,
            integrity.client_time or 0,
            integrity.command,
            integrity.prev_head or Bytes32(bytes(32)),
        ).preimage()
        signed.append((integrity.signature, message))
    return Ed25519PublicKey.from_public_bytes(roster.entries[0].public_key), signed


class _Command:
    """`aioum verify-run` in processes of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._adapter = folder / "tally.py"
        self._adapter.write_text(ADAPTER, encoding="utf-8")
        self._empty = self.file(recorded_run(0, signed_every=DIRECT), "empty")

    def file(self, data: bytes, name: str) -> Path:
        """Keep an artifact."""
        path = self._folder / f"{name}.gaos-replay.jsonl"
        path.write_bytes(data)
        return path

    def run(self, artifact: Path) -> None:
        """Judge it. Raises RuntimeError where it is not trusted."""
        arguments = ["verify-run", str(artifact), "--adapter", str(self._adapter)]
        done = subprocess.run(
            [sys.executable, "-c", _COMMAND, *arguments], capture_output=True, text=True, check=False
        )
        if not done.stdout.startswith("trusted"):
            raise RuntimeError(f"verify-run ended with {done.returncode}: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Judge a session without calls."""
        self.run(self._empty)


def _command(command: _Command, calls: int, signed_every: int, *, at_least: float, plan: Plan) -> Case:
    data = recorded_run(calls, signed_every=signed_every)
    file = command.file(data, f"{calls}-{signed_every}")
    artifact = read_artifact(data)
    lines = data.decode().splitlines()

    def parts() -> None:
        command.start()
        for line in lines:
            json.loads(line)
        check_signatures(artifact)

    samples = measure(
        [
            Alternative(_WHOLE, _whole_sessions(lambda: command.run(file), calls), count=calls),
            Alternative(_PARTS, _whole_sessions(parts, calls), count=calls),
        ],
        plan,
    )
    comparison = Comparison(subject=_WHOLE, baseline=_PARTS, at_least=at_least)
    return Case(name=_name(calls, signed_every), samples=samples, comparisons=(comparison,))


def _growth(signed_every: int, plan: Plan) -> Case:
    alternatives = [
        Alternative(f"{calls:,} calls", _whole_sessions(_judging(calls, signed_every), calls), count=calls)
        for calls in (LARGEST, LARGE)
    ]
    comparison = Comparison(subject=f"{LARGEST:,} calls", baseline=f"{LARGE:,} calls", at_least=0.7)
    how = "each signed" if signed_every == DIRECT else f"N = {signed_every}"
    return Case(name=f"growth, {how}", samples=measure(alternatives, plan), comparisons=(comparison,))


def _judging(calls: int, signed_every: int) -> Callable[[], None]:
    data = recorded_run(calls, signed_every=signed_every)

    def read_and_judge() -> None:
        gc.disable()
        try:
            check()
        finally:
            gc.enable()

    def check() -> None:
        if judge(read_artifact(data)).signatures.state is not SignatureState.SIGNED:
            raise RuntimeError("the judge refuses an honest session")

    return read_and_judge


def _name(calls: int, signed_every: int) -> str:
    how = "each signed" if signed_every == DIRECT else f"N = {signed_every}"
    return f"verify-run, {calls:,} calls, {how}"


def _whole_sessions(function: Callable[[], None], calls: int) -> Callable[[int], float]:
    """An alternative's `run`, in calls, of a function that takes a whole session of so many."""

    def run(count: int) -> float:
        start = perf_counter()
        for _ in range(count // calls):
            function()
        return perf_counter() - start

    return run
