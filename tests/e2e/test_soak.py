"""The soak for a minute: `scripts/soak` has the long one."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.postgres import PostgresServer
from tests.soak.account import FLAT, Account, growth
from tests.soak.nodes import Memory

SOUND = Account(
    seconds=600,
    kills=(9, 10, 11),
    calls=1_000,
    charged=970,
    charges=970_000,
    captured=970_000,
    lost=0,
    duplicated=0,
    interrupted=5,
    unsettled=0,
    p50_seconds=0.02,
    p99_seconds=1.5,
    growth=1.01,
    most_bytes=200 << 20,
)


def life(seconds: int, early_bytes: int, late_bytes: int) -> Memory:
    """One whose memory takes a step in the middle of it."""
    return Memory(
        [(float(age), late_bytes if age > seconds / 2 else early_bytes) for age in range(seconds + 1)]
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_processes_killed_at_random_under_load_lose_and_double_nothing(
    repository: Path, anvil: Path, postgres: PostgresServer
) -> None:
    assert postgres.running
    done = subprocess.run(
        [
            # Few calls and kills a second: other tests run beside.
            *(sys.executable, "-m", "tests.soak", "--seconds", "60", "--sessions", "24"),
            *("--pause", "2", "--kill-every", "10"),
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
    assert int(account["kills"].split()[0]) > 0
    assert "growth not told" in account["memory"]


def test_growth_is_that_of_the_last_third_of_a_life_over_the_first() -> None:
    assert growth(life(210, 100, 150)) == 1.5
    assert growth(life(270, 100, 100)) == 1.0


def test_the_first_half_minute_of_a_life_does_not_count() -> None:
    warming = Memory([(float(age), min(age, 30)) for age in range(300)])
    assert growth(warming) == 1.0


@pytest.mark.parametrize("seconds", [0, 29, 209])
def test_a_life_of_less_than_three_minutes_after_that_tells_no_growth(seconds: int) -> None:
    assert growth(life(seconds, 100, 150)) is None


@pytest.mark.parametrize(
    ("change", "sound"),
    [
        ({}, True),
        ({"lost": 1}, False),
        ({"duplicated": 1}, False),
        ({"unsettled": 1}, False),
        ({"captured": 969_000}, False),
        ({"growth": FLAT}, True),
        ({"growth": FLAT + 0.01}, False),
        # A run of ten minutes has a life that tells it.
        ({"growth": None}, False),
        ({"growth": None, "seconds": 599}, True),
    ],
)
def test_an_account_is_sound_if_all_agrees_and_memory_is_known_to_stay_flat(
    change: dict[str, float], sound: bool
) -> None:
    assert replace(SOUND, **change).sound is sound  # type: ignore[arg-type]


def test_the_account_says_which_processes_were_killed_and_whether_growth_was_told() -> None:
    first, *_, last = SOUND.lines()
    assert first == "kills               30 (9, 10, 11) in 600 s"
    assert last == f"memory              200 MiB at most; largest growth 1.01x of {FLAT:g}x allowed"
    assert "NOT TOLD" in replace(SOUND, growth=None).lines()[-1]
