"""What a fresh devnet gets: our contracts, and play money for every account."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from pathlib import Path
from typing import Final

from aioum.chain import calls
from aioum.chain.client import Chain
from aioum.chain.creations import DeploymentPlan
from aioum.chain.deploy import deploy_contracts
from aioum.chain.deployments import Deployment
from aioum.chain.journal import SqliteTransactionJournal
from aioum.chain.rpc import Rpc
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner
from aioum.core.types import ZERO_ADDRESS
from aioum.devnet.accounts import well_known_keys
from aioum.devnet.config import DevnetConfig

_POLL_SECONDS: Final = 0.02


async def populate(rpc_url: str, config: DevnetConfig) -> Deployment:
    """Deploy the contracts from the first account, and mint tokens for all.

    Raises:
        ChainError: as `Sender.send`.
    """
    # The chain is new and ours alone: a crash here ends it too, so nobody reconciles this journal.
    with tempfile.TemporaryDirectory(prefix="aioum-devnet-") as folder:
        return await _populate(rpc_url, config, Path(folder))


async def _populate(rpc_url: str, config: DevnetConfig, folder: Path) -> Deployment:
    keys = well_known_keys(config.accounts)
    symbol = config.contracts.token_symbol
    async with Rpc(rpc_url) as rpc:
        chain = Chain(rpc, await rpc.chain_id(), ZERO_ADDRESS, ZERO_ADDRESS)
        journal = SqliteTransactionJournal(folder / "transactions.sqlite3")
        try:
            sender = Sender(
                chain,
                LocalSigner(keys[0]),
                journal,
                confirmations=config.chain.confirmations,
                poll_interval_seconds=_POLL_SECONDS,
            )
            plan = DeploymentPlan(
                grace_period_seconds=config.contracts.grace_period_seconds,
                dev_token_symbol=symbol,
                salt=secrets.token_bytes(32),
            )
            deployment = await deploy_contracts(sender, plan)
            token = deployment.tokens[symbol]
            mints = [calls.mint(token, key.address, config.contracts.token_amount) for key in keys]
            await asyncio.gather(*(sender.send(call, "fund-devnet-account") for call in mints))
        finally:
            await journal.close()
    return deployment
