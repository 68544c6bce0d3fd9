"""The report that is checked in, and the explanations, written by hand, of what survived."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from tests.mutation.mutants import Mutant, hash_of
from tests.mutation.trials import Status, Verdict

_STATUSES: Final = get_args(Status)
_COMMAND: Final = "scripts/mutate"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a mutant may survive.

    Attributes:
        change: the mutant's change, so that the explanation of one never serves for another.
        why: for a reader who knows the contracts.
    """

    change: str
    why: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A mutant and what became of it, as in the report."""

    identifier: str
    file: str
    line: int
    operator: str
    before: str
    after: str
    status: Status
    because: str

    @property
    def change(self) -> str:
        """The change on one line."""
        return f"{' '.join(self.before.split())} => {' '.join(self.after.split())}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a whole run found.

    Attributes:
        source_sha256: hash of the mutated sources, in hex.
        version: of the mutation tool; another one makes other mutants.
        date: of the run, YYYY-MM-DD.
        entries: all mutants in the order of the text.
    """

    source_sha256: str
    version: int
    date: str
    entries: tuple[Entry, ...]


def entry_of(mutant: Mutant, verdict: Verdict) -> Entry:
    """What the report says of a mutant."""
    return Entry(
        identifier=mutant.identifier,
        file=mutant.file,
        line=mutant.line,
        operator=mutant.operator,
        before=mutant.before,
        after=mutant.after,
        status=verdict.status,
        because=verdict.because,
    )


def to_json(report: Report) -> str:
    """The text of report.json: one line for each mutant."""
    head = {
        "command": _COMMAND,
        "counts": {
            "contract": _counts(report.entries, "file"),
            "operator": _counts(report.entries, "operator"),
            "total": _tally(report.entries),
        },
        "date": report.date,
        "source_sha256": report.source_sha256,
        "version": report.version,
    }
    lines = [
        json.dumps({name: getattr(entry, name) for name in Entry.__slots__}, ensure_ascii=False)
        for entry in report.entries
    ]
    opened = json.dumps(head, indent=2).removesuffix("\n}")
    return opened + ',\n  "mutants": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n"


def from_json(text: str) -> Report:
    """Read what `to_json` wrote.

    Raises:
        ValueError: it is no such report.
    """
    try:
        found = json.loads(text)
        if unknown := {entry["status"] for entry in found["mutants"]} - set(_STATUSES):
            raise ValueError(f"no report of mutants: there is no status {', '.join(sorted(unknown))}")
        return Report(
            source_sha256=found["source_sha256"],
            version=found["version"],
            date=found["date"],
            entries=tuple(Entry(**entry) for entry in found["mutants"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no report of mutants: {error!r}") from error


def explanations_from(text: str) -> dict[str, Explanation]:
    """Read explained.toml: for each mutant's identifier, its change and why it may survive.

    Raises:
        ValueError: it is no TOML, or an entry is not made of these two texts.
    """
    explained = {}
    for identifier, entry in tomllib.loads(text).items():
        match entry:
            case {"change": str(change), "why": str(why), **rest} if why.strip() and not rest:
                explained[identifier] = Explanation(change, " ".join(why.split()))
            case _:
                raise ValueError(f'{identifier} is not explained by a "change" and a "why"')
    return explained


def problems_of(report: Report, explained: Mapping[str, Explanation]) -> list[str]:
    """What keeps a report from being accepted: unexplained survivors, and explanations of something else."""
    alive = {entry.identifier: entry for entry in report.entries if entry.status in ("survived", "timeout")}
    problems = [
        f"{entry.identifier} {_ended(entry)} and is not explained: {entry.change}"
        for entry in alive.values()
        if entry.identifier not in explained
    ]
    for identifier, explanation in explained.items():
        entry = alive.get(identifier)
        if entry is None:
            problems.append(f"{identifier} is explained, but there is no such survivor")
        elif entry.change != explanation.change:
            problems.append(f"{identifier} is explained as another change; it is now: {entry.change}")
    return problems


def check(contracts: Path) -> list[str]:
    """What is wrong with the report that is checked in; nothing is run.

    Args:
        contracts: folder of the contracts, with `mutation` in it.
    """
    folder = contracts / "mutation"
    try:
        report = from_json((folder / "report.json").read_text(encoding="utf-8"))
        explained = read_explanations(folder)
    except (OSError, ValueError) as error:
        return [str(error)]
    problems = []
    if report.source_sha256 != hash_of(contracts):
        problems.append("the sources changed since the report was made: run scripts/mutate")
    problems += problems_of(report, explained)
    readable = folder / "report.md"
    if not readable.is_file() or readable.read_text(encoding="utf-8") != to_markdown(report, explained):
        problems.append(
            "report.md is not what report.json and explained.toml say: run scripts/mutate --render"
        )
    return problems


def read_explanations(folder: Path) -> dict[str, Explanation]:
    """The explanations in a folder, where there are any.

    Raises:
        ValueError: they cannot be read.
    """
    path = folder / "explained.toml"
    return explanations_from(path.read_text(encoding="utf-8")) if path.is_file() else {}


def write(folder: Path, report: Report) -> list[str]:
    """Write report.json and report.md, and return what keeps the report from being accepted.

    Raises:
        ValueError: the explanations cannot be read.
    """
    explained = read_explanations(folder)
    folder.mkdir(exist_ok=True)
    (folder / "report.json").write_text(to_json(report), encoding="utf-8")
    (folder / "report.md").write_text(to_markdown(report, explained), encoding="utf-8")
    return problems_of(report, explained)


def to_markdown(report: Report, explained: Mapping[str, Explanation]) -> str:
    """The report for readers: counts, and each survivor with its explanation."""
    total = _tally(report.entries)
    tried = total["mutants"] - total["discarded"]
    lines = [
        "# Mutants of the contracts",
        "",
        f"`{_COMMAND}` on {report.date}, over sources with the SHA-256 `{report.source_sha256}`.",
        "",
        f"{total['mutants']} mutants: {total['discarded']} are no program or the same one; of the other "
        f"{tried}, tests killed {total['killed']}, {total['timeout']} did not end, and {total['survived']} "
        "survived. Each mutant and the test that killed it are in [report.json](report.json).",
        "",
    ]
    for title, name in (("contract", "file"), ("change", "operator")):
        lines += [
            f"| {title} | mutants | killed | survived | no end | discarded |",
            "|---|---|---|---|---|---|",
        ]
        for key, tally in _counts(report.entries, name).items():
            numbers = (tally["mutants"], *(tally[status] for status in _STATUSES))
            lines.append(f"| `{key.removesuffix('.sol')}` | " + " | ".join(map(str, numbers)) + " |")
        lines.append("")
    alive = [entry for entry in report.entries if entry.status in ("survived", "timeout")]
    lines += ["## Survivors", ""] if alive else []
    for entry in alive:
        explanation = explained.get(entry.identifier)
        lines += [
            f"### {entry.identifier}",
            "",
            f"`src/{entry.file}`, line {entry.line}; it {_ended(entry)}.",
            "",
        ]
        lines += [
            "```diff",
            *_diff(entry),
            "```",
            "",
            explanation.why if explanation else "**Not explained.**",
            "",
        ]
    return "\n".join(lines).rstrip("\n") + "\n"


def _ended(entry: Entry) -> str:
    return "survived" if entry.status == "survived" else f"did not end within the {entry.because}"


def _diff(entry: Entry) -> list[str]:
    removed = [f"-{line}" for line in entry.before.split("\n")]
    return removed + [f"+{line}" for line in entry.after.split("\n") if line.strip()]


def _counts(entries: Iterable[Entry], name: str) -> dict[str, dict[str, int]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(getattr(entry, name), []).append(entry)
    return {key: _tally(group) for key, group in sorted(groups.items())}


def _tally(entries: Iterable[Entry]) -> dict[str, int]:
    found = [entry.status for entry in entries]
    return {"mutants": len(found), **{status: found.count(status) for status in _STATUSES}}
