"""`aioum-node disputes`, beside a running node and without one."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.dispute_calls import Claim
from aioum.client.publication.unixfs import file_cid
from aioum.core.evidence_reading import parse_package
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text, to_hex
from aioum.devnet.running import RunningDevnet, running_devnet
from aioum_node.disputes.control import CONTROL_FILE
from aioum_node.keys.identity import create_operator
from aioum_node.settings import Settings
from tests.integration.conftest import FundedAccount
from tests.integration.node.conftest import PRICE, StartNode
from tests.integration.node.disputing import (
    BOND,
    DISPUTE_TERMS,
    WINDOW_SECONDS,
    Disputant,
    close,
    serve,
    until,
)
from tests.integration.node.edge_client import Buyer
from tests.integration.publication.conftest import TOKEN, FakePinning, StartServer, start_server
from tests.warm import warm_commands

__all__ = ["start_server"]


@dataclass(frozen=True)
class Done:
    """What a command said."""

    code: int
    out: str
    error: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
async def devnet(anvil: Path, tmp_path: Path) -> AsyncIterator[RunningDevnet]:
    """A chain of the test's own, whose clock it moves."""
    async with running_devnet(tmp_path / "devnet") as own:
        yield own


@pytest.fixture
async def disputant(buyer: Buyer, devnet: RunningDevnet) -> Disputant:
    return await Disputant.of(buyer, devnet.token)


class Operator:
    """Starts the command over the folder of the test's node."""

    def __init__(self, folder: Path, devnet: RunningDevnet) -> None:
        self.folder = folder
        self._devnet = devnet

    async def run(self, *arguments: str) -> Done:
        options = ("--dir", str(self.folder), "--deployment-file", str(self._devnet.deployment_file))
        done = await asyncio.to_thread(
            warm_commands().run,
            "aioum-node",
            ["disputes", *arguments, *options, "--log-level", "error"],
            os.environ,
            b"",
            120,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def operators(tmp_path: Path, devnet: RunningDevnet, operator: FundedAccount) -> Operator:
    """The operator, whose key store lies in the node's folder."""
    create_operator(Settings(node_dir=tmp_path / "node"), operator.key)
    return Operator(tmp_path / "node", devnet)


async def test_operator_sees_a_dispute_and_answers_it_with_the_nodes_own_package(
    start_node: StartNode,
    buyer: Buyer,
    disputant: Disputant,
    devnet: RunningDevnet,
    operators: Operator,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "evidence"
    folder.mkdir()
    terms = {**DISPUTE_TERMS, "arbitrator": address_text(devnet.accounts[9].address)}
    async with start_node(**terms) as node:
        session = await buyer.open(node)
        words = await serve(buyer, node, session, 3, price=PRICE)
        await close(buyer, node, session, 3, words)
        nothing = await operators.run("list")
        every = (await operators.run("list", "--all", "--json")).json
        await disputant.raise_dispute(session.channel_id, Claim.WRONG_RESULT)
        (listed,) = (await operators.run("list", "--json")).json
        table = await operators.run("list")
        target = ("--to", "directory", "--directory", str(folder), "--base-url", "http://127.0.0.1:9/e")
        responded = await operators.run(
            "respond", listed["sessionId"], "--narrative", "It is right.", *target, "--json"
        )
        shown = (await operators.run("show", to_hex(session.channel_id), "--json")).json
        people = await operators.run("show", listed["sessionId"])

    assert (nothing.code, nothing.out) == (0, "nothing is pending\n")
    assert [(item["state"], item["held"]) for item in every] == [("held", str(3 * PRICE))]
    assert listed["channelId"] == to_hex(session.channel_id)
    assert (listed["state"], listed["claim"]) == ("disputed", "wrong-result")
    assert (listed["evidenceURI"], listed["evidenceHash"]) == ("data:,evidence", "0x" + "01" * 32)
    assert (listed["bond"], listed["held"], listed["awarded"]) == (str(BOND), str(3 * PRICE), "0")
    assert listed["ruleBy"] - listed["raisedAt"] == 604_800
    assert "disputed" in table.out
    assert "wrong-result" in table.out
    assert responded.code == 0, responded.error
    said = responded.json
    (published,) = folder.iterdir()
    content = published.read_bytes()
    assert said["uri"] == f"http://127.0.0.1:9/e/{published.name}"
    assert said["hash"] == to_hex(keccak256(content))
    package = parse_package(content)
    assert len(package.calls) == 3
    assert json.loads(content)["narrative"] == "It is right."
    assert json.loads(content)["claim"] == "wrong-result"
    # The very words that the client has.
    assert [item["signature"] for item in json.loads(content)["receipts"]] == [
        to_hex(word.signature) for word in words.receipts
    ]
    assert shown["responses"] == [{"uri": said["uri"], "hash": said["hash"]}]
    assert "claim: wrong-result" in people.out
    assert await disputant.events(session.channel_id, "Responded") == 1


async def test_operator_without_a_running_node_answers_and_releases_by_hand(
    start_node: StartNode,
    buyer: Buyer,
    disputant: Disputant,
    devnet: RunningDevnet,
    operators: Operator,
    start_server: StartServer,
    tmp_path: Path,
) -> None:
    terms = {**DISPUTE_TERMS, "arbitrator": address_text(devnet.accounts[9].address)}
    async with start_node(**terms, ruling_period_seconds=86_400) as node:
        session = await buyer.open(node)
        words = await serve(buyer, node, session, 1, price=PRICE)
        await close(buyer, node, session, 1, words)
    channel = to_hex(session.channel_id)
    service, token = FakePinning(), tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    upload = ("--upload-url", (await start_server(service.handle)).url("/upload"), "--token-file", str(token))
    early = await operators.run("release", channel)
    quiet = await operators.run("respond", channel, "--out", str(tmp_path / "early.json"))
    await disputant.raise_dispute(session.channel_id)
    written = await operators.run("respond", channel, "--out", str(tmp_path / "package.json"), "--json")
    strays = await operators.run("respond", channel, "--out", str(tmp_path / "package.json"), *upload)
    uploaded = await operators.run("respond", channel, "--to", "ipfs", *upload, "--json")
    named = await operators.run(
        "respond", channel, "--out", str(tmp_path / "package.json"), "--uri", "ipfs://bafy", "--json"
    )
    await devnet.increase_time(86_401)
    lapsed = await operators.run("lapse", channel, "--json")
    await devnet.increase_time(WINDOW_SECONDS)
    released = await operators.run("release", channel, "--json")
    owed = await operators.run("credits", "--claim", "--json")

    assert (early.code, quiet.code) == (1, 1)
    assert "[still-held]" in early.error
    assert "no-dispute-pending" in quiet.error
    assert not (tmp_path / "early.json").exists()
    assert written.json["transaction"] is None
    assert written.json["hash"] == to_hex(keccak256((tmp_path / "package.json").read_bytes()))
    assert (named.json["uri"], named.json["hash"]) == ("ipfs://bafy", written.json["hash"])
    assert strays.code == 2
    (file, _), *others = service.uploads
    assert (keccak256(file), others) == (keccak256((tmp_path / "package.json").read_bytes()), [])
    assert uploaded.json["uri"] == f"ipfs://{file_cid(file)}"
    assert uploaded.json["hash"] == written.json["hash"]
    assert await disputant.events(session.channel_id, "Responded") == 2
    assert (lapsed.code, released.code) == (0, 0), lapsed.error + released.error
    assert (await disputant.session(session.channel_id)).held == 0
    assert (owed.json["paymentManager"], owed.json["disputeManager"], owed.json["claims"]) == ("0", "0", [])


async def test_running_node_says_no_where_the_contract_would(
    start_node: StartNode, buyer: Buyer, disputant: Disputant, operators: Operator
) -> None:
    async with start_node(**DISPUTE_TERMS) as node:
        session = await buyer.open(node)
        words = await serve(buyer, node, session, 1, price=PRICE)
        await close(buyer, node, session, 1, words)
        refused = await operators.run("lapse", to_hex(session.channel_id))
        unknown = await operators.run("show", "4711")
        none = await operators.run("credits", "--claim")
        listening = operators.folder / CONTROL_FILE
        assert listening.stat().st_mode & 0o777 == 0o600
    assert refused.code == 1
    assert "[no-dispute-pending]" in refused.error
    assert "session-not-found" in unknown.error
    assert none.out == "PaymentManager owes 0, DisputeManager 0\n"
    assert not listening.exists()


async def test_what_a_transfer_could_not_deliver_is_pulled_by_the_running_node(
    start_node: StartNode,
    buyer: Buyer,
    disputant: Disputant,
    devnet: RunningDevnet,
    operators: Operator,
    operator: FundedAccount,
) -> None:
    chain, account = buyer.chain, operator.key.address
    async with start_node(**DISPUTE_TERMS) as node:
        session = await buyer.open(node)
        words = await serve(buyer, node, session, 2, price=PRICE)
        await close(buyer, node, session, 2, words)
        before = await chain.token_balance(devnet.token, account)
        code = await chain.code(devnet.token)
        # A token that moves nothing for a while.
        await devnet.set_code(devnet.token, bytes.fromhex("60006000fd"))
        await devnet.increase_time(WINDOW_SECONDS)

        async def released() -> bool:
            return await node.store.held() == []

        await until(released, "the held money left")
        await devnet.set_code(devnet.token, code)
        owed = await operators.run("credits", "--json")
        claimed = await operators.run("credits", "--claim", "--json")
    assert owed.json["paymentManager"] == str(2 * PRICE)
    assert [(item["contract"], item["amount"]) for item in claimed.json["claims"]] == [
        ("PaymentManager", str(2 * PRICE))
    ]
    assert await chain.token_balance(devnet.token, account) == before + 2 * PRICE
    assert await chain.credit(devnet.token, account) == 0
