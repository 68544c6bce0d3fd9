"""The soak for a short while: `scripts/soak` has the long one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import PostgresServer


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_killed_at_random_under_load_lose_and_double_nothing(
    repository: Path, anvil: Path, postgres: PostgresServer
) -> None:
    assert postgres.running
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.soak", "--seconds", "20", "--sessions", "24"),
            *("--pause", "1", "--kill-every", "6"),
        ],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    account = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert done.returncode == 0, done.stdout + done.stderr
    assert (account["lost"], account["duplicated"], account["unsettled"]) == ("0", "0", "0")
    # Something happened at all.
    assert int(account["charged"].split(",")[0]) > 100
    assert "killed 0 times" not in done.stderr
