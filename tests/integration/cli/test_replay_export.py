"""A signed session through the installed commands: as an artifact and as a package."""

import json
from pathlib import Path

from aioum.core.canonical import canonical_bytes
from tests.integration.cli.conftest import Shell

Node = dict[str, str]


def test_a_signed_session_is_trusted_as_an_artifact_and_proven_as_a_package_and_a_cut_tail_shows(
    shell: Shell, node: Node, tmp_path: Path
) -> None:
    bought = shell.json(
        "call", node["serviceId"], "repeat", "--arg", "text=1", "--seat", "researcher", "--deposit", "1",
        "--keep-open",
    )  # fmt: skip
    channel = bought["channelId"]
    shell.json("call", node["serviceId"], "repeat", "--session", channel, "--keep-open", "--arg", "text=2")
    heads = tmp_path / "heads.json"
    heads.write_bytes(canonical_bytes(shell.json("session", "heads", channel)))
    shell.run("aioum", "session", "close", channel)

    artifact = tmp_path / "session.gaos-replay.jsonl"
    shell.run("aioum", "session", "export", channel, "--format", "gaos-replay", "--out", str(artifact))
    judged = shell.json("verify-run", str(artifact), "--heads", str(heads))

    assert judged["verdict"] == "trusted"
    assert judged["completeness"] == "retained_heads"
    assert judged["facts"] == {
        "terms": "verified",
        "receipts": "verified",
        "payment": "verified",
        # A service in Python declares nothing, so it is not judged by running it again.
        "reexecuted": "not_applicable",
        "anchored": "not_checked",
        "logged": "not_checked",
    }
    package = tmp_path / "evidence.json"
    shell.run("aioum", "evidence", "build", channel, "--claim", "quality", "--out", str(package))
    report = json.loads(shell.run("verify-evidence", str(package), "--json").stdout)
    rows = {check["name"]: check for check in report["checks"]}
    assert rows["submissions"]["status"] == "pass"
    assert rows["submissions"]["details"]["completeness"] == "anchored"
    assert report["exitCode"] == 0

    cut = json.loads(package.read_bytes())
    cut["calls"].pop()
    cut["submissions"]["entries"].pop()
    package.write_bytes(canonical_bytes(cut))
    shorter = shell.run(
        "verify-evidence", str(package), "--offline", "--json", "--heads", str(heads), expect=1
    )
    rows = {check["name"]: check for check in json.loads(shorter.stdout)["checks"]}
    assert rows["submissions"]["codes"] == ["retained-head-missing"]
