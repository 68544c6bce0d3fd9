"""Which chain and which contracts `verify-evidence` asks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aioum.chain.client import Chain
from aioum.chain.deployments import Deployment, Endpoint, find_deployment
from aioum.chain.rpc import Rpc
from aioum.core.errors import ChainError
from aioum.core.types import ZERO_ADDRESS, Address
from aioum.verify.chain_view import BlockView


@asynccontextmanager
async def open_view(
    payment_manager: Address, *, known: frozenset[Address], rpc_url: str | None, deployment_file: Path | None
) -> AsyncIterator[tuple[BlockView, frozenset[Address]]]:
    """Connect to the chain and say which PaymentManagers are known there.

    Args:
        payment_manager: the one that the package names; it is read only where it is known.
        known: from the command line.
        rpc_url: endpoint, in place of the deployment's.
        deployment_file: or None: the local devnet's, where there is one.

    Raises:
        ChainError: nothing says where to ask, or the chain cannot be read.
    """
    if rpc_url is not None and payment_manager in known:
        async with Chain.connect(Endpoint(rpc_url, payment_manager)) as chain:
            yield await BlockView.at_head(chain), known
        return
    deployment = _deployment(deployment_file, optional=rpc_url is not None)
    if deployment is None:
        # An unknown contract is not asked anything; the block is still named, and the chain id compared.
        async with Rpc(rpc_url or "") as rpc:
            yield await BlockView.at_head(Chain(rpc, await rpc.chain_id(), ZERO_ADDRESS, ZERO_ADDRESS)), known
        return
    target: Deployment | Endpoint = deployment
    if payment_manager in known - {deployment.payment_manager}:
        target = Endpoint(deployment.rpc_url, payment_manager)
    async with Chain.connect(target, rpc_url=rpc_url) as chain:
        yield await BlockView.at_head(chain), known | {deployment.payment_manager}


def _deployment(file: Path | None, *, optional: bool) -> Deployment | None:
    try:
        return find_deployment(file)
    except ChainError as error:
        if error.code == "deployment-missing" and file is None:
            if optional:
                return None
            error.hint = "use --rpc with --payment-manager, or --deployment; --offline asks no chain"
        raise
