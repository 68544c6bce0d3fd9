"""`aioum-node` as an operator runs it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from aioum.devnet.running import RunningDevnet
from aioum_node.settings import settings_table

PROGRAM = str(Path(sys.executable).parent / "aioum-node")
ANY_PORT = ("--listen-port", "0", "--admin-port", "0")


def environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIOUM_")}
    return {**inherited, "PYTHONWARNINGS": "error"}


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )


def succeeded(*arguments: str, stdin: str = "") -> str:
    done = run(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def shop(devnet: RunningDevnet, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A node's folder, as init makes it."""
    folder = str(tmp_path_factory.mktemp("operator") / "shop")
    succeeded("init", "--dir", folder, "--devnet-account", "9", "--deployment", str(devnet.deployment_file))
    return folder


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """A running node and what it said of itself."""
    process = subprocess.Popen(
        [PROGRAM, "run", "--json", *ANY_PORT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield json.loads(line), process
    finally:
        process.kill()
        process.communicate()


def test_new_node_is_published_serves_and_stops_cleanly(shop: str) -> None:
    unpublished = run("run", "--dir", shop, *ANY_PORT)
    published = json.loads(succeeded("register", "--dir", shop, "--url", "http://node.example", "--json"))
    again = succeeded("register", "--dir", shop, "--url", "http://node.example")
    descriptor_hash = succeeded("card", "--dir", shop, "--hash").strip()

    assert unpublished.returncode == 1
    assert "[not-registered]" in unpublished.stderr
    assert "hint:" in unpublished.stderr
    assert published["changed"]
    assert "already published" in again
    assert published["descriptorHash"] == descriptor_hash
    with serving("--dir", shop, "--log-format", "json") as (said, process):
        with urlopen(said["url"] + "/.well-known/aioum.json", timeout=10) as response:
            described = json.loads(response.read())
        with urlopen(said["adminUrl"] + "/readyz", timeout=10) as response:
            assert json.loads(response.read())["ready"]
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0, log
    assert described["serviceId"] == said["serviceId"] == published["serviceId"]
    assert said["descriptorHash"] == descriptor_hash
    assert [json.loads(line)["event"] for line in log.splitlines()] == ["node-ready"]


def test_run_can_publish_by_itself(devnet: RunningDevnet, tmp_path: Path, repository: Path) -> None:
    template = str(repository / "examples" / "services" / "library")
    made = json.loads(
        succeeded(
            "init", "--dir", str(tmp_path / "library"), "--template", template, "--devnet-account", "8",
            "--deployment", str(devnet.deployment_file), "--json",
        )
    )  # fmt: skip

    with serving("--dir", made["nodeDir"], "--register") as (said, process):
        with urlopen(said["url"] + "/.well-known/aioum.json", timeout=10) as response:
            card = json.loads(response.read())["card"]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0

    assert card["operator"] == made["operator"]
    assert "word-frequencies" in [tool["id"] for tool in card["tools"]]


def test_key_comes_from_stdin_and_never_from_an_argument(tmp_path: Path) -> None:
    made = json.loads(
        succeeded("init", "--dir", str(tmp_path / "a"), "--import-key", "-", "--json", stdin="0x" + "11" * 32)
    )
    refused = run("init", "--dir", str(tmp_path / "b"), "--import-key", "-", "--devnet-account", "1")

    assert made["operator"] == "0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A"
    assert refused.returncode == 2


def test_operator_without_ether_is_told_so(devnet: RunningDevnet, tmp_path: Path) -> None:
    folder = str(tmp_path / "poor")
    succeeded("init", "--dir", folder, "--deployment", str(devnet.deployment_file))

    refused = run("register", "--dir", folder)

    assert refused.returncode == 1
    assert refused.stderr.startswith("error: ")
    assert "Traceback" not in refused.stderr


def test_traceback_comes_with_v_only(tmp_path: Path) -> None:
    assert "Traceback" not in run("card", "--dir", str(tmp_path)).stderr
    assert "Traceback" in run("-v", "card", "--dir", str(tmp_path)).stderr


def test_settings_are_shown_as_they_are_in_effect(shop: str) -> None:
    shown = json.loads(succeeded("settings", "--dir", shop, "--max-unpaid-calls", "3"))

    assert (shown["node_dir"], shown["max_unpaid_calls"]) == (shop, 3)
    assert succeeded("settings", "--markdown") == settings_table()


def test_setting_that_makes_no_sense_is_an_error_with_a_hint(shop: str) -> None:
    refused = run("settings", "--dir", shop, "--listen-port", "http")

    assert refused.returncode == 1
    assert "[config-invalid]" in refused.stderr
    assert "hint: aioum-node settings" in refused.stderr
