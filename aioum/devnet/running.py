"""A devnet for as long as a block of code runs: for tests and the demo."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aioum.chain.deployments import DEPLOYMENT_FILE_NAME, Deployment
from aioum.chain.rpc import Rpc
from aioum.core.signing import LocalKey
from aioum.core.types import Address
from aioum.devnet.accounts import well_known_keys
from aioum.devnet.anvil import end_bound, find_anvil, start_bound
from aioum.devnet.config import DevnetConfig, default_config
from aioum.devnet.genesis import populate


@dataclass(frozen=True, slots=True)
class RunningDevnet:
    """A devnet of one's own. It holds no connection, so it can be used from any event loop.

    Attributes:
        deployment_file: where the deployment is written.
        accounts: keys of the funded accounts; the first one deployed.
        token: the play money.
        token_symbol: its name in `deployment.tokens`.
        confirmations: how many a transaction needs here.
    """

    deployment: Deployment
    deployment_file: Path
    accounts: tuple[LocalKey, ...]
    token: Address
    token_symbol: str
    confirmations: int

    @property
    def rpc_url(self) -> str:
        """The endpoint."""
        return self.deployment.rpc_url

    async def increase_time(self, seconds: int) -> None:
        """Let time jump ahead, and mine a block there."""
        await self._request("evm_increaseTime", seconds)
        await self.mine()

    async def mine(self, blocks: int = 1) -> None:
        """Mine blocks now."""
        await self._request("anvil_mine", hex(blocks))

    async def pause_mining(self) -> None:
        """Mine nothing any more but by `mine`."""
        await self._request("evm_setAutomine", False)
        await self._request("evm_setIntervalMining", 0)

    async def snapshot(self) -> str:
        """Remember the chain as it is; returns a name for `revert`."""
        return str(await self._request("evm_snapshot"))

    async def revert(self, snapshot: str) -> None:
        """Go back to a snapshot, which is used up by it."""
        await self._request("evm_revert", snapshot)

    async def set_code(self, at: Address, code: bytes) -> None:
        """Put code at an address."""
        await self._request("anvil_setCode", "0x" + at.hex(), "0x" + code.hex())

    async def fund(self, account: Address, *, wei: int = 10**21) -> None:
        """Set an account's balance for gas."""
        await self._request("anvil_setBalance", "0x" + account.hex(), hex(wei))

    async def _request(self, method: str, *params: Any) -> Any:
        async with Rpc(self.rpc_url) as rpc:
            return await rpc.request(method, *params)


@asynccontextmanager
async def running_devnet(
    directory: Path | None = None, config: DevnetConfig | None = None
) -> AsyncIterator[RunningDevnet]:
    """Run anvil on a free port with everything deployed; it ends with the block, and with this process.

    Args:
        directory: for anvil's log and the deployments file, kept afterwards; None: a temporary one.
        config: by default the one that ships with aioum.

    Raises:
        ConfigError: `anvil-not-found`.
        ChainError: `devnet-start-failed`.
    """
    chosen = (config or default_config()).on_port(0)
    program = find_anvil()
    async with AsyncExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="aioum-devnet-")))
        directory.mkdir(parents=True, exist_ok=True)
        process, port = start_bound(program, chosen, directory)
        stack.callback(end_bound, process)
        deployment = await populate(f"http://{chosen.chain.host}:{port}", chosen)
        deployment_file = directory / DEPLOYMENT_FILE_NAME
        deployment.save(deployment_file)
        symbol = chosen.contracts.token_symbol
        yield RunningDevnet(
            deployment=deployment,
            deployment_file=deployment_file,
            accounts=well_known_keys(chosen.accounts),
            token=deployment.tokens[symbol],
            token_symbol=symbol,
            confirmations=chosen.chain.confirmations,
        )
