"""Every mutant against the tests: built and tested in copies, by several workers at once."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.mutation.mutants import Mutant
from tests.mutation.processes import loaded_compiler
from tests.mutation.project import NotCompiled, Project, Stage, furnish

Status = Literal["killed", "survived", "timeout", "discarded"]

# In the order of what kills most in the least time. The last has the tests that fail without the optimizer.
# Gas is compared elsewhere, and proofs take too long.
STAGES: Final = (
    Stage("units", ("unit",), optimized=False),
    Stage("attacks", ("attack",), optimized=False),
    Stage("ranges", ("fuzz", "vectors"), optimized=False),
    Stage("invariants", ("invariant",), optimized=False),
    Stage("deployed", (), optimized=True),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        identifier: of the mutant.
        status: `killed` by a test that failed; `timeout` if tests did not end; `discarded` if it is no
            program, or the same one.
        because: the test, or why it was discarded; empty for survivors.
        seconds: how long it took.
    """

    identifier: str
    status: Status
    because: str
    seconds: float


class TestsFail(Exception):
    """The tests fail without any mutation, so that they say nothing about mutants."""


class Bench:
    """Where mutants are tried: a folder with a pristine, built copy of the contracts for every stage.

    Args:
        root: an empty folder.
        contracts: the project of contracts, which is only read.
    """

    def __init__(self, root: Path, contracts: Path) -> None:
        self._root = root
        self._contracts = contracts
        self._locks = {stage: asyncio.Lock() for stage in STAGES}
        self._needing_optimizer: set[str] = set()
        self._bytecodes: dict[Stage, dict[str, str]] = {}

    async def prepare(self, environments: list[dict[str, str]]) -> None:
        """Prepare what every mutant is tried with first.

        Raises:
            NotCompiled: the contracts do not compile.
        """
        furnish(self._root, self._contracts)
        first, second = STAGES[:2]
        async with asyncio.TaskGroup() as group:
            for stage, environment in zip((first, second), environments, strict=False):
                group.create_task(self.pristine(stage, environment))

    async def pristine(self, stage: Stage, environment: dict[str, str]) -> tuple[Path, dict[str, str]]:
        """Folder of the stage's unmutated, built copy, and its bytecode where that is optimized.

        Each is made when it is first asked for; the optimized one after all others.

        Raises:
            NotCompiled: the contracts do not compile.
            TestsFail: a test fails with the optimizer too.
        """
        project = Project(self._root / stage.name, stage, environment)
        async with self._locks[stage]:
            if stage not in self._bytecodes:
                if stage.optimized:
                    await self._prepare_optimized(project)
                else:
                    await self._prepare_plain(project)
        return project.folder, self._bytecodes[stage]

    async def _prepare_plain(self, project: Project) -> None:
        """Files with tests that fail without the optimizer are taken out, and kept for the last stage."""
        project.copy_from(self._contracts)
        await project.build()
        if project.has_tests():
            names = (await project.test(until_first=False)).failed
            paths = {name.partition(":")[0] for name in names}
            for path in paths:
                (project.folder / path).unlink()
            if paths:
                await project.build()
            self._needing_optimizer |= paths
        self._bytecodes[project.stage] = {}

    async def _prepare_optimized(self, project: Project) -> None:
        project.copy_from(self._contracts, tuple(sorted(self._needing_optimizer)))
        await project.build()
        if project.has_tests() and (failed := (await project.test(until_first=False)).failed):
            raise TestsFail(", ".join(failed))
        self._bytecodes[project.stage] = project.bytecodes()


class Worker:
    """Tries one mutant at a time in copies of its own.

    Args:
        number: of the worker.
        root: folder of the bench.
        bench: whose pristine copies it starts from.
        environment: of its compiler.
    """

    def __init__(self, number: int, root: Path, bench: Bench, environment: dict[str, str]) -> None:
        self._number = number
        self._root = root
        self._bench = bench
        self.environment = environment
        self._projects: dict[Stage, Project] = {}

    async def try_out(self, mutant: Mutant) -> Verdict:
        """Build and test a mutant, stage by stage, until something fails."""
        started = time.monotonic()
        status, because = await self._outcome(mutant)
        return Verdict(mutant.identifier, status, because, round(time.monotonic() - started, 1))

    async def _outcome(self, mutant: Mutant) -> tuple[Status, str]:
        for stage in STAGES:
            pristine, bytecodes = await self._bench.pristine(stage, self.environment)
            project = self._projects.get(stage)
            if project is None:
                project = Project(self._root / f"{stage.name}-{self._number}", stage, self.environment)
                shutil.copytree(pristine, project.folder)
                self._projects[stage] = project
            original = (pristine / "src" / mutant.file).read_bytes()
            source = project.source(mutant.file)
            source.write_bytes(mutant.apply(original))
            try:
                await project.build()
                if stage.optimized and project.bytecodes() == bytecodes:
                    return "discarded", "compiles to the same bytecode"
                failed = (await project.test()).failed if project.has_tests() else ()
            except NotCompiled:
                return "discarded", "does not compile"
            except TimeoutError:
                return "timeout", stage.name
            finally:
                source.write_bytes(original)
            if failed:
                return "killed", failed[0]
        return "survived", ""


@asynccontextmanager
async def workers_for(contracts: Path, count: int) -> AsyncIterator[list[Worker]]:
    """So many workers over copies of `contracts` in a temporary folder, which is gone afterwards."""
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aioum-mutation-"))).resolve()
        # Two, so that stages are prepared side by side.
        environments = [
            await stack.enter_async_context(loaded_compiler(root / f"compiler-{number}"))
            for number in range(max(count, 2))
        ]
        bench = Bench(root, contracts)
        await bench.prepare(environments)
        yield [Worker(number, root, bench, environments[number]) for number in range(count)]


async def try_all(workers: list[Worker], mutants: Iterable[Mutant], found: Callable[[Verdict], None]) -> None:
    """Try mutants out; `found` is told of each as it is done.

    A worker stays with a file while there is something left of it: from one mutant to the next, only what
    depends on that file is compiled anew.
    """
    files: defaultdict[str, deque[Mutant]] = defaultdict(deque)
    for mutant in mutants:
        files[mutant.file].append(mutant)

    async def work(worker: Worker) -> None:
        queue: deque[Mutant] = deque()
        while queue or (queue := max(files.values(), key=len, default=deque())):
            found(await worker.try_out(queue.popleft()))

    async with asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(work(worker))
