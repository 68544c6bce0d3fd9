"""The real node's log, as its clients prove their sessions by it."""

import asyncio
import json
from asyncio import to_thread
from pathlib import Path
from typing import Any

import pytest

from aioum.cli.main import main
from aioum.cli.verify_evidence import main as verify_evidence
from aioum.client import PaidSession
from aioum.core.errors import Refused
from aioum.core.evidence import package_bytes
from aioum.core.hextext import to_hex
from aioum.devnet.running import RunningDevnet
from aioum.log.membership import Membership
from aioum_node.export import export_package
from tests.integration.client.conftest import MakeMarketplace
from tests.integration.client.real_node import node_starter
from tests.integration.conftest import FundedAccount

Capture = pytest.CaptureFixture[str]


async def logged(session: PaidSession) -> Membership:
    """The proof, as soon as the node has it."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await session.log_proof()
            except Refused as error:
                if error.code != "session-not-logged":
                    raise
            await asyncio.sleep(0.05)


def row_of(
    package: dict[str, Any], file: Path, devnet: RunningDevnet, capsys: Capture
) -> tuple[str, list[str]]:
    """Status and codes of the row `log`, as the command says it."""
    file.write_bytes(package_bytes(package))
    capsys.readouterr()
    code = verify_evidence([str(file), "--deployment", str(devnet.deployment_file), "--json"])
    report = json.loads(capsys.readouterr().out)
    row = next(check for check in report["checks"] if check["name"] == "log")
    assert code == (1 if row["status"] == "fail" else 0), report
    return row["status"], row["codes"]


async def test_both_sides_prove_a_closed_session_by_the_log_and_another_sessions_proof_is_refused(
    devnet: RunningDevnet,
    operator: FundedAccount,
    marketplace: MakeMarketplace,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    node_dir, data_dir, file = tmp_path / "node", tmp_path / "client", tmp_path / "evidence.json"
    start_node = node_starter(devnet, operator, node_dir)
    sessions = []
    async with start_node(transparency_log_interval_seconds=0.1) as node, marketplace() as market:
        for text in ("a", "b c"):
            async with market.open(node.url, deposit=10_000) as session:
                await session.call("wordcount", text=text)
            sessions.append(session)
        first, second = sessions
        # The second entry comes no earlier than the first.
        await logged(second)
        named = ("--deployment", str(devnet.deployment_file), "--data-dir", str(data_dir))
        proof_file = tmp_path / "first.log.json"
        arguments = ["session", "log-proof", to_hex(first.channel_id), "--out", str(proof_file), "--json"]
        assert await to_thread(main, [*arguments, *named]) == 0
        # The node writes what it does before.
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (told["index"], json.loads(proof_file.read_bytes())) == (0, told["log"])
    built: Any = second.evidence_package("quality", "")
    by_command = ["evidence", "build", to_hex(first.channel_id), "--claim", "quality", "--out", str(file)]
    assert await to_thread(main, [*by_command, *named]) == 0
    other = json.loads(file.read_bytes())
    assert other["log"] == told["log"]
    exported = await to_thread(
        export_package, session=to_hex(second.channel_id), node_dir=node_dir, claim="quality", narrative=""
    )
    for package in (built, other, exported):
        assert await to_thread(row_of, package, file, devnet, capsys) == ("pass", [])
    swapped = {**built, "log": other["log"]}
    assert await to_thread(row_of, swapped, file, devnet, capsys) == ("fail", ["log-session-mismatch"])
