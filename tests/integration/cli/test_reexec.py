"""A service that is a WebAssembly module: bought from, and its answers run again by a stranger."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.devnet.running import RunningDevnet
from tests.integration.cli.conftest import NODE_ACCOUNT, Shell, make_shell

TABLE = "item,price\nnuts,0.1\nbolts,0.2\n"
SUMMARY = (
    '{"columns":[{"empty":0,"filled":2,"name":"item"},'
    '{"empty":0,"filled":2,"maximum":"0.2","mean":"0.15","minimum":"0.1","name":"price","sum":"0.3"}],"rows":2}'
)


@pytest.fixture(scope="module")
def tables(
    devnet: RunningDevnet, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A node of the example service, whose card says where its module lies."""
    home = tmp_path_factory.mktemp("tables")
    shell, folder = make_shell(home), home / "node"
    published = home / "published.wasm"
    shell.run(
        "aioum-node", "init", "--dir", str(folder), "--devnet-account", str(NODE_ACCOUNT),
        "--deployment", str(devnet.deployment_file),
        "--template", str(repository / "examples" / "services" / "table_summary"),
    )  # fmt: skip
    config = folder / "node.toml"
    declared = f'kind = "wasm"\nuri = "{published.as_uri()}"'
    config.write_text(config.read_text().replace('kind = "wasm"', declared))
    shutil.copy(folder / "table_summary.wasm", published)
    with (home / "log").open("wb") as errors:
        process = shell.start(
            "aioum-node", "run", "--register", "--json", "--dir", str(folder),
            "--listen-port", "0", "--admin-port", "0", "--settle-interval-seconds", "0.2",
            stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (home / "log").read_text()
        yield {**json.loads(line), "published": str(published), "folder": str(folder)}
    finally:
        process.terminate()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture(scope="module")
def evidence(
    devnet: RunningDevnet, tables: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The client's package of a settled session: an answer, a failed call, another answer."""
    home = tmp_path_factory.mktemp("client")
    shell = make_shell(
        home,
        AIOUM_DEPLOYMENT=str(devnet.deployment_file),
        AIOUM_DEVNET_ACCOUNT="9",
        AIOUM_DATA_DIR=str(home / "record"),
    )
    call = ("call", tables["serviceId"], "summarize-table")
    first = shell.json(*call, "--arg", f"csv={TABLE}", "--deposit", "0.1", "--keep-open")
    assert first["response"] == SUMMARY
    go_on = ("--session", first["sessionId"], "--keep-open")
    failed = shell.json(*call, "--arg", "csv=a,b\n1", *go_on, expect=1)
    assert (failed["failure"], failed["charge"]) == ("tool-failed", "0")
    shell.json(*call, "--arg", "csv=n\n-1\n2.5", *go_on)
    shell.json("session", "close", first["sessionId"])
    out = home / "evidence.json"
    shell.run("aioum", "evidence", "build", first["sessionId"], "--claim", "wrong-result", "--out", str(out))
    package: dict[str, Any] = json.loads(out.read_bytes())
    return package


def re_execution(
    shell: Shell, package: dict[str, Any], tmp_path: Path, *options: str, expect: int = 0
) -> dict[str, Any]:
    """What `verify-evidence` says of check 5."""
    file = tmp_path / "evidence.json"
    file.write_bytes(canonical_bytes(package))
    done = shell.run("verify-evidence", str(file), "--json", *options, expect=expect)
    (check,) = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "re-execution"]
    found: dict[str, Any] = check
    return found


def test_a_stranger_reproduces_every_answer_from_the_module_that_the_card_pins(
    shell: Shell, evidence: dict[str, Any], tables: dict[str, str], tmp_path: Path
) -> None:
    check = re_execution(shell, evidence, tmp_path, "--reexec")

    assert (check["status"], check["codes"]) == ("pass", [])
    assert check["details"] == {
        "module": sha256(Path(tables["published"]).read_bytes()).hexdigest(),
        "reproduced": 2,
        "skippedExempted": 0,
        "skippedFailed": 1,
        "toRun": 2,
    }


def test_without_the_option_nothing_is_run(shell: Shell, evidence: dict[str, Any], tmp_path: Path) -> None:
    check = re_execution(shell, evidence, tmp_path)

    assert check["codes"] == ["re-execution-not-requested"]
    assert "--reexec" in check["summary"]


def test_an_answer_that_the_module_does_not_give_is_found(
    shell: Shell, evidence: dict[str, Any], tmp_path: Path
) -> None:
    altered = json.loads(json.dumps(evidence))
    altered["calls"][2]["response"] = altered["calls"][2]["response"].replace("2.5", "2.6")

    check = re_execution(shell, altered, tmp_path, "--reexec", expect=1)

    assert (check["status"], check["codes"]) == ("fail", ["re-execution-diverged"])
    assert check["details"]["findings"][0]["index"] == 2


def test_a_module_that_is_gone_or_exchanged_is_not_run_and_a_copy_of_it_is(
    shell: Shell, evidence: dict[str, Any], tables: dict[str, str], tmp_path: Path
) -> None:
    published = Path(tables["published"])
    module = published.read_bytes()
    copy = tmp_path / "copy.wasm"
    copy.write_bytes(module)
    try:
        published.write_bytes(module + b"\0")
        exchanged = re_execution(shell, evidence, tmp_path, "--reexec")
        published.unlink()
        gone = re_execution(shell, evidence, tmp_path, "--reexec")
        at_hand = re_execution(
            shell,
            evidence,
            tmp_path,
            "--reexec",
            "--module",
            str(copy),
            "--module",
            tables["folder"] + "/node.toml",
        )
    finally:
        published.write_bytes(module)

    assert exchanged["codes"] == ["wasm-module-mismatched"]
    assert gone["codes"] == ["wasm-module-unreachable"]
    assert at_hand["status"] == "pass"


def test_options_of_the_check_that_contradict_each_other_are_wrong_usage(
    shell: Shell, evidence: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "evidence.json"
    file.write_bytes(canonical_bytes(evidence))

    for options in (("--reexec", "--exec", "cat"), ("--module", str(file))):
        done = shell.run("verify-evidence", str(file), *options, expect=2)
        assert b"[usage]" in done.stderr
    done = shell.run("verify-evidence", str(file), "--reexec", "--module", str(tmp_path / "absent"), expect=2)
    assert b"[file-unusable]" in done.stderr
