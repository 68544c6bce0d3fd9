"""Tables of ratios, on the terminal and in docs/bench/README.md, from raw results alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.result import Case, Ratio, Result

_UNITS = ((1e6, "M"), (1e3, "k"), (1.0, ""))


def table(result: Result) -> str:
    """The ratios of a result as a Markdown table with the conditions below it."""
    lines = [
        "| case | subject | baseline | ratio | in each round | needed | |",
        "|---|---|---|--:|--:|--:|---|",
    ]
    for case in result.cases:
        lines += [_row(case, ratio) for ratio in case.ratios()]
    return "\n".join([*lines, "", *_conditions(result)]) + "\n"


def _row(case: Case, ratio: Ratio) -> str:
    wanted = ratio.comparison
    cells = (
        case.name,
        f"{wanted.subject} {rate(case.alternative(wanted.subject).best)}",
        f"{wanted.baseline} {rate(case.alternative(wanted.baseline).best)}",
        times(ratio.best),
        f"{times(ratio.mean)} ± {_significant(ratio.deviation)}",
        "" if wanted.at_least is None else times(wanted.at_least),
        ", ".join(word for word, said in (("missed", ratio.missed), ("unstable", ratio.unstable)) if said),
    )
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def _conditions(result: Result) -> list[str]:
    about = result.environment
    packages = ", ".join(f"{name} {version}" for name, version in about.packages.items())
    cpus = f"{about.cpus} CPU" if about.cpus == 1 else f"{about.cpus} CPUs"
    rounds = len(result.cases[0].samples[0].seconds)
    kind = "a quick run" if result.quick else "best"
    lines = [
        f"Operation: {result.operation}. {kind.capitalize()} of {rounds} rounds; "
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


def times(ratio: float) -> str:
    """A ratio as text."""
    return f"{_significant(ratio)}×"


def _significant(value: float) -> str:
    if value >= 100:
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
