"""Rating through the installed command."""

import re

from tests.integration.cli.conftest import Shell

Node = dict[str, str]


def test_a_session_is_rated_as_suggested_unless_somebody_thinks_otherwise_and_once(
    shell: Shell, node: Node
) -> None:
    first = shell.json("call", node["serviceId"], "repeat", "--arg", "text=a")["channelId"]
    assert shell.json("rate", first, "--suggest") == {"score": 100, "reasons": []}
    declined = shell.run("aioum", "rate", first, "--score", "70", stdin=b"n\n", expect=1).stderr.decode()
    assert "suggests 100 of 100" in declined
    assert "gas: " in declined
    assert "[not-confirmed]" in declined
    asked = shell.run("aioum", "rate", first, stdin=b"70\ny\n")
    assert asked.stdout == b"rated  70 of 100\n"
    assert shell.code("rate", first, "--score", "1", "--yes") == "already-rated"
    second = shell.json("call", node["serviceId"], "repeat", "--arg", "text=a")["channelId"]
    rated = shell.json("rate", second, "--yes")
    assert (rated["channelId"], rated["score"], rated["suggested"]["score"]) == (second, 100, 100)
    service = shell.json("services", "show", node["serviceId"])
    watched = shell.text("watch", "--of", service["operator"], "--from-block", "0", "--once").splitlines()
    ratings = [line.partition(": rated ")[2] for line in watched if ": rated " in line]
    assert ratings == ["70/100 after 0.25 aUSD", "100/100 after 0.25 aUSD"]
    assert service["ratings"] == {"count": 2, "mean": 85.0, "weightedMean": 85.0, "weighedAmount": "500000"}
    shown = shell.text("services", "show", node["serviceId"])
    assert re.search(r"^ratings +85\.0 of 100 in 2 sessions; 85\.0 weighted by what they paid$", shown, re.M)


def test_a_session_that_cost_nothing_and_a_score_out_of_range_are_refused(shell: Shell, node: Node) -> None:
    failed = shell.json("call", node["serviceId"], "refuse", "--arg", "reason=no", expect=1)["channelId"]
    (reason,) = shell.json("rate", failed, "--suggest")["reasons"]
    assert (reason["code"], reason["points"]) == ("calls-failed", 50)
    assert shell.code("rate", failed, "--yes") == "nothing-captured"
    assert shell.code("rate", failed, "--score", "101", expect=2) == "usage"
