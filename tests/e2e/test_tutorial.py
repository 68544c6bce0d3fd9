"""The tutorial's commands, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TUTORIAL = REPOSITORY / "docs" / "tutorial.md"


def _blocks(language: str) -> list[str]:
    text = TUTORIAL.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_command_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "buy.py").write_text(_blocks("python")[1], encoding="utf-8")
    *before, tidy_up = _blocks("sh")
    # The Python part is started where the tutorial has it; a port of its own keeps other chains undisturbed.
    script = "\n".join(["set -euo pipefail", *before, f"{sys.executable} buy.py", tidy_up])
    script = script.replace("aioum devnet up", "aioum devnet up --port 0")
    environment = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AIOUM_LISTEN_PORT": "0",
        "AIOUM_ADMIN_PORT": "0",
    }
    try:
        run = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    finally:
        subprocess.run(
            [str(Path(sys.executable).parent / "aioum"), "devnet", "down"], env=environment, check=False,
            capture_output=True,
        )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert '{"characters":13,"lines":1,"words":3}' in run.stdout
    assert "8 proven" in run.stdout or "7 proven" in run.stdout
    assert "5 failed" in run.stdout
    assert "refused, exit code 1" in run.stdout
    assert "cost 1000 base units" in run.stdout
