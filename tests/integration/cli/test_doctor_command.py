import secrets
import time
from dataclasses import replace
from pathlib import Path

from aioum.chain.client import Chain
from aioum.chain.creations import DeploymentPlan
from aioum.chain.deploy import deploy_contracts
from aioum.chain.deployments import Deployment
from aioum.chain.deployments_file import write_deployments
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.rpc import Rpc
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.cli.diagnosis import MAX_CLOCK_SKEW_SECONDS, Finding, chain_findings, diagnose
from aioum.cli.settings import Settings
from aioum.core.hashing import keccak256
from aioum.core.hextext import address_text
from aioum.core.types import ZERO_ADDRESS, Address, Bytes32
from aioum.devnet.config import default_config
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.integration.cli.conftest import Shell

# Returns 32 zero bytes whatever it is asked.
ZERO_ANSWERS = bytes.fromhex("60206000f3")


def codes(findings: list[Finding]) -> dict[str, str | None]:
    """Failed checks with their codes."""
    return {finding.name: finding.code for finding in findings if finding.status == "fail"}


def test_a_healthy_installation_passes(shell: Shell) -> None:
    report = shell.json("doctor")
    assert report["ok"] is True
    assert [check["name"] for check in report["checks"]] == [
        "deployment", "endpoint", "chain-id", "deployment-block", "code", "artifact", "wiring", "domain",
        "token", "clock", "data-folder", "disk-space",
    ]  # fmt: skip
    assert all(line[0] in "✓○" for line in shell.text("doctor").splitlines())


def test_a_missing_endpoint_fails_the_report_and_skips_what_needs_it(shell: Shell) -> None:
    shell.environment["AIOUM_RPC_URL"] = "http://127.0.0.1:9"
    report = shell.json("doctor", expect=1)
    assert {check["name"]: check["code"] for check in report["checks"] if check["status"] == "fail"} == {
        "endpoint": "rpc-unreachable"
    }
    lines = shell.run("aioum", "doctor", expect=1).stdout.decode().splitlines()
    assert [line[0] for line in lines[:3]] == ["✓", "✗", " "]


async def test_without_a_deployment_the_folder_is_looked_at_all_the_same(tmp_path: Path) -> None:
    findings = await diagnose(Settings(tmp_path, tmp_path / "none.json", None, False), time.time())
    assert codes(findings) == {"deployment": "deployment-missing"}
    assert findings[-1].status == "pass"


async def test_each_way_a_deployment_can_be_wrong_has_its_code(devnet: RunningDevnet) -> None:
    good = devnet.deployment
    stranger = Address(secrets.token_bytes(20))
    await devnet.set_code(stranger, ZERO_ANSWERS)
    nowhere = Address(secrets.token_bytes(20))
    wrong_code = {**good.code_hashes, good.payment_manager: Bytes32(keccak256(b"other"))}
    cases: list[tuple[Deployment, dict[str, str]]] = [
        (replace(good, chain_id=1), {"chain-id": "chain-id-mismatch"}),
        (replace(good, block_hash=Bytes32(bytes(32))), {"deployment-block": "deployment-stale"}),
        (replace(good, block_number=10**9), {"deployment-block": "deployment-stale"}),
        (replace(good, code_hashes=wrong_code), {"code": "code-mismatch"}),
        (
            replace(good, payment_manager=stranger),
            {"artifact": "artifact-mismatch", "wiring": "immutable-mismatch", "domain": "domain-mismatch"},
        ),
        (
            replace(good, payment_manager=nowhere),
            {"artifact": "artifact-mismatch", "wiring": "contract-missing", "domain": "contract-missing"},
        ),
        (replace(good, log_anchor=nowhere), {"artifact": "artifact-mismatch"}),
        (replace(good, tokens={"USDC": devnet.token}), {"token": "token-mismatch"}),
    ]
    for deployment, expected in cases:
        assert codes(await chain_findings(deployment, time.time())) == expected


async def test_contracts_of_two_sets_in_one_file_are_told_apart(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    async with running_devnet(tmp_path / "other") as other:
        # The same account deploys to the same addresses: other contracts are those of another account.
        deployment = await deployed_by(other, account=3)
        good = other.deployment
        mixed = replace(good, rating_registry=deployment.rating_registry)
        (wiring,) = [f for f in await chain_findings(mixed, time.time()) if f.status == "fail"]
        assert (wiring.name, wiring.code) == ("wiring", "immutable-mismatch")
        assert "RatingRegistry" in wiring.summary
        assert "paymentManager" in wiring.summary
        assert codes(await chain_findings(deployment, time.time())) == {}


async def deployed_by(devnet: RunningDevnet, account: int) -> Deployment:
    async with Rpc(devnet.rpc_url) as rpc:
        chain = Chain(rpc, devnet.deployment.chain_id, ZERO_ADDRESS, ZERO_ADDRESS)
        journal = SqliteTransactionJournal(devnet.deployment_file.with_name("journal.sqlite3"))
        try:
            sender = Sender(chain, LocalSigner(devnet.accounts[account]), journal, poll_interval_seconds=0.02)
            return await deploy_contracts(sender, DeploymentPlan(1_000))
        finally:
            await journal.close()


async def test_code_that_was_exchanged_later_is_named_with_its_contract(anvil: Path, tmp_path: Path) -> None:
    async with running_devnet(tmp_path / "own") as devnet:
        good = devnet.deployment
        assert good.log_anchor is not None
        await devnet.set_code(good.log_anchor, ZERO_ANSWERS)
        findings = {f.name: f for f in await chain_findings(good, time.time()) if f.status == "fail"}
        assert codes(list(findings.values())) == {"code": "code-mismatch", "artifact": "artifact-mismatch"}
        for finding in findings.values():
            assert f"LogAnchor at {address_text(good.log_anchor)}" in finding.summary
            assert "PaymentManager" not in finding.summary


async def test_contracts_of_other_sources_are_said_to_be_that(devnet: RunningDevnet) -> None:
    good = devnet.deployment
    assert good.build is not None
    earlier = {**good.build.creation_sha256, "LogAnchor": Bytes32(bytes(32))}
    deployment = replace(good, log_anchor=devnet.token, build=replace(good.build, creation_sha256=earlier))
    (artifact,) = [f for f in await chain_findings(deployment, time.time()) if f.status == "fail"]
    assert artifact.code == "artifact-mismatch"
    assert artifact.hint is not None
    assert artifact.hint.startswith("LogAnchor: ")


async def test_a_file_of_several_chains_without_a_choice_is_a_failure_of_the_deployment(
    devnet: RunningDevnet, tmp_path: Path, shell: Shell
) -> None:
    path = tmp_path / "deployments.json"
    write_deployments(path, [devnet.deployment, replace(devnet.deployment, chain_id=8453)])
    shell.environment["AIOUM_DEPLOYMENT"] = str(path)
    report = shell.json("doctor", expect=1)
    assert (report["checks"][0]["name"], report["checks"][0]["code"]) == (
        "deployment",
        "deployment-ambiguous",
    )
    shell.environment["AIOUM_CHAIN"] = "eip155:31337"
    assert shell.json("doctor")["ok"] is True
    shell.environment["AIOUM_CHAIN"] = "31337"
    report = shell.json("doctor", expect=1)
    assert report["checks"][0]["code"] == "chain-name-invalid"


async def test_a_devnets_moved_clock_is_no_failure(devnet: RunningDevnet) -> None:
    findings = await chain_findings(devnet.deployment, time.time() - MAX_CLOCK_SKEW_SECONDS - 3_600)
    assert codes(findings) == {}
    assert findings[-1].status == "na"


async def test_a_clock_far_from_the_chains_is_a_failure_elsewhere(anvil: Path, tmp_path: Path) -> None:
    config = default_config()
    other = config.model_copy(update={"chain": config.chain.model_copy(update={"chain_id": 31_338})})
    async with running_devnet(tmp_path / "other", other) as chain:
        for shift_seconds in (-3_600, 3_600):
            findings = await chain_findings(chain.deployment, time.time() + shift_seconds)
            assert codes(findings) == {"clock": "clock-skew"}
