"""The committed artifacts are what the sources compile to, by py-solc-x and by forge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from eth_utils.abi import abi_to_signature

ROOT = Path(__file__).resolve().parents[3]
ARTIFACTS = ROOT / "aioum" / "chain" / "artifacts"
CONTRACTS = (
    "DevToken",
    "DisputeManager",
    "LogAnchor",
    "PaymentManager",
    "RatingRegistry",
    "ServiceRegistry",
)


def _compile(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "compile_contracts"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def _artifact(name: str) -> dict[str, Any]:
    artifact: dict[str, Any] = json.loads((ARTIFACTS / f"{name}.json").read_text(encoding="utf-8"))
    return artifact


def _sorted_abi(abi: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(entry, sort_keys=True) for entry in abi)


@pytest.fixture(scope="module")
def recompiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifacts")
    done = _compile("--out", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_recompiling_through_py_solc_x_gives_the_committed_artifacts_byte_for_byte(recompiled: Path) -> None:
    assert sorted(path.stem for path in ARTIFACTS.glob("*.json")) == sorted(CONTRACTS)
    for name in CONTRACTS:
        committed = (ARTIFACTS / f"{name}.json").read_bytes()
        assert (recompiled / f"{name}.json").read_bytes() == committed, name


@pytest.mark.long
def test_the_check_names_an_artifact_that_is_stale_or_missing(recompiled: Path, tmp_path: Path) -> None:
    registry = (recompiled / "ServiceRegistry.json").read_text(encoding="utf-8")
    manager = (recompiled / "PaymentManager.json").read_text(encoding="utf-8")
    (tmp_path / "ServiceRegistry.json").write_text(registry, encoding="utf-8")
    (tmp_path / "PaymentManager.json").write_text(manager.replace("0x60", "0x61", 1), encoding="utf-8")

    done = _compile("--check", "--out", str(tmp_path))

    assert done.returncode == 1
    assert "PaymentManager.json" in done.stderr
    assert "DevToken.json" in done.stderr
    assert "ServiceRegistry.json" not in done.stderr
    assert not (tmp_path / "DevToken.json").exists()


@pytest.mark.long
def test_forge_builds_the_same_bytecode_and_abi(tmp_path: Path) -> None:
    command = [
        str(ROOT / "scripts" / "forge"),
        *("build", "--skip", "test", "--offline"),
        *("--out", str(tmp_path / "out"), "--cache-path", str(tmp_path / "cache")),
    ]
    done = subprocess.run(
        command,
        cwd=ROOT / "contracts",
        env=os.environ | {"FOUNDRY_DISABLE_NIGHTLY_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in CONTRACTS:
        built = json.loads((tmp_path / "out" / f"{name}.sol" / f"{name}.json").read_text(encoding="utf-8"))
        committed = _artifact(name)
        assert built["bytecode"]["object"] == committed["bytecode"], name
        assert built["deployedBytecode"]["object"] == committed["deployedBytecode"], name
        assert _sorted_abi(built["abi"]) == _sorted_abi(committed["abi"]), name


@pytest.mark.parametrize("name", CONTRACTS)
def test_an_artifact_says_how_it_was_compiled_and_can_be_deployed(name: str) -> None:
    artifact = _artifact(name)

    assert artifact["contractName"] == name
    assert artifact["compiler"]["version"] == "0.8.37"
    assert artifact["compiler"]["settings"]["evmVersion"] == "cancun"
    runtime = bytes.fromhex(artifact["deployedBytecode"].removeprefix("0x"))
    assert 0 < len(runtime) <= 24_576
    assert bytes.fromhex(artifact["bytecode"].removeprefix("0x"))


def test_the_escrow_core_has_exactly_the_schemes_functions() -> None:
    functions = {
        abi_to_signature(entry) for entry in _artifact("PaymentManager")["abi"] if entry["type"] == "function"
    }

    assert functions >= {
        "open(address,address,uint128,bytes32,address)",
        "settle(bytes32,uint128,bytes)",
        "topUp(bytes32,uint128)",
        "close(bytes32,uint128,bytes)",
        "requestClose(bytes32)",
        "withdraw(bytes32)",
        "computeChannelId(address,address,address,bytes32,address)",
        "openSession(uint256,bytes32,uint128,bytes32,address,bytes32)",
        "commitResults(bytes32,bytes32,uint64)",
        "settleSession((bytes32,uint128,uint128,uint64,bytes32,bytes))",
        "settleSessions((bytes32,uint128,uint128,uint64,bytes32,bytes)[])",
        "claimCredit(address,address)",
    }


@pytest.mark.parametrize("name", [name for name in CONTRACTS if name != "DevToken"])
def test_nobody_owns_pauses_or_upgrades_a_contract(name: str) -> None:
    changing = {
        entry["name"]
        for entry in _artifact(name)["abi"]
        if entry["type"] == "function" and entry["stateMutability"] not in ("view", "pure")
    }

    assert (
        changing
        == {
            "PaymentManager": {
                *("open", "settle", "topUp", "close", "requestClose", "withdraw"),
                *("openSession", "commitResults", "settleSession", "settleSessions", "claimCredit"),
                *("openSessionWithAuthorization", "topUpWithAuthorization", "release", "resolve"),
            },
            "DisputeManager": {
                *("raiseDispute", "respond", "rule", "lapse", "claimCredit"),
                *("proveConflictingReceipts", "proveConflictingStatements", "proveStatementAgainstRoot"),
                *("proveOmittedReceipt", "proveOmittedStatement", "proveOvercharge"),
                *("challengeReceipt", "challengeStatement", "answerReceipt", "answerStatement"),
                "claimUnanswered",
            },
            "RatingRegistry": {"rate"},
            "LogAnchor": {"anchor"},
            "ServiceRegistry": {"register", "update", "retire"},
        }[name]
    )
