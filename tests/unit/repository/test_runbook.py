"""The runbook says what every log entry of a node means, and speaks of none that there is not."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "critical": "critical",
}
SECTION = "## What each log entry means"

# Entries whose name is a value, by file and expression: which names it takes.
NAMED_BY_VALUE = {
    ("start.py", "doubt"): {
        "store-older",
        "store-replaced",
        "store-forked",
        "watermark-missing",
        "watermark-damaged",
    },
    ("finishing.py", "alert"): {"settled-above-spent", "settled-below-spent", "root-conflict"},
}


@pytest.fixture(scope="module")
def sources(repository: Path) -> dict[Path, ast.Module]:
    """What runs in a node."""
    folders = (repository / "node" / "aioum_node", repository / "aioum" / "chain")
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def log_calls(module: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(module):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        if node.func.attr in LEVELS and "log" in ast.unparse(node.func.value):
            yield LEVELS[node.func.attr], node.args[0]


def text_constants(modules: dict[Path, ast.Module]) -> dict[str, str]:
    """Names of modules that stand for a text."""
    found = {}
    for module in modules.values():
        for node in module.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text)))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str(text)))
                ):
                    found[name] = text
    return found


def text_literals(modules: dict[Path, ast.Module]) -> set[str]:
    return {
        node.value
        for module in modules.values()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def emitted(sources: dict[Path, ast.Module]) -> dict[str, set[str]]:
    constants = text_constants(sources)
    entries: dict[str, set[str]] = defaultdict(set)
    for path, module in sources.items():
        for level, name in log_calls(module):
            match name:
                case ast.Constant(value=str(text)):
                    entries[text].add(level)
                case ast.Name(id=known) if known in constants:
                    entries[constants[known]].add(level)
                case _:
                    key = (path.name, ast.unparse(name))
                    assert key in NAMED_BY_VALUE, f"{path}: say in this test which names {key[1]} takes"
                    for text in NAMED_BY_VALUE[key]:
                        entries[text].add(level)
    return entries


def documented(repository: Path) -> dict[str, set[str]]:
    page = (repository / "docs" / "runbook.md").read_text(encoding="utf-8")
    section = page.partition(f"\n{SECTION}\n")[2].partition("\n## ")[0]
    rows: dict[str, set[str]] = {}
    for name, levels in re.findall(r"^\| `([a-z-]+)` \| ([a-z, ]+) \|", section, re.MULTILINE):
        assert name not in rows, name
        rows[name] = set(levels.split(", "))
    return rows


def test_every_log_entry_has_a_row_with_its_level_and_every_row_an_entry(
    sources: dict[Path, ast.Module], repository: Path
) -> None:
    assert documented(repository) == emitted(sources)


def test_names_that_are_values_stand_in_the_source(sources: dict[Path, ast.Module]) -> None:
    texts = text_literals(sources)
    for names in NAMED_BY_VALUE.values():
        assert names <= texts


def test_every_condition_of_readiness_has_a_row(sources: dict[Path, ast.Module], repository: Path) -> None:
    constants = text_constants(sources)
    named = set()
    for module in sources.values():
        for node in ast.walk(module):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=value, attr="require" | "met" | "require_while"), args=[name, *_]
                ):
                    if ast.unparse(value).endswith("readiness"):
                        named.add(constants.get(ast.unparse(name), ast.unparse(name)))
    page = (repository / "docs" / "runbook.md").read_text(encoding="utf-8")
    section = page.partition("\n## When a node is not ready\n")[2].partition("\n## ")[0]
    assert named == set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))


def exported(sources: dict[Path, ast.Module]) -> set[str]:
    """The names of all series, as a scrape shows them."""
    names = {text for text in text_literals(sources) if re.fullmatch("aioum_(?!node$)[a-z_]+", text)}
    for module in sources.values():
        for node in ast.walk(module):
            match node:
                case ast.Call(
                    func=ast.Name(id="Counter" | "CounterMetricFamily"),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    names.remove(name)
                    names.add(name + "_total")
    return names


def test_every_metric_is_described_and_every_metric_that_a_page_names_exists(
    sources: dict[Path, ast.Module], repository: Path
) -> None:
    runbook, guide = (
        (repository / "docs" / name).read_text(encoding="utf-8")
        for name in ("runbook.md", "operator-guide.md")
    )
    series = exported(sources)
    assert series
    assert set(re.findall(r"^\| `(aioum_[a-z_]+)` \|", guide, re.MULTILINE)) == series
    assert set(re.findall(r"`(aioum_[a-z_]+)", runbook + guide)) <= series


def test_every_loop_is_described(sources: dict[Path, ast.Module], repository: Path) -> None:
    named = set()
    for module in sources.values():
        for node in ast.walk(module):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="of") | ast.Name(id="observer_of"),
                    args=[ast.Constant(value=str(name))],
                ):
                    named.add(name)
    page = (repository / "docs" / "runbook.md").read_text(encoding="utf-8")
    section = page.partition("\n### What stands still when a loop fails\n")[2].partition("\n## ")[0]
    assert named == set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))
