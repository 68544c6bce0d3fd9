"""A deployments file that does not describe the chain behind its endpoint is never used."""

from dataclasses import replace
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.chain.deployments import DEPLOYMENT_VARIABLE, DEVNET_DIR_VARIABLE, Deployment, find_deployment
from aioum.core.errors import AioumError
from aioum.core.types import Bytes32
from aioum.devnet.running import RunningDevnet


async def refusal(deployment: Deployment) -> AioumError:
    with pytest.raises(AioumError) as caught:
        async with Chain.connect(deployment):
            pass
    return caught.value


async def test_another_chain_another_block_or_another_code_make_it_stale(devnet: RunningDevnet) -> None:
    deployment = devnet.deployment
    other = Bytes32(b"\1" * 32)
    for wrong in (
        replace(deployment, chain_id=1),
        replace(deployment, block_hash=other),
        replace(deployment, block_number=2**40),
        replace(deployment, code_hashes={**deployment.code_hashes, deployment.payment_manager: other}),
    ):
        error = await refusal(wrong)
        assert error.code == "deployment-stale"
        assert error.hint is not None


async def test_an_endpoint_where_nobody_listens_is_unreachable_and_not_stale(devnet: RunningDevnet) -> None:
    error = await refusal(replace(devnet.deployment, rpc_url="http://user:secret@127.0.0.1:1/key"))
    assert error.code == "rpc-unreachable"
    assert "secret" not in str(error)
    assert "/key" not in str(error)


async def test_the_deployment_is_found_by_name_by_variable_and_in_the_devnets_folder(
    devnet: RunningDevnet, tmp_path: Path
) -> None:
    file = devnet.deployment_file
    assert find_deployment(file, {}) == devnet.deployment
    assert find_deployment(None, {DEPLOYMENT_VARIABLE: str(file)}) == devnet.deployment
    assert find_deployment(None, {DEVNET_DIR_VARIABLE: str(file.parent)}) == devnet.deployment
    with pytest.raises(AioumError) as caught:
        find_deployment(None, {DEVNET_DIR_VARIABLE: str(tmp_path)})
    assert caught.value.code == "deployment-missing"
