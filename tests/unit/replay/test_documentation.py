"""docs/verify-run.md names every code that the judge can give, and its adapter works."""

import ast
import re
from pathlib import Path
from typing import Any

from aioum.replay.verdict import judge
from tests.unit.replay.recorded import honest

CALLS = {"Problem", "_problem", "_diagnostic", "_fail", "_failed", "_break", "_compare", "unique", "append"}
MODULES = (
    "adapter",
    "commitments",
    "coverage",
    "profiles",
    "recheck",
    "semantics",
    "signatures",
    "verdict",
    "windows",
)
CODE = re.compile(r"[a-z]+(-[a-z0-9]+)+")


def codes_in(source: str) -> set[str]:
    """Texts of the form of a code that are handed to what reports problems, or are constants."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            values = list(ast.walk(node)) if name in CALLS else []
        elif isinstance(node, ast.AnnAssign | ast.Assign | ast.AugAssign):
            values = list(ast.walk(node)) if node.value is not None else []
        else:
            continue
        texts = (each.value for each in values if isinstance(each, ast.Constant))
        found |= {text for text in texts if isinstance(text, str) and CODE.fullmatch(text)}
    return found


def test_every_code_of_the_judge_is_documented(repository: Path) -> None:
    page = (repository / "docs" / "verify-run.md").read_text(encoding="utf-8")
    documented = {match.group() for match in CODE.finditer(page)}
    used: set[str] = set()
    for module in MODULES:
        used |= codes_in((repository / "aioum" / "replay" / f"{module}.py").read_text(encoding="utf-8"))
    used -= {"session-id", "dmath-1"}  # who chose the profile, and an arithmetic
    assert len(used) > 40
    assert used - documented == set()


def test_the_documented_adapter_judges_a_run(repository: Path) -> None:
    page = (repository / "docs" / "verify-run.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    adapter: dict[str, Any] = {}
    exec(source, adapter)
    assert judge(honest().artifact(), recheck_replay=adapter["recheck_replay"]).verdict == "trusted"
