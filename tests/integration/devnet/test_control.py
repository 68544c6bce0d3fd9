"""The devnet that outlives its command: up, down, status, reset."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.chain.deployments import Deployment
from aioum.chain.rpc import Rpc
from aioum.core.errors import AioumError
from aioum.devnet.anvil import ANVIL_VARIABLE, find_anvil, start_mark
from aioum.devnet.control import STATE_FILE_NAME, Devnet, DevnetState


@pytest.fixture
async def control(anvil: Path, tmp_path: Path) -> AsyncIterator[Devnet]:
    """A devnet in a folder of its own, ended afterwards."""
    devnet = Devnet(tmp_path / "devnet")
    yield devnet
    await devnet.down()


def port_of(deployment: Deployment) -> int:
    return int(deployment.rpc_url.rpartition(":")[2])


async def test_a_devnet_goes_up_once_and_down_once(control: Devnet) -> None:
    assert (await control.status()).state is DevnetState.STOPPED
    deployment = await control.up(port=0)
    status = await control.status()
    assert (status.state, status.deployment) == (DevnetState.RUNNING, deployment)
    assert status.rpc_url == deployment.rpc_url
    assert Deployment.load(control.deployment_file) == deployment
    assert await control.up(port=0) == deployment
    assert (await control.status()).pid == status.pid

    assert await control.down()
    assert status.pid is not None
    assert start_mark(status.pid) is None
    assert (await control.status()).state is DevnetState.STOPPED
    assert not await control.down()


async def test_a_reset_is_another_history_at_the_same_addresses(control: Devnet) -> None:
    first = await control.up(port=0)
    second = await control.reset(port=port_of(first))
    assert second.rpc_url == first.rpc_url
    assert second.payment_manager == first.payment_manager
    assert second.block_hash != first.block_hash
    with pytest.raises(AioumError) as caught:
        async with Chain.connect(first):
            pass
    assert caught.value.code == "deployment-stale"


async def test_a_devnet_whose_chain_was_exchanged_is_stale_until_it_is_reset(control: Devnet) -> None:
    deployment = await control.up(port=0)
    async with Rpc(deployment.rpc_url) as rpc:
        await rpc.request("anvil_reset")
    status = await control.status()
    assert status.state is DevnetState.STALE
    assert status.reason is not None
    with pytest.raises(AioumError) as caught:
        await control.up(port=0)
    assert caught.value.code == "deployment-stale"
    await control.reset(port=0)
    assert (await control.status()).state is DevnetState.RUNNING


async def test_a_devnet_outlives_the_program_that_started_it(control: Devnet) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path; from aioum.devnet.control import Devnet; "
        "asyncio.run(Devnet(Path(sys.argv[1])).up(port=0))"
    )
    subprocess.run([sys.executable, "-c", program, str(control.directory)], check=True, timeout=120)
    assert (await control.status()).state is DevnetState.RUNNING


async def test_another_process_under_the_same_id_is_left_alone(control: Devnet) -> None:
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        control.directory.mkdir()
        state = f'{{"pid": {bystander.pid}, "startMark": "1", "rpcUrl": "http://127.0.0.1:1"}}'
        (control.directory / STATE_FILE_NAME).write_text(state)
        assert (await control.status()).state is DevnetState.STOPPED
        assert not await control.down()
        assert bystander.poll() is None
    finally:
        os.killpg(bystander.pid, signal.SIGKILL)
        bystander.wait()


async def test_a_devnet_that_was_killed_goes_up_again(control: Devnet) -> None:
    first = await control.up(port=0)
    pid = (await control.status()).pid
    assert pid is not None
    os.killpg(pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        while (await control.status()).state is not DevnetState.STOPPED:  # it takes a moment to die
            await asyncio.sleep(0.01)
    second = await control.up(port=0)
    assert second.block_hash != first.block_hash


async def test_a_port_in_use_is_said(control: Devnet, tmp_path: Path) -> None:
    deployment = await control.up(port=0)
    other = Devnet(tmp_path / "other")
    with pytest.raises(AioumError) as caught:
        await other.up(port=port_of(deployment))
    assert caught.value.code == "devnet-start-failed"
    assert caught.value.hint is not None
    assert str(port_of(deployment)) in caught.value.hint
    assert (await other.status()).state is DevnetState.STOPPED
    assert not other.deployment_file.exists()


async def test_two_commands_at_once_do_not_mix(control: Devnet) -> None:
    with control._exclusive(), pytest.raises(AioumError) as caught:
        await Devnet(control.directory).up(port=0)
    assert caught.value.code == "devnet-busy"


def test_without_anvil_the_error_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for environ in ({ANVIL_VARIABLE: str(tmp_path / "absent")}, {ANVIL_VARIABLE: str(tmp_path)}):
        with pytest.raises(AioumError) as caught:
            find_anvil(environ)
        assert caught.value.code == "anvil-not-found"
        assert "npm install @foundry-rs/anvil" in str(caught.value.hint)


def test_a_program_named_by_the_variable_is_taken(tmp_path: Path) -> None:
    program = tmp_path / "anvil"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert find_anvil({ANVIL_VARIABLE: str(program)}) == program
