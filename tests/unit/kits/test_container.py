"""The container runner, with a program in the engine's place that records how it was called.

No engine runs here: what these tests show is the exact command line, what lies in the mounted folders, and
how the runner deals with an engine's answers. That the engine enforces its options is the engine's to show.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioum.kits.container import ContainerRunner, find_engine
from aioum.kits.execution import RunLimits, RunnerUnavailable, RunResult, request_line, run_kit
from tests.unit.kits.samples import make_artifact, make_kit, response

KIT = make_kit("node-esm", b"export default 1;\n")
ARTIFACT = make_artifact()
IMAGE = "registry.example/verifier@sha256:" + "ab" * 32

ENGINE = """#!{python} -I
import json, os, sys, time
from pathlib import Path
here = Path({here!r})
call = {{"argv": sys.argv[1:], "environment": dict(os.environ), "cwd": os.getcwd()}}
with (here / "calls").open("a") as calls:
    calls.write(json.dumps(call) + "\\n")
if sys.argv[1] == "run":
    mounts = {{}}
    for argument in sys.argv:
        if argument.startswith("--mount="):
            parts = dict(part.partition("=")[::2] for part in argument[8:].split(","))
            mounts[parts["dst"]] = Path(parts["src"])
    def files(folder):
        return {{str(p.relative_to(folder)): [oct(p.stat().st_mode & 0o777), p.read_bytes().hex()]
                for p in sorted(folder.rglob("*")) if p.is_file()}}
    seen = {{name: files(folder) for name, folder in mounts.items()}}
    (here / "seen").write_text(json.dumps({{"stdin": sys.stdin.read(), "mounts": seen}}))
{behaviour}
"""


class Engine:
    """An executable in the place of docker."""

    def __init__(self, folder: Path, behaviour: str) -> None:
        self.folder = folder
        self.path = folder / "docker"
        indented = "".join(f"    {line}\n" for line in behaviour.splitlines())
        text = ENGINE.format(python=sys.executable, here=str(folder), behaviour=indented)
        self.path.write_text(text)
        self.path.chmod(0o755)

    def run(self, limits: RunLimits | None = None) -> RunResult:
        runner = ContainerRunner(str(self.path), IMAGE)
        return runner.run(KIT, request_line(KIT), ARTIFACT, limits or RunLimits())

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    @property
    def seen(self) -> dict[str, Any]:
        seen: dict[str, Any] = json.loads((self.folder / "seen").read_text())
        return seen


MakeEngine = Callable[[str], Engine]


@pytest.fixture
def make_engine(tmp_path: Path) -> MakeEngine:
    return lambda behaviour: Engine(tmp_path, behaviour)


def printing(text: bytes) -> str:
    return f"sys.stdout.write({text.decode()!r})"


def test_the_command_line_closes_everything_but_what_the_kit_needs(make_engine: MakeEngine) -> None:
    engine = make_engine(printing(response()))
    engine.run()
    (call,) = engine.calls
    name = next(a.removeprefix("--name=") for a in call["argv"] if a.startswith("--name="))
    sources = [a.split("src=")[1].split(",")[0] for a in call["argv"] if a.startswith("--mount=")]
    assert call["argv"] == [
        "run",
        "--rm",
        "--interactive",
        f"--name={name}",
        "--pull=never",
        "--log-driver=none",
        "--network=none",
        "--ipc=none",
        "--read-only",
        "--tmpfs=/tmp:rw,noexec,nosuid,nodev,size=16777216",
        f"--mount=type=bind,src={sources[0]},dst=/kit,readonly",
        f"--mount=type=bind,src={sources[1]},dst=/replay,readonly",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--user=65532:65532",
        "--pids-limit=32",
        "--memory=268435456",
        "--memory-swap=268435456",
        "--cpus=1",
        "--ulimit=cpu=10:10",
        "--ulimit=core=0:0",
        "--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "--workdir=/",
        IMAGE,
    ]
    assert not any(Path(source).exists() for source in sources)


def test_the_engine_s_environment_is_a_path_and_what_the_caller_adds(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_CALLER", "x")
    engine = make_engine(printing(response()))
    runner = ContainerRunner(str(engine.path), IMAGE, ("--strict",), {"XDG_RUNTIME_DIR": "/run/user/1000"})
    runner.run(KIT, request_line(KIT), ARTIFACT, RunLimits())
    (call,) = engine.calls
    # The interpreter of the stand-in sets this one itself.
    call["environment"].pop("LC_CTYPE", None)
    assert call["environment"] == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "XDG_RUNTIME_DIR": "/run/user/1000",
    }
    assert call["cwd"] == "/"
    assert call["argv"][-2:] == [IMAGE, "--strict"]


def test_the_kit_and_the_artifact_lie_in_the_mounted_folders_for_reading(make_engine: MakeEngine) -> None:
    engine = make_engine(printing(response("rejected", "why")))
    run = run_kit(KIT, ARTIFACT, [ContainerRunner(str(engine.path), IMAGE)])
    assert (run.execution, run.verdict, run.diagnostics) == ("passed", "rejected", ("why",))
    seen = engine.seen
    assert seen["stdin"].encode() == request_line(KIT)
    assert seen["mounts"]["/kit"] == {path: ["0o444", content.hex()] for path, content in KIT.files.items()}
    assert seen["mounts"]["/replay"] == {"artifact.gaos-replay.jsonl": ["0o444", ARTIFACT.hex()]}


@pytest.mark.parametrize(
    "image",
    [
        "verifier",
        "verifier:latest",
        "verifier@sha256:" + "ab" * 31,
        "verifier@sha256:" + "AB" * 32,
        "--privileged@sha256:" + "ab" * 32,
        f"{IMAGE} --privileged",
        f"{IMAGE}\n",
        "",
    ],
)
def test_an_image_that_is_not_pinned_is_refused(image: str) -> None:
    with pytest.raises(RunnerUnavailable) as caught:
        ContainerRunner("docker", image)
    assert caught.value.code == "kit-image-not-pinned"


@pytest.mark.parametrize(
    "behaviour",
    [
        "time.sleep(600)",
        "sys.stdout.write('{'); sys.stdout.flush(); time.sleep(600)",
        "os.close(1); time.sleep(600)",
        "os.close(1); os.close(2); time.sleep(600)",
        "while True: time.sleep(0.01); sys.stderr.write('x'); sys.stderr.flush()",
    ],
)
def test_a_run_beyond_its_time_is_killed_and_its_container_removed(
    make_engine: MakeEngine, behaviour: str
) -> None:
    engine = make_engine(behaviour)
    result = engine.run(RunLimits(wall_seconds=1.0))
    assert result.stopped == "kit-run-timeout"
    started, removal = engine.calls
    name = next(a.removeprefix("--name=") for a in started["argv"] if a.startswith("--name="))
    assert removal["argv"] == ["rm", "--force", name]


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_endless_output_is_cut_off_and_the_container_removed(make_engine: MakeEngine, stream: str) -> None:
    engine = make_engine(f"while True: sys.{stream}.write('x' * 65536)")
    result = engine.run(RunLimits(output_bytes=100_000))
    assert (result.stopped, result.output) == ("kit-run-output-exceeded", b"")
    assert engine.calls[-1]["argv"][:2] == ["rm", "--force"]


def test_output_of_exactly_the_limit_is_taken(make_engine: MakeEngine) -> None:
    assert make_engine("sys.stdout.write('x' * 1000)").run(RunLimits(output_bytes=1000)).output == b"x" * 1000


@pytest.mark.parametrize("status", [1, 126, 127, 137])
def test_a_kit_that_ends_badly_gave_no_response(make_engine: MakeEngine, status: int) -> None:
    engine = make_engine(
        f"{printing(response())}; sys.stderr.write('first\\nlast words\\n'); sys.exit({status})"
    )
    result = engine.run()
    assert (result.output, result.stopped) == (b"", "kit-run-failed")
    assert result.detail == f"status {status}: last words"


def test_an_engine_that_fails_itself_leaves_the_kit_restricted(make_engine: MakeEngine) -> None:
    engine = make_engine("sys.stderr.write('Cannot connect to the daemon'); sys.exit(125)")
    run = run_kit(KIT, ARTIFACT, [ContainerRunner(str(engine.path), IMAGE)])
    assert (run.execution, run.verdict, run.code) == ("restricted", "unverifiable", "kit-runner-unavailable")


def test_a_missing_engine_leaves_the_kit_restricted(tmp_path: Path) -> None:
    run = run_kit(KIT, ARTIFACT, [ContainerRunner(str(tmp_path / "docker"), IMAGE)])
    assert (run.execution, run.code) == ("restricted", "kit-runner-unavailable")


def test_a_kit_s_folder_that_changed_during_the_run_spoils_its_response(make_engine: MakeEngine) -> None:
    engine = make_engine(
        "target = mounts['/kit'] / 'README.md'; target.unlink(); target.write_text('other')\n"
        + printing(response())
    )
    run = run_kit(KIT, ARTIFACT, [ContainerRunner(str(engine.path), IMAGE)])
    assert (run.execution, run.verdict, run.code) == ("failed", "unverifiable", "kit-directory-changed")


def test_a_kit_s_folder_that_is_not_the_kit_before_the_run_is_not_run(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aioum.kits import container

    def write_and_spoil(folder: Path, files: dict[str, bytes]) -> None:
        folder.mkdir()
        for path in files:
            (folder / path).write_bytes(b"spoilt")

    # Stands for a disk that does not keep what it was given.
    monkeypatch.setattr(container, "write_folder", write_and_spoil)
    engine = make_engine(printing(response()))
    with pytest.raises(RunnerUnavailable) as caught:
        engine.run()
    assert caught.value.code == "kit-directory-changed"
    assert not (engine.folder / "calls").exists()


def test_kits_for_webassembly_are_not_for_containers(make_engine: MakeEngine) -> None:
    runner = ContainerRunner(str(make_engine("pass").path), IMAGE)
    assert run_kit(make_kit(), ARTIFACT, [runner]).code == "kit-runner-missing"


def test_the_first_installed_engine_is_found(
    make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine("pass")
    monkeypatch.setenv("PATH", str(engine.folder))
    assert find_engine() == str(engine.path)
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(RunnerUnavailable):
        find_engine()
