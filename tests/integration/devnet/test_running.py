"""A devnet of one's own: it ends with its block and with its process, and time moves when told."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.devnet.anvil import LOG_FILE_NAME, start_mark
from aioum.devnet.running import running_devnet

HOLD = """
import asyncio, sys
from pathlib import Path
from aioum.devnet.running import running_devnet

async def hold():
    async with running_devnet(Path(sys.argv[1])) as devnet:
        print(devnet.rpc_url, flush=True)
        await asyncio.sleep(600)

asyncio.run(hold())
"""


async def test_time_jumps_and_snapshots_bring_it_back(anvil: Path) -> None:
    async with running_devnet() as devnet, Chain.connect(devnet.deployment) as chain:
        before = await chain.head()
        snapshot = await devnet.snapshot()
        await devnet.increase_time(3_600)
        assert (await chain.head()).timestamp >= before.timestamp + 3_600
        await devnet.revert(snapshot)
        assert (await chain.head()).timestamp < before.timestamp + 3_600


async def test_two_devnets_run_side_by_side(anvil: Path, tmp_path: Path) -> None:
    async with running_devnet(tmp_path / "one") as one, running_devnet(tmp_path / "two") as two:
        assert one.rpc_url != two.rpc_url
        assert one.deployment.block_hash != two.deployment.block_hash
        assert one.deployment.payment_manager == two.deployment.payment_manager
    assert (tmp_path / "one" / LOG_FILE_NAME).exists()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_no_anvil_is_left_behind_however_its_program_ends(
    anvil: Path, tmp_path: Path, end: signal.Signals
) -> None:
    if end is not signal.SIGINT and not Path("/usr/bin/setpriv").exists():
        pytest.skip("only Linux's setpriv ends anvil with a program that is killed")
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOLD, str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert program.stdout is not None
    assert (await program.stdout.readline()).startswith(b"http://")
    (child,) = children_of(program.pid)
    program.send_signal(end)
    await program.wait()
    async with asyncio.timeout(15):
        while start_mark(child) is not None:
            await asyncio.sleep(0.02)


def children_of(pid: int) -> list[int]:
    listing = Path("/proc", str(pid), "task", str(pid), "children")
    if not listing.exists():
        pytest.skip("children are listed in /proc, on Linux only")
    return [int(child) for child in listing.read_text().split() if is_anvil(int(child))]


def is_anvil(pid: int) -> bool:
    return b"anvil" in os.path.basename(os.readlink(f"/proc/{pid}/exe")).encode()
