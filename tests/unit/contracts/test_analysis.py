"""Coverage and static analysis take too long for each change; what they said must be of these sources."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = Path("scripts", "analyzed")


def _run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [root / SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the script looks at, to be changed."""
    (tmp_path / "scripts").mkdir()
    shutil.copy2(ROOT / SCRIPT, tmp_path / SCRIPT)
    shutil.copytree(ROOT / "contracts" / "src", tmp_path / "contracts" / "src")
    shutil.copy2(ROOT / "contracts" / "analysis.json", tmp_path / "contracts")
    return tmp_path


def test_what_is_kept_is_of_these_sources() -> None:
    done = _run(ROOT, "--check")

    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_kept_says_that_all_is_reached_and_nothing_found() -> None:
    kept = json.loads((ROOT / "contracts" / "analysis.json").read_text(encoding="utf-8"))

    percentages = re.findall(r"([\d.]+)%", kept["coverage"]["result"])
    assert len(percentages) == 2
    assert all(float(percentage) >= 98 for percentage in percentages)
    assert re.search(r"\b0 result\(s\) found", kept["slither"]["result"])


def test_of_a_changed_source_nothing_is_known(checkout: Path) -> None:
    source = checkout / "contracts" / "src" / "interfaces" / "IEscrow.sol"
    source.write_text(source.read_text(encoding="utf-8") + "\n", encoding="utf-8")

    done = _run(checkout, "--check")

    assert done.returncode == 1
    assert "no coverage of these sources" in done.stderr
    assert "no slither of these sources" in done.stderr
    assert _run(checkout, "coverage", "lines 99.00%").returncode == 0
    assert "coverage" not in _run(checkout, "--check").stderr


def test_another_analysis_is_refused(checkout: Path) -> None:
    done = _run(checkout, "halmos", "passed")

    assert (done.returncode, done.stderr.split(":")[0]) == (2, "usage")
