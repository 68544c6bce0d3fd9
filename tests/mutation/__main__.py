"""`scripts/mutate`: tries out every mutant of the contracts, or some; ends with 1 where tests miss one."""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Collection, Coroutine, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from tests.mutation import report as reports
from tests.mutation.mutants import Mutant, hash_of, mutants_of
from tests.mutation.project import NotCompiled
from tests.mutation.results import VERSION, Results
from tests.mutation.syntax import REPOSITORY, parse
from tests.mutation.trials import TestsFail, Verdict, try_all, workers_for

_CONTRACTS: Final = REPOSITORY / "contracts"
_KEPT: Final = REPOSITORY / ".aioum" / "mutation"


async def judge(
    contracts: Path, mutants: Sequence[Mutant], workers: int, results: Results | None = None
) -> dict[str, Verdict]:
    """What becomes of each mutant, by identifier; what is known already, and is kept, is not tried again.

    Args:
        contracts: the project of contracts, which is only read.
        mutants: of its sources.
        workers: how many are tried at once.
        results: where verdicts are kept.

    Raises:
        TestsFail: the tests fail without any mutation.
        RuntimeError: a tool is missing or failed.
    """
    verdicts = results.read() if results else {}
    open_ = [mutant for mutant in mutants if mutant.identifier not in verdicts]
    print(f"{len(mutants)} mutants, {len(open_)} to try", flush=True)
    changes = {mutant.identifier: mutant.change for mutant in mutants}

    def found(verdict: Verdict) -> None:
        verdicts[verdict.identifier] = verdict
        if results:
            results.add(verdict)
        done = sum(mutant.identifier in verdicts for mutant in open_)
        told = verdict.because or changes[verdict.identifier]
        print(f"{done}/{len(open_)} {verdict.status} {verdict.identifier}: {told}", flush=True)

    if open_:
        async with workers_for(contracts, workers) as working:
            await try_all(working, open_, found)
    return {mutant.identifier: verdicts[mutant.identifier] for mutant in mutants}


async def _whole(workers: int, *, survivors: bool) -> int:
    mutants = mutants_of(parse(_CONTRACTS))
    results = Results(_KEPT, _CONTRACTS)
    if survivors:
        _keep_killed(results, mutants)
    source_sha256 = hash_of(_CONTRACTS)
    verdicts = await judge(_CONTRACTS, mutants, workers, results)
    if hash_of(_CONTRACTS) != source_sha256:
        print("error: the sources changed meanwhile; nothing was written", file=sys.stderr)
        return 1
    entries = tuple(reports.entry_of(mutant, verdicts[mutant.identifier]) for mutant in mutants)
    date = datetime.now(UTC).date().isoformat()
    problems = reports.write(_CONTRACTS / "mutation", reports.Report(source_sha256, VERSION, date, entries))
    seconds = [verdict.seconds for verdict in verdicts.values()]
    print(f"{_counted(verdicts.values())}; {sum(seconds) / len(seconds):.1f} seconds each")
    return _told(problems)


def _keep_killed(results: Results, mutants: Sequence[Mutant]) -> None:
    """Take over from the report what was killed: tests that were added kill no less."""
    report = _report()
    if report.source_sha256 != hash_of(_CONTRACTS) or report.version != VERSION:
        raise ValueError("the report is of other sources: run scripts/mutate")
    known = results.read()
    changes = {mutant.identifier: mutant.change for mutant in mutants}
    for entry in report.entries:
        if entry.identifier in known or entry.status not in ("killed", "discarded"):
            continue
        if changes.get(entry.identifier) == entry.change:
            results.add(Verdict(entry.identifier, entry.status, entry.because, 0.0))


async def _sample(workers: int, size: int, seed: int) -> int:
    report = _report()
    if report.source_sha256 != hash_of(_CONTRACTS) or report.version != VERSION:
        return _told(["the sources changed since the report was made: run scripts/mutate"])
    killed = [entry.identifier for entry in report.entries if entry.status == "killed"]
    chosen = set(random.Random(seed).sample(killed, min(size, len(killed))))
    mutants = [mutant for mutant in mutants_of(parse(_CONTRACTS)) if mutant.identifier in chosen]
    print(f"seed {seed}")
    verdicts = await judge(_CONTRACTS, mutants, workers)
    print(_counted(verdicts.values()))
    problems = [
        f"the report names {identifier}, which does not exist" for identifier in chosen - set(verdicts)
    ]
    for identifier, verdict in verdicts.items():
        if verdict.status != "killed":
            problems.append(f"{identifier} was killed when the report was made; now: {verdict.status}")
    return _told(problems)


async def _only(workers: int, patterns: Sequence[str]) -> int:
    mutants = [
        mutant
        for mutant in mutants_of(parse(_CONTRACTS))
        if any(fnmatchcase(mutant.identifier, pattern) for pattern in patterns)
    ]
    verdicts = await judge(_CONTRACTS, mutants, workers)
    print(_counted(verdicts.values()))
    return int(not mutants or any(verdict.status in ("survived", "timeout") for verdict in verdicts.values()))


def _report() -> reports.Report:
    return reports.from_json((_CONTRACTS / "mutation" / "report.json").read_text(encoding="utf-8"))


def _counted(verdicts: Collection[Verdict]) -> str:
    counts = Counter(verdict.status for verdict in verdicts)
    return ", ".join(f"{count} {status}" for status, count in counts.most_common()) or "no mutants"


def _told(problems: Sequence[str]) -> int:
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return int(bool(problems))


def _render() -> int:
    return _told(reports.write(_CONTRACTS / "mutation", _report()))


async def _until_terminated(work: Coroutine[None, None, int]) -> int:
    """Ends the work at SIGTERM as at an interrupt, so that its programs and folders go with it."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its status."""
    parser = argparse.ArgumentParser(
        prog="scripts/mutate",
        description="Change the contracts, one thing at a time, and show what no test minds.",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--survivors", action="store_true", help="try again only what was not killed")
    which.add_argument("--sample", type=int, metavar="COUNT", help="try again some that were killed")
    which.add_argument(
        "--only", nargs="+", metavar="PATTERN", help="try mutants of these names, write nothing"
    )
    which.add_argument("--check", action="store_true", help="check the report, run nothing")
    which.add_argument("--render", action="store_true", help="write report.md anew, run nothing")
    parser.add_argument("--seed", type=int, help="of the sample's choice (default: another one each time)")
    parser.add_argument("--workers", type=int, default=2, help="how many mutants at once (default 2)")
    chosen = parser.parse_args(arguments)
    if chosen.workers < 1 or (chosen.sample is not None and chosen.sample < 1):
        parser.error("--workers and --sample take a number from 1")
    try:
        if chosen.check:
            return _told(reports.check(_CONTRACTS))
        if chosen.render:
            return _render()
        work = (
            _sample(
                chosen.workers,
                chosen.sample,
                secrets.randbelow(2**32) if chosen.seed is None else chosen.seed,
            )
            if chosen.sample
            else _only(chosen.workers, chosen.only)
            if chosen.only
            else _whole(chosen.workers, survivors=chosen.survivors)
        )
        return asyncio.run(_until_terminated(work))
    except (OSError, RuntimeError, ValueError, TestsFail, NotCompiled) as error:
        return _told([str(error)])
    except (KeyboardInterrupt, asyncio.CancelledError):
        return _told(["interrupted; a whole run goes on from here"])


if __name__ == "__main__":
    sys.exit(main())
