"""`aioum kit` as a person uses it."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from aiohttp import web

from aioum.cli.main import main
from aioum.kits.cache import KitCache
from aioum.kits.container import ContainerRunner, find_engine
from aioum.kits.execution import run_kit
from aioum.kits.kit import read_kit
from tests.integration.kits.conftest import Authority, StartMirror
from tests.unit.kits.samples import description, make_artifact, make_kit, reference_to, response
from tests.unit.kits.test_execution import saying

KIT = make_kit(program=saying(response("trusted", "seen")))
NODE_KIT = make_kit("node-esm")


def run(*arguments: object) -> int:
    """As the program `aioum kit …` ends."""
    return main(["kit", *map(str, arguments)])


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command and gives its exit code and the JSON it printed."""

    def tell(*arguments: object) -> tuple[int, dict[str, Any]]:
        code = run(*arguments, "--json")
        return code, json.loads(capsys.readouterr().out)

    return tell


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return write(tmp_path / "artifact.jsonl", make_artifact(reference_to(KIT)))


@pytest.fixture
def kit_file(tmp_path: Path) -> Path:
    return write(tmp_path / "kit.gaos-verifier", KIT.archive)


def test_packing_twice_gives_the_same_kit_and_inspecting_it_shows_the_manifest(
    tmp_path: Path, told: Any
) -> None:
    folder = tmp_path / "verifier"
    folder.mkdir()
    write(folder / "verifier.wasm", KIT.program)
    manifest = write(tmp_path / "kit.json", json.dumps(description()).encode())
    outs = [tmp_path / "one", tmp_path / "two"]
    for out in outs:
        mirror = "https://kits.example/one"
        code, packed = told("pack", folder, "--manifest", manifest, "-o", out, "--mirror", mirror)
        assert code == 0
        assert packed["reference"]["mirrors"] == [mirror]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert read_kit(outs[0].read_bytes()).digest == packed["digest"]
    code, shown = told("inspect", outs[0])
    assert (code, shown["digest"], shown["size"]) == (0, packed["digest"], packed["size"])
    assert [entry["path"] for entry in shown["manifest"]["files"]] == ["verifier.wasm"]


def test_a_folder_with_a_link_is_not_packed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "verifier"
    folder.mkdir()
    (folder / "verifier.wasm").symlink_to("/etc/hostname")
    manifest = write(tmp_path / "kit.json", json.dumps(description()).encode())
    assert run("pack", folder, "--manifest", manifest, "-o", tmp_path / "out") == 1
    assert "[folder-entry-not-regular]" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_kit_that_is_not_canonical_is_not_inspected(
    kit_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(kit_file, KIT.archive + bytes(512))
    assert run("inspect", kit_file) == 1
    assert "[kit-archive-malformed]" in capsys.readouterr().err


def test_inspecting_is_readable(kit_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", kit_file) == 0
    shown = capsys.readouterr().out
    assert KIT.digest in shown
    assert "wasi-preview1" in shown


def test_a_kit_judges_once_its_digest_is_authorized(artifact: Path, kit_file: Path, told: Any) -> None:
    code, judged = told("run", artifact, "--kit", kit_file, "--authorize", KIT.digest)
    assert (code, judged["execution"], judged["verdict"], judged["remarks"]) == (
        0,
        "passed",
        "trusted",
        ["seen"],
    )
    code, judged = told("run", artifact, "--kit", kit_file)
    assert (code, judged["authorization"], judged["execution"]) == (0, "unknown", "not_run")
    assert judged["verdict"] == "unverifiable"


def test_a_kit_that_rejects_ends_with_1(artifact: Path, tmp_path: Path, told: Any) -> None:
    rejecting = make_kit(program=saying(response("rejected")))
    file = write(tmp_path / "rejecting", rejecting.archive)
    code, judged = told("run", artifact, "--kit", file, "--authorize", rejecting.digest)
    assert (code, judged["verdict"]) == (1, "rejected")
    assert [note["code"] for note in judged["diagnostics"]] == ["kit-not-the-referenced-one"]


def test_what_a_kit_says_cannot_act_on_a_terminal(
    artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loud = make_kit(program=saying(response("trusted", "\x1b[2Jtrusted\nverdict trusted")))
    file = write(tmp_path / "loud", loud.archive)
    assert run("run", artifact, "--kit", file, "--authorize", loud.digest) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert len([line for line in shown.splitlines() if line.startswith("verdict")]) == 1


@pytest.mark.parametrize(
    "arguments, code",
    [
        (["--authorize", "sha256:1"], "kit-digest-invalid"),
        (["--kit", "nowhere"], "file-unusable"),
        (["--image", "verifier:latest", "--kit", "KIT", "--authorize", KIT.digest], "kit-image-not-pinned"),
    ],
)
def test_what_keeps_an_artifact_from_being_judged_ends_with_2(
    artifact: Path, kit_file: Path, arguments: Sequence[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(kit_file) if argument == "KIT" else argument for argument in arguments]
    assert run("run", artifact, *given) == 2
    assert f"[{code}]" in capsys.readouterr().err


def test_a_node_kit_without_an_image_is_restricted(tmp_path: Path, told: Any) -> None:
    artifact = write(tmp_path / "artifact", make_artifact(reference_to(NODE_KIT)))
    file = write(tmp_path / "node", NODE_KIT.archive)
    code, judged = told("run", artifact, "--kit", file, "--authorize", NODE_KIT.digest)
    assert (code, judged["execution"], judged["verdict"]) == (0, "restricted", "unverifiable")


@pytest.mark.skipif(which("docker") is None, reason="docker's command is not installed")
def test_docker_s_own_command_understands_every_option() -> None:
    # The image does not exist, so nothing runs, daemon or not; wrong options are complained of before.
    runner = ContainerRunner(find_engine(("docker",)), "aioum.invalid/none@sha256:" + "ab" * 32)
    run = run_kit(NODE_KIT, make_artifact(), [runner])
    assert (run.execution, run.code) == ("restricted", "kit-runner-unavailable")
    assert not any(word in run.message for word in ("unknown", "invalid argument", "flag"))


async def test_a_kit_is_fetched_kept_and_run_from_the_cache(
    start_mirror: StartMirror, authority: Authority, tmp_path: Path, told: Any
) -> None:
    async def serve(_request: web.Request) -> web.Response:
        return web.Response(body=KIT.archive)

    mirror = await start_mirror(serve)
    artifact = write(tmp_path / "fetched", make_artifact(reference_to(KIT, mirror.url("kit"))))
    cache, out = tmp_path / "kits", tmp_path / "out"
    network = ["--ca-file", authority.ca_file, "--cache", cache]

    code, found = await asyncio.to_thread(lambda: told("fetch", artifact, *network))
    assert (code, found["retrieval"], mirror.asked) == (1, "unavailable", [])
    assert [note["code"] for note in found["diagnostics"]] == ["kit-mirror-address-refused"]

    allowed = [*network, "--allow-private-addresses"]
    code, found = await asyncio.to_thread(lambda: told("fetch", artifact, *allowed, "-o", out))
    assert (code, found["retrieval"], found["authorization"]) == (0, "fetched", "unknown")
    assert out.read_bytes() == KIT.archive

    authorized = ["--authorize", KIT.digest, "--cache", cache]
    code, judged = await asyncio.to_thread(lambda: told("run", artifact, *authorized))
    assert (code, judged["retrieval"], judged["verdict"]) == (0, "cached", "trusted")

    KitCache(cache).place(KIT.digest).write_bytes(b"changed")
    code, judged = await asyncio.to_thread(
        lambda: told("run", artifact, *authorized, "--fetch", *allowed[:2])
    )
    assert (code, judged["integrity"], judged["verdict"]) == (0, "mismatched", "unverifiable")
    assert mirror.asked == ["/kit"]


def test_an_artifact_that_names_no_kit_has_none_to_fetch(tmp_path: Path, told: Any) -> None:
    artifact = write(tmp_path / "plain", make_artifact())
    code, found = told("fetch", artifact, "--cache", tmp_path / "kits")
    assert (code, found["reference"]) == (1, "absent")


def test_a_malformed_reference_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifact = write(tmp_path / "bad", make_artifact(extensions={"gaos.verifier": {"digest": KIT.digest}}))
    assert run("fetch", artifact, "--cache", tmp_path / "kits") == 1
    assert run("run", artifact, "--cache", tmp_path / "kits") == 2
    assert capsys.readouterr().err.count("[kit-reference-invalid]") == 2
