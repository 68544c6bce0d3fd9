import secrets
import time
from dataclasses import replace
from pathlib import Path

from aioum.chain.deployments import Deployment
from aioum.cli.diagnosis import MAX_CLOCK_SKEW_SECONDS, Finding, chain_findings, diagnose
from aioum.cli.settings import Settings
from aioum.core.hashing import keccak256
from aioum.core.types import Address, Bytes32
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
        "deployment", "endpoint", "chain-id", "deployment-block", "code", "domain", "token", "clock",
        "data-folder", "disk-space",
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
    wrong_code = {**good.code_hashes, good.payment_manager: Bytes32(keccak256(b"other"))}
    cases: list[tuple[Deployment, dict[str, str]]] = [
        (replace(good, chain_id=1), {"chain-id": "chain-id-mismatch"}),
        (replace(good, block_hash=Bytes32(bytes(32))), {"deployment-block": "deployment-stale"}),
        (replace(good, block_number=10**9), {"deployment-block": "deployment-stale"}),
        (replace(good, code_hashes=wrong_code), {"code": "code-mismatch"}),
        (replace(good, payment_manager=stranger), {"domain": "domain-mismatch"}),
        (replace(good, payment_manager=Address(secrets.token_bytes(20))), {"domain": "contract-missing"}),
        (replace(good, tokens={"USDC": devnet.token}), {"token": "token-mismatch"}),
    ]
    for deployment, expected in cases:
        assert codes(await chain_findings(deployment, time.time())) == expected


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
