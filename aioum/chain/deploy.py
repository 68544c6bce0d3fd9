"""Creating our contracts on a chain, and making sure that they are what they should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aioum.chain.abi import (
    DEV_TOKEN,
    DISPUTE_MANAGER,
    LOG_ANCHOR,
    PAYMENT_MANAGER,
    RATING_REGISTRY,
    SERVICE_REGISTRY,
)
from aioum.chain.creations import DeploymentPlan, purpose_of
from aioum.chain.deployment_check import code_differences, contracts_of, wiring_differences
from aioum.chain.deployments import Deployment
from aioum.chain.payment_reads import dispute_manager_of
from aioum.chain.rpc import Rpc
from aioum.chain.runtime_code import build_of
from aioum.chain.sender import Sender
from aioum.core.errors import ChainError
from aioum.core.hashing import keccak256
from aioum.core.hextext import address, to_hex
from aioum.core.types import Address, Bytes32


@dataclass(frozen=True, slots=True)
class Created:
    """A contract that a transaction created."""

    contract: str
    address: Address
    block_number: int
    gas_used: int
    transaction_hash: Bytes32


def _ignore(_created: Created) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Progress:
    """What an earlier run did, and who is told of each contract that is there.

    Attributes:
        mined: name of a contract to the transaction that created it.
        on_created: called once for each contract, also for those of an earlier run.
    """

    mined: Mapping[str, Bytes32] = field(default_factory=dict)
    on_created: Callable[[Created], None] = _ignore


async def deploy_contracts(
    sender: Sender, plan: DeploymentPlan, progress: Progress | None = None
) -> Deployment:
    """Create what is not there yet, verify all of it, and describe it.

    A contract is verified before the next one is paid for: its code is its artifact's in every byte but the
    immutables. In the end each immutable is compared with what its constructor was given.

    Args:
        sender: pays for it. Its chain needs no contracts yet.
        plan: what is to be deployed.
        progress: what an earlier run did; nothing of that is created again.

    Raises:
        ChainError: as `Sender.send`; `grace-period-out-of-range`;
            `artifact-mismatch` or `immutable-mismatch`: what lies there is not what was deployed;
            `chain-history-changed`: the chain does not know a transaction of the earlier run.
        OutcomeUnknown: as `Sender.send`.
    """
    rpc, progress = sender.chain.rpc, progress or Progress()
    addresses: dict[str, Address] = {}
    first: Created | None = None
    for contract in plan.contracts:
        mined = progress.mined.get(contract)
        if mined is None:
            created = await _create(sender, plan, contract, addresses)
        else:
            created = await find_created(rpc, contract, mined)
        for difference in await code_differences(rpc, {contract: created.address}):
            raise difference.error()
        addresses[contract] = created.address
        first = first or created
        progress.on_created(created)
    if first is None:
        raise ValueError("a plan creates at least one contract")
    return await _described(sender, plan, addresses, first)


async def find_created(rpc: Rpc, contract: str, transaction_hash: Bytes32) -> Created:
    """What a transaction that was mined earlier created.

    Raises:
        ChainError: `chain-history-changed`: the chain does not know it; or the endpoint's `rpc-…` codes.
    """
    receipt = await rpc.receipt(transaction_hash)
    if receipt is None or receipt["status"] != 1:
        raise ChainError(
            f"{contract} was created by {to_hex(transaction_hash)}, which the chain does not know any more",
            code="chain-history-changed",
            hint="try again in a while, if the chain was reorganized; start anew if it was reset",
            details={"transaction_hash": to_hex(transaction_hash)},
        )
    return Created(
        contract,
        address(receipt["contractAddress"]),
        int(receipt["blockNumber"]),
        int(receipt["gasUsed"]),
        transaction_hash,
    )


async def _create(
    sender: Sender, plan: DeploymentPlan, contract: str, addresses: Mapping[str, Address]
) -> Created:
    mined = await sender.send(plan.creation(contract, addresses), purpose_of(contract))
    if mined.contract_address is None:
        raise ChainError("the receipt of a creation names no contract", code="rpc-response-invalid")
    return Created(
        contract, mined.contract_address, mined.block_number, mined.gas_used, mined.transaction_hash
    )


async def _described(
    sender: Sender, plan: DeploymentPlan, addresses: Mapping[str, Address], first: Created
) -> Deployment:
    rpc = sender.chain.rpc
    manager = addresses[PAYMENT_MANAGER]
    dispute_manager = await dispute_manager_of(rpc, manager)
    block = await rpc.block(first.block_number)
    if block is None:
        raise ChainError("the deployment was reorganized away", code="block-missing", hint="deploy again")
    symbol = plan.dev_token_symbol
    tokens = {} if symbol is None else {symbol: addresses[DEV_TOKEN]}
    deployment = Deployment(
        chain_id=sender.chain.chain_id,
        rpc_url=rpc.rpc_url,
        block_number=block.number,
        block_hash=block.hash,
        payment_manager=manager,
        service_registry=addresses[SERVICE_REGISTRY],
        tokens=tokens,
        code_hashes={
            at: Bytes32(keccak256(await rpc.code(at))) for at in (*addresses.values(), dispute_manager)
        },
        dispute_manager=dispute_manager,
        rating_registry=addresses[RATING_REGISTRY],
        log_anchor=addresses[LOG_ANCHOR],
        build=build_of([*addresses, DISPUTE_MANAGER]),
    )
    for difference in await code_differences(rpc, contracts_of(deployment)):
        raise difference.error()
    for difference in await wiring_differences(
        rpc, deployment, grace_period_seconds=plan.grace_period_seconds
    ):
        raise difference.error()
    return deployment
