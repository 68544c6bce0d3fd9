"""One run of `scripts/deploy`: look up what an earlier run did, show what is left, do it, write it down."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from aioum.chain.abi import PAYMENT_MANAGER
from aioum.chain.client import Chain
from aioum.chain.creation_costs import DeploymentCost, estimate_deployment
from aioum.chain.creations import DeploymentPlan
from aioum.chain.deploy import Created, Progress, deploy_contracts, find_created
from aioum.chain.deploy_folder import (
    JOURNAL_FILE_NAME,
    DeploymentJournal,
    PlannedDeployment,
    begin,
    claimed,
    is_begun,
)
from aioum.chain.deployments import Deployment, caip2
from aioum.chain.deployments_file import read_deployments, write_deployments
from aioum.chain.errors import shown_url
from aioum.chain.fees import FeePolicy
from aioum.chain.rpc import Rpc
from aioum.chain.sender import Sender
from aioum.chain.signers import LocalSigner, Signer
from aioum.cli.keys import KeySource
from aioum.core.errors import ChainError, ConfigError, OutcomeUnknown
from aioum.core.hextext import address_text
from aioum.core.types import ZERO_ADDRESS, Address, Bytes32


@dataclass(frozen=True, slots=True)
class DeployRequest:
    """What a person asked for.

    Attributes:
        rpc_url: the endpoint that is used.
        recorded_rpc_url: the one for the deployments file; None: `rpc_url` without what may be secret.
        key_source: whose account pays.
        plan: what is to be deployed.
        out: the deployments file, to which the chain is added.
        folder: what makes the run resumable; None: one beside `out`, named after the chain.
        chain_id: the chain that is meant; None: the endpoint's.
        tokens: to be listed in the deployments file, by symbol.
        confirmations: blocks before a creation counts, its own included.
        max_fee_per_gas_wei: the most for a unit of gas; None: twice what a block costs now.
        receipt_timeout_seconds: longest wait for a creation to count.
    """

    rpc_url: str
    recorded_rpc_url: str | None
    key_source: KeySource
    plan: DeploymentPlan
    out: Path
    folder: Path | None
    chain_id: int | None
    tokens: Mapping[str, Address]
    confirmations: int
    max_fee_per_gas_wei: int | None
    receipt_timeout_seconds: float

    def folder_for(self, chain_id: int) -> Path:
        """The folder of this deployment's state."""
        return self.folder or self.out.with_name(f"{self.out.name}.{caip2(chain_id).replace(':', '-')}")


@dataclass(frozen=True, slots=True)
class Offer:
    """What would be done now.

    Attributes:
        account: pays.
        created: what an earlier run created.
        cost: of what is left.
    """

    chain_id: int
    account: Address
    created: tuple[Created, ...]
    cost: DeploymentCost


@dataclass(frozen=True, slots=True)
class Finished:
    """A deployment that is verified and written down; `folder` is not needed any more."""

    deployment: Deployment
    folder: Path


async def estimate(request: DeployRequest) -> Offer:
    """Say what the deployment would cost. Nothing is sent, and nothing is written.

    Raises:
        AioumError: as `run`.
    """
    async with Rpc(request.rpc_url, chain_id=request.chain_id) as rpc:
        job = await _Job.of(rpc, request)
        mined: Mapping[str, Bytes32] = {}
        journal_file = job.folder / JOURNAL_FILE_NAME
        if is_begun(job.folder, job.planned) and journal_file.exists():
            async with _opened(journal_file) as journal:
                mined = await journal.mined_creations(job.chain.chain_id, job.signer.address)
        return await job.offer(mined)


async def run(
    request: DeployRequest, agree: Callable[[Offer], None], on_created: Callable[[Created], None]
) -> Finished:
    """Deploy, or go on with a deployment that an earlier run began, and write the deployments file.

    Args:
        request: what is wanted.
        agree: asked before anything new is sent, if anything is; it raises what ends the run otherwise.
        on_created: told of each contract that is there and verified.

    Raises:
        ConfigError: `deployment-exists` (the file names other contracts on this chain),
            `deployments-folder-unusable`, or as `KeySource.load`, `claimed` and `is_begun`.
        ChainError: `chain-id-mismatch`, `token-mismatch`, `funds-insufficient`, or as `deploy_contracts`.
        OutcomeUnknown: `outcome-unknown`: run it again, nothing is sent twice.
        OSError: a file cannot be written.
    """
    async with Rpc(request.rpc_url, chain_id=request.chain_id) as rpc:
        job = await _Job.of(rpc, request)
        with ExitStack() as stack:
            stack.enter_context(claimed(job.folder))
            begun = is_begun(job.folder, job.planned)
            async with _opened(job.folder / JOURNAL_FILE_NAME) as journal:
                mined = await job.look_up(journal)
                offer = await job.offer(mined)
                if offer.cost.creations:
                    offer.cost.require_funds(job.signer.address)
                    agree(offer)
                if not begun:
                    begin(job.folder, job.planned)
                # Durable here: the plan. A crash from here on leaves each transaction in the journal before
                # any endpoint sees it, and the next run looks it up instead of sending it again.
                sender = job.sender(journal, max_fee_per_gas_wei=offer.cost.max_gas_price_wei)
                deployment = await deploy_contracts(sender, request.plan, Progress(mined, on_created))
            return Finished(job.write_down(deployment), job.folder)


@dataclass(frozen=True, slots=True)
class _Job:
    """A request with what the chain and the key say about it."""

    request: DeployRequest
    chain: Chain
    signer: Signer
    folder: Path
    planned: PlannedDeployment

    @classmethod
    async def of(cls, rpc: Rpc, request: DeployRequest) -> _Job:
        chain_id = await rpc.chain_id()
        if request.chain_id not in (None, chain_id):
            raise ChainError(
                f"the endpoint is on {caip2(chain_id)}, and {caip2(request.chain_id or 0)} is meant",
                code="chain-id-mismatch",
                hint="name the right endpoint with --rpc-url",
            )
        _require_folder(request.out)
        chain = Chain(rpc, chain_id, ZERO_ADDRESS, ZERO_ADDRESS)
        for symbol, token in request.tokens.items():
            actual = await chain.token_symbol(token)
            if actual != symbol:
                raise ChainError(
                    f"the token at {address_text(token)} calls itself {actual}, not {symbol}",
                    code="token-mismatch",
                    hint="check the address",
                )
        signer = LocalSigner(request.key_source.load(chain_id))
        planned = PlannedDeployment.of(request.plan, chain_id, signer.address)
        return cls(request, chain, signer, request.folder_for(chain_id), planned)

    def sender(self, journal: DeploymentJournal, *, max_fee_per_gas_wei: int | None) -> Sender:
        return Sender(
            self.chain,
            self.signer,
            journal,
            confirmations=self.request.confirmations,
            receipt_timeout_seconds=self.request.receipt_timeout_seconds,
            fee_policy=FeePolicy(max_fee_per_gas_wei=max_fee_per_gas_wei),
        )

    async def look_up(self, journal: DeploymentJournal) -> dict[str, Bytes32]:
        """Bring what an earlier run signed to its end, and say what it created."""
        sender = self.sender(journal, max_fee_per_gas_wei=self.request.max_fee_per_gas_wei)
        await sender.reconcile()
        if left := await sender.unresolved():
            raise OutcomeUnknown(
                f"{left[0].label}, which an earlier run sent, is in no block yet",
                hint="run the same command again later; it is not sent a second time",
                details={"purpose": left[0].purpose, "nonce": left[0].nonce},
            )
        return await journal.mined_creations(self.chain.chain_id, self.signer.address)

    async def offer(self, mined: Mapping[str, Bytes32]) -> Offer:
        plan, account = self.request.plan, self.signer.address
        found = [
            await find_created(self.chain.rpc, name, mined[name]) for name in plan.contracts if name in mined
        ]
        addresses = {created.contract: created.address for created in found}
        self._require_free(addresses.get(PAYMENT_MANAGER))
        policy = FeePolicy(max_fee_per_gas_wei=self.request.max_fee_per_gas_wei)
        cost = await estimate_deployment(self.chain.rpc, account, plan, addresses, policy)
        return Offer(self.chain.chain_id, account, tuple(found), cost)

    def write_down(self, deployment: Deployment) -> Deployment:
        """Add the deployment to the file; other chains in it stay as they are."""
        request = self.request
        entry = self._require_free(deployment.payment_manager)
        complete = replace(
            deployment,
            rpc_url=request.recorded_rpc_url or shown_url(deployment.rpc_url),
            tokens={**({} if entry is None else entry.tokens), **deployment.tokens, **request.tokens},
        )
        others = read_deployments(request.out) if request.out.exists() else {}
        write_deployments(request.out, {**others, complete.chain_id: complete}.values())
        return complete

    def _require_free(self, payment_manager: Address | None) -> Deployment | None:
        """What the file says of this chain, if that is this very deployment or nothing."""
        out = self.request.out
        entry = read_deployments(out).get(self.chain.chain_id) if out.exists() else None
        if entry is not None and entry.payment_manager != payment_manager:
            raise ConfigError(
                f"{out} names other contracts on {caip2(self.chain.chain_id)} already",
                code="deployment-exists",
                hint="name another file with --out",
            )
        return entry


@asynccontextmanager
async def _opened(path: Path) -> AsyncIterator[DeploymentJournal]:
    journal = DeploymentJournal(path)
    try:
        yield journal
    finally:
        await journal.close()


def _require_folder(out: Path) -> None:
    """Find out before anything is paid for that the result can be written."""
    parent = out.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{parent} is no folder that can be written to",
            code="deployments-folder-unusable",
            hint="make it, or name another file with --out",
        )
