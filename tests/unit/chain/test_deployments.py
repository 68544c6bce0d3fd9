"""The deployments file."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.deployments import (
    CHAIN_VARIABLE,
    DEPLOYMENT_VARIABLE,
    Build,
    Deployment,
    caip2,
    chain_id_of,
    default_devnet_dir,
    find_deployment,
)
from aioum.chain.deployments_file import MAX_DEPLOYMENT_SIZE_BYTES, read_deployments, write_deployments
from aioum.core.errors import AioumError
from aioum.core.types import Address, Bytes32

MANAGER, REGISTRY, TOKEN, DISPUTES, RATINGS, ANCHOR = (Address(bytes([n]) * 20) for n in range(1, 7))
HASH = Bytes32(b"\5" * 32)
OLD = Deployment(
    chain_id=31337,
    rpc_url="http://127.0.0.1:8545",
    block_number=1,
    block_hash=Bytes32(b"\4" * 32),
    payment_manager=MANAGER,
    service_registry=REGISTRY,
    tokens={"aUSD": TOKEN},
    code_hashes={MANAGER: HASH},
)
DEPLOYMENT = replace(
    OLD,
    dispute_manager=DISPUTES,
    rating_registry=RATINGS,
    log_anchor=ANCHOR,
    build=Build("0.8.37", {"PaymentManager": HASH}),
)
OTHER_CHAIN = replace(OLD, chain_id=8453, rpc_url="https://rpc.example", tokens={})
VERSION_1 = {
    "formatVersion": 1,
    "chainId": 31337,
    "rpcUrl": "http://127.0.0.1:8545",
    "blockNumber": 1,
    "blockHash": "0x" + "04" * 32,
    "paymentManager": "0x" + "01" * 20,
    "serviceRegistry": "0x" + "02" * 20,
    "tokens": {"aUSD": "0x" + "03" * 20},
    "codeHashes": {"0x" + "01" * 20: "0x" + "05" * 32},
}


def code_of(path: Path, chain_id: int | None = None) -> str:
    with pytest.raises(AioumError) as caught:
        Deployment.load(path, chain_id)
    assert caught.value.hint is not None
    return caught.value.code


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def saved(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "saved.json"
    DEPLOYMENT.save(path)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.parametrize("deployment", [DEPLOYMENT, OLD])
def test_a_deployment_comes_back_as_it_was_saved_and_replaces_an_older_one(
    tmp_path: Path, deployment: Deployment
) -> None:
    path = tmp_path / "deployment.json"
    path.write_text("old")
    deployment.save(path)
    assert Deployment.load(path) == deployment
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_the_first_version_is_read_and_names_no_later_contracts(tmp_path: Path) -> None:
    assert Deployment.load(written(tmp_path / "old.json", VERSION_1)) == OLD


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    path.mkdir()
    with pytest.raises(OSError):
        DEPLOYMENT.save(path)
    assert list(tmp_path.iterdir()) == [path]


def test_one_file_holds_several_chains_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "deployments.json"
    write_deployments(path, [DEPLOYMENT, OTHER_CHAIN])
    assert list(json.loads(path.read_text())["deployments"]) == ["eip155:8453", "eip155:31337"]
    assert read_deployments(path) == {31337: DEPLOYMENT, 8453: OTHER_CHAIN}
    assert Deployment.load(path, 8453) == OTHER_CHAIN
    assert Deployment.load(path, 31337) == DEPLOYMENT


def test_of_several_chains_one_has_to_be_named_by_argument_or_variable(tmp_path: Path) -> None:
    path = tmp_path / "deployments.json"
    write_deployments(path, [DEPLOYMENT, OTHER_CHAIN])
    assert code_of(path) == "deployment-ambiguous"
    assert code_of(path, 1) == "deployment-chain-missing"
    environ = {DEPLOYMENT_VARIABLE: str(path), CHAIN_VARIABLE: "eip155:8453"}
    assert find_deployment(environ=environ) == OTHER_CHAIN
    assert find_deployment(path, {CHAIN_VARIABLE: "eip155:31337"}) == DEPLOYMENT
    assert find_deployment(environ=environ, chain_id=31337) == DEPLOYMENT


def test_the_only_deployment_of_a_file_is_not_taken_for_another_chains(tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    DEPLOYMENT.save(path)
    assert code_of(path, 8453) == "deployment-chain-missing"


def test_a_chain_has_a_name_that_says_its_number() -> None:
    assert (caip2(8453), chain_id_of("eip155:8453")) == ("eip155:8453", 8453)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "8453",
        "eip155:",
        "eip155:0",
        "eip155:08453",
        "eip155:-1",
        "eip155:٣",
        "cosmos:1",
        f"eip155:{10**19}",
    ],
)
def test_what_is_no_name_of_a_chain_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(AioumError) as caught:
        chain_id_of(name)
    assert caught.value.code == "chain-name-invalid"
    path = written(tmp_path / "named.json", saved(tmp_path) | {"deployments": {name: {}}})
    assert code_of(path) == "deployment-invalid"


def test_an_absent_file_is_missing(tmp_path: Path) -> None:
    assert code_of(tmp_path / "absent") == "deployment-missing"
    assert code_of(tmp_path) == "deployment-missing"


@pytest.mark.parametrize(
    "change",
    [
        {"rpcUrl": "file:///etc/passwd"},
        {"blockHash": "0x00"},
        {"blockNumber": "1"},
        {"paymentManager": "0x52908400098527886E0F7030069857D2E4169Ee7"},
        {"tokens": {"aUSD": "token"}},
        {"codeHashes": {"here": "0x" + "00" * 32}},
        {"extra": 1},
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_file_with_a_wrong_member_is_invalid(
    tmp_path: Path, change: dict[str, object], version: int
) -> None:
    if version == 1:
        content: dict[str, Any] = VERSION_1 | change
    else:
        content = saved(tmp_path)
        content["deployments"]["eip155:31337"] |= change
    assert code_of(written(tmp_path / "deployment.json", content)) == "deployment-invalid"


@pytest.mark.parametrize(
    "content",
    [
        VERSION_1 | {"formatVersion": 2},
        VERSION_1 | {"formatVersion": 3},
        VERSION_1 | {"chainId": "31337"},
        VERSION_1 | {"chainId": 0},
        VERSION_1 | {"disputeManager": "0x" + "04" * 20},
        {"formatVersion": 2, "deployments": {}},
        {"deployments": {}},
    ],
)
def test_a_file_of_no_known_version_is_invalid(tmp_path: Path, content: dict[str, object]) -> None:
    assert code_of(written(tmp_path / "deployment.json", content)) == "deployment-invalid"


def test_what_is_no_json_or_too_long_is_invalid(tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    for content in (b"", b"{", b"[]", b" " * (MAX_DEPLOYMENT_SIZE_BYTES + 1)):
        path.write_bytes(content)
        assert code_of(path) == "deployment-invalid"


def test_the_devnets_folder_is_the_variables_or_in_the_home_folder() -> None:
    assert default_devnet_dir({"AIOUM_DEVNET_DIR": "/somewhere"}) == Path("/somewhere")
    assert default_devnet_dir({}) == Path.home() / ".aioum" / "devnet"
