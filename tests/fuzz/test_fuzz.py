"""What reads the bytes of strangers refuses or accepts; it never breaks. Long runs: `scripts/deep`."""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.__main__ import REGRESSIONS, fuzz, main
from tests.fuzz.mutation import changed
from tests.fuzz.planted import TARGETS as PLANTED
from tests.fuzz.targets import TARGETS
from tests.tools import missing

SECONDS_IN_CI = ceil(60 / len(TARGETS))
"""For each target: a minute in all."""

needs_engine = pytest.mark.usefixtures("engine")


@pytest.fixture
def engine() -> None:
    if importlib.util.find_spec("atheris") is not None:
        return
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        missing("atheris is not installed; scripts/setup installs it")
    pytest.skip("atheris is there for Linux on x86-64 only")


def regressions() -> Iterator[tuple[str, str]]:
    for path in sorted(REGRESSIONS.glob("*/*")):
        yield path.parent.name, path.name


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_read_without_a_fault(name: str) -> None:
    seeds = TARGETS[name].seeds()

    assert seeds
    for seed in seeds:
        TARGETS[name].check(seed)


@pytest.mark.parametrize(("name", "file"), list(regressions()))
@pytest.mark.timeout(30)
def test_what_was_once_found_stays_mended(name: str, file: str) -> None:
    TARGETS[name].check((REGRESSIONS / name / file).read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=150)
@given(data=st.data())
def test_bytes_near_a_seed_are_read_without_a_fault(name: str, data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(TARGETS[name].seeds()))
    random = Random(data.draw(st.integers(0, 2**32)))
    text = (changed(seed, random) if TARGETS[name].json else None) or seed
    position = data.draw(st.integers(0, len(text)))
    text = (
        text[:position] + data.draw(st.binary(max_size=6)) + text[position + data.draw(st.integers(0, 6)) :]
    )

    TARGETS[name].check(text)


@needs_engine
@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_fuzzing_for_a_bounded_time_finds_nothing(name: str, tmp_path: Path) -> None:
    result = fuzz(name, SECONDS_IN_CI, REGRESSIONS, tmp_path)

    assert result.findings == (), result.output[-4_000:]
    assert result.inputs > 100


@needs_engine
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "prefix", "input_seconds"),
    # A busy machine may take long to grow: only what hangs is to be found by its time.
    [
        ("planted-error", "crash-", 15),
        pytest.param("planted-hang", "timeout-", 2, marks=pytest.mark.long),
        pytest.param("planted-growth", "oom-", 15, marks=pytest.mark.long),
    ],
)
def test_a_fault_is_found_and_kept_as_a_file_that_brings_it_about(
    name: str, prefix: str, input_seconds: int, tmp_path: Path
) -> None:
    result = fuzz(name, 20, tmp_path / "findings", tmp_path / "corpus", input_seconds=input_seconds)

    (path,) = result.findings
    assert path.name.startswith(prefix)
    assert path.parent == tmp_path / "findings" / name
    if name == "planted-error":
        with pytest.raises(KeyError):
            PLANTED[name].check(path.read_bytes())


@needs_engine
def test_the_command_says_what_it_found_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--seconds", "20", "--findings", str(tmp_path), "planted-error"])

    assert status == 1
    out = capsys.readouterr().out
    assert "planted-error:" in out
    assert "crash-" in out


def test_the_script_knows_its_targets(repository: Path) -> None:
    unknown = subprocess.run(
        [repository / "scripts" / "fuzz", "nothing"], capture_output=True, text=True, check=False
    )
    told = subprocess.run(
        [repository / "scripts" / "fuzz", "--help"], capture_output=True, text=True, check=True
    )

    assert (unknown.returncode, "no such target: nothing" in unknown.stderr) == (2, True)
    assert all(name in told.stdout for name in ("loader", "credential", "package", "card"))
