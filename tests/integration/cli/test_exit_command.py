"""Ending a session whose operator vanished; moves time, so the devnet is its own."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

from aioum.chain.client import Chain
from aioum.core.hextext import channel_id
from aioum.devnet.running import running_devnet
from tests.integration.cli.conftest import CLIENT_ACCOUNT, TIMEOUT_SECONDS, make_shell, serving


@pytest.mark.slow
async def test_a_session_of_a_vanished_operator_is_exited_also_after_an_interrupt(
    anvil: Path, tmp_path: Path
) -> None:
    async with running_devnet(tmp_path / "devnet") as devnet:
        shell = make_shell(
            tmp_path,
            AIOUM_DEPLOYMENT=str(devnet.deployment_file),
            AIOUM_DEVNET_ACCOUNT=str(CLIENT_ACCOUNT),
            AIOUM_DATA_DIR=str(tmp_path / "record"),
        )
        with serving(shell, tmp_path / "shop", devnet.deployment_file) as node:
            opened = shell.json(
                "call", node["url"], "repeat", "--arg", "text=a", "--deposit", "1", "--keep-open"
            )
            os.kill(int(node["pid"]), signal.SIGKILL)
        channel = channel_id(opened["channelId"])

        async def closing() -> None:
            async with Chain.connect(devnet.deployment) as chain:
                while not (session := await chain.session(channel)) or not session.is_closing:
                    await asyncio.sleep(0.05)

        interrupted = shell.start("aioum", "session", "exit", opened["sessionId"], stderr=subprocess.PIPE)
        await asyncio.wait_for(closing(), TIMEOUT_SECONDS)
        interrupted.send_signal(signal.SIGINT)
        _, errors = interrupted.communicate(timeout=TIMEOUT_SECONDS)
        assert interrupted.returncode == 130
        assert errors.decode().splitlines()[-1] == "error: interrupted [interrupted]"

        assert shell.json("session", "list")["sessions"][0]["phase"] == "exiting"
        await devnet.increase_time(24 * 3_600)
        ended = await asyncio.to_thread(shell.json, "session", "exit", opened["sessionId"])
        assert (ended["captured"], ended["refunded"], ended["anchoredRoot"]) == ("0", "1000000", None)
