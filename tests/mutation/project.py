"""Copies of the contracts, in which mutants are built and tested; the work tree itself is only ever read."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutation.processes import Ended, run
from tests.mutation.syntax import REPOSITORY

_CLIENT: Final = Path(__file__).parent / "solc_client.py"
_SHARED_TESTS: Final = ("base", "mocks")
# Far above what any build or suite takes, on a busy machine too: what is slower than this does not end.
TIMEOUT_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Stage:
    """Tests that are run together.

    Attributes:
        name: of the stage; one word.
        tests: folders of `contracts/test`.
        optimized: whether contracts are compiled as they are deployed. Without the optimizer that takes a
            third of the time; what tells the two apart is gas alone.
    """

    name: str
    tests: tuple[str, ...]
    optimized: bool


@dataclass(frozen=True, slots=True)
class Tested:
    """What the tests say of a project.

    Attributes:
        failed: names of those that failed, `FILE:CONTRACT.TEST`; where they stop at the first, its name.
    """

    failed: tuple[str, ...]


class NotCompiled(Exception):
    """The compiler refused the sources."""


def forge() -> str:
    """Path of forge itself; npm's wrapper of it ends with 0 whatever happened.

    Raises:
        RuntimeError: it is not installed.
    """
    found = sorted(REPOSITORY.glob("node_modules/@foundry-rs/forge-*/bin/forge"))
    if not found:
        raise RuntimeError("forge was not found: run scripts/setup")
    return str(found[0])


def furnish(root: Path, contracts: Path) -> None:
    """Put into `root` what projects expect beside them: compiler, libraries and vectors of `contracts`."""
    (root / "scripts").mkdir()
    client = root / "scripts" / "solc"
    client.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{_CLIENT}" "$@"\n', encoding="utf-8")
    client.chmod(0o755)
    libraries = contracts.parent / "node_modules" / "@openzeppelin" / "contracts"
    if libraries.is_dir():
        # A copy: forge would follow a link, and take each library for two.
        shutil.copytree(libraries, root / "node_modules" / "@openzeppelin" / "contracts")
    vectors = contracts.parent / "tests" / "vectors"
    if vectors.is_dir():
        (root / "tests").mkdir()
        (root / "tests" / "vectors").symlink_to(vectors)


class Project:
    """One copy of the contracts, with the tests of one stage.

    Args:
        folder: of the copy, directly below what `furnish` furnished.
        stage: whose tests it has.
        environment: in which the compiler is found.
    """

    def __init__(self, folder: Path, stage: Stage, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.stage = stage
        self._environment = {
            **environment,
            "FOUNDRY_PROFILE": "mutation",
            "FOUNDRY_DISABLE_NIGHTLY_WARNING": "1",
            **({} if stage.optimized else {"FOUNDRY_OPTIMIZER": "false"}),
        }

    def copy_from(self, contracts: Path, more: tuple[str, ...] = ()) -> None:
        """Copy sources and tests; `more` are single files of tests, relative to `contracts`."""
        self.folder.mkdir()
        shutil.copy(contracts / "foundry.toml", self.folder)
        shutil.copytree(contracts / "src", self.folder / "src")
        for name in (*_SHARED_TESTS, *self.stage.tests):
            if (contracts / "test" / name).is_dir():
                shutil.copytree(contracts / "test" / name, self.folder / "test" / name)
        for name in more:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(contracts / name, self.folder / name)

    def source(self, name: str) -> Path:
        """Path of a source of this copy."""
        return self.folder / "src" / name

    def has_tests(self) -> bool:
        """Whether there is anything to run."""
        return any((self.folder / "test").rglob("*.t.sol"))

    def bytecodes(self) -> dict[str, str]:
        """What was compiled, by file and contract."""
        found = {}
        for path in sorted((self.folder / "out").glob("*.sol/*.json")):
            artifact = json.loads(path.read_text(encoding="utf-8"))
            found[f"{path.parent.name}:{path.stem}"] = artifact["bytecode"]["object"]
        return found

    async def build(self) -> None:
        """Compile what changed.

        Raises:
            NotCompiled: the sources are not Solidity.
            RuntimeError: forge failed otherwise.
            TimeoutError: it did not end.
        """
        ended = await self._forge("build")
        if ended.code != 0:
            if b"Compiler run failed" in ended.output + ended.errors:
                raise NotCompiled(ended.errors.decode(errors="replace"))
            raise RuntimeError(_said("forge build", ended))

    async def test(self, *, until_first: bool = True) -> Tested:
        """Run the tests of what was built.

        Args:
            until_first: whether the first that fails ends the run.

        Raises:
            RuntimeError: forge did not say which tests passed.
            TimeoutError: it did not end.
        """
        # Inputs that failed for another mutant would be tried again, and the outcome depend on the order.
        for kept in ("fuzz", "invariant", "test-failures"):
            path = self.folder / "cache" / kept
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        ended = await self._forge(
            "test", "--json", "--threads", "1", *(["--fail-fast"] if until_first else [])
        )
        try:
            suites = json.loads(ended.output)
        except ValueError as error:
            raise RuntimeError(_said("forge test", ended)) from error
        failed = tuple(
            f"{suite}.{test}"
            for suite, results in sorted(suites.items())
            for test, result in sorted(results["test_results"].items())
            if result["status"] == "Failure"
        )
        if bool(failed) == (ended.code == 0) or not suites:
            raise RuntimeError(_said("forge test", ended))
        return Tested(failed)

    async def _forge(self, command: str, *arguments: str) -> Ended:
        return await run(
            forge(),
            command,
            "--offline",
            *arguments,
            folder=self.folder,
            environment=self._environment,
            seconds=TIMEOUT_SECONDS,
        )


def _said(command: str, ended: Ended) -> str:
    text = (ended.errors + ended.output).decode(errors="replace")
    return f"{command} ended with {ended.code}:\n{text[-4_000:]}"
