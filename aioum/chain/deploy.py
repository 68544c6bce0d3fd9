"""Creating our contracts on a chain."""

from __future__ import annotations

from typing import Final

from aioum.chain.abi import DEV_TOKEN, PAYMENT_MANAGER, SERVICE_REGISTRY, encode_creation
from aioum.chain.calls import ContractCall
from aioum.chain.deployments import Deployment
from aioum.chain.model import Mined
from aioum.chain.sender import Sender
from aioum.core.errors import ChainError
from aioum.core.hashing import keccak256
from aioum.core.types import Address, Bytes32

# Least gas for a creation; the estimate is taken where it is higher.
_CREATION_GAS: Final = 1_000_000


async def deploy_contracts(
    sender: Sender, *, grace_period_seconds: int, dev_token_symbol: str | None = None, salt: bytes = b""
) -> Deployment:
    """Create a ServiceRegistry and a PaymentManager, and describe them.

    Args:
        sender: pays for it. Its chain needs no contracts yet.
        grace_period_seconds: between a payer's requestClose and its withdraw; 900 or more.
        dev_token_symbol: also create play money, to be listed under this symbol; devnets only.
        salt: fresh random bytes for a devnet. Two devnets started in one second are otherwise the same chain,
            block for block, and what belongs to one could be taken for the other's. Changes neither code nor
            addresses.

    Raises:
        ChainError: as `Sender.send`; `contract-reverted` where the grace period is out of range.
        OutcomeUnknown: as `Sender.send`.
    """
    rpc = sender.chain.rpc
    tokens: dict[str, Address] = {}
    # A constructor without parameters ignores what follows its code.
    registry_mined = await _create(sender, SERVICE_REGISTRY, suffix=salt)
    registry = _address(registry_mined)
    manager = _address(
        await _create(sender, PAYMENT_MANAGER, ("address", "uint64"), (bytes(registry), grace_period_seconds))
    )
    if dev_token_symbol is not None:
        tokens[dev_token_symbol] = _address(await _create(sender, DEV_TOKEN))
    block = await rpc.block(registry_mined.block_number)
    if block is None:
        raise ChainError("the deployment was reorganized away", code="block-missing", hint="deploy again")
    contracts = (registry, manager, *tokens.values())
    return Deployment(
        chain_id=sender.chain.chain_id,
        rpc_url=rpc.rpc_url,
        block_number=block.number,
        block_hash=block.hash,
        payment_manager=manager,
        service_registry=registry,
        tokens=tokens,
        code_hashes={at: Bytes32(keccak256(await rpc.code(at))) for at in contracts},
    )


async def _create(
    sender: Sender,
    name: str,
    types: tuple[str, ...] = (),
    args: tuple[object, ...] = (),
    suffix: bytes = b"",
) -> Mined:
    data = encode_creation(name, types, args) + suffix
    call = ContractCall(None, data, _CREATION_GAS, f"create {name}")
    return await sender.send(call, f"deploy:{name}")


def _address(mined: Mined) -> Address:
    if mined.contract_address is None:
        raise ChainError("the receipt of a creation names no contract", code="rpc-response-invalid")
    return mined.contract_address
