"""Artifacts of the honest session of tests/unit/verify, and edits of their lines."""

import json
from collections.abc import Callable
from typing import Any

from aioum.core.submission.canonical import canonical_json
from aioum.replay.adapter import RecheckReplay
from aioum.replay.facts import Judgement
from aioum.replay.paid import recheck_replay
from aioum.replay.paid.export import export_replay
from aioum.replay.reading import read_artifact
from aioum.replay.verdict import judge
from tests.unit.verify.honest import DEPOSIT, SEATS, Honest, read

HONEST = Honest(seats=SEATS)

Lines = list[dict[str, Any]]
Edit = Callable[[Lines], object]


def exported(honest: Honest = HONEST, *, deposit: int | None = DEPOSIT, **replaced: Any) -> bytes:
    """The artifact; `replaced` goes to `build_package`."""
    return export_replay(read(honest.package(**replaced)), deposit=deposit)


def edited(data: bytes, edit: Edit) -> bytes:
    """The artifact with `edit` applied to its parsed lines; the first is the header."""
    lines = [json.loads(line) for line in data.decode().split("\n") if line]
    edit(lines)
    return b"".join(canonical_json(line) + b"\n" for line in lines)


def judged(data: bytes, adapter: RecheckReplay = recheck_replay, **heads: Any) -> Judgement:
    """The verdict on an artifact."""
    return judge(read_artifact(data), recheck_replay=adapter, retained_heads=heads)


def codes(judgement: Judgement) -> list[str]:
    """Codes of the problems, each once."""
    return list(dict.fromkeys(problem.code for problem in judgement.all_problems()))


def diagnostics(judgement: Judgement) -> list[str]:
    """Codes of the diagnostics."""
    return [problem.code for problem in judgement.diagnostics]


def at(*path: Any, value: Any) -> Edit:
    """Set one member."""

    def edit(lines: Lines) -> None:
        target: Any = lines
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return edit


def renumbered(lines: Lines) -> None:
    """Number records anew."""
    for n, line in enumerate(lines[1:]):
        line["n"] = n
