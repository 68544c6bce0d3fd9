"""Seats and heads through the installed commands, with a real node on a real chain."""

from pathlib import Path

from aioum.core.submission.framing import decode_base64
from tests.integration.cli.conftest import Shell

Node = dict[str, str]


def test_a_sub_agent_signs_its_calls_and_the_heads_are_shown(
    shell: Shell, node: Node, tmp_path: Path
) -> None:
    first = shell.json(
        "call", node["serviceId"], "repeat", "--arg", "text=1", "--seat", "researcher", "--deposit", "1",
        "--keep-open",
    )  # fmt: skip
    assert (first["index"], first["seat"]) == (0, "researcher")
    channel = first["channelId"]
    ours = ("call", node["serviceId"], "repeat", "--session", channel, "--keep-open")
    assert shell.json(*ours, "--arg", "text=2")["seat"] == "client"
    assert shell.code(*ours, "--arg", "text=3", "--seat", "nobody") == "seat-unknown"
    shown = shell.json("session", "show", channel, "--offline")
    assert [seat["id"] for seat in shown["seats"]] == ["client", "researcher"]
    assert [result["seat"] for result in shown["results"]] == ["researcher", "client"]
    heads = shell.json("session", "heads", channel)
    assert heads == shown["heads"]
    assert {seat: len(decode_base64(head, 32)) for seat, head in heads.items()} == {
        "client": 32, "researcher": 32,
    }  # fmt: skip
    text = shell.text("session", "show", channel, "--offline")
    assert "client, researcher" in text
    assert heads["researcher"] in text
    shell.run("aioum", "session", "close", channel)
    package = tmp_path / "evidence.json"
    shell.run(
        "aioum", "evidence", "build", channel, "--claim", "quality", "--narrative", "-", "--out", str(package)
    )
    checked = shell.run("verify-evidence", str(package))
    assert b"submissions" in checked.stdout
