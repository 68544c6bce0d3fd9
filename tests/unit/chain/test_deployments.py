"""The deployments file."""

import json
from pathlib import Path

import pytest

from aioum.chain.deployments import MAX_DEPLOYMENT_SIZE_BYTES, Deployment, default_devnet_dir
from aioum.core.errors import AioumError
from aioum.core.types import Address, Bytes32

MANAGER, REGISTRY, TOKEN = (Address(bytes([n]) * 20) for n in (1, 2, 3))
DEPLOYMENT = Deployment(
    chain_id=31337,
    rpc_url="http://127.0.0.1:8545",
    block_number=1,
    block_hash=Bytes32(b"\4" * 32),
    payment_manager=MANAGER,
    service_registry=REGISTRY,
    tokens={"aUSD": TOKEN},
    code_hashes={MANAGER: Bytes32(b"\5" * 32)},
)


def code_of(path: Path) -> str:
    with pytest.raises(AioumError) as caught:
        Deployment.load(path)
    assert caught.value.hint is not None
    return caught.value.code


def test_a_deployment_comes_back_as_it_was_saved_and_replaces_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    path.write_text("old")
    DEPLOYMENT.save(path)
    assert Deployment.load(path) == DEPLOYMENT
    assert list(tmp_path.iterdir()) == [path]


def test_an_absent_file_is_missing(tmp_path: Path) -> None:
    assert code_of(tmp_path / "absent") == "deployment-missing"
    assert code_of(tmp_path) == "deployment-missing"


@pytest.mark.parametrize(
    "change",
    [
        {"formatVersion": 2},
        {"chainId": "31337"},
        {"chainId": 0},
        {"rpcUrl": "file:///etc/passwd"},
        {"blockHash": "0x00"},
        {"paymentManager": "0x52908400098527886E0F7030069857D2E4169Ee7"},
        {"tokens": {"aUSD": "token"}},
        {"codeHashes": {"here": "0x" + "00" * 32}},
        {"extra": 1},
    ],
)
def test_a_file_with_a_wrong_member_is_invalid(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "deployment.json"
    DEPLOYMENT.save(path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | change))
    assert code_of(path) == "deployment-invalid"


def test_what_is_no_json_or_too_long_is_invalid(tmp_path: Path) -> None:
    path = tmp_path / "deployment.json"
    for content in (b"", b"{", b"[]", b" " * (MAX_DEPLOYMENT_SIZE_BYTES + 1)):
        path.write_bytes(content)
        assert code_of(path) == "deployment-invalid"


def test_the_devnets_folder_is_the_variables_or_in_the_home_folder() -> None:
    assert default_devnet_dir({"AIOUM_DEVNET_DIR": "/somewhere"}) == Path("/somewhere")
    assert default_devnet_dir({}) == Path.home() / ".aioum" / "devnet"
