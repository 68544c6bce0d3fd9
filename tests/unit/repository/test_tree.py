"""What must hold of the files of the repository, whoever edits them."""

import json
import os
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

MAX_LINES = 400

# Written in pieces, so that this file does not hold what it looks for.
FORBIDDEN = {
    "a registry host": re.compile(
        "|".join(
            re.escape(".".join(host)) for host in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"))
        )
    ),
    "a machine path": re.compile(r"(?<![\w.}/])/(?:work|root|home)/(?=\w)"),
    "a conflict marker": re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE),
}


@pytest.fixture(scope="module")
def tracked(repository: Path) -> list[Path]:
    """Files that are in the repository or would be with the next commit."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=repository,
            capture_output=True,
            check=True,
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = (repository / os.fsdecode(name) for name in listing.stdout.split(b"\0") if name)
    return [path for path in paths if path.is_file()]


def test_no_source_file_is_longer_than_four_hundred_lines(repository: Path) -> None:
    sources = [
        path
        for folder, pattern in (("aioum", "*.py"), ("node", "*.py"), ("contracts/src", "*.sol"))
        for path in (repository / folder).rglob(pattern)
    ]
    assert sources
    lengths = {
        str(path.relative_to(repository)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_no_file_names_a_registry_host_or_a_path_of_one_machine(
    tracked: list[Path], repository: Path
) -> None:
    found = []
    for path in tracked:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(repository)}: {what}: {match.group()!r}"
            for what, pattern in FORBIDDEN.items()
            if (match := pattern.search(text))
        ]
    assert found == []


def test_every_script_is_executable_and_parses(repository: Path) -> None:
    scripts = [repository / ".ci" / "run"]
    scripts += [path for path in (repository / "scripts").iterdir() if path.is_file() and not path.suffix]
    for script in scripts:
        first_line = script.read_text(encoding="utf-8").partition("\n")[0]
        assert first_line.startswith("#!/usr/bin/env "), script
        assert os.access(script, os.X_OK), script
        if first_line.endswith("bash"):
            subprocess.run(["bash", "-n", str(script)], check=True)


def test_every_script_that_a_page_tells_to_start_exists(tracked: list[Path], repository: Path) -> None:
    named: set[str] = set()
    for page in (path for path in tracked if path.suffix == ".md"):
        for block in re.findall(
            r"```(?:console|sh|bash)?\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
        ):
            named |= set(re.findall(r"(?:^|\s)(?:\./)?((?:scripts|\.ci)/[\w.-]+)", block))
    assert {"scripts/demo", "scripts/test"} <= named
    assert [name for name in sorted(named) if not os.access(repository / name, os.X_OK)] == []


def test_the_readme_starts_with_its_purpose_and_two_commands(repository: Path) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    first_block = re.search(r"```\w*\n(.*?)```", readme, re.DOTALL)
    assert first_block is not None
    commands = [line.split("#")[0].strip() for line in first_block.group(1).splitlines() if line.strip()]
    assert commands == ["./scripts/demo", "./scripts/test"]


def test_relative_links_between_pages_lead_somewhere(tracked: list[Path], repository: Path) -> None:
    broken = []
    for page in (path for path in tracked if path.suffix == ".md"):
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if (
                "://" not in target
                and not target.startswith("mailto:")
                and not (page.parent / target).exists()
            ):
                broken.append(f"{page.relative_to(repository)} -> {target}")
    assert broken == []


def pins(lock: Path) -> Iterator[tuple[str, str]]:
    """Name and version of each entry of a lock file."""
    for line in lock.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", line):
            yield canonicalize_name(match.group(1)), match.group(2)


def test_the_lock_files_pin_every_declared_dependency_with_hashes(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    runtime = project["project"]["dependencies"]
    development = (
        runtime + project["project"]["optional-dependencies"]["dev"] + project["build-system"]["requires"]
    )
    for name, requirements in (("runtime.lock", runtime), ("dev.lock", development)):
        lock = repository / "requirements" / name
        # One name has several versions where interpreters need different ones.
        pinned = defaultdict(list)
        for pinned_name, version in pins(lock):
            pinned[pinned_name].append(Version(version))
        for requirement in map(Requirement, requirements):
            versions = pinned[canonicalize_name(requirement.name)]
            assert any(version in requirement.specifier for version in versions), (
                f"{name} has {requirement.name} {versions}; run scripts/lock"
            )
        entries = re.split(r"\n(?=[a-z0-9])", lock.read_text(encoding="utf-8"))
        assert [entry.partition("\n")[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_both_lock_files_agree_on_shared_dependencies(repository: Path) -> None:
    runtime = dict(pins(repository / "requirements" / "runtime.lock"))
    development = dict(pins(repository / "requirements" / "dev.lock"))
    assert {name: development.get(name) for name in runtime} == runtime


def test_the_npm_lock_pins_exact_versions_by_integrity_and_names_no_registry(repository: Path) -> None:
    declared = json.loads((repository / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    locked = json.loads((repository / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert locked[""]["devDependencies"] == declared
    for name, version in declared.items():
        assert locked[f"node_modules/{name}"]["version"] == version
    dependencies = {path: entry for path, entry in locked.items() if path}
    assert [path for path, entry in dependencies.items() if "integrity" not in entry] == []
    assert [path for path, entry in dependencies.items() if "resolved" in entry] == []
