"""Tables of figures, on the terminal and on the pages of docs/bench, from raw results alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.result import Added, Case, Limit, Ratio, Result

_UNITS = ((1e6, "M"), (1e3, "k"), (1.0, ""))
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def table(result: Result) -> str:
    """The ratios, times and counts of a result as Markdown tables with the conditions below them."""
    tables = [_ratios(result), _differences(result), _limits(result), _counts(result), _conditions(result)]
    return "\n\n".join("\n".join(lines) for lines in tables if lines) + "\n"


def _ratios(result: Result) -> list[str]:
    rows = [_ratio(case, ratio) for case in result.cases for ratio in case.ratios()]
    header = [
        "| case | subject | baseline | ratio | median | in each round | needed | |",
        "|---|---|---|--:|--:|--:|--:|---|",
    ]
    return header + rows if rows else []


def _differences(result: Result) -> list[str]:
    rows = [_added(case, added) for case in result.cases for added in case.added()]
    header = [
        "| case | subject | longer than | by, median | in each round | that is | at most | |",
        "|---|---|---|--:|--:|--:|--:|---|",
    ]
    return header + rows if rows else []


def _limits(result: Result) -> list[str]:
    rows = [_limit(case, limit) for case in result.cases for limit in case.limits]
    header = [
        "| case | of | time | in each round | at most | |",
        "|---|---|--:|--:|--:|---|",
    ]
    return header + rows if rows else []


def _counts(result: Result) -> list[str]:
    """A row for each case that counts, a column for each name."""
    cases = [case for case in result.cases if case.counts]
    columns = list(dict.fromkeys((count.name, count.unit) for case in cases for count in case.counts))
    if not columns:
        return []
    lines = [
        f"| case | {' | '.join(f'{name}, {unit}' for name, unit in columns)} | |",
        f"|---|{'--:|' * len(columns)}---|",
    ]
    for case in cases:
        values = {(count.name, count.unit): f"{count.value:,}" for count in case.counts}
        said = [f"{count.name} at most {count.at_most}" for count in case.counts if count.at_most is not None]
        said += [f"{count.name} missed" for count in case.counts if count.missed]
        cells = (case.name, *(values.get(column, "") for column in columns), ", ".join(said))
        lines.append(f"| {' | '.join(cells)} |".replace("  ", " "))
    return lines


def _limit(case: Case, limit: Limit) -> str:
    samples = case.alternative(limit.subject)
    flags = (("missed", samples.best > limit.at_most), ("unstable", samples.unstable))
    cells = (
        case.name,
        limit.subject,
        duration(samples.best),
        f"{duration(samples.mean)} ± {duration(samples.deviation)}",
        duration(limit.at_most),
        ", ".join(word for word, said in flags if said),
    )
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def _ratio(case: Case, ratio: Ratio) -> str:
    wanted = ratio.comparison
    flags = (("missed", ratio.missed), ("loses", ratio.loses), ("unstable", ratio.unstable))
    cells = (
        case.name,
        f"{wanted.subject} {rate(case.alternative(wanted.subject).best)}",
        f"{wanted.baseline} {rate(case.alternative(wanted.baseline).best)}",
        times(ratio.best),
        times(ratio.median),
        f"{times(ratio.mean)} ± {_significant(ratio.deviation)}",
        "" if wanted.at_least is None else times(wanted.at_least),
        ", ".join(word for word, said in flags if said),
    )
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def _added(case: Case, added: Added) -> str:
    wanted = added.difference
    flags = (("missed", added.missed), ("unstable", added.unstable))
    cells = (
        case.name,
        f"{wanted.subject} {duration(case.alternative(wanted.subject).median)}",
        f"{wanted.baseline} {duration(case.alternative(wanted.baseline).median)}",
        duration(added.median),
        f"{duration(added.mean)} ± {duration(added.deviation)}",
        f"{times(added.units)} {wanted.unit} of {duration(added.unit_seconds)}",
        times(wanted.at_most),
        ", ".join(word for word, said in flags if said),
    )
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def _conditions(result: Result) -> list[str]:
    about = result.environment
    packages = ", ".join(f"{name} {version}" for name, version in about.packages.items())
    cpus = f"{about.cpus} CPU" if about.cpus == 1 else f"{about.cpus} CPUs"
    rounds = max((len(samples.seconds) for case in result.cases for samples in case.samples), default=0)
    kind = "a quick run" if result.quick else "best"
    measured = f"{kind.capitalize()} of {rounds} rounds; " if rounds else ""
    lines = [
        f"Operation: {result.operation}. {measured}"
        f"{about.cpu}, {cpus}, {about.system}; {about.python}{'; ' + packages if packages else ''}.",
    ]
    return lines + [f"- {note}" for note in result.notes]


def rate(seconds: float) -> str:
    """Operations per second, as text with a unit."""
    per_second = 1 / seconds
    for size, prefix in _UNITS:
        if per_second >= size:
            return f"{_significant(per_second / size)} {prefix}/s".replace(" /s", "/s")
    return f"{per_second:.2g}/s"


def duration(seconds: float) -> str:
    """Seconds as text with a unit."""
    size, unit = next((item for item in _SECONDS if abs(seconds) >= item[0]), _SECONDS[-1])
    return f"{_significant(seconds / size)} {unit}"


def times(ratio: float) -> str:
    """A ratio as text."""
    return f"{_significant(ratio)}×"


def _significant(value: float) -> str:
    if abs(value) >= 100:
        return f"{round(value):,}"
    return f"{value:.3g}"


def render_page(page: str, results: Sequence[Result]) -> str:
    """The page with the table of each result put between its `<!-- NAME -->` and `<!-- /NAME -->`.

    Raises:
        ValueError: the page has no such place for a result.
    """
    for result in results:
        name = result.benchmark
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
        if place.search(page) is None:
            raise ValueError(f"the page has no place for {name}")
        # Escaped, for a replacement text reads backslashes.
        text = table(result).replace("\\", "\\\\")
        page = place.sub(rf"\g<1>{text}\g<2>", page)
    return page


def load_results(folder: Path) -> list[Result]:
    """The raw results of a folder, by name."""
    return [Result.load(path) for path in sorted(folder.glob("*.json"))]


def update_page(folder: Path) -> None:
    """Write the tables of README.md in a folder from the raw results beside it."""
    page = folder / "README.md"
    page.write_text(render_page(page.read_text(encoding="utf-8"), load_results(folder)), encoding="utf-8")
