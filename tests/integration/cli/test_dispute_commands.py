"""Disputes through the installed commands alone, against a real node with an arbitrator in its terms.

Moves time, so the devnet is its own.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.core.hextext import address_text
from aioum.core.types import Address
from aioum.devnet.accounts import well_known_keys
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.cli.conftest import CLIENT_ACCOUNT, NODE_ACCOUNT, Shell, make_shell, serving

ARBITRATOR_ACCOUNT = 7
DAY = 86_400
CAPTURED, BOND = 250_000, 100_000


@dataclass(frozen=True, slots=True)
class Court:
    """A devnet, a node on it, and shells of its client and its arbitrator."""

    devnet: RunningDevnet
    client: Shell
    arbitrator: Shell
    service_id: str

    def buy(self) -> str:
        """A closed session that captured CAPTURED; its channel id."""
        bought = self.client.json("call", self.service_id, "repeat", "--arg", "text=a")
        assert bought["closed"]["captured"] == str(CAPTURED)
        return str(bought["channelId"])

    def balances(self) -> dict[str, int]:
        """Base units of client, operator, PaymentManager and DisputeManager."""

        async def read() -> list[int]:
            async with Chain.connect(self.devnet.deployment) as chain:
                keys = well_known_keys()
                owners: list[Address | None] = [
                    keys[CLIENT_ACCOUNT].address, keys[NODE_ACCOUNT].address, chain.payment_manager,
                    self.devnet.deployment.dispute_manager,
                ]  # fmt: skip
                assert None not in owners
                return [await chain.token_balance(self.devnet.token, owner) for owner in owners if owner]

        return dict(zip(("client", "operator", "held", "bonds"), asyncio.run(read()), strict=True))

    def pass_time(self, seconds: int) -> None:
        asyncio.run(self.devnet.increase_time(seconds))


def moved(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """What changed, without zeros."""
    return {name: after[name] - before[name] for name in before if after[name] != before[name]}


@pytest.fixture(scope="module")
def court(anvil: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    folder = tmp_path_factory.mktemp("court")
    with asyncio.Runner() as runner:
        running = running_devnet(folder / "devnet")
        devnet = runner.run(running.__aenter__())
        try:
            common = {"AIOUM_DEPLOYMENT": str(devnet.deployment_file)}
            client, arbitrator = (
                make_shell(
                    folder,
                    AIOUM_DEVNET_ACCOUNT=str(account),
                    AIOUM_DATA_DIR=str(folder / str(account)),
                    **common,
                )
                for account in (CLIENT_ACCOUNT, ARBITRATOR_ACCOUNT)
            )
            arbitrating = address_text(well_known_keys()[ARBITRATOR_ACCOUNT].address)
            terms = (
                "--dispute-window-seconds", str(3 * DAY), "--dispute-bond", "0.1", "--arbitrator",
                arbitrating, "--ruling-period-seconds", str(DAY),
                # It would end disputes and answer challenges by itself.
                "--dispute-interval-seconds", "3600",
            )  # fmt: skip
            with serving(make_shell(folder), folder / "shop", devnet.deployment_file, *terms) as node:
                yield Court(devnet, client, arbitrator, node["serviceId"])
        finally:
            runner.run(running.__aexit__(None, None, None))


@pytest.mark.long  # tests/e2e/test_disputes.py goes the same way
def test_a_quality_dispute_is_raised_judged_by_its_evidence_and_ruled_half(
    court: Court, tmp_path: Path
) -> None:
    before = court.balances()
    channel = court.buy()
    assert moved(before, court.balances()) == {"client": -CAPTURED, "held": CAPTURED}
    claim = ("--claim", "quality", "--narrative", "it was a poor repetition", "--to", "data")
    raised = court.client.json("dispute", "raise", channel, *claim, "--yes")
    assert (raised["claim"], raised["bond"]) == ("quality", str(BOND))
    assert moved(before, court.balances()) == {
        "client": -CAPTURED - BOND, "held": CAPTURED, "bonds": BOND,
    }  # fmt: skip
    assert court.client.code("dispute", "raise", channel, *claim, "--yes") == "already-disputed"

    # The arbitrator has nothing but the chain.
    seen = court.arbitrator.json("dispute", "status", channel)
    assert (seen["dispute"], seen["held"], seen["windowOpen"]) == ("pending", str(CAPTURED), True)
    evidence = tmp_path / "evidence.json"
    named = seen["raised"]
    court.arbitrator.run(
        "aioum", "evidence", "fetch", named["evidenceUri"], "--evidence-hash", named["evidenceHash"],
        "--out", str(evidence),
    )  # fmt: skip
    assert json.loads(evidence.read_bytes())["narrative"] == "it was a poor repetition"
    court.arbitrator.run("verify-evidence", str(evidence))

    assert court.client.code("dispute", "rule", channel, "--award", "50%", "--yes") == "not-arbitrator"
    ruled = court.arbitrator.json("dispute", "rule", channel, "--award", "50%", "--yes")
    assert (ruled["dispute"], ruled["held"], ruled["awarded"]) == ("ruled", "0", str(CAPTURED // 2))
    assert moved(before, court.balances()) == {"client": -CAPTURED // 2, "operator": CAPTURED // 2}
    waited = court.client.json("dispute", "status", channel, "--wait")
    assert (waited["dispute"], waited["awarded"]) == ("ruled", str(CAPTURED // 2))


def test_what_a_step_costs_is_said_and_nothing_is_sent_unless_somebody_agrees(court: Court) -> None:
    channel = court.buy()
    before = court.balances()
    raising = ("dispute", "raise", channel, "--claim", "quality", "--to", "data")
    for answer in (b"n\n", b""):
        declined = court.client.run("aioum", *raising, stdin=answer, expect=1).stderr.decode()
        assert "bond: 0.1 aUSD" in declined
        assert "gas: " in declined
        assert "[not-confirmed]" in declined
    assert court.balances() == before
    court.client.run("aioum", *raising, stdin=b"y\n")
    assert re.search(r"^held +0\.25 aUSD$", court.client.text("dispute", "status", channel), re.MULTILINE)


@pytest.mark.long  # tests/e2e/test_disputes.py goes the same way
def test_a_dispute_without_a_ruling_lapses_and_the_payee_is_paid_after_the_window(court: Court) -> None:
    before = court.balances()
    channel = court.buy()
    court.client.json("dispute", "raise", channel, "--claim", "non-delivery", "--to", "data", "--yes")
    assert court.client.code("dispute", "lapse", channel, "--yes") == "ruling-still-due"
    court.pass_time(DAY)
    assert court.arbitrator.code("dispute", "rule", channel, "--award", "0.1", "--yes") == "ruling-too-late"
    lapsed = court.client.json("dispute", "lapse", channel, "--yes")
    assert (lapsed["dispute"], lapsed["held"], lapsed["releasable"]) == ("lapsed", str(CAPTURED), False)
    court.pass_time(2 * DAY)
    late = ("dispute", "raise", channel, "--claim", "quality", "--to", "data", "--yes")
    assert court.client.code(*late) == "dispute-window-closed"
    assert court.arbitrator.json("dispute", "release", channel, "--yes")["held"] == "0"
    assert moved(before, court.balances()) == {"client": -CAPTURED - BOND, "operator": CAPTURED + BOND}


def test_an_honest_operator_can_be_neither_proven_a_liar_nor_challenged_for_its_own_record(
    court: Court,
) -> None:
    channel = court.buy()
    assert court.client.code("dispute", "prove", channel, "--yes") == "nothing-provable"
    assert court.client.code("dispute", "prove", channel, "--or-challenge", "--yes") == "challenge-pointless"
    assert court.client.code("dispute", "challenge", channel, "--call", "9", "--yes") == "word-unknown"
    assert court.client.code("dispute", "release", channel, "--yes") == "still-held"


@pytest.mark.long  # tests/e2e/test_disputes.py goes the same way
def test_an_operator_that_does_not_answer_a_challenge_in_time_loses_what_is_held(court: Court) -> None:
    before = court.balances()
    channel = court.buy()
    challenged = court.client.json("dispute", "challenge", channel, "--call", "0", "--yes")
    assert challenged["challenged"] == "receipt of call 0"
    assert court.client.code("dispute", "claim", channel, "--yes") == "answer-still-due"
    court.pass_time(DAY)
    assert court.client.json("dispute", "claim", channel, "--yes")["awarded"] == str(CAPTURED)
    assert moved(before, court.balances()) == {}


def test_credits_are_shown_and_where_there_are_none_nothing_is_pulled(court: Court) -> None:
    shown = court.client.json("dispute", "credits")
    assert shown == {"fromPayments": "0", "fromBonds": "0", "pulled": False}
    assert court.client.code("dispute", "credits", "--pull") == "credit-missing"
