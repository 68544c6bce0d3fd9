"""`scripts/deploy` as a person runs it: asked at the prompt, or killed on the way and run again."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from aioum.chain.client import Chain
from aioum.chain.deployment_check import contracts_of
from aioum.chain.deployments import Deployment
from aioum.chain.rpc import Rpc
from aioum.core.signing import LocalKey
from aioum.devnet.running import RunningDevnet
from tests.integration.chain import crashing_deployer as crashing
from tests.many import strides

CREATED = ("ServiceRegistry", "PaymentManager", "RatingRegistry", "LogAnchor")
PASSWORD = "open sesame"
TIMEOUT_SECONDS = 120


class Desk:
    """A folder with a key store, and the command with its arguments."""

    def __init__(self, devnet: RunningDevnet, folder: Path) -> None:
        self.devnet = devnet
        self.folder = folder
        self.key = LocalKey(secrets.token_bytes(32))
        # Cheap to open, unlike the ones that `aioum key create` makes: some tests open it twenty times.
        store = Account.encrypt(self.key.secret_bytes(), PASSWORD, kdf="pbkdf2", iterations=1)
        key_store = folder / "key.json"
        key_store.touch(mode=0o600)
        key_store.write_text(json.dumps(store))
        self.password_file = folder / "password"
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(PASSWORD)
        self.arguments = [
            *("--rpc-url", devnet.rpc_url, "--chain", "eip155:31337", "--grace-seconds", "900"),
            *("--keystore", "key.json", "--password-file", "password", "--confirmations", "1"),
        ]

    @property
    def out(self) -> Path:
        return self.folder / "deployments.json"

    def run(self, *more: str, stdin: str = "", expect: int = 0) -> "subprocess.CompletedProcess[str]":
        return self._program(["-m", "aioum.cli.deploy", *self.arguments, *more], stdin, expect)

    def run_and_die(self, point: str, contract: str) -> None:
        program = [crashing.__file__, point, contract, *self.arguments, "--yes"]
        self._program(program, "", -signal.SIGKILL)

    def _program(self, arguments: list[str], stdin: str, expect: int) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == expect, (arguments, done.returncode, done.stdout, done.stderr)
        return done

    def sent(self) -> int:
        async def count() -> int:
            async with Rpc(self.devnet.rpc_url) as rpc:
                return await rpc.transaction_count(self.key.address, "pending")

        return asyncio.run(count())


@pytest.fixture
def desk(devnet: RunningDevnet, tmp_path: Path) -> Desk:
    made = Desk(devnet, tmp_path)
    asyncio.run(devnet.fund(made.key.address))
    return made


def code_in(done: "subprocess.CompletedProcess[str]") -> str:
    # What is typed at a prompt ends its line; what comes through a pipe does not show.
    _, found, rest = done.stderr.partition("error: ")
    assert found
    assert "Traceback" not in done.stderr
    line, _, _ = rest.partition("\n")
    return line.rpartition("[")[2].removesuffix("]")


def test_costs_are_shown_before_the_question_and_without_a_yes_nothing_is_sent(desk: Desk) -> None:
    for answer in ("n\n", "\n", ""):
        done = desk.run(stdin=answer, expect=1)
        assert code_in(done) == "deploy-not-confirmed"
        shown, _, _ = done.stderr.partition("Send 4 transactions?")
        for word in (*CREATED, "total", "at most", "balance", "eip155:31337"):
            assert word in shown
        assert done.stdout == ""
    assert desk.sent() == 0
    assert not desk.out.exists()

    done = desk.run(stdin="y\n")
    assert desk.sent() == 4
    deployment = Deployment.load(desk.out)
    for name in contracts_of(deployment):
        assert name in done.stdout


def test_a_dry_run_says_what_it_would_cost_and_does_nothing(desk: Desk) -> None:
    before = sorted(desk.folder.iterdir())
    found: Any = json.loads(desk.run("--dry-run", "--json").stdout)
    assert [creation["contract"] for creation in found["creations"]] == list(CREATED)
    assert found["gas"] == sum(creation["gas"] for creation in found["creations"])
    assert int(found["feeWei"]) == sum(int(creation["feeWei"]) for creation in found["creations"])
    assert 0 < int(found["feeWei"]) < int(found["maxFeeWei"]) < int(found["balanceWei"])
    assert "total" in desk.run("--dry-run").stdout
    assert desk.sent() == 0
    assert sorted(desk.folder.iterdir()) == before


def test_a_dry_run_of_an_account_that_cannot_pay_shows_the_costs_and_fails(desk: Desk) -> None:
    asyncio.run(desk.devnet.fund(desk.key.address, wei=1))
    done = desk.run("--dry-run", expect=1)
    assert code_in(done) == "funds-insufficient"
    assert "total" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--chain", "31337"),
        ("--grace-seconds", "899"),
        ("--token", "USDC"),
        ("--token", "USDC=0x00"),
        ("--max-fee-gwei", "0"),
        ("--max-fee-gwei", "much"),
        ("--devnet-account", "0"),
        ("--rpc-url", "file:///etc/passwd"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_asked_of_a_chain(
    desk: Desk, arguments: tuple[str, ...]
) -> None:
    assert code_in(desk.run(*arguments, expect=2)) == "usage"


@pytest.mark.slow
@pytest.mark.parametrize("stride", strides(3))
def test_killed_at_any_point_one_after_the_other_it_creates_each_contract_exactly_once(
    desk: Desk, stride: int
) -> None:
    points = [(crashing.PLANNED, "")]
    for contract in CREATED:
        points += [
            (point, contract)
            for point in (crashing.JOURNALED, crashing.HANDED_IN, crashing.MINED, crashing.NOTED)
        ]
    points += [(crashing.VERIFIED, ""), (crashing.WRITTEN, "")]
    written = None
    for number, (point, contract) in [*enumerate(points)][::-stride][::-1]:
        desk.run_and_die(point, contract)
        # Handing in is the one step that others see.
        started = sum(1 for passed, _ in points[: number + 1] if passed == crashing.HANDED_IN)
        assert desk.sent() == started, (point, contract)
        assert desk.out.exists() == (point == crashing.WRITTEN)
        if desk.out.exists():
            written = desk.out.read_bytes()
    done = desk.run("--json")
    assert desk.sent() == len(CREATED)
    assert desk.out.read_bytes() == written
    assert "Send" not in done.stderr

    async def connect() -> int:
        async with Chain.connect(Deployment.load(desk.out)) as chain:
            return await chain.grace_period_seconds()

    assert asyncio.run(connect()) == 900
