"""Verdicts of runs that did not come to their end, kept so that the next one goes on from there."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.mutation.mutants import hash_of
from tests.mutation.trials import STAGES, Verdict

# Counted up with every change after which a mutant could end otherwise, or bear another's name.
VERSION: Final = 1


class Results:
    """The verdicts over one state of sources, tests and tools; each is kept as soon as it is known.

    Args:
        folder: where they are kept.
        contracts: project of contracts whose state it is.
    """

    def __init__(self, folder: Path, contracts: Path) -> None:
        self._path = folder / f"{_state(contracts)[:32]}.jsonl"

    def read(self) -> dict[str, Verdict]:
        """What is known, by identifier. A line that an interruption cut off is left out."""
        found = {}
        if self._path.is_file():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    verdict = Verdict(**json.loads(line))
                except (ValueError, TypeError):
                    continue
                found[verdict.identifier] = verdict
        return found

    def add(self, verdict: Verdict) -> None:
        """Keep one more."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(verdict)) + "\n")


def _state(contracts: Path) -> str:
    digest = hashlib.sha256(f"{VERSION} {hash_of(contracts)}".encode())
    repository = contracts.parent
    paths = [contracts / "foundry.toml", repository / "package-lock.json"]
    folders = ("base", "mocks", *(name for stage in STAGES for name in stage.tests))
    for folder in (*(contracts / "test" / name for name in folders), repository / "tests" / "vectors"):
        paths += sorted(path for path in folder.rglob("*") if path.is_file())
    for path in paths:
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(repository).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
