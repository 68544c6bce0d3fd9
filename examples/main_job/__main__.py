"""The main job: a node sells calls, a client buys, both record, the root is anchored, money settles.

At the end a third person verifies the evidence package.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from aioum.chain.deployments import Deployment
from aioum.client import CallResult, Marketplace
from aioum.client.closing import Closed
from aioum.core.errors import AioumError
from aioum.core.evidence import package_bytes
from aioum.core.hextext import to_hex
from aioum.devnet.running import RunningDevnet, running_devnet
from examples.main_job.operator import Operator, command
from examples.main_job.purchases import purchases
from examples.main_job.show import Show
from examples.main_job.transactions import newest_block, transactions_since

_DEPOSIT = 200_000
_NARRATIVE = "A demonstration: nothing went wrong. The package shows what a session leaves behind."


async def main_job(out: Path, show: Show) -> dict[str, Any]:
    """Run it, leave what it made in `out`, and return the summary."""
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        show.step("starting a local chain and deploying the contracts")
        devnet = await stack.enter_async_context(running_devnet(out / "devnet"))
        deployed = await newest_block(devnet)
        operator = Operator(out / "node", devnet.deployment_file, out / "node.log")
        show.step("operator: making keys and a card, registering the service, starting the node")
        await operator.prepare()
        url = await stack.enter_async_context(operator.running())
        closed, results, package = await _buy(devnet, url, out, show)
        node_package = await operator.export(closed.channel_id)
        _write(out / "node-transcript.json", node_package["calls"])
        show.step("the same history, three times")
        client_root, node_root = package["resultsRoot"], node_package["resultsRoot"]
        anchored_root = to_hex(closed.root)
        show.roots(
            {"client recorded": client_root, "node recorded": node_root, "anchored on-chain": anchored_root}
        )
        show.transactions(await transactions_since(devnet, deployed))
        show.step("a third person verifies evidence.json")
        report = await _verify(out / "evidence.json", devnet.deployment)
        show.checks(report["checks"])
    return {
        "channelId": to_hex(closed.channel_id),
        "sessionId": str(closed.session_id),
        "calls": len(results),
        "clientRoot": client_root,
        "nodeRoot": node_root,
        "anchoredRoot": anchored_root,
        "deposit": str(closed.deposit),
        "captured": str(closed.settled),
        "refunded": str(closed.refunded),
        "checks": {check["name"]: check["status"] for check in report["checks"]},
        "seconds": round(time.monotonic() - started, 1),
    }


async def _buy(
    devnet: RunningDevnet, url: str, out: Path, show: Show
) -> tuple[Closed, list[CallResult], dict[str, Any]]:
    client = Marketplace(deployment=devnet.deployment, key=devnet.accounts[2], data_dir=out / "client")
    async with client as marketplace:
        offer = await marketplace.service(url)
        show.step(f"client: opening a session with “{offer.card.name}”, deposit {show.amount(_DEPOSIT)}")
        session = await marketplace.open(offer, deposit=_DEPOSIT)
        results = []
        async for result in purchases(session):
            show.call(result)
            results.append(result)
        rows = [
            (result, entry.tool_id, entry.request)
            for result, entry in zip(results, session.calls, strict=True)
        ]
        show.calls(rows)
        show.step("client: closing; the operator anchors the root and settles in one transaction")
        closed = await session.close()
        package = session.evidence_package("wrong-result", _NARRATIVE)
        (out / "evidence.json").write_bytes(package_bytes(package))
        _write(out / "client-transcript.json", package["calls"])
    show.step(
        f"settled: deposit {show.amount(closed.deposit)} = captured {show.amount(closed.settled)}"
        f" + refunded {show.amount(closed.refunded)}"
    )
    return closed, results, package


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


async def _verify(package: Path, deployment: Deployment) -> dict[str, Any]:
    deployment_file = package.parent / "deployment.json"
    deployment.save(deployment_file)
    process = await asyncio.create_subprocess_exec(
        command("verify-evidence"),
        str(package),
        "--json",
        "--deployment",
        str(deployment_file),
        "--exec",
        f"{sys.executable} -m examples.services.reading_room.reexecute",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    if process.returncode not in (0, 1):
        raise RuntimeError(f"verify-evidence failed:\n{stderr.decode()}")
    report: dict[str, Any] = json.loads(stdout)
    return report


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one JSON line on standard output")
    parser.add_argument("--out", type=Path, help="keep what the run made in this new or empty folder")
    return parser.parse_args()


def main() -> int:
    """Exit code 0 where everything agreed, 1 where something did not, 2 where the run could not be made."""
    arguments = _arguments()
    console = Console(stderr=arguments.json)
    if not console.is_terminal:
        console.width = 140
    # Ending the process politely ends the node and the chain as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out: Path = arguments.out or Path(tempfile.mkdtemp(prefix="aioum-demo-"))
    try:
        if arguments.out is not None:
            out = out.resolve()
            out.mkdir(parents=True, exist_ok=True)
            if any(out.iterdir()):
                console.print(f"[red]error:[/] {out} is not empty")
                return 2
        summary = asyncio.run(main_job(out, Show(console, 6, "aUSD")))
    except KeyboardInterrupt:
        return 130
    except (AioumError, OSError, RuntimeError) as error:
        console.print(f"[red]error:[/] {error}", highlight=False)
        if isinstance(error, AioumError) and error.hint:
            console.print(f"hint: {error.hint}", highlight=False)
        return 2
    finally:
        if arguments.out is None:
            shutil.rmtree(out, ignore_errors=True)
    if arguments.out is not None:
        console.print(f"kept in {out}", highlight=False)
    if arguments.json:
        print(json.dumps(summary))
    return 0 if _agrees(summary) else 1


def _agrees(summary: dict[str, Any]) -> bool:
    same_root = summary["clientRoot"] == summary["nodeRoot"] == summary["anchoredRoot"]
    conserved = int(summary["captured"]) + int(summary["refunded"]) == int(summary["deposit"])
    return same_root and conserved and "fail" not in summary["checks"].values()


if __name__ == "__main__":
    sys.exit(main())
