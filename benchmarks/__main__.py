"""`scripts/bench [NAME…] [--quick] [--write]`: measure, print the figures, keep the raw samples."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from benchmarks.environment import environment
from benchmarks.measure import FULL, QUICK, Plan
from benchmarks.report import table, update_page
from benchmarks.result import Case, Result

NAMES: Final = (
    "canonical-json",
    "keccak",
    "voucher",
    "root",
    "appends",
    "paid-calls",
    "durability",
    "postgresql",
    "verify-run",
    "evidence",
)
PARTS: Final = {
    "evidence": (
        "evidence-forms",
        "evidence-hashing",
        "evidence-signatures",
        "evidence-runs",
        "log",
        "evidence-proofs",
    )
}
"""Benchmarks that belong together: one page of their own, measured and kept in one run."""
PAGE_FOLDER: Final = Path(__file__).resolve().parent.parent / "docs" / "bench"


class Benchmark(Protocol):
    """What a module of this package offers."""

    NAME: str
    OPERATION: str
    PACKAGES: tuple[str, ...]
    NOTES: tuple[str, ...]

    def run(self, plan: Plan) -> list[Case]:
        """Measure all cases."""
        ...


def benchmark(name: str) -> Benchmark:
    """The module that measures under that name."""
    module: Benchmark = import_module(f"benchmarks.{name.replace('-', '_')}")
    return module


def measured(name: str, *, quick: bool) -> Result:
    """Run one benchmark."""
    module = benchmark(name)
    cases = module.run(QUICK if quick else FULL)
    return Result(
        formatVersion=1,
        benchmark=name,
        operation=module.OPERATION,
        quick=quick,
        environment=environment(module.PACKAGES),
        notes=module.NOTES,
        cases=tuple(cases),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; exit code 1 where a figure is not what the design needs."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure the figures that the design rests on, within one run."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(NAMES)}; default: all"
    )
    parser.add_argument("--quick", action="store_true", help="few short rounds, to see that everything runs")
    parser.add_argument(
        "--write", action="store_true", help="keep the raw samples and the tables in docs/bench"
    )
    parser.add_argument(
        "--tables", action="store_true", help="measure nothing, only write the tables of docs/bench anew"
    )
    chosen = parser.parse_args(arguments)
    if chosen.quick and chosen.write:
        parser.error("a quick run is not kept: --quick and --write exclude each other")
    if unknown := sorted(set(chosen.names) - set(NAMES)):
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    if chosen.tables:
        for folder in (PAGE_FOLDER, *(PAGE_FOLDER / name for name in PARTS)):
            update_page(folder)
        return 0

    missed = False
    for name in chosen.names or NAMES:
        results = [_shown(part, quick=chosen.quick) for part in PARTS.get(name, (name,))]
        missed = missed or any(case.missed for result in results for case in result.cases)
        if chosen.write:
            folder = PAGE_FOLDER / name if name in PARTS else PAGE_FOLDER
            for result in results:
                result.save(folder)
            update_page(folder)
    return 1 if missed else 0


def _shown(name: str, *, quick: bool) -> Result:
    sys.stderr.write(f"measuring {name}\n")
    result = measured(name, quick=quick)
    sys.stdout.write(f"\n## {name}\n\n{table(result)}\n")
    sys.stdout.flush()
    return result


if __name__ == "__main__":
    sys.exit(main())
