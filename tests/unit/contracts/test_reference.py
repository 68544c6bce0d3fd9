"""The reference of the contracts is what the interfaces say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_committed_reference_is_made_from_the_interfaces_as_they_are() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "contract_reference"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
