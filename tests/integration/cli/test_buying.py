"""Finding, calling, closing and proving through the installed commands, with a real node on a real chain."""

import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioum.chain import calls
from aioum.core.canonical import canonical_bytes
from aioum.core.signing import LocalKey
from aioum.devnet.running import RunningDevnet
from tests.integration.cli.conftest import Shell
from tests.integration.conftest import FundAccount, FundedAccount, RegisteredService

Node = dict[str, str]


def deposit_is_accounted_for(closed: dict[str, Any]) -> bool:
    return int(closed["captured"]) + int(closed["refunded"]) == int(closed["deposit"])


def test_services_are_found_with_names_and_prices_and_no_key(shell: Shell, node: Node) -> None:
    shell.environment.pop("AIOUM_DEVNET_ACCOUNT")
    found = shell.json("services", "list", "--limit", "1000")
    (service,) = [entry for entry in found["services"] if entry["serviceId"] == node["serviceId"]]
    assert found["total"] >= 1
    assert (service["nodeUrl"], service["problem"]) == (node["url"], None)
    assert service["card"]["name"] == "Echo & Sons"
    assert [(tool["id"], tool["price"]) for tool in service["card"]["tools"]] == [
        ("repeat", "250000"),
        ("refuse", "500000"),
    ]
    table = shell.text("services", "list", "--limit", "1000").splitlines()
    assert table[0].split() == ["id", "name", "tools", "price", "rating", "state", "node"]
    (row,) = [line for line in table if line.split()[0] == node["serviceId"]]
    assert node["url"] in row
    assert "0.25…0.5 aUSD" in row
    assert "ready" in row
    for named in (node["serviceId"], node["url"]):
        assert shell.json("services", "show", named) == service
        shown = shell.text("services", "show", named)
        assert re.search(
            r"^repeat +0\.25 aUSD +text: string, times\?: integer +Repeats a text\.$", shown, re.M
        )


def test_services_that_do_not_exist_or_answer_are_told_apart(shell: Shell, node: Node) -> None:
    assert shell.code("services", "show", "999999") == "service-unknown"
    assert shell.code("services", "show", "http://127.0.0.1:9") == "node-unreachable"
    assert shell.code("services", "show", "not a url") == "node-url-invalid"


def test_a_call_prints_exactly_the_response_and_settles_the_session(shell: Shell, node: Node) -> None:
    done = shell.run("aioum", "call", node["serviceId"], "repeat", "--arg", "text=ab\n", "--arg", "times=2")
    assert done.stdout == b"ab\nab\n"
    told = done.stderr.decode().splitlines()
    assert len(told) == 3
    assert "deposit 0.25 aUSD" in told[0]
    assert "call 0 of repeat: 0.25 aUSD" in told[1]
    assert "captured 0.25 aUSD, refunded 0 aUSD" in told[2]
    (session,) = shell.json("session", "list")["sessions"]
    assert (session["phase"], session["calls"], session["spent"]) == ("closed", 1, "250000")


@pytest.mark.slow
def test_a_session_stays_open_is_gone_on_with_topped_up_exported_and_closed(
    shell: Shell, node: Node, tmp_path: Path
) -> None:
    first = shell.json(
        "call", node["url"], "repeat", "-", "--deposit", "0.6", "--keep-open", stdin=b'{"text": "one"}'
    )
    assert (first["index"], first["response"], first["charge"], first["closed"]) == (0, "one", "250000", None)
    channel = first["channelId"]

    page = tmp_path / "page.txt"
    page.write_text("two", encoding="utf-8")
    go_on = ("call", node["serviceId"], "repeat", "--session", first["sessionId"], "--keep-open")
    second = shell.json(*go_on, "--arg-file", f"text={page}")
    assert (second["index"], second["response"], second["channelId"]) == (1, "two", channel)
    assert shell.code(*go_on, "--arg", "text=three") == "deposit-exhausted"

    assert shell.json("session", "top-up", channel, "0.5") == {"channelId": channel, "deposit": "1100000"}
    third = shell.json(*go_on, "--json-args", '{"text": "three"}')
    assert (third["index"], third["spent"], third["deposit"]) == (2, "750000", "1100000")

    transcript = shell.run("aioum", "session", "export", channel).stdout
    exported = json.loads(transcript)
    assert transcript == canonical_bytes(exported) + b"\n"
    assert [entry["response"] for entry in exported["calls"]] == ["one", "two", "three"]
    assert exported["root"] == third["root"]
    out = tmp_path / "transcript.json"
    assert shell.text("session", "export", channel, "--out", str(out)) == ""
    assert out.read_bytes() == transcript

    shown = shell.json("session", "show", channel)
    assert [result["toolId"] for result in shown["results"]] == ["repeat"] * 3
    assert shown["chain"]["finalizedAt"] is None

    closed = shell.json("session", "close", first["sessionId"])
    assert (closed["calls"], closed["anchoredRoot"], closed["captured"]) == (3, third["root"], "750000")
    assert deposit_is_accounted_for(closed)
    seen = shell.text("session", "show", first["sessionId"])
    assert re.search(r"^anchored +3 calls, equal to your record$", seen, re.MULTILINE)
    assert re.search(r"^2 +repeat +answered +0\.25 aUSD", seen, re.MULTILINE)
    assert shell.code(*go_on, "--arg", "text=four") == "session-not-open"
    assert shell.json("session", "close", channel) == closed


def test_a_tool_that_fails_is_printed_not_charged_and_exit_code_one(shell: Shell, node: Node) -> None:
    done = shell.run("aioum", "call", node["serviceId"], "refuse", "--arg", "reason=no such page", expect=1)
    problem = json.loads(done.stdout)
    assert problem["title"] == "no such page"
    assert b"[call-failed]" in done.stderr
    (session,) = shell.json("session", "list")["sessions"]
    assert (session["phase"], session["calls"], session["spent"]) == ("closed", 1, "0")


def test_a_tool_that_fails_is_a_result_for_a_program(shell: Shell, node: Node) -> None:
    result = shell.json("call", node["serviceId"], "refuse", "--arg", "reason=no", expect=1)
    assert (result["ok"], result["failure"], result["charge"]) == (False, "tool-failed", "0")
    assert deposit_is_accounted_for(result["closed"])


@pytest.mark.slow
def test_what_can_be_refused_is_refused_before_a_deposit_moves(shell: Shell, node: Node) -> None:
    service = node["serviceId"]
    assert shell.code("call", service, "sing") == "tool-unknown"
    assert shell.code("call", service, "repeat", "--arg", "txt=a") == "arguments-invalid"
    assert shell.code("call", service, "repeat", "--arg", "text=a", "--deposit", "0") == "deposit-too-low"
    assert shell.code("call", service, "repeat", "--arg", "text=a", "--deposit", "1000000000000") == (
        "balance-too-low"
    )
    assert shell.code("call", "999999", "repeat") == "service-unknown"
    for usage in (
        ("--arg", "text=a", "--deposit", "much"),
        ("--arg", "text=a", "--deposit", "0.0000001"),
        ("--arg", "times=x"),
        ("--session", "1", "--deposit", "1"),
        ("-", "--json-args", "{}"),
    ):
        assert shell.code("call", service, "repeat", *usage, expect=2) == "usage"
    assert all(session["spent"] == "0" for session in shell.json("session", "list")["sessions"])


def test_a_session_of_another_service_is_not_used(shell: Shell, node: Node) -> None:
    opened = shell.json("call", node["serviceId"], "repeat", "--arg", "text=a", "--keep-open")
    arguments = ("repeat", "--arg", "text=b", "--session", opened["channelId"])
    assert shell.code("call", "999999", *arguments, expect=2) == "usage"
    assert deposit_is_accounted_for(shell.json("session", "close", opened["channelId"]))


def test_a_spend_limit_ends_a_session_before_its_deposit_does(shell: Shell, node: Node) -> None:
    new = ("--deposit", "1", "--spend-limit", "0.4", "--keep-open")
    opened = shell.json("call", node["serviceId"], "repeat", "--arg", "text=a", *new)
    go_on = ("--session", opened["sessionId"])
    assert (
        shell.code("call", node["serviceId"], "repeat", "--arg", "text=b", *go_on) == "spend-limit-exceeded"
    )
    # Nothing was outstanding, and the session was not to be kept: what is left of the deposit came back.
    shown = shell.json("session", "show", opened["sessionId"])
    assert (shown["phase"], shown["chain"]["captured"], shown["chain"]["refunded"]) == (
        "closed", "250000", "750000",
    )  # fmt: skip


async def test_a_key_file_pays_and_another_key_cannot_close(
    shell: Shell, node: Node, fund_account: FundAccount, key_file: Callable[[LocalKey], Path]
) -> None:
    account = await fund_account()
    key = ("--key-file", str(key_file(account.key)))
    opened = shell.json("call", node["serviceId"], "repeat", "--arg", "text=a", "--keep-open", *key)
    assert shell.code("session", "close", opened["sessionId"]) == "session-of-another-key"
    assert deposit_is_accounted_for(shell.json("session", "close", opened["sessionId"], *key))


async def test_an_opening_that_was_refused_for_good_is_void_and_the_next_call_opens_another(
    shell: Shell,
    node: Node,
    devnet: RunningDevnet,
    operator: FundedAccount,
    key_file: Callable[[LocalKey], Path],
) -> None:
    key = LocalKey(secrets.token_bytes(32))
    await operator.sender.send(calls.mint(devnet.token, key.address, 1_000_000), "mint")
    named = ("--key-file", str(key_file(key)))
    call = ("call", node["serviceId"], "repeat", "--arg", "text=a", *named)
    # The account holds tokens to pay with, and no ether for gas.
    refused = shell.run("aioum", *call, expect=1).stderr.decode()
    (session,) = shell.json("session", "list")["sessions"]
    assert (session["phase"], session["sessionId"]) == ("void", None)
    assert "go on with" not in refused

    await devnet.fund(key.address)
    done = shell.json(*call)
    assert done["channelId"] != session["channelId"]
    assert deposit_is_accounted_for(done["closed"])


@pytest.mark.slow
def test_evidence_is_built_without_key_or_chain_and_verifies(
    shell: Shell, node: Node, tmp_path: Path
) -> None:
    opened = shell.json(
        "call", node["serviceId"], "repeat", "--arg", "text=a", "--keep-open", "--deposit", "2"
    )
    session = opened["sessionId"]
    for text in ("b", "c"):
        shell.json(
            "call", node["serviceId"], "repeat", "--arg", f"text={text}", "--session", session, "--keep-open"
        )
    closed = shell.json("session", "close", session)

    offline = Shell({**shell.environment, "AIOUM_RPC_URL": "http://127.0.0.1:9"})
    offline.environment.pop("AIOUM_DEVNET_ACCOUNT")
    whole, part = tmp_path / "evidence.json", tmp_path / "part.json"
    build = ("evidence", "build", session, "--claim", "wrong-result")
    offline.text(*build, "--narrative", "it said c", "--out", str(whole))
    part.write_bytes(offline.run("aioum", *build, "--disclose", "0,2").stdout)
    assert offline.json("session", "show", session, "--offline")["chainProblem"] == "not asked"
    assert "[rpc-unreachable]" in offline.json("session", "show", session)["chainProblem"]

    for package in (whole, part):
        shell.run("verify-evidence", str(package))
    summary = shell.json("evidence", "show", str(whole))
    assert (summary["callCount"], summary["shownCalls"], summary["charged"]) == (3, 3, "750000")
    assert (summary["resultsRoot"], summary["narrative"]) == (closed["anchoredRoot"], "it said c")
    assert shell.json("evidence", "show", str(part), "--calls")["shownCalls"] == 2
    shown = shell.text("evidence", "show", str(whole), "--calls")
    assert re.search(r"^receipts +3, charging 0\.75 aUSD$", shown, re.MULTILINE)
    assert re.search(r"^2 +repeat +answered +250000", shown, re.MULTILINE)


def test_what_no_package_can_be_made_of_has_its_code(shell: Shell, node: Node) -> None:
    opened = shell.json("call", node["serviceId"], "repeat", "--arg", "text=a")
    build = ("evidence", "build", opened["sessionId"], "--claim", "quality")
    assert shell.code(*build, "--disclose", "0,7") == "disclosure-out-of-range"
    assert shell.code("evidence", "build", "999999", "--claim", "quality") == "session-unknown"


def test_a_service_whose_node_cannot_be_asked_is_listed_with_the_reason(
    shell: Shell, node: Node, registered_service: RegisteredService
) -> None:
    service_id = str(registered_service.service.service_id)
    states = {
        entry["serviceId"]: entry["problem"]
        for entry in shell.json("services", "list", "--limit", "1000")["services"]
    }
    assert states[node["serviceId"]] is None
    assert states[service_id]["code"] == "node-url-invalid"
    shown = shell.text("services", "show", service_id)
    assert re.search(r"^not payable .*\[node-url-invalid\]$", shown, re.MULTILINE)
    limited = shell.run("aioum", "services", "list", "--limit", "1")
    assert len(limited.stdout.splitlines()) == 2
    assert limited.stderr.startswith(b"warning: ")
