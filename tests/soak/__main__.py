"""`scripts/soak`: many sessions, random kills, and the account afterwards; exit code 1 if it is not sound."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

from aioum.chain.client import Chain
from aioum.client import ClientSettings, Marketplace
from aioum.devnet.running import RunningDevnet, running_devnet
from tests.postgres import PostgresServer, running_server, server_programs
from tests.soak.account import Account, draw_up
from tests.soak.balancer import Balancer
from tests.soak.load import PRICE, Traffic, call_until, close_sessions, open_sessions
from tests.soak.nodes import NodeProcess, kill_at_random, operator_environment, watch_memory

_SERVICE = Path(__file__).parent / "service"
_OPERATOR_ACCOUNT = 9
_MEMORY_INTERVAL_SECONDS = 1.0

# A client repeats a call until some process answers; a killed one's open calls first have to be taken over.
_PATIENT = ClientSettings(
    retry_attempts=1_000,
    retry_timeout_seconds=120,
    retry_wait_initial_seconds=0.05,
    retry_wait_max_seconds=0.5,
    poll_seconds=0.5,
    close_timeout_seconds=300,
)
_SHARED_PROCESSES = 3
_SILENCE_SECONDS = 3
_CONFIG = """\
service_name = "Soak"
deployment_file = "{deployment}"
python_path = ["{tools}"]
max_unpaid_calls = 1000000
{store}
[[tools]]
python = "soak_tools"
"""


async def _program(*arguments: str, environment: dict[str, str]) -> None:
    program = str(Path(sys.executable).parent / "aioum-node")
    process = await asyncio.create_subprocess_exec(
        program, *arguments, env=environment, stdout=asyncio.subprocess.DEVNULL
    )
    if await process.wait() != 0:
        raise RuntimeError(f"aioum-node {arguments[0]} failed")


@contextmanager
def _database() -> Iterator[PostgresServer]:
    programs = server_programs()
    if programs is None:
        raise RuntimeError("PostgreSQL is not installed (initdb); --store sqlite does without")
    with running_server(programs) as server:
        yield server


def _store_settings(database: PostgresServer | None, folder: Path) -> str:
    if database is None:
        return ""
    url_file = folder / "database-url"
    url_file.touch(mode=0o600)
    url_file.write_text(database.url, encoding="utf-8")
    return (
        'store = "postgresql"\n'
        f'database_url_file = "{url_file}"\n'
        f"process_silence_seconds = {_SILENCE_SECONDS}\n"
    )


@asynccontextmanager
async def _operator(
    devnet: RunningDevnet, folder: Path, database: PostgresServer | None
) -> AsyncIterator[tuple[str, Balancer, list[NodeProcess]]]:
    """The operator's processes, and the balancer before them with its address."""
    environment = operator_environment(folder / "runs")
    first = folder / "node-0"
    account = str(_OPERATOR_ACCOUNT)
    deployment = str(devnet.deployment_file)
    await _program(
        *("init", "--dir", str(first), "--devnet-account", account, "--deployment", deployment),
        environment=environment,
    )
    config = _CONFIG.format(deployment=deployment, tools=_SERVICE, store=_store_settings(database, folder))
    (first / "node.toml").write_text(config, encoding="utf-8")
    folders = [first]
    if database is not None:
        folders += [folder / f"node-{number}" for number in range(1, _SHARED_PROCESSES)]
    nodes = [NodeProcess(each, environment) for each in folders]
    balancer = Balancer([node.port for node in nodes])
    url = f"http://127.0.0.1:{await balancer.start()}"
    try:
        await _program("register", "--dir", str(first), "--url", url, environment=environment)
        for other in folders[1:]:
            shutil.copytree(first, other)
        for node in nodes:
            await node.start()
        yield url, balancer, nodes
    finally:
        for node in nodes:
            with suppress(Exception):
                await node.stop()
        await balancer.close()


async def soak(options: argparse.Namespace, folder: Path) -> Account:
    """Run it all; reports what it does on standard error."""
    chance = random.Random(options.seed)
    traffic = Traffic()
    (folder / "runs").touch()
    async with AsyncExitStack() as stack:
        database = stack.enter_context(_database()) if options.store == "postgresql" else None
        devnet = await stack.enter_async_context(running_devnet(folder))
        url, balancer, nodes = await stack.enter_async_context(_operator(devnet, folder, database))
        market = await stack.enter_async_context(
            Marketplace(
                key=devnet.accounts[0],
                deployment=devnet.deployment,
                data_dir=folder / "client",
                settings=_PATIENT,
            )
        )
        chain = await stack.enter_async_context(Chain.connect(devnet.deployment))
        _say(f"opening {options.sessions} sessions")
        deposit = PRICE * (100 + int(options.seconds / options.pause * 4))
        sessions = await open_sessions(market, url, options.sessions, deposit)
        _say(f"calling for {options.seconds:g} seconds")
        kills = kill_at_random(nodes, chance, options.kill_every, options.seconds / 2, balancer.go_round)
        beside = [
            asyncio.create_task(kills),
            asyncio.create_task(watch_memory(nodes, _MEMORY_INTERVAL_SECONDS)),
        ]
        try:
            deadline = time.monotonic() + options.seconds
            await call_until(sessions, deadline, options.pause, options.seed, traffic)
        finally:
            for task in beside:
                task.cancel()
            ended = await asyncio.gather(*beside, return_exceptions=True)
        for outcome in ended:
            if not isinstance(outcome, asyncio.CancelledError) and isinstance(outcome, BaseException):
                raise outcome
        _say(f"errors of calls: {traffic.errors or 'none'}; closing")
        failed = await close_sessions(sessions)
        if failed:
            _say(f"sessions that did not close: {failed}")
        return await draw_up(chain, sessions, traffic, folder / "runs", nodes, options.seconds)


def _say(text: str) -> None:
    sys.stderr.write(f"soak: {text}\n")
    sys.stderr.flush()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long there are calls (default: 600)")
    parser.add_argument("--sessions", type=int, default=256, help="sessions at the same time (default: 256)")
    parser.add_argument("--pause", type=float, default=4, help="mean seconds between a session's calls")
    parser.add_argument("--kill-every", type=float, default=20, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=1, help="of pauses, failures and kills")
    parser.add_argument(
        "--store",
        choices=("postgresql", "sqlite"),
        default="postgresql",
        help=f"postgresql: {_SHARED_PROCESSES} processes share a database; sqlite: one process",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aioum-soak-") as folder:
        account = asyncio.run(soak(options, Path(folder)))
    sys.stdout.write("\n".join(account.lines()) + "\n")
    return 0 if account.sound else 1


if __name__ == "__main__":
    sys.exit(main())
