"""Disputes, lies, challenges and ratings as client, arbitrator and operator meet them: by command alone.

The honest node is the installed program, the liar's is `tests.lying_node`. What everybody has is checked to
the last base unit at each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.court import BOND, DAY, REPEAT, RULING_SECONDS, WINDOW_SECONDS, Court, Ledger, sitting_court

PRICE = 250_000
"""Of the honest node's `repeat`."""

LIED = 1_000
"""What one call of the liar's node costs."""

ANCHORED_CHECKS = ("claimed-root", "anchored-root", "vouchers", "receipts", "statement")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def court(anvil: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    with sitting_court(repository, tmp_path_factory.mktemp("court")) as sitting:
        yield sitting


@pytest.fixture
def ledger(court: Court) -> Ledger:
    return Ledger(court)


def raising(channel: str, claim: str, narrative: str = "") -> tuple[str, ...]:
    return (
        "dispute", "raise", channel, "--claim", claim, "--narrative", narrative, "--to", "data", "--yes",
    )  # fmt: skip


def test_quality_dispute_is_ruled_half_and_neither_raised_nor_rated_twice(
    court: Court, ledger: Ledger
) -> None:
    channel = court.buy(court.honest, "repeat")["channelId"]
    assert ledger.moved() == {"client": -PRICE, "held": PRICE}
    quality = raising(channel, "quality", "a poor repetition")
    assert court.client.json(*quality)["bond"] == str(BOND)
    assert ledger.moved() == {"client": -PRICE - BOND, "held": PRICE, "bonds": BOND}
    assert court.client.code(*quality) == "already-disputed"

    # The arbitrator has nothing but the chain.
    seen = court.arbitrator.json("dispute", "status", channel)
    assert (seen["dispute"], seen["held"]) == ("pending", str(PRICE))
    named = seen["raised"]
    judged = court.judge(named["evidenceUri"], named["evidenceHash"])
    assert {judged[name] for name in ANCHORED_CHECKS} == {"pass"}
    ruled = court.arbitrator.json("dispute", "rule", channel, "--award", "50%", "--yes")
    assert (ruled["dispute"], ruled["awarded"]) == ("ruled", str(PRICE // 2))
    # Half of it to each, and the bond back to who was right.
    assert ledger.moved() == {"client": -PRICE // 2, "operator": PRICE // 2}

    assert court.client.json("rate", channel, "--score", "50", "--yes")["score"] == 50
    assert court.client.code("rate", channel, "--score", "0", "--yes") == "already-rated"


def test_wrong_result_dispute_is_lost_to_the_operators_own_export(court: Court, ledger: Ledger) -> None:
    bought = court.buy(court.honest, "repeat")
    channel = bought["channelId"]
    court.client.json(*raising(channel, "wrong-result", "that is no repetition"))
    said = court.respond(bought["sessionId"], "--narrative", "It is one.", "--to", "data")
    assert ledger.moved() == {"client": -PRICE - BOND, "held": PRICE, "bonds": BOND}

    responded = court.events(channel)["Responded"]
    assert (responded["responseURI"], responded["responseHash"]) == (said["uri"], said["hash"])
    # The service is deterministic, so anybody can see that its answer is right.
    judged = court.judge(said["uri"], said["hash"], "--exec", REPEAT)
    assert {judged[name] for name in (*ANCHORED_CHECKS, "re-execution")} == {"pass"}
    ruled = court.arbitrator.json("dispute", "rule", channel, "--award", "0", "--yes")
    assert (ruled["dispute"], ruled["awarded"]) == ("ruled", "0")
    assert ledger.moved() == {"client": -PRICE - BOND, "operator": PRICE + BOND}


CALL = ("shout", "--arg", "text=a")
FAILING_CALL = ("fail", "--arg", "text=a")


@pytest.mark.parametrize(
    ("lie", "calls", "found", "proven", "captured"),
    [
        pytest.param(
            *("two-receipts", [CALL], "operator-double-signed", "ConflictingReceipts", LIED), id="l1-receipts"
        ),
        pytest.param(
            *("two-statements", [CALL], "statement-spent-mismatch", "ConflictingStatements", LIED),
            id="l1-statements",
        ),
        pytest.param(
            *("random-root", [CALL], "anchored-root-mismatch", "StatementAgainstRoot", LIED),
            id="l1-root",
        ),
        pytest.param(
            *("dropped-tail", [CALL, CALL], "anchored-root-mismatch", "OmittedReceipt", 2 * LIED), id="l2"
        ),
        pytest.param(*("overcharge", [FAILING_CALL], "captured-above-spent", "Overcharge", LIED), id="l3"),
    ],
)
def test_lie_is_decided_by_the_contract_at_once(
    court: Court,
    ledger: Ledger,
    lie: str,
    calls: list[tuple[str, ...]],
    found: str,
    proven: str,
    captured: int,
) -> None:
    court.liar.tell(lie)
    service, *earlier = court.liar.service_id, *calls[:-1]
    session: tuple[str, ...] = ("--deposit", "0.01")
    for call in earlier:
        bought = court.client.json("call", service, *call, *session, "--keep-open")
        session = ("--session", bought["channelId"])
    code, channel = court.disagree("call", service, *calls[-1], *session)
    assert code == found
    if lie == "two-receipts":
        # It stopped paying before the end, so it leaves, and the operator settles.
        assert court.client.code("session", "exit", channel) == "unanswered-call-anchored"
    assert ledger.moved() == {"client": -captured, "held": captured}

    outcome = court.client.json("dispute", "prove", channel, "--yes")
    assert (outcome["lie"], outcome["awarded"]) == (proven, str(captured))
    assert ledger.moved() == {}


def test_false_anchors_that_no_two_words_prove_lose_to_a_challenge_that_they_cannot_answer(
    court: Court, ledger: Ledger
) -> None:
    channels = [_behind_its_clients_back(court, "random-root", 1)]
    # It is challenged only because nothing can be proven.
    challenged = court.client.json("dispute", "prove", channels[0], "--or-challenge", "--yes")
    assert challenged["challenged"] == "receipt of call 0"
    assert ledger.moved() == {"client": -LIED - BOND, "held": LIED, "bonds": BOND}

    court.liar.tell("inflated-count")
    code, channel = court.disagree("call", court.liar.service_id, *CALL)
    assert code == "anchored-root-mismatch"
    challenged = court.client.json("dispute", "challenge", channel, "--yes")
    # It is over fewer calls than are anchored, and covers all that there were.
    assert challenged["challenged"] == "statement over 1 calls"
    channels.append(channel)

    channels.append(_behind_its_clients_back(court, "altered-leaf", 2))
    challenged = court.client.json("dispute", "challenge", channels[-1], "--call", "0", "--yes")
    assert challenged["challenged"] == "receipt of call 0"

    held, bonds = 4 * LIED, 3 * BOND
    assert ledger.moved() == {"client": -held - bonds, "held": held, "bonds": bonds}
    # It is not for being silent that it loses: it has looked for answers.
    court.liar.wait_until_logged("challenge-unanswerable", 3)
    court.pass_time(DAY)
    for channel, calls in zip(channels, (1, 1, 2), strict=True):
        claimed = court.client.json("dispute", "claim", channel, "--yes")
        assert (claimed["held"], claimed["awarded"]) == ("0", str(calls * LIED))
        held, bonds = held - calls * LIED, bonds - BOND
        rest = {"client": -held - bonds, "held": held, "bonds": bonds}
        assert ledger.moved() == {name: amount for name, amount in rest.items() if amount}
    assert ledger.moved() == {}


def test_honest_node_answers_a_challenge_by_itself_and_earns_the_bond(court: Court, ledger: Ledger) -> None:
    channel = court.buy(court.honest, "repeat")["channelId"]
    court.client.json("dispute", "challenge", channel, "--call", "0", "--yes")
    with court.watching(channel) as see:
        see("ChallengeAnswered")
        assert ledger.moved() == {"client": -PRICE - BOND, "held": PRICE, "operator": BOND}
        court.pass_time(WINDOW_SECONDS)
        # Anybody could pay it out now, and the node does.
        see("Released")
    assert ledger.moved() == {"client": -PRICE - BOND, "operator": PRICE + BOND}


def test_dispute_that_nobody_rules_on_lapses_and_none_is_raised_after_the_window(
    court: Court, ledger: Ledger
) -> None:
    disputed, quiet = (court.buy(court.honest, "repeat")["channelId"] for _ in range(2))
    with court.operator_away():
        court.client.json(*raising(disputed, "non-delivery"))
        assert ledger.moved() == {"client": -2 * PRICE - BOND, "held": 2 * PRICE, "bonds": BOND}
        court.pass_time(RULING_SECONDS)
        lapsed = court.client.json("dispute", "lapse", disputed, "--yes")
        assert (lapsed["dispute"], lapsed["releasable"]) == ("lapsed", False)
        # The bond is the payee's; what was captured waits for the end of the window.
        assert ledger.moved() == {"client": -2 * PRICE - BOND, "operator": BOND, "held": 2 * PRICE}
        court.pass_time(WINDOW_SECONDS - RULING_SECONDS)
        assert court.client.code(*raising(quiet, "quality")) == "dispute-window-closed"
        court.arbitrator.json("dispute", "release", disputed, "--yes")
        assert ledger.moved() == {"client": -2 * PRICE - BOND, "operator": PRICE + BOND, "held": PRICE}
    with court.watching(quiet) as see:
        # Its node is back.
        see("Released")
    assert ledger.moved() == {"client": -2 * PRICE - BOND, "operator": 2 * PRICE + BOND}


def _behind_its_clients_back(court: Court, lie: str, calls: int) -> str:
    """A session that the client leaves, and whose operator settles it falsely; so there is no statement."""
    court.liar.tell(lie)
    session: tuple[str, ...] = ("--deposit", "0.01")
    for _ in range(calls):
        bought = court.buy(court.liar.service_id, "shout", *session, "--keep-open")
        session = ("--session", bought["channelId"])
    channel = session[1]
    assert court.client.code("session", "exit", channel) == "anchored-root-mismatch"
    return channel
