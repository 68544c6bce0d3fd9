from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Shell, make_shell


@pytest.fixture
def own(anvil: Path, tmp_path: Path) -> Iterator[Shell]:
    """A shell with a devnet folder of its own, whose devnet is ended afterwards."""
    shell = make_shell(
        tmp_path,
        AIOUM_ANVIL=str(anvil),
        AIOUM_DEVNET_DIR=str(tmp_path / "devnet"),
        AIOUM_DATA_DIR=str(tmp_path / "record"),
    )
    try:
        yield shell
    finally:
        shell.run("aioum", "devnet", "down")


@pytest.mark.slow
def test_a_devnet_comes_up_is_used_by_default_is_reset_and_ends(own: Shell) -> None:
    assert own.json("devnet", "status", expect=1)["state"] == "stopped"
    up = own.json("devnet", "up", "--port", "0")
    assert up["chainId"] == 31_337
    assert own.json("devnet", "up") == up
    status = own.json("devnet", "status")
    assert status["state"] == "running"
    assert status["deployment"].items() <= up.items()
    assert own.json("services", "list") == {"services": [], "total": 0}
    checks = own.json("doctor")["checks"]
    assert {check["status"] for check in checks} == {"pass", "na"}

    again = own.json("devnet", "reset", "--port", "0")
    assert again["paymentManager"] == up["paymentManager"]
    assert own.json("devnet", "status")["pid"] != status["pid"]
    assert own.json("devnet", "down") == {"ran": True}
    assert own.json("devnet", "down") == {"ran": False}
    assert own.code("services", "list") == "rpc-unreachable"


def test_people_read_the_endpoint_and_the_addresses(own: Shell) -> None:
    done = own.run("aioum", "devnet", "up", "--port", "0")
    names = [line.split("  ")[0] for line in done.stdout.decode().splitlines()]
    contracts = ["PaymentManager", "ServiceRegistry", "DisputeManager", "RatingRegistry", "LogAnchor"]
    assert names == ["endpoint", "chain", *contracts, "token", "deployments file"]
    assert b"--devnet-account" in done.stderr
    assert own.text("devnet", "status").split()[:2] == ["state", "running"]


def test_without_anvil_a_person_learns_what_to_install(tmp_path: Path) -> None:
    shell = make_shell(
        tmp_path, AIOUM_DEVNET_DIR=str(tmp_path / "devnet"), AIOUM_ANVIL=str(tmp_path / "none")
    )
    done = shell.run("aioum", "devnet", "up", expect=1)
    error, hint = done.stderr.decode().splitlines()
    assert error.endswith("[anvil-not-found]")
    assert hint.startswith("hint: install ")
    assert "anvil" in hint


def test_without_a_devnet_or_a_file_a_person_learns_how_to_get_one(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, AIOUM_DEVNET_DIR=str(tmp_path / "devnet"))
    done = shell.run("aioum", "services", "list", expect=1)
    error, hint = done.stderr.decode().splitlines()
    assert error.endswith("[deployment-missing]")
    assert "aioum devnet up" in hint
