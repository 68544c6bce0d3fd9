"""`scripts/fuzz`: runs targets one after the other, and keeps whatever it finds as a regression file."""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import planted
from tests.fuzz.targets import MAX_BYTES, TARGETS

REPOSITORY = Path(__file__).resolve().parent.parent.parent
REGRESSIONS = Path(__file__).resolve().parent / "regressions"
MEMORY_MIB = 1_024
INPUT_SECONDS = 10
_OF_FINDINGS = ("crash-", "leak-", "oom-", "timeout-")


@dataclass(frozen=True, slots=True)
class Result:
    """What fuzzing one target came to: inputs that were tried, and files that bring about a fault."""

    target: str
    inputs: int
    findings: tuple[Path, ...]
    output: str


def fuzz(
    target: str, seconds: int, findings: Path, corpus: Path, *, input_seconds: int = INPUT_SECONDS
) -> Result:
    """Fuzz one target for a time.

    Args:
        target: its name.
        seconds: how long.
        findings: folder for what is found.
        corpus: folder that the engine goes on from, and adds to; seeds are put there.
        input_seconds: longest that one input may take.
    """
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    kept = findings / target
    kept.mkdir(parents=True, exist_ok=True)
    chosen = (planted.TARGETS if target in planted.TARGETS else TARGETS)[target]
    for number, seed in enumerate(chosen.seeds()):
        (folder / f"seed-{number}").write_bytes(seed)
    before = set(kept.iterdir())
    run = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.engine", target, str(folder)),
            f"-artifact_prefix={kept}/",
            f"-max_len={4 * MAX_BYTES}",
            f"-max_total_time={seconds}",
            f"-rss_limit_mb={MEMORY_MIB}",
            f"-timeout={input_seconds}",
            "-print_final_stats=1",
        ],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds + 120,
        check=False,
    )
    output = run.stdout.decode(errors="replace")
    found = tuple(sorted(path for path in set(kept.iterdir()) - before if path.name.startswith(_OF_FINDINGS)))
    if run.returncode and not found:
        raise RuntimeError(f"the engine failed at {target} (exit code {run.returncode}):\n{output[-4_000:]}")
    if not any(kept.iterdir()):
        kept.rmdir()
    counted = re.findall(r"^(?:stat::number_of_executed_units: |#)(\d+)", output, re.MULTILINE)
    return Result(target, max(map(int, counted), default=0), found, output)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its status."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz", description="Fuzz what reads the bytes of strangers; each target for --seconds."
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=int, default=10, help="how long each target is fuzzed (default 10)")
    parser.add_argument("--corpus", type=Path, help="folder that a longer run goes on from")
    parser.add_argument("--findings", type=Path, default=REGRESSIONS, help="folder for what is found")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.targets if name not in {**TARGETS, **planted.TARGETS}]:
        parser.error(f"no such target: {', '.join(unknown)}")
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed; it is there for Linux on x86-64")
    failed = False
    with ExitStack() as stack:
        corpus = chosen.corpus
        if corpus is None:
            corpus = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aioum-fuzz-")))
        for name in chosen.targets or TARGETS:
            result = fuzz(name, chosen.seconds, chosen.findings, corpus)
            print(f"{name}: {result.inputs} inputs, {len(result.findings)} findings", flush=True)
            for path in result.findings:
                failed = True
                print(f"  {path}", flush=True)
            if result.findings:
                print(result.output[-3_000:], file=sys.stderr, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
