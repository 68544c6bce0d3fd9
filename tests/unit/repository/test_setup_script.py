"""How scripts/setup answers when a machine lacks what it needs."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

TOOLS = ("bash", "cat", "cut", "dirname", "env", "mkdir", "rm", "sed", "sha256sum", "shasum", "uname")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(repository: Path, tmp_path: Path) -> Run:
    """Starts a copy of scripts/setup in an empty checkout, with a PATH that holds chosen programs only."""
    checkout = tmp_path / "checkout"
    programs = tmp_path / "programs"
    for folder in (checkout / "scripts", checkout / "requirements", programs):
        folder.mkdir(parents=True)
    for name in ("scripts/setup", "requirements/dev.lock", "pyproject.toml"):
        shutil.copy(repository / name, checkout / name)
    for tool in TOOLS:
        if found := shutil.which(tool):
            (programs / tool).symlink_to(found)

    def start(
        *arguments: str, fakes: dict[str, str] | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        for name, body in (fakes or {}).items():
            (programs / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
            (programs / name).chmod(0o755)
        return subprocess.run(
            [str(checkout / "scripts" / "setup"), *arguments],
            env={"PATH": str(programs), "HOME": str(tmp_path), **environment},
            cwd=os.sep,
            capture_output=True,
            text=True,
            check=False,
        )

    return start


def test_without_a_python_it_says_which_versions_do_and_exits_2(run: Run) -> None:
    result = run()
    assert result.returncode == 2
    assert "no Python 3.11, 3.12 or 3.13" in result.stderr
    assert "hint:" in result.stderr
    assert result.stdout == ""


def test_a_python_of_another_version_is_not_taken(run: Run) -> None:
    result = run(fakes={"python3": "echo 3.9.1"})
    assert result.returncode == 2
    assert "no Python 3.11, 3.12 or 3.13" in result.stderr


def test_a_chosen_python_of_another_version_is_named_with_its_version(run: Run) -> None:
    result = run(fakes={"old-python": "echo 3.14.0"}, PYTHON="old-python")
    assert result.returncode == 2
    assert "PYTHON=old-python is 3.14.0" in result.stderr


def test_a_version_managers_shim_that_does_not_start_is_passed_over(run: Run) -> None:
    result = run(
        "--python-only",
        fakes={"python3.11": "exit 127", "python3.12": 'case "$1" in -c) echo 3.12.4;; *) exit 9;; esac'},
    )
    assert "python3.12 cannot make a virtual environment" in result.stderr
    assert result.returncode == 2


def test_an_unknown_option_is_refused(run: Run) -> None:
    result = run("--frobnicate")
    assert result.returncode == 2
    assert "--frobnicate" in result.stderr
