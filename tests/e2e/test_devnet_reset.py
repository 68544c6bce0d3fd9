"""A devnet that starts over, while node and client keep their folders: what was before stays what it was.

The chain has the same id and the same contract addresses, and counts sessions from 1 again. It starts over in
two ways: anew, as `aioum devnet reset` does, and set back to the block that its contracts were deployed in,
so that the deployments file is still right.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aioum.chain.client import Chain
from aioum.chain.deployments import Deployment
from aioum.chain.rpc import Rpc
from aioum.client import Marketplace, SessionPhase
from aioum.core.errors import AioumError
from aioum.core.hextext import to_hex
from aioum.core.ledger import Phase
from aioum.core.transcript import Entry, entry_to_json
from aioum.core.types import Address
from aioum.devnet.accounts import well_known_keys
from aioum.devnet.control import Devnet
from tests.e2e.crashing_client import PATIENT
from tests.e2e.crashing_node import PRICE
from tests.e2e.shop import NodeProgram, Shop

DEPOSIT = 20 * PRICE
OPERATOR, PAYER = well_known_keys()[1:3]

StartOver = Callable[[], Awaitable[None]]


@asynccontextmanager
async def devnet_that_is_reset(folder: Path) -> AsyncIterator[tuple[Devnet, StartOver]]:
    """A devnet as the command line runs it."""
    devnet = Devnet(folder)
    await devnet.up(port=0)

    async def start_over() -> None:
        await devnet.reset(port=0)

    try:
        yield devnet, start_over
    finally:
        await devnet.down()


@asynccontextmanager
async def devnet_that_is_set_back(folder: Path) -> AsyncIterator[tuple[Devnet, StartOver]]:
    """A devnet that goes back to where nobody had used it."""
    async with (
        devnet_that_is_reset(folder) as (devnet, _),
        Rpc(Deployment.load(devnet.deployment_file).rpc_url) as rpc,
    ):
        snapshot = await rpc.request("evm_snapshot")

        async def start_over() -> None:
            assert await rpc.request("evm_revert", snapshot)

        yield devnet, start_over


@pytest.fixture
def make_shop(node_program: NodeProgram, tmp_path: Path) -> Callable[[Devnet], Shop]:
    return lambda devnet: Shop(node_program, tmp_path / "node", devnet.deployment_file, OPERATOR)


@pytest.fixture
def make_market(tmp_path: Path) -> Callable[[Devnet], Marketplace]:
    return lambda devnet: Marketplace(
        key=PAYER, deployment=devnet.deployment_file, data_dir=tmp_path / "client", settings=PATIENT
    )


def program(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / name), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def balance(devnet: Devnet, owner: Address) -> int:
    deployment = Deployment.load(devnet.deployment_file)
    async with Chain.connect(deployment) as chain:
        (token,) = deployment.tokens.values()
        return await chain.token_balance(token, owner)


def as_json(calls: tuple[Entry, ...]) -> list[Any]:
    return [entry_to_json(entry) for entry in calls]


@pytest.mark.parametrize("starting_over", [devnet_that_is_reset, devnet_that_is_set_back])
async def test_sessions_of_before_are_not_attributed_to_new_ones_on_either_side(
    make_shop: Callable[[Devnet], Shop],
    make_market: Callable[[Devnet], Marketplace],
    tmp_path: Path,
    starting_over: Any,
) -> None:
    async with starting_over(tmp_path / "devnet") as (devnet, start_over):
        shop = make_shop(devnet)
        async with shop.running() as node, make_market(devnet) as market:
            assert node.service == 1
            async with market.open(node.url, deposit=DEPOSIT) as settled:
                await settled.call("note", text="before 1")
                await settled.call("spoil", text="before 2")
            abandoned = await market.open(node.url, deposit=DEPOSIT)
            await abandoned.call("note", text="before 3")
            before = await market.sessions()
            await shop.final(settled.channel_id)
        stored_before = {id_: await shop.stored(id_) for id_ in (settled.channel_id, abandoned.channel_id)}

        await start_over()

        funds = await balance(devnet, OPERATOR.address)
        async with shop.running() as node, make_market(devnet) as market:
            assert node.service == 1
            with pytest.raises(AioumError) as caught:
                await market.resume(abandoned.channel_id)
            assert caught.value.code == "session-not-on-chain"
            async with market.open(node.url, deposit=DEPOSIT) as fresh:
                for text in ("after 1", "after 2"):
                    await fresh.call("note", text=text)
            second = await market.open(node.url, deposit=DEPOSIT)
            await second.call("note", text="after 3")
            await shop.final(fresh.channel_id)
            assert (
                [settled.session_id, abandoned.session_id] == [fresh.session_id, second.session_id] == [1, 2]
            )
            everything = await market.sessions()
            assert everything[:2] == before
            assert [info.channel_id for info in everything[2:]] == [fresh.channel_id, second.channel_id]
            assert await balance(devnet, OPERATOR.address) - funds == 2 * PRICE

        # The operator's side: each channel has its own calls and money, and what is over stays as it was.
        assert await shop.stored(settled.channel_id) == stored_before[settled.channel_id]
        lost = (await shop.stored(abandoned.channel_id)).state
        was = stored_before[abandoned.channel_id].state
        assert (lost.phase, lost.spent, lost.admitted) == (Phase.OPEN, was.spent, was.admitted)
        # The chain knows no deposit of it, so nothing is served on it.
        assert (was.deposit, lost.deposit) == (DEPOSIT, 0)
        for session in (settled, abandoned, fresh, second):
            package = await shop.export(to_hex(session.channel_id))
            assert package["calls"] == as_json(session.calls)
            assert package["resultsRoot"] == to_hex(session.root)
        assert shop.settlements(abandoned.channel_id) == []
        assert len(shop.settlements(fresh.channel_id)) == 1

        # A label that two sessions bear is refused by both sides, with both channels named.
        exported = program("verify-evidence", "--export", "--session", "1", "--node-dir", str(shop.folder))
        shown = program("aioum", "session", "show", "1", "--offline", "--data-dir", str(tmp_path / "client"))
        for refused in (exported, shown):
            assert refused.returncode != 0
            assert refused.stdout == ""
            assert "session-ambiguous" in refused.stderr
            assert to_hex(settled.channel_id) in refused.stderr
            assert to_hex(fresh.channel_id) in refused.stderr


async def test_settlement_signed_before_the_reset_is_never_sent_to_the_new_chain(
    make_shop: Callable[[Devnet], Shop], make_market: Callable[[Devnet], Marketplace], tmp_path: Path
) -> None:
    async with devnet_that_is_reset(tmp_path / "devnet") as (devnet, start_over):
        shop = make_shop(devnet)
        async with make_market(devnet) as market:
            async with shop.running() as node:
                old = await market.open(node.url, deposit=DEPOSIT)
                await old.call("note", text="before")
            async with shop.running(crash_at="after-journal") as node:
                closing = asyncio.create_task(old.close())
                await node.killed()
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
        assert [state for _, state in shop.settlements(old.channel_id)] == ["pending"]

        await start_over()

        async with shop.running() as node, make_market(devnet) as market:
            async with market.open(node.url, deposit=DEPOSIT) as new:
                await new.call("note", text="after")
            await shop.final(new.channel_id)
            (info, _) = await market.sessions()
        assert (info.channel_id, info.phase) == (old.channel_id, SessionPhase.CLOSING)
        assert [state for _, state in shop.settlements(old.channel_id)] == ["foreign"]
        assert [state for _, state in shop.settlements(new.channel_id)] == ["mined"]
        assert (await shop.stored(old.channel_id)).state.phase is Phase.SEALED
        async with Rpc(Deployment.load(devnet.deployment_file).rpc_url) as rpc:
            # Registered and settled, nothing else.
            assert await rpc.transaction_count(OPERATOR.address, "pending") == 2
