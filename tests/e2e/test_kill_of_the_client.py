"""kill -9 of the client around a call at a real node: the restarted client goes on and pays nothing twice."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.client import Chain
from aioum.core.hextext import channel_id, to_hex
from tests.e2e.crashing_client import AFTER_ANSWER, BEFORE_SEND
from tests.e2e.crashing_node import PRICE
from tests.e2e.shop import Node, Shop, until
from tests.integration.conftest import FundedAccount

DEPOSIT = 20 * PRICE
IN_FLIGHT = "in-flight"


class Client:
    """One client, started again and again on one data directory."""

    def __init__(self, repository: Path, job: dict[str, Any]) -> None:
        self._repository = repository
        self._job = job

    async def start(self, crash_at: str | None = None) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.e2e.crashing_client",
            cwd=self._repository,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(self._job | {"crash_at": crash_at, "crash_text": "second"}).encode())
        process.stdin.close()
        return process


@pytest.mark.parametrize("step", [pytest.param(BEFORE_SEND, marks=pytest.mark.long), IN_FLIGHT, AFTER_ANSWER])
async def test_killed_client_goes_on_with_its_session_and_pays_each_call_once(
    shop: Shop, payer: FundedAccount, chain: Chain, repository: Path, tmp_path: Path, step: str
) -> None:
    def client_of(node: Node) -> Client:
        return Client(
            repository,
            {
                "key": to_hex(payer.key.secret_bytes()),
                "deployment": str(shop.deployment_file),
                "data_dir": str(tmp_path / "client"),
                "service": node.url,
                "deposit": DEPOSIT,
                "calls": [
                    ("note", "first"),
                    ("hold" if step == IN_FLIGHT else "note", "second"),
                    ("note", "third"),
                ],
            },
        )

    async with shop.running() as node:
        shop.make_gate()
        client = client_of(node)
        process = await client.start(None if step == IN_FLIGHT else step)
        if step == IN_FLIGHT:

            async def runs() -> bool:
                return "second" in shop.runs()

            # The request has left and runs; its answer is not there yet.
            await until(runs)
            process.kill()
        assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL
        assert shop.runs() == (["first"] if step == BEFORE_SEND else ["first", "second"])
        process = await client.start()
        if step == IN_FLIGHT:
            await shop.open_gate()
        output, _ = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0
        done = json.loads(output)
        await shop.final(channel_id(done["channel"]))

    assert shop.runs() == ["first", "second", "third"]
    assert done["sessions"] == 1
    assert (done["spent"], done["settled"]) == (3 * PRICE, 3 * PRICE)
    package = await shop.export(done["channel"])
    assert package["resultsRoot"] == done["root"]
    assert [entry["response"] for entry in package["calls"]] == done["calls"]
    anchored = await chain.session(channel_id(done["channel"]))
    assert anchored is not None
    assert (to_hex(anchored.root), anchored.settled, anchored.call_count) == (done["root"], 3 * PRICE, 3)
