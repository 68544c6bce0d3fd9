"""Check 5, re-execution: the deterministic calls, run again, give exactly the recorded responses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aioum.core.canonical import JsonValue
from aioum.core.card import Card, parse_card
from aioum.core.errors import ConfigError, InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.problem import is_problem
from aioum.core.transcript import Entry
from aioum.verify.checks.transcript import Transcript
from aioum.verify.grounds import Grounds
from aioum.verify.ports import NoResponse, Program, ReExecutionFailed, ReExecutor
from aioum.verify.report import Check, Finding, failed, not_applicable, passed

NAME = "re-execution"
MAX_PARALLEL_RUNS: Final = 4


async def check_re_execution(
    package: EvidencePackage, transcript: Transcript, grounds: Grounds, re_executor: ReExecutor | None
) -> Check:
    """Run again what the card under the session's terms declares deterministic, and nothing else."""
    card = _card(package, grounds)
    if isinstance(card, Check):
        return card
    declared = card.deterministic
    if declared is None:
        return not_applicable(
            NAME,
            "not-deterministic",
            "The service does not declare itself deterministic and is not judged by re-execution.",
        )
    if re_executor is None:
        how = (
            "--reexec runs the module that its card pins"
            if declared.kind == "wasm"
            else "no command to run it again was given"
        )
        return not_applicable(
            NAME, "re-execution-not-requested", f"The service is declared deterministic; {how}."
        )
    if transcript.entries is None:
        return not_applicable(NAME, "transcript-invalid", "Calls that are not well-formed are not run.")
    plan = _Plan.of(transcript.entries, card)
    if not plan.run:
        return not_applicable(
            NAME,
            "re-execution-nothing-to-run",
            f"No call can be judged: {plan.skipped}.",
            details=plan.details(0),
        )
    try:
        program = await re_executor.program(declared)
    except ReExecutionFailed as error:
        return not_applicable(
            NAME, error.code, f"The service cannot be run again here: {error}.", details=plan.details(0)
        )
    return await _run(plan, program)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which calls are run again, and how many are not."""

    run: tuple[Entry, ...]
    failed: int
    exempted: int

    @classmethod
    def of(cls, entries: Sequence[Entry], card: Card) -> _Plan:
        served = [entry for entry in entries if not is_problem(entry.response.encode())]
        run = tuple(entry for entry in served if card.reexecutable(entry.tool_id))
        return cls(run, len(entries) - len(served), len(served) - len(run))

    @property
    def skipped(self) -> str:
        return f"{self.failed} failed and {self.exempted} exempted calls were skipped"

    def details(self, reproduced: int, program: Program | None = None) -> dict[str, JsonValue]:
        pinned: dict[str, JsonValue] = {}
        if program is not None and program.digest is not None:
            pinned["module"] = program.digest
        return pinned | {
            "toRun": len(self.run), "reproduced": reproduced, "skippedFailed": self.failed,
            "skippedExempted": self.exempted,
        }  # fmt: skip


def _card(package: EvidencePackage, grounds: Grounds) -> Card | Check:
    if grounds.terms is None:
        return not_applicable(
            NAME,
            "card-unproven",
            "No proven terms name the service's card: it is not judged by re-execution.",
        )
    if package.card is None:
        return not_applicable(
            NAME, "card-absent", "The package carries no card: the service is not judged by re-execution."
        )
    if grounds.card is None:
        return not_applicable(
            NAME,
            "card-hash-mismatch",
            "The card is not the one under the session's terms, so it says nothing.",
        )
    try:
        card = parse_card(grounds.card)
    except InvalidInput as error:
        return not_applicable(NAME, error.code, f"The card is not readable: {error}.")
    return card


async def _run(plan: _Plan, program: Program) -> Check:
    reproduced = 0
    unrun: list[Finding] = []
    # In batches, so that the first divergence by index ends the work and no more than these run at once.
    for start in range(0, len(plan.run), MAX_PARALLEL_RUNS):
        batch = plan.run[start : start + MAX_PARALLEL_RUNS]
        for outcome in await _run_batch(batch, program):
            if outcome is None:
                reproduced += 1
            elif outcome.code == "re-execution-diverged":
                return failed(NAME, [outcome], details=plan.details(reproduced, program))
            else:
                unrun.append(outcome)
    if unrun:
        return not_applicable(
            NAME,
            unrun[0].code,
            f"{reproduced} of {len(plan.run)} calls gave the same; others could not be run: {unrun[0].text}",
            details=plan.details(reproduced, program),
        )
    by = "" if program.digest is None else ", from the module that the card pins"
    return passed(
        NAME,
        f"All {reproduced} calls of deterministic tools gave the recorded response again{by};"
        f" {plan.skipped}.",
        details=plan.details(reproduced, program),
    )


async def _run_batch(batch: Sequence[Entry], program: Program) -> list[Finding | None]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run_one(entry, program)) for entry in batch]
    except* ConfigError as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _run_one(entry: Entry, program: Program) -> Finding | None:
    recorded = entry.response.encode()
    try:
        output = await program.run(entry.request.encode(), max_output_bytes=len(recorded) + 1)
    except ReExecutionFailed as error:
        return Finding(error.code, f"call {entry.index}: {error}.", entry.index)
    except NoResponse as error:
        return Finding(
            error.code,
            f"Call {entry.index} ({entry.tool_id}) has a response; the pinned program gives none: {error}.",
            entry.index,
        )
    if output in (recorded, recorded + b"\n"):
        return None
    return Finding(
        "re-execution-diverged",
        f"Call {entry.index} ({entry.tool_id}) gives another response when it is run again.",
        entry.index,
    )
