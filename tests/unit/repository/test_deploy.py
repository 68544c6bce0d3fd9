"""The service unit and the image: linted, hardened, and without anything that drifts from the project."""

import asyncio
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import unused_port

from aioum_node.settings import ENVIRONMENT_PREFIX, Settings
from tests.tools import missing

MOST_EXPOSED = 2.0
"""Of 10, as `systemd-analyze security` counts; the unit has less."""


@pytest.fixture(scope="module")
def deploy(repository: Path) -> Path:
    return repository / "deploy"


@pytest.fixture(scope="module")
def instructions(deploy: Path) -> list[str]:
    """The Containerfile, one instruction each, without comments."""
    text = re.sub(r"^#.*\n", "", (deploy / "Containerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [line.strip() for line in text.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.fixture(scope="module")
def analyze() -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        missing("systemd-analyze is not installed; Debian has it in the package systemd")
    return program


@pytest.fixture
def unit(deploy: Path, tmp_path: Path) -> Path:
    """The unit as it is installed, with a program that exists here in the place of the one it starts."""
    text = (deploy / "aioum-node.service").read_text(encoding="utf-8")
    started = "ExecStart=/opt/aioum/bin/aioum-node "
    assert text.count(started) == 1
    path = tmp_path / "aioum-node.service"
    path.write_text(text.replace(started, f"ExecStart={sys.executable} "), encoding="utf-8")
    return path


def test_systemd_finds_nothing_wrong_with_the_unit(analyze: str, unit: Path) -> None:
    verified = subprocess.run(
        [analyze, "verify", "--man=no", "--recursive-errors=no", str(unit)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def test_the_unit_leaves_little_exposed(analyze: str, unit: Path) -> None:
    judged = subprocess.run(
        [analyze, "security", "--no-pager", "--offline=yes", str(unit)],
        capture_output=True,
        text=True,
        check=True,
    )
    match = re.search(r"exposure level for \S+: ([\d.]+)", judged.stdout)
    assert match is not None
    assert float(match.group(1)) <= MOST_EXPOSED


def test_the_unit_waits_longer_than_the_node_does(deploy: Path) -> None:
    text = (deploy / "aioum-node.service").read_text(encoding="utf-8")
    match = re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)
    assert match is not None
    assert int(match.group(1)) > 2 * Settings.model_fields["shutdown_seconds"].default
    assert "\nKillMode=mixed\n" in text


@pytest.mark.parametrize("file", ["aioum-node.service", "Containerfile"])
def test_every_variable_is_one_of_a_setting(deploy: Path, file: str) -> None:
    text = (deploy / file).read_text(encoding="utf-8")
    named = set(re.findall(rf"\b{ENVIRONMENT_PREFIX}([A-Z_]+)=", text))
    assert named
    assert named <= {name.upper() for name in Settings.model_fields}


def test_a_linter_finds_nothing_wrong_with_the_containerfile(deploy: Path) -> None:
    beside = Path(sys.executable).with_name("hadolint")
    program = str(beside) if beside.exists() else shutil.which("hadolint")
    if program is None:
        missing("hadolint is not installed; scripts/setup installs it")
    linted = subprocess.run(
        [program, str(deploy / "Containerfile")], check=False, capture_output=True, text=True
    )
    assert (linted.returncode, linted.stdout) == (0, "")


def test_the_image_begins_with_a_pinned_version_and_ends_with_a_user_that_is_not_root(
    instructions: list[str],
) -> None:
    beginnings = [line for line in instructions if line.startswith("FROM ")]
    assert len(beginnings) == 2
    for line in beginnings:
        assert re.match(r"FROM docker\.io/library/python:3\.1[1-3]\.\d+-slim-\w+( AS build)?$", line)
    users = [line.removeprefix("USER ") for line in instructions if line.startswith("USER ")]
    assert len(users) == 1
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[0])


def test_what_the_image_copies_exists_and_is_let_through(
    instructions: list[str], deploy: Path, repository: Path
) -> None:
    ignored = (deploy / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in ignored if line and not line.startswith("#")]
    assert patterns[0] == "*"
    copied = [
        source
        for line in instructions
        if line.startswith("COPY ") and "--from=" not in line
        for source in line.split()[1:-1]
    ]
    assert copied
    for source in copied:
        assert (repository / source).exists(), source
        assert any(Path(source).match(pattern[1:]) for pattern in patterns if pattern.startswith("!")), source


@pytest.mark.parametrize("lock", ["build.lock", "extras.lock"])
def test_what_the_image_pins_is_what_the_project_pins(deploy: Path, repository: Path, lock: str) -> None:
    pin = re.compile(r"^\S+==\S+ \\\n(?:    --hash=\S+(?: \\)?\n)+", re.MULTILINE)
    project = pin.findall((repository / "requirements" / "dev.lock").read_text(encoding="utf-8"))
    mine = pin.findall((deploy / lock).read_text(encoding="utf-8"))
    assert mine
    assert [block for block in mine if block not in project] == []


@pytest.fixture
def health_check(instructions: list[str]) -> list[str]:
    """The image's health check, as a program of this interpreter."""
    (line,) = (line for line in instructions if line.startswith("HEALTHCHECK "))
    match = re.search(r'CMD \["python", "-c", "([^"]+)"\]$', line)
    assert match is not None
    return [sys.executable, "-c", match.group(1)]


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


async def test_the_health_check_tells_a_node_that_answers_from_one_that_does_not(
    health_check: list[str], silent_port: int
) -> None:
    statuses = iter((200, 503))

    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/healthz"
        return web.Response(status=next(statuses))

    application = web.Application()
    application.router.add_get("/healthz", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    codes = []
    for asked in (port, port, unused_port(), silent_port):
        process = await asyncio.create_subprocess_exec(
            *health_check, env={"AIOUM_LISTEN_PORT": str(asked)}, stderr=subprocess.DEVNULL
        )
        codes.append(await process.wait())
    await runner.cleanup()

    assert codes == [0, 1, 1, 1]
